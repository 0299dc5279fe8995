#include "formats/hf_config.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <span>

#include "formats/printable.h"

namespace quire {
namespace {

namespace json = boost::json;

// Bounds that no product of sizes leaves 64 bits by. The largest published models are far below.
constexpr int kMaxLayers = 4096;
constexpr int kMaxHeads = 1 << 14;
constexpr int kMaxWidth = 1 << 24;
constexpr int kMaxTokens = 1 << 30;
constexpr int kMaxDepth = 32;

using Names = std::initializer_list<std::string_view>;

constexpr std::array<std::string_view, 4> kKvHeadNames = {"num_key_value_heads", "num_kv_heads",
                                                          "n_head_kv", "n_kv_heads"};

bool IsOneOf(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}
bool IsOneOf(std::string_view word, Names words) {
  return IsOneOf(word, std::span(words.begin(), words.size()));
}

// One object of the file, read by name.
class Reader {
 public:
  Reader(const json::object& object, std::string_view where) : object_(object), where_(where) {}

  std::string_view where() const { return where_; }
  const json::object& object() const { return object_; }

  // Null where the key is absent or null.
  const json::value* Find(std::string_view key) const {
    const json::value* value = object_.if_contains(json::string_view(key.data(), key.size()));
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  // The value under the only one of these names that is there. Two names with different values
  // contradict each other.
  Result<std::optional<int>> Size(std::span<const std::string_view> names, int max) const {
    std::optional<int> found;
    std::string_view found_name;
    for (const std::string_view name : names) {
      const json::value* value = Find(name);
      if (value == nullptr) continue;
      const int64_t* number = value->if_int64();
      if (number == nullptr || *number < 1 || *number > max) {
        return MakeError(ErrorCode::kCorrupt,
                         "{}: \"{}\" is {}; expected a whole number from 1 to {}", where_, name,
                         Shown(*value), max);
      }
      if (found && *found != *number) {
        return MakeError(ErrorCode::kCorrupt,
                         "{}: \"{}\" is {} and \"{}\" is {}; expected one value", where_,
                         found_name, *found, name, *number);
      }
      found = static_cast<int>(*number);
      found_name = name;
    }
    return found;
  }
  Result<std::optional<int>> Size(Names names, int max) const {
    return Size(std::span(names.begin(), names.size()), max);
  }
  Result<int> SizeOr(Names names, int max, int fallback) const {
    QUIRE_ASSIGN_OR_RETURN(const auto size, Size(names, max));
    return size.value_or(fallback);
  }
  Result<int> RequireSize(std::string_view what, Names names, int max) const {
    QUIRE_ASSIGN_OR_RETURN(const auto size, Size(names, max));
    if (size) return *size;
    return MakeError(ErrorCode::kUnsupported,
                     "{}: nothing says how many {} the model has; expected one of the keys {}",
                     where_, what, fmt::join(names, ", "));
  }

  Result<bool> BoolOr(std::string_view key, bool fallback) const {
    const json::value* value = Find(key);
    if (value == nullptr) return fallback;
    if (const bool* flag = value->if_bool()) return *flag;
    return MakeError(ErrorCode::kCorrupt, "{}: \"{}\" is {}; expected true or false", where_, key,
                     Shown(*value));
  }

  Result<std::string> TextOr(std::string_view key, std::string_view fallback) const {
    const json::value* value = Find(key);
    if (value == nullptr) return std::string(fallback);
    if (const json::string* text = value->if_string()) return std::string(*text);
    return MakeError(ErrorCode::kCorrupt, "{}: \"{}\" is {}; expected a string", where_, key,
                     Shown(*value));
  }

  static std::string Shown(const json::value& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    return Printable(json::serialize(value), 64);
  }

 private:
  const json::object& object_;
  std::string_view where_;
};

// What a family's own code takes where its file says nothing.
struct FamilyDefaults {
  std::string_view model_type;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int context_length = 0;
  int full_layer_every = 0;  // layers between two without a window, counted from the first
};
constexpr FamilyDefaults kFamilyDefaults[] = {
    {"gemma", 0, 0, 256, 0, 0, 0},
    {"gemma2", 0, 0, 256, 0, 0, 2},
    {"gemma3_text", 8, 4, 256, 262208, 131072, 6},
    {"gpt_oss", 0, 0, 64, 0, 0, 2},
    {"qwen3", 0, 0, 128, 0, 0, 0},
    {"cohere2", 0, 0, 0, 0, 0, 4},
};

FamilyDefaults DefaultsOf(std::string_view model_type) {
  for (const FamilyDefaults& defaults : kFamilyDefaults) {
    if (defaults.model_type == model_type) return defaults;
  }
  return {};
}

bool IsGptLike(std::string_view type) {
  return IsOneOf(type, {"gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "phi",
                        "starcoder2", "codegen"});
}
bool HasPlainFfn(std::string_view type) {
  return IsGptLike(type) || IsOneOf(type, {"falcon", "RefinedWeb", "RefinedWebModel", "mpt",
                                           "nemotron", "stablelm_alpha"});
}

// Refuses models whose layers keep something other than keys and values of every head.
Status CheckKeepsKeysAndValues(const Reader& reader) {
  constexpr std::array kOther = {
      std::pair{"kv_lora_rank", "latent attention"},
      std::pair{"ssm_cfg", "a state space"},
      std::pair{"state_size", "a state space"},
      std::pair{"mamba_d_state", "a state space"},
      std::pair{"layers_block_type", "mixed kinds of blocks"},
      std::pair{"attention_chunk_size", "attention in chunks"},
      std::pair{"linear_num_key_heads", "linear attention"},
      std::pair{"cross_attention_layers", "cross attention"},
  };
  for (const auto& [key, what] : kOther) {
    if (reader.Find(key) == nullptr) continue;
    return MakeError(ErrorCode::kUnsupported,
                     "{}: \"{}\" speaks of {}; Quire plans decoders whose "
                     "layers keep the keys and values of every token",
                     reader.where(), key, what);
  }
  const json::value* shared = reader.Find("num_kv_shared_layers");
  if (shared != nullptr && (!shared->is_int64() || shared->get_int64() != 0)) {
    return MakeError(
        ErrorCode::kUnsupported,
        "{}: \"num_kv_shared_layers\" is {}; layers that share a cache are not planned",
        reader.where(), Reader::Shown(*shared));
  }
  QUIRE_ASSIGN_OR_RETURN(const bool encoder, reader.BoolOr("is_encoder_decoder", false));
  if (encoder) {
    return MakeError(ErrorCode::kUnsupported, "{}: an encoder-decoder model; Quire plans decoders",
                     reader.where());
  }
  return {};
}

// A key that seems to say how many key heads there are and is none of the accepted names; empty
// where there is none.
std::string UnknownKvKey(const json::object& object, int depth) {
  for (const auto& [name, value] : object) {
    const std::string_view key(name.data(), name.size());
    const bool hints = key.find("kv") != std::string_view::npos ||
                       key.find("key_value") != std::string_view::npos ||
                       key.find("query_group") != std::string_view::npos ||
                       key.find("multi_query") != std::string_view::npos ||
                       key.find("gqa") != std::string_view::npos;
    const bool known = IsOneOf(key, kKvHeadNames) || key.starts_with("kv_cache") ||
                       IsOneOf(key, {"multi_query", "kv_channels", "num_kv_shared_layers",
                                     "use_kv_cache", "add_qkv_bias", "qkv_bias", "clip_qkv"});
    if (hints && !known && !value.is_null()) return std::string(key);
    if (depth < kMaxDepth && value.is_object() && key != "quantization_config") {
      if (std::string inner = UnknownKvKey(value.get_object(), depth + 1); !inner.empty()) {
        return inner;
      }
    }
  }
  return {};
}

Result<int> KvHeads(const Reader& reader, std::string_view model_type, int num_heads,
                    int fallback) {
  QUIRE_ASSIGN_OR_RETURN(const auto named, reader.Size(kKvHeadNames, kMaxHeads));
  QUIRE_ASSIGN_OR_RETURN(const bool multi_query, reader.BoolOr("multi_query", false));
  QUIRE_ASSIGN_OR_RETURN(const bool grouped, reader.BoolOr("new_decoder_architecture", false));
  if (multi_query && !grouped) {
    // Falcon's files give a number of key heads that its code passes over here.
    const bool passes_over = IsOneOf(model_type, {"falcon", "RefinedWeb", "RefinedWebModel"});
    if (named && *named != 1 && !passes_over) {
      return MakeError(
          ErrorCode::kCorrupt,
          "{}: \"multi_query\" is true, which is one key head, and another key says {}",
          reader.where(), *named);
    }
    return 1;
  }
  if (named) return *named;
  if (const std::string key = UnknownKvKey(reader.object(), 0); !key.empty()) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: \"{}\" may be a number of key heads or of heads that share one, which "
                     "differ by the number of heads; expected {} or multi_query",
                     reader.where(), Printable(key), fmt::join(kKvHeadNames, ", "));
  }
  return fallback > 0 ? fallback : num_heads;
}

Result<int> HeadDim(const Reader& reader, const HfConfig& config, int fallback) {
  QUIRE_ASSIGN_OR_RETURN(const auto named, reader.Size({"head_dim", "kv_channels"}, kMaxWidth));
  if (named) return *named;
  if (fallback > 0) return fallback;
  // Only a file that says nothing means the classic head: the width shared out among the heads.
  if (config.d_model % config.num_heads != 0) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: a width of {} is no multiple of {} heads; expected \"head_dim\"",
                     reader.where(), config.d_model, config.num_heads);
  }
  return config.d_model / config.num_heads;
}

