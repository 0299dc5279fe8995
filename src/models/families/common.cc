#include <limits>

#include "formats/gguf.h"
#include "formats/printable.h"
#include "models/families/families.h"
#include "tensor/dequantize.h"

namespace quire {
namespace {

constexpr uint64_t kMaxLayers = 4096;

Result<int> ToSize(const GgufFile& file, std::string_view key, uint64_t value, uint64_t lowest) {
  if (value < lowest || value > uint64_t{std::numeric_limits<int>::max()}) {
    return MakeError(ErrorCode::kCorrupt, "{}: {} is {}; expected {} to {}",
                     file.part_paths()[0].string(), key, value, lowest,
                     std::numeric_limits<int>::max());
  }
  return static_cast<int>(value);
}

// The vocabulary is what the token embedding has rows for.
Result<int> VocabularySize(const GgufFile& file) {
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->dimensions.size() != 2) {
    return MakeError(ErrorCode::kCorrupt, "{}: tensor token_embd.weight is missing or no matrix",
                     file.part_paths()[0].string());
  }
  return ToSize(file, "rows of token_embd.weight", embedding->dimensions[1], 1);
}

}  // namespace

Result<std::string> ArchitectureKey(const GgufFile& file, std::string_view suffix) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view architecture,
                         file.GetString("general.architecture"));
  return fmt::format("{}.{}", architecture, suffix);
}

Result<int> GetSize(const GgufFile& file, std::string_view suffix) {
  QUIRE_ASSIGN_OR_RETURN(const std::string key, ArchitectureKey(file, suffix));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t value, file.GetUint(key));
  return ToSize(file, key, value, 1);
}

Result<float> GetNormEpsilon(const GgufFile& file, std::string_view suffix) {
  QUIRE_ASSIGN_OR_RETURN(const std::string key, ArchitectureKey(file, suffix));
  QUIRE_ASSIGN_OR_RETURN(const double epsilon, file.GetFloat(key));
  if (!(epsilon > 0 && epsilon < 1)) {
    return MakeError(ErrorCode::kCorrupt, "{}: {} is {}; expected more than 0 and less than 1",
                     file.part_paths()[0].string(), key, epsilon);
  }
  return static_cast<float>(epsilon);
}

Result<double> GetRopeBase(const GgufFile& file, std::string_view suffix, double fallback) {
  QUIRE_ASSIGN_OR_RETURN(const std::string key, ArchitectureKey(file, suffix));
  QUIRE_ASSIGN_OR_RETURN(const double base, file.GetFloatOr(key, fallback));
  if (!(base > 1 && base < 1e12)) {
    return MakeError(ErrorCode::kCorrupt, "{}: {} is {}; expected 1 to 1e12",
                     file.part_paths()[0].string(), key, base);
  }
  return base;
}

Result<ModelConfig> ReadCommonConfig(const GgufFile& file) {
  ModelConfig config;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view architecture,
                         file.GetString("general.architecture"));
  config.architecture = architecture;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view name, file.GetStringOr("general.name", ""));
  config.name = name;
  const auto key = [&](std::string_view suffix) {
    return fmt::format("{}.{}", architecture, suffix);
  };

  QUIRE_ASSIGN_OR_RETURN(config.d_model, GetSize(file, "embedding_length"));
  QUIRE_ASSIGN_OR_RETURN(config.context_length, GetSize(file, "context_length"));
  QUIRE_ASSIGN_OR_RETURN(config.vocab_size, VocabularySize(file));
  QUIRE_ASSIGN_OR_RETURN(const int num_layers, GetSize(file, "block_count"));
  if (static_cast<uint64_t>(num_layers) > kMaxLayers) {
    return MakeError(ErrorCode::kCorrupt, "{}: {} is {}; expected at most {}",
                     file.part_paths()[0].string(), key("block_count"), num_layers, kMaxLayers);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto num_heads,
                         file.GetUintPerLayer(key("attention.head_count"), num_layers));
  std::vector<uint64_t> num_kv_heads = num_heads;
  if (file.FindValue(key("attention.head_count_kv")) != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(num_kv_heads,
                           file.GetUintPerLayer(key("attention.head_count_kv"), num_layers));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto ffn_dims,
                         file.GetUintPerLayer(key("feed_forward_length"), num_layers));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t key_dim, file.GetUintOr(key("attention.key_length"), 0));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t value_dim,
                         file.GetUintOr(key("attention.value_length"), 0));
  for (int i = 0; i < num_layers; ++i) {
    LayerConfig layer;
    QUIRE_ASSIGN_OR_RETURN(layer.num_heads,
                           ToSize(file, key("attention.head_count"), num_heads[i], 1));
    QUIRE_ASSIGN_OR_RETURN(layer.num_kv_heads,
                           ToSize(file, key("attention.head_count_kv"), num_kv_heads[i], 1));
    QUIRE_ASSIGN_OR_RETURN(layer.ffn_dim, ToSize(file, key("feed_forward_length"), ffn_dims[i], 1));
    // Only a file that says nothing means the classic head: the width shared out among the heads.
    const uint64_t shared = static_cast<uint64_t>(config.d_model / layer.num_heads);
    QUIRE_ASSIGN_OR_RETURN(layer.key_dim, ToSize(file, key("attention.key_length"),
                                                 key_dim != 0 ? key_dim : shared, 1));
    QUIRE_ASSIGN_OR_RETURN(layer.value_dim, ToSize(file, key("attention.value_length"),
                                                   value_dim != 0 ? value_dim : shared, 1));
    config.layers.push_back(layer);
  }
  return config;
}

