// Llama 1 to 3 and those built alike (SmolLM2, TinyLlama, Mistral): RMS norms, rotary positions in
// interleaved pairs (converters reorder the rows of q and k to that), SwiGLU, no biases.
#include "formats/gguf.h"
#include "models/families/families.h"

namespace quire {

Result<ModelConfig> ReadLlamaConfig(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t num_experts, file.GetUintOr("llama.expert_count", 0));
  if (num_experts > 0) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: a llama model of {} experts is not supported; only dense ones are",
                     file.part_paths()[0].string(), num_experts);
  }
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(file));
  QUIRE_ASSIGN_OR_RETURN(config.norm_epsilon,
                         GetNormEpsilon(file, "attention.layer_norm_rms_epsilon"));
  QUIRE_ASSIGN_OR_RETURN(RopeConfig rope,
                         ReadRope(file, RopeStyle::kInterleaved, config.layers[0].key_dim));
  config.ropes.push_back(std::move(rope));
  return config;
}

}  // namespace quire
