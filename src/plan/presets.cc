#include "plan/presets.h"

#include <string>

namespace quire {
namespace {

// Rows are sizes of the published `config.json` files; the tests compare the parameters they give
// with the published totals.
struct Preset {
  std::string_view name;
  int num_layers = 0;
  int d_model = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int ffn_dim = 0;
  int vocab_size = 0;
  int context_length = 0;
  int window = 0;
  int full_layer_every = 0;  // 0 = every layer has the window
  bool tied_embeddings = false;
  bool query_key_value_bias = false;
  bool query_key_norm = false;
  bool post_norms = false;
};

constexpr Preset kPresets[] = {
    {"llama-7b", 32, 4096, 32, 32, 128, 11008, 32000, 2048},
    {"llama-13b", 40, 5120, 40, 40, 128, 13824, 32000, 2048},
    {"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096},
    {"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096},
    {"llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 4096},
    {"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192},
    {"llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 8192},
    {"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 131072},
    {"llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256, 131072},
    {"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 0, 0, true},
    {"llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, 131072, 0, 0, true},
    {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768, 4096},
    {"qwen-7b", 32, 4096, 32, 32, 128, 11008, 151936, 8192, 0, 0, false, true},
    {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 32768, 0, 0, true, true},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 32768, 0, 0, true, true},
    {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 0, 0, false, true},
    {"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, 32768, 0, 0, false, true},
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 0, 0, true, false, true},
    {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, 40960, 0, 0, true, false, true},
    {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 40960, 0, 0, false, false, true},
    {"gemma-3-270m", 18, 640, 4, 1, 256, 2048, 262144, 32768, 512, 6, true, false, true, true},
    {"gemma-3-1b", 26, 1152, 4, 1, 256, 6912, 262144, 32768, 512, 6, true, false, true, true},
    {"gemma-3-4b", 34, 2560, 8, 4, 256, 10240, 262208, 131072, 1024, 6, true, false, true, true},
    {"gemma-3-27b", 62, 5376, 32, 16, 128, 21504, 262208, 131072, 1024, 6, true, false, true, true},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 8192, 0, 0, true},
};

// The presets go the way that files go.
ModelShape ShapeOf(const Preset& preset) {
  HfConfig config{.num_layers = preset.num_layers,
                  .d_model = preset.d_model,
                  .num_heads = preset.num_heads,
                  .num_kv_heads = preset.num_kv_heads,
                  .head_dim = preset.head_dim,
                  .ffn_dim = preset.ffn_dim,
                  .vocab_size = preset.vocab_size,
                  .context_length = preset.context_length,
                  .weight_bits = 16,
                  .tied_embeddings = preset.tied_embeddings,
                  .query_key_value_bias = preset.query_key_value_bias,
                  .query_key_norm = preset.query_key_norm,
                  .post_norms = preset.post_norms};
  for (int i = 0; i < preset.num_layers; ++i) {
    const bool full = preset.full_layer_every > 0 && (i + 1) % preset.full_layer_every == 0;
    config.windows.push_back(full ? 0 : preset.window);
  }
  return ShapeOfHfConfig(config, std::string(preset.name));
}

}  // namespace

std::optional<ModelShape> FindPreset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return ShapeOf(preset);
  }
  return std::nullopt;
}

std::vector<std::string_view> PresetNames() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

}  // namespace quire