Result<RopeConfig> ReadRope(const GgufFile& file, RopeStyle style, int key_dim) {
  RopeConfig rope{.style = style};
  QUIRE_ASSIGN_OR_RETURN(rope.base, GetRopeBase(file, "rope.freq_base", 10000.0));
  QUIRE_ASSIGN_OR_RETURN(const std::string dim_key, ArchitectureKey(file, "rope.dimension_count"));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t rotary_dim,
                         file.GetUintOr(dim_key, static_cast<uint64_t>(key_dim)));
  QUIRE_ASSIGN_OR_RETURN(rope.rotary_dim, ToSize(file, dim_key, rotary_dim, 2));
  QUIRE_ASSIGN_OR_RETURN(const std::string old_key, ArchitectureKey(file, "rope.scale_linear"));
  if (file.FindValue(old_key) != nullptr) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: {} is an old way to scale the rope; expected rope.scaling.*",
                     file.part_paths()[0].string(), old_key);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string type_key, ArchitectureKey(file, "rope.scaling.type"));
  QUIRE_ASSIGN_OR_RETURN(const std::string_view type, file.GetStringOr(type_key, "none"));
  QUIRE_ASSIGN_OR_RETURN(const std::string factor_key,
                         ArchitectureKey(file, "rope.scaling.factor"));
  if (type == "linear") {
    QUIRE_ASSIGN_OR_RETURN(rope.linear_factor, file.GetFloat(factor_key));
    if (!(rope.linear_factor >= 1e-3 && rope.linear_factor <= 1e6)) {
      return MakeError(ErrorCode::kCorrupt, "{}: {} is {}; expected 0.001 to 1000000",
                       file.part_paths()[0].string(), factor_key, rope.linear_factor);
    }
  } else if (type != "none" && type != "llama3") {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: rope scaling '{}' is not supported; Quire knows none, linear and llama3",
                     file.part_paths()[0].string(), Printable(type));
  }

  // The llama3 scaling reaches files as one divisor a pair.
  if (const GgufTensor* tensor = file.FindTensor("rope_freqs.weight"); tensor != nullptr) {
    if (tensor->dimensions.size() != 1 ||
        tensor->dimensions[0] != static_cast<uint64_t>(rope.rotary_dim / 2) ||
        tensor->ggml_type != static_cast<uint32_t>(DType::kF32)) {
      return MakeError(ErrorCode::kCorrupt, "{}: tensor rope_freqs.weight is not {} F32 elements",
                       file.part_paths()[0].string(), rope.rotary_dim / 2);
    }
    rope.divisors.resize(rope.rotary_dim / 2);
    DequantizeRow(DType::kF32, tensor->data.data(), rope.divisors.size(), rope.divisors.data());
    for (const float divisor : rope.divisors) {
      if (!(divisor >= 1e-6f && divisor <= 1e6f)) {
        return MakeError(ErrorCode::kCorrupt,
                         "{}: rope_freqs.weight holds {}; expected 1e-6 to 1e6",
                         file.part_paths()[0].string(), divisor);
      }
    }
  } else if (type == "llama3") {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: rope scaling 'llama3' without tensor rope_freqs.weight",
                     file.part_paths()[0].string());
  }
  return rope;
}

}  // namespace quire
