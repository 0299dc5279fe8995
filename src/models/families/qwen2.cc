// Qwen 2 and 2.5: as llama, with biases on q, k and v and rotary positions in halves. The biases
// are found by their tensors.
#include "formats/gguf.h"
#include "models/families/families.h"

namespace quire {

Result<ModelConfig> ReadQwen2Config(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(file));
  QUIRE_ASSIGN_OR_RETURN(config.norm_epsilon,
                         GetNormEpsilon(file, "attention.layer_norm_rms_epsilon"));
  QUIRE_ASSIGN_OR_RETURN(RopeConfig rope,
                         ReadRope(file, RopeStyle::kHalves, config.layers[0].key_dim));
  config.ropes.push_back(std::move(rope));
  return config;
}

}  // namespace quire
