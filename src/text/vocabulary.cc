#include "text/vocabulary.h"

#include <cmath>
#include <variant>

#include "formats/gguf.h"
#include "text/token_index.h"

namespace quire {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxMerges = size_t{1} << 24;
constexpr size_t kMaxTokenBytes = 16 << 10;

constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kTokenTypes[] = "tokenizer.ggml.token_type";
constexpr char kScores[] = "tokenizer.ggml.scores";
constexpr char kMerges[] = "tokenizer.ggml.merges";

Error Corrupt(std::string message) { return Error{ErrorCode::kCorrupt, std::move(message)}; }

// The numbers of the file are 1 to 6, in the order of TokenKind.
Result<TokenKind> ToTokenKind(size_t id, int64_t number) {
  if (number < 1 || number > 6) {
    return Corrupt(fmt::format("{}[{}] is {}; expected 1 to 6", kTokenTypes, id, number));
  }
  return static_cast<TokenKind>(number - 1);
}

Result<std::vector<TokenKind>> ReadKinds(const GgufFile& file, size_t num_tokens) {
  const GgufValue* value = file.FindValue(kTokenTypes);
  if (value == nullptr) return std::vector<TokenKind>(num_tokens, TokenKind::kNormal);
  std::vector<TokenKind> kinds;
  const auto append = [&kinds](const auto& numbers) -> Status {
    kinds.reserve(numbers.size());
    for (size_t id = 0; id < numbers.size(); ++id) {
      // A huge unsigned number turns negative, which is refused like any other.
      QUIRE_ASSIGN_OR_RETURN(const TokenKind kind,
                             ToTokenKind(id, static_cast<int64_t>(numbers[id])));
      kinds.push_back(kind);
    }
    return {};
  };
  const auto* list = std::get_if<GgufList>(value);
  if (list != nullptr && std::holds_alternative<std::vector<int64_t>>(*list)) {
    QUIRE_RETURN_IF_ERROR(append(std::get<std::vector<int64_t>>(*list)));
  } else if (list != nullptr && std::holds_alternative<std::vector<uint64_t>>(*list)) {
    QUIRE_RETURN_IF_ERROR(append(std::get<std::vector<uint64_t>>(*list)));
  } else {
    return Corrupt(fmt::format("{} is not an array of integers", kTokenTypes));
  }
  return kinds;
}

Result<std::vector<float>> ReadScores(const GgufFile& file) {
  const GgufValue* value = file.FindValue(kScores);
  const auto* list = value == nullptr ? nullptr : std::get_if<GgufList>(value);
  const auto* numbers = list == nullptr ? nullptr : std::get_if<std::vector<double>>(list);
  if (numbers == nullptr) {
    return Corrupt(fmt::format(
        "{} is missing or not an array of floats; a 'llama' vocabulary needs it", kScores));
  }
  return std::vector<float>(numbers->begin(), numbers->end());
}

Result<std::vector<std::string>> ReadTexts(const GgufFile& file, const char* key, size_t limit) {
  QUIRE_ASSIGN_OR_RETURN(const auto* texts, file.GetStrings(key));
  if (texts->size() > limit) {
    return Corrupt(
        fmt::format("{} has {} entries; at most {} are read", key, texts->size(), limit));
  }
  return std::vector<std::string>(texts->begin(), texts->end());
}

// `usual` is what the family takes when the file does not say; it must have one of the two kinds
// that never come from text.
Status ReadId(const GgufFile& file, const char* key, TokenId usual, const Vocabulary& vocabulary,
              TokenId& id) {
  if (file.FindValue(key) == nullptr) {
    if (usual < 0 || static_cast<size_t>(usual) >= vocabulary.kinds.size()) return {};
    const TokenKind kind = vocabulary.kinds[usual];
    if (kind == TokenKind::kControl || kind == TokenKind::kUnknown) id = usual;
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t number, file.GetUint(key));
  // All ones is how some writers say "none".
  if (number == UINT32_MAX) return {};
  if (number >= vocabulary.tokens.size()) {
    return Corrupt(
        fmt::format("{} is {}, but there are {} tokens", key, number, vocabulary.tokens.size()));
  }
  id = static_cast<TokenId>(number);
  return {};
}

Status ReadIds(const GgufFile& file, Vocabulary& vocabulary) {
  const bool is_spm = vocabulary.model == "llama";
  const auto read = [&](const char* key, TokenId usual, TokenId& id) {
    return ReadId(file, key, is_spm ? usual : -1, vocabulary, id);
  };
  QUIRE_RETURN_IF_ERROR(read("tokenizer.ggml.unknown_token_id", 0, vocabulary.unknown));
  QUIRE_RETURN_IF_ERROR(read("tokenizer.ggml.bos_token_id", 1, vocabulary.bos));
  QUIRE_RETURN_IF_ERROR(read("tokenizer.ggml.eos_token_id", 2, vocabulary.eos));
  QUIRE_RETURN_IF_ERROR(read("tokenizer.ggml.eot_token_id", -1, vocabulary.end_of_turn));
  return read("tokenizer.ggml.eom_token_id", -1, vocabulary.end_of_message);
}

Status ReadFlags(const GgufFile& file, Vocabulary& vocabulary) {
  if (file.FindValue("tokenizer.ggml.add_bos_token") != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(vocabulary.add_bos, file.GetBool("tokenizer.ggml.add_bos_token"));
  }
  QUIRE_ASSIGN_OR_RETURN(vocabulary.add_eos, file.GetBoolOr("tokenizer.ggml.add_eos_token", false));
  QUIRE_ASSIGN_OR_RETURN(vocabulary.add_space_prefix,
                         file.GetBoolOr("tokenizer.ggml.add_space_prefix", true));
  QUIRE_ASSIGN_OR_RETURN(const bool removes_spaces,
                         file.GetBoolOr("tokenizer.ggml.remove_extra_whitespaces", false));
  if (removes_spaces) {
    return MakeError(ErrorCode::kUnsupported,
                     "tokenizer.ggml.remove_extra_whitespaces is true; Quire tokenizes only "
                     "vocabularies that keep all spaces");
  }
  return {};
}

Status CheckId(const char* name, TokenId id, size_t num_tokens) {
  if (id < -1 || id >= static_cast<int64_t>(num_tokens)) {
    return Corrupt(fmt::format("the {} id is {}, but there are {} tokens", name, id, num_tokens));
  }
  return {};
}

Status CheckTexts(const Vocabulary& vocabulary) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].size() > kMaxTokenBytes) {
      return Corrupt(fmt::format("{}[{}] has {} bytes; at most {} are read", kTokens, id,
                                 vocabulary.tokens[id].size(), kMaxTokenBytes));
    }
  }
  const TokenIndex index(vocabulary.tokens);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenId first = index.Find(vocabulary.tokens[id]);
    if (first == static_cast<TokenId>(id) || vocabulary.kinds[id] == TokenKind::kUnused ||
        vocabulary.tokens[id].empty()) {
      continue;
    }
    return Corrupt(
        fmt::format("{}[{}] and [{}] are both '{}'", kTokens, first, id, vocabulary.tokens[id]));
  }
  return {};
}

