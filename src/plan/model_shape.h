// What a plan needs to know of a model: its configuration, and the bytes of what is not computed
// from it. Read from a file's header, from a Hugging Face `config.json` or from the presets; no
// weights are read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/hf_config.h"
#include "kv/layout.h"
#include "models/config.h"
#include "plan/model_tensors.h"

namespace quire {

class GgufFile;

struct ModelShape {
  ModelConfig config{};        // ffn_dim, vocab_size and context_length may be 0 = not known
  uint64_t parameters = 0;     // 0 = not known
  uint64_t weight_bytes = 0;   // as held in memory; 0 = not known
  std::string weights_from{};  // how weight_bytes came about, for people
  uint64_t text_bytes = 0;     // vocabulary and tokenizer tables
  uint64_t mapped_bytes = 0;   // of the file that stays mapped and in use: its metadata
  std::vector<ModelTensor> tensors{};  // none where the sizes are not known
};

// What the number of parameters depends on beside the sizes.
struct ParameterTraits {
  bool tied_embeddings = false;
  bool query_key_value_bias = false;
  bool query_key_norm = false;
  bool post_norms = false;
  bool layer_norm = false;  // LayerNorm, and biases on every matrix
  bool learned_positions = false;
};

// Parameters of a dense decoder; 0 where a size is not known.
uint64_t DenseParameters(const ModelConfig& config, const ParameterTraits& traits);

// The weights as they lie in memory packed; a file that the engine would refuse is refused alike.
// The file is not needed afterwards.
Result<ModelShape> ShapeOfFile(const GgufFile& file);

// Weights are parameters times the element type that the file names (16 bits where it names none);
// not known for experts, and for quantised checkpoints.
ModelShape ShapeOfHfConfig(const HfConfig& config, const std::string& name);

// weight_bytes of so many bits each.
void SetWeightBits(ModelShape& shape, double bits);

// The layers as the KV layout wants them.
std::vector<KvLayerShape> KvShapesOfLayers(const ModelConfig& config);

}  // namespace quire
