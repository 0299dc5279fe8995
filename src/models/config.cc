#include "models/config.h"

#include "base/exact_math.h"
#include "formats/gguf.h"
#include "formats/printable.h"
#include "models/families/families.h"

namespace quire {
namespace {

constexpr Family kFamilies[] = {
    {"llama", ReadLlamaConfig},   {"qwen2", ReadQwen2Config},     {"qwen3", ReadQwen3Config},
    {"gemma3", ReadGemma3Config}, {"classic", ReadClassicConfig},
};

Status CheckLayer(const GgufFile& file, const ModelConfig& config, int layer_idx) {
  const LayerConfig& layer = config.layers[layer_idx];
  const auto refuse = [&](std::string_view what, int got) {
    return MakeError(ErrorCode::kCorrupt, "{}: layer {} has {} {}", file.part_paths()[0].string(),
                     layer_idx, got, what);
  };
  if (layer.num_heads < 1) return refuse("attention heads", layer.num_heads);
  if (layer.num_kv_heads < 1) return refuse("key heads", layer.num_kv_heads);
  if (layer.num_heads % layer.num_kv_heads != 0) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: layer {} has {} attention heads over {} key heads; expected a multiple",
                     file.part_paths()[0].string(), layer_idx, layer.num_heads, layer.num_kv_heads);
  }
  if (layer.key_dim < 1) return refuse("elements a key", layer.key_dim);
  if (layer.value_dim < 1) return refuse("elements a value", layer.value_dim);
  if (layer.ffn_dim < 1) return refuse("feed-forward elements", layer.ffn_dim);
  if (!config.learned_positions) {
    const int rotary_dim = config.ropes[layer.rope].rotary_dim;
    if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > layer.key_dim) {
      return MakeError(ErrorCode::kCorrupt,
                       "{}: {} rotary dimensions in layer {}; expected an even number up to the "
                       "key's {}",
                       file.part_paths()[0].string(), rotary_dim, layer_idx, layer.key_dim);
    }
  }
  return {};
}

}  // namespace

std::vector<double> RopeConfig::Frequencies() const {
  std::vector<double> frequencies(rotary_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = exact::Pow(base, -2.0 * static_cast<double>(i) / rotary_dim) / linear_factor;
    if (!divisors.empty()) frequencies[i] /= divisors[i];
  }
  return frequencies;
}

std::span<const Family> Families() { return kFamilies; }

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view architecture,
                         file.GetString("general.architecture"));
  std::string known;
  for (const Family& family : kFamilies) {
    known += known.empty() ? "" : ", ";
    known += family.architecture;
    if (family.architecture != architecture) continue;
    QUIRE_ASSIGN_OR_RETURN(ModelConfig config, family.read_config(file));
    for (int layer_idx = 0; layer_idx < config.num_layers(); ++layer_idx) {
      QUIRE_RETURN_IF_ERROR(CheckLayer(file, config, layer_idx));
    }
    return config;
  }
  return MakeError(ErrorCode::kUnsupported,
                   "{}: architecture '{}' is not supported; Quire knows {}",
                   file.part_paths()[0].string(), Printable(architecture), known);
}

}  // namespace quire