// One entry a layer of "layer_types".
Status WindowsByType(const Reader& reader, const json::value& types, int window, HfConfig* config) {
  const json::array* list = types.if_array();
  if (list == nullptr || list->size() != config->windows.size()) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: \"layer_types\" is {} of {} entries; expected a list "
                     "of {}, one a layer",
                     reader.where(), Reader::Shown(types), list == nullptr ? 0 : list->size(),
                     config->windows.size());
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const json::string* type = (*list)[i].if_string();
    const std::string_view word = type == nullptr ? std::string_view() : std::string_view(*type);
    if (word == "full_attention") continue;
    if (word != "sliding_attention") {
      return MakeError(ErrorCode::kUnsupported,
                       "{}: layer {} is of type {}; expected full_attention or sliding_attention",
                       reader.where(), i, Reader::Shown((*list)[i]));
    }
    if (window == 0) {
      return MakeError(ErrorCode::kCorrupt,
                       "{}: layer {} has a sliding window and \"sliding_window\" is missing",
                       reader.where(), i);
    }
    config->windows[i] = window;
  }
  return {};
}

Status ReadWindows(const Reader& reader, const FamilyDefaults& defaults, HfConfig* config) {
  config->windows.assign(config->num_layers, 0);
  QUIRE_ASSIGN_OR_RETURN(const bool used, reader.BoolOr("use_sliding_window", true));
  QUIRE_ASSIGN_OR_RETURN(const int window, reader.SizeOr({"sliding_window"}, kMaxTokens, 0));
  if (const json::value* types = reader.Find("layer_types")) {
    return WindowsByType(reader, *types, used ? window : 0, config);
  }
  if (!used || window == 0) return {};
  QUIRE_ASSIGN_OR_RETURN(const int every,
                         reader.SizeOr({"sliding_window_pattern", "_sliding_window_pattern"},
                                       kMaxLayers, defaults.full_layer_every));
  // Qwen 2 counts the layers below that keep everything.
  int first = 0;
  if (reader.Find("use_sliding_window") != nullptr) {
    const json::value* layers = reader.Find("max_window_layers");
    if (layers != nullptr && (!layers->is_int64() || layers->get_int64() < 0)) {
      return MakeError(ErrorCode::kCorrupt, "{}: \"max_window_layers\" is {}; expected 0 or more",
                       reader.where(), Reader::Shown(*layers));
    }
    if (layers != nullptr) {
      first = static_cast<int>(std::min<int64_t>(layers->get_int64(), config->num_layers));
    }
  }
  for (int i = first; i < config->num_layers; ++i) {
    if (every == 0 || (i + 1) % every != 0) config->windows[i] = window;
  }
  return {};
}

