// The forward pass of a model, stage by stage: what goes in and out, with which weights, and what
// it costs in prefill and in decode. The graph of models/decoder.h with the sizes of the model at
// hand; no weights are read.
//
// Layers with the same sizes, tensors and window are one part. Shapes are those of one layer; all
// figures are those of all layers of the part together, so that sums over parts and stages are
// those of the model:
//   1. parameters and held_bytes add up to ModelShape::parameters and ::weight_bytes.
//   2. StageLoad::cost adds up to CostOfStep (plan/step_cost.h) of the same step.
// Operations of products are counted there. Beside them stand the elementwise ones, by a count of
// what a plain program does for an element: RMS norm 4, layer norm 7, a rotated element 3, a score
// in softmax 5, SiLU with its product 5, GELU 10, GELU with its product 11, ReLU 1, everything
// else 1.
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/operator_times.h"
#include "plan/model_shape.h"
#include "plan/step_cost.h"

namespace quire {

struct GraphOptions {
  int prefill_tokens = 512;  // from position 0, with the logits after the last
  int decode_position = -1;  // of the one token that decode computes; -1 = right after those
  KvType kv_type = KvType::kF16;
};

// What a stage does with the tokens of one step.
struct StageLoad {
  std::vector<int64_t> input{};   // shape, outermost first; empty where it is not one array
  std::vector<int64_t> output{};  // likewise
  StepCost cost{};                // of products, scores and weighted values
  double elementwise_ops = 0;
};

struct TensorType {
  std::string type{};
  int num_tensors = 0;
};

// A tensor of one layer, and of the layers like it.
struct StageTensor {
  std::string_view name{};       // "weight", "bias"; of norms of heads "query", "key"
  std::vector<int64_t> shape{};  // [outputs, inputs], or [size]
  std::vector<TensorType> types{};
  uint64_t parameters = 0;
  uint64_t bytes = 0;
};

struct GraphStage {
  std::string_view name{};   // for programs: "query", "softmax"
  std::string_view label{};  // for people
  std::string formula{};     // what it computes
  DecoderOperator operators = DecoderOperator::kEmbed;
  std::vector<StageTensor> tensors{};
  uint64_t parameters = 0;
  uint64_t held_bytes = 0;  // of weights in memory
  StageLoad prefill{};
  StageLoad decode{};
};

struct GraphPart {
  std::string_view name{};        // "input", "layers", "output"
  std::vector<int> layers{};      // of part "layers", ascending
  LayerConfig layer{};            // of each of them
  double kv_bytes_per_token = 0;  // of all of them
  std::vector<GraphStage> stages{};

  int num_layers() const { return static_cast<int>(layers.size()); }
};

struct ModelGraph {
  ModelConfig config{};
  KvType kv_type = KvType::kF16;
  int prefill_tokens = 0;
  int decode_position = 0;
  bool is_tied = false;  // the output layer is the token embedding
  std::vector<GraphPart> parts{};

  // Over all parts.
  uint64_t parameters = 0;
  uint64_t held_bytes = 0;
  double kv_bytes_per_token = 0;
  StepCost prefill{};
  StepCost decode{};
  double prefill_elementwise_ops = 0;
  double decode_elementwise_ops = 0;
};

// kInvalidArgument for options out of range, kUnsupported for a shape without tensors (sizes that
// its configuration does not give, experts) and for a KV type that cannot store the heads.
Result<ModelGraph> MakeModelGraph(const ModelShape& shape, const GraphOptions& options);

// "[512, 9, 64]"; empty for none.
std::string ShapeText(const std::vector<int64_t>& shape);

// "0-3, 8, 10-12"
std::string RangesText(const std::vector<int>& numbers);

}  // namespace quire