Status CheckScores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    return Corrupt(fmt::format("{} has {} entries, {} has {}", kScores, vocabulary.scores.size(),
                               kTokens, vocabulary.tokens.size()));
  }
  for (size_t id = 0; id < vocabulary.scores.size(); ++id) {
    if (std::isnan(vocabulary.scores[id])) {
      return Corrupt(fmt::format("{}[{}] is not a number", kScores, id));
    }
  }
  return {};
}

}  // namespace

Result<Vocabulary> ReadVocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  if (model != "gpt2" && model != "llama") {
    return MakeError(ErrorCode::kUnsupported,
                     "tokenizer.ggml.model is '{}'; Quire knows gpt2 (byte-level BPE) and llama "
                     "(SentencePiece BPE)",
                     model);
  }
  vocabulary.model = model;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view pre,
                         file.GetStringOr("tokenizer.ggml.pre", "default"));
  vocabulary.pre = pre;
  QUIRE_ASSIGN_OR_RETURN(vocabulary.tokens, ReadTexts(file, kTokens, kMaxTokens));
  QUIRE_ASSIGN_OR_RETURN(vocabulary.kinds, ReadKinds(file, vocabulary.tokens.size()));
  if (model == "llama") {
    QUIRE_ASSIGN_OR_RETURN(vocabulary.scores, ReadScores(file));
  } else {
    QUIRE_ASSIGN_OR_RETURN(vocabulary.merges, ReadTexts(file, kMerges, kMaxMerges));
  }
  QUIRE_RETURN_IF_ERROR(ReadIds(file, vocabulary));
  QUIRE_RETURN_IF_ERROR(ReadFlags(file, vocabulary));
  return vocabulary;
}

Status CheckVocabulary(const Vocabulary& vocabulary) {
  const size_t num_tokens = vocabulary.tokens.size();
  if (num_tokens == 0 || num_tokens > kMaxTokens) {
    return Corrupt(
        fmt::format("{} has {} entries; expected 1 to {}", kTokens, num_tokens, kMaxTokens));
  }
  if (vocabulary.kinds.size() != num_tokens) {
    return Corrupt(fmt::format("{} has {} entries, {} has {}", kTokenTypes, vocabulary.kinds.size(),
                               kTokens, num_tokens));
  }
  QUIRE_RETURN_IF_ERROR(CheckId("BOS", vocabulary.bos, num_tokens));
  QUIRE_RETURN_IF_ERROR(CheckId("EOS", vocabulary.eos, num_tokens));
  QUIRE_RETURN_IF_ERROR(CheckId("unknown-token", vocabulary.unknown, num_tokens));
  QUIRE_RETURN_IF_ERROR(CheckId("end-of-turn", vocabulary.end_of_turn, num_tokens));
  QUIRE_RETURN_IF_ERROR(CheckId("end-of-message", vocabulary.end_of_message, num_tokens));
  if (vocabulary.model == "llama") QUIRE_RETURN_IF_ERROR(CheckScores(vocabulary));
  return CheckTexts(vocabulary);
}

std::optional<uint8_t> ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char digit : text.substr(3, 2)) {
    if (digit >= '0' && digit <= '9') {
      value = value * 16 + (digit - '0');
    } else if (digit >= 'A' && digit <= 'F') {
      value = value * 16 + (digit - 'A' + 10);
    } else {
      return std::nullopt;
    }
  }
  return static_cast<uint8_t>(value);
}

}  // namespace quire
