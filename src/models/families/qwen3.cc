// Qwen 3, dense: no biases, an RMS norm over each head of q and k, rotary positions in halves.
#include "formats/gguf.h"
#include "models/families/families.h"

namespace quire {

Result<ModelConfig> ReadQwen3Config(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(file));
  QUIRE_ASSIGN_OR_RETURN(config.norm_epsilon,
                         GetNormEpsilon(file, "attention.layer_norm_rms_epsilon"));
  config.query_key_norm = true;
  QUIRE_ASSIGN_OR_RETURN(RopeConfig rope,
                         ReadRope(file, RopeStyle::kHalves, config.layers[0].key_dim));
  config.ropes.push_back(std::move(rope));
  return config;
}

}  // namespace quire
