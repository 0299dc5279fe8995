// Collects the stages of one part of a model graph (plan/model_graph.h), in the order of the
// forward pass, and counts what each of them takes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/model_graph.h"

namespace quire {

using ArrayShape = std::vector<int64_t>;
using WeightRoles = std::vector<WeightRole>;
// The shape of an array of one step.
using ArrayShapeOf = std::function<ArrayShape(const SequenceRows&)>;

struct StageText {
  std::string_view name{};
  std::string_view label{};
  std::string formula{};
};

// By layer, those of the whole model last: [num_layers + 1]. The shape outlives it.
using TensorsByLayer = std::vector<std::vector<const ModelTensor*>>;
TensorsByLayer SortByLayer(const ModelShape& shape);

// The part says which layers; it and the steps outlive the builder.
class PartBuilder {
 public:
  PartBuilder(const TensorsByLayer& tensors, const SequenceRows& prefill,
              const SequenceRows& decode, GraphPart& part);

  bool Has(WeightRole role) const;

  // A stage whose matrices, where it has some, are tables or multiply nothing. Valid until the next
  // one is added.
  GraphStage& Add(StageText text, DecoderOperator operators, const WeightRoles& roles,
                  const ArrayShapeOf& input, const ArrayShapeOf& output, double ops_an_element);

  // Rows times a matrix, plus its bias where there is one. A tied output layer multiplies with a
  // tensor that the stage does not hold.
  void Multiply(StageText text, DecoderOperator operators, WeightRole matrix,
                const WeightRoles& biases, const ArrayShapeOf& input, const ArrayShapeOf& output,
                bool is_held = true);

  // Adds to the stage's loads from what attention costs in all layers of the part.
  void AddAttention(GraphStage& stage, KvType kv_type,
                    const std::function<void(const AttentionCost&, StageLoad&)>& add);

 private:
  // Parts without layers are passed once.
  int num_layers() const { return part_.layers.empty() ? 1 : part_.num_layers(); }
  std::array<std::pair<StageLoad*, const SequenceRows*>, 2> Loads(GraphStage& stage) const {
    return {std::pair{&stage.prefill, &prefill_}, std::pair{&stage.decode, &decode_}};
  }

  std::vector<const ModelTensor*> tensors_;  // of the part
  const SequenceRows& prefill_;
  const SequenceRows& decode_;
  GraphPart& part_;
};

}  // namespace quire
