// The decoder of the first lessons: token plus learned position embeddings, blocks of attention,
// add and LayerNorm, a ReLU network of four times the width, add and LayerNorm, an output layer.
// "Attention Is All You Need" (https://arxiv.org/abs/1706.03762) without its encoder.
#include "formats/gguf.h"
#include "models/families/families.h"

namespace quire {

Result<ModelConfig> ReadClassicConfig(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(file));
  QUIRE_ASSIGN_OR_RETURN(config.norm_epsilon, GetNormEpsilon(file, "attention.layer_norm_epsilon"));
  config.norm = NormKind::kLayer;
  config.norm_placement = NormPlacement::kAfterResidual;
  config.final_norm = false;
  config.learned_positions = true;
  config.gated_ffn = false;
  config.activation = Activation::kRelu;
  return config;
}

}  // namespace quire