Status ReadFeedForward(const Reader& reader, HfConfig* config) {
  QUIRE_ASSIGN_OR_RETURN(
      config->ffn_dim,
      reader.SizeOr({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, kMaxWidth, 0));
  config->gated_ffn = !HasPlainFfn(config->model_type);
  // Qwen's first files count the gate and the other half together.
  if (config->model_type == "qwen") config->ffn_dim /= 2;
  const bool says_n_embd = reader.Find("n_embd") != nullptr;
  if (config->ffn_dim == 0 && (says_n_embd || IsGptLike(config->model_type))) {
    config->ffn_dim = 4 * config->d_model;
  }
  // Names without a family are GPT-2's.
  if (config->model_type.empty() && says_n_embd) config->gated_ffn = false;
  QUIRE_ASSIGN_OR_RETURN(
      config->num_experts,
      reader.SizeOr({"num_local_experts", "num_experts", "n_routed_experts"}, 1 << 16, 0));
  return {};
}

// What only the size of the weights depends on.
Status ReadWeightTraits(const Reader& reader, HfConfig* config) {
  const std::string& type = config->model_type;
  const bool gemma = type.starts_with("gemma");
  config->layer_norm = IsGptLike(type) || (type.empty() && reader.Find("n_embd") != nullptr);
  config->learned_positions =
      config->layer_norm && IsOneOf(type, {"", "gpt2", "gpt_bigcode", "opt"});
  const bool ties = gemma || config->learned_positions || IsOneOf(type, {"falcon", "bloom"});
  QUIRE_ASSIGN_OR_RETURN(config->tied_embeddings, reader.BoolOr("tie_word_embeddings", ties));
  QUIRE_ASSIGN_OR_RETURN(config->query_key_value_bias,
                         reader.BoolOr("attention_bias", type == "qwen2" || type == "qwen"));
  config->query_key_norm = IsOneOf(type, {"qwen3", "gemma3_text"});
  config->post_norms = IsOneOf(type, {"gemma2", "gemma3_text"});
  QUIRE_ASSIGN_OR_RETURN(std::string dtype, reader.TextOr("torch_dtype", ""));
  if (dtype.empty()) {
    QUIRE_ASSIGN_OR_RETURN(dtype, reader.TextOr("dtype", ""));
  }
  if (reader.Find("quantization_config") != nullptr) return {};
  if (IsOneOf(dtype, {"float16", "bfloat16"})) config->weight_bits = 16;
  if (dtype == "float32") config->weight_bits = 32;
  return {};
}

Result<HfConfig> ReadText(const Reader& reader) {
  HfConfig config;
  QUIRE_ASSIGN_OR_RETURN(config.model_type, reader.TextOr("model_type", ""));
  QUIRE_RETURN_IF_ERROR(CheckKeepsKeysAndValues(reader));
  const FamilyDefaults defaults = DefaultsOf(config.model_type);
  QUIRE_ASSIGN_OR_RETURN(
      config.num_layers,
      reader.RequireSize("layers", {"num_hidden_layers", "n_layer", "num_layers"}, kMaxLayers));
  QUIRE_ASSIGN_OR_RETURN(
      config.d_model,
      reader.RequireSize("elements of width", {"hidden_size", "n_embd", "d_model"}, kMaxWidth));
  if (defaults.num_heads > 0) {
    QUIRE_ASSIGN_OR_RETURN(config.num_heads,
                           reader.SizeOr({"num_attention_heads"}, kMaxHeads, defaults.num_heads));
  } else {
    QUIRE_ASSIGN_OR_RETURN(
        config.num_heads,
        reader.RequireSize("attention heads", {"num_attention_heads", "n_head", "num_heads"},
                           kMaxHeads));
  }
  QUIRE_ASSIGN_OR_RETURN(config.num_kv_heads, KvHeads(reader, config.model_type, config.num_heads,
                                                      defaults.num_kv_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return MakeError(ErrorCode::kCorrupt, "{}: {} heads over {} key heads; expected a multiple",
                     reader.where(), config.num_heads, config.num_kv_heads);
  }
  QUIRE_ASSIGN_OR_RETURN(config.head_dim, HeadDim(reader, config, defaults.head_dim));
  QUIRE_ASSIGN_OR_RETURN(config.vocab_size, reader.SizeOr({"vocab_size", "padded_vocab_size"},
                                                          kMaxWidth, defaults.vocab_size));
  // Of several lengths the first that is there is the one the family's code reads.
  for (const std::string_view name :
       {"max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "n_ctx"}) {
    if (config.context_length > 0) break;
    QUIRE_ASSIGN_OR_RETURN(config.context_length, reader.SizeOr({name}, kMaxTokens, 0));
  }
  if (config.context_length == 0) config.context_length = defaults.context_length;
  QUIRE_RETURN_IF_ERROR(ReadWindows(reader, defaults, &config));
  QUIRE_RETURN_IF_ERROR(ReadFeedForward(reader, &config));
  QUIRE_RETURN_IF_ERROR(ReadWeightTraits(reader, &config));
  return config;
}

}  // namespace

Result<HfConfig> ParseHfConfig(std::string_view text, std::string_view where) {
  if (text.size() > kMaxHfConfigBytes) {
    return MakeError(ErrorCode::kCorrupt, "{}: {} bytes; expected at most {}", where, text.size(),
                     kMaxHfConfigBytes);
  }
  boost::system::error_code error;
  const json::value root =
      json::parse(json::string_view(text.data(), text.size()), error, {}, {.max_depth = kMaxDepth});
  if (error) {
    return MakeError(ErrorCode::kCorrupt, "{}: not JSON: {}", where, error.message());
  }
  const json::object* object = root.if_object();
  if (object == nullptr) {
    return MakeError(ErrorCode::kCorrupt, "{}: expected a JSON object", where);
  }
  // A model of pictures and text keeps the part that writes in an object of its own.
  if (const json::value* inner = Reader(*object, where).Find("text_config")) {
    object = inner->if_object();
    if (object == nullptr) {
      return MakeError(ErrorCode::kCorrupt, "{}: \"text_config\" is {}; expected an object", where,
                       Reader::Shown(*inner));
    }
  }
  return ReadText(Reader(*object, where));
}

Result<HfConfig> ReadHfConfig(const std::filesystem::path& path) {
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(path, error);
  const std::filesystem::path file = is_directory ? path / "config.json" : path;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return MakeError(ErrorCode::kNotFound, "{}: cannot open it", file.string());
  std::string text(kMaxHfConfigBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad()) return MakeError(ErrorCode::kIo, "{}: cannot read it", file.string());
  return ParseHfConfig(text, file.string());
}

}  // namespace quire
