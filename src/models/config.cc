#include "models/config.h"

#include <bit>

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

Digest ArchitectureDigest(const ModelConfig& config) {
  Sha256 hash;
  const auto add = [&hash](uint64_t value) { hash.Add(value); };
  const auto add_real = [&hash](double value) { hash.Add(std::bit_cast<uint64_t>(value)); };
  hash.Add("quire architecture 1");
  add(config.d_model);
  add(config.vocab_size);
  add(config.layers.size());
  for (const LayerConfig& layer : config.layers) {
    for (const int value : {layer.num_heads, layer.num_kv_heads, layer.key_dim, layer.value_dim,
                            layer.ffn_dim, layer.window, layer.rope}) {
      add(value);
    }
  }
  add(config.ropes.size());
  for (const RopeConfig& rope : config.ropes) {
    add(static_cast<uint64_t>(rope.style));
    add_real(rope.base);
    add(rope.rotary_dim);
    add_real(rope.linear_factor);
    add(rope.divisors.size());
    for (const float divisor : rope.divisors) add_real(divisor);
  }
  add(static_cast<uint64_t>(config.norm));
  add(static_cast<uint64_t>(config.norm_placement));
  add_real(config.norm_epsilon);
  for (const bool flag :
       {config.final_norm, config.query_key_norm, config.learned_positions, config.gated_ffn}) {
    add(flag ? 1 : 0);
  }
  add(static_cast<uint64_t>(config.activation));
  add_real(config.embedding_scale);
  add_real(config.attention_scale);
  return hash.Finish();
}

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
