// Gemma 3, text: sliding windows in five layers of six, each kind with a rope base of its own,
// norms before and after each half of a block, norms of q and k, GELU, embeddings scaled by
// sqrt(d_model). Converters have added the one that Gemma's norms leave out of their weights.
// Source: https://arxiv.org/abs/2503.19786, section 2.
#include <cmath>

#include "formats/gguf.h"
#include "models/families/families.h"

namespace quire {
namespace {

constexpr int kLayersPerFullAttention = 6;
constexpr double kWindowRopeBase = 10000;

}  // namespace

Result<ModelConfig> ReadGemma3Config(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, ReadCommonConfig(file));
  QUIRE_ASSIGN_OR_RETURN(config.norm_epsilon,
                         GetNormEpsilon(file, "attention.layer_norm_rms_epsilon"));
  config.query_key_norm = true;
  config.norm_placement = NormPlacement::kBeforeAndAfter;
  config.activation = Activation::kGelu;
  config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
  QUIRE_ASSIGN_OR_RETURN(const double attention_scale,
                         file.GetFloatOr("gemma3.attention.scale", 0));
  if (!(attention_scale >= 0 && attention_scale <= 1e6)) {
    return MakeError(ErrorCode::kCorrupt, "{}: gemma3.attention.scale is {}; expected 0 to 1000000",
                     file.part_paths()[0].string(), attention_scale);
  }
  config.attention_scale = static_cast<float>(attention_scale);

  QUIRE_ASSIGN_OR_RETURN(RopeConfig full,
                         ReadRope(file, RopeStyle::kHalves, config.layers[0].key_dim));
  RopeConfig windowed = full;
  windowed.linear_factor = 1;
  QUIRE_ASSIGN_OR_RETURN(windowed.base, GetRopeBase(file, "rope.freq_base_swa", kWindowRopeBase));
  config.ropes = {std::move(full), std::move(windowed)};

  QUIRE_ASSIGN_OR_RETURN(const int window, GetSize(file, "attention.sliding_window"));
  for (int i = 0; i < config.num_layers(); ++i) {
    if ((i + 1) % kLayersPerFullAttention == 0) continue;
    config.layers[i].window = window;
    config.layers[i].rope = 1;
  }
  return config;
}

}  // namespace quire
