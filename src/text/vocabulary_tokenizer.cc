#include "text/vocabulary_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace quire {
namespace {

// Control tokens that end an answer or a turn in published chat formats, and which files do not
// always name by id.
constexpr std::string_view kEnders[] = {"</s>",
                                        "<eos>",
                                        "<end_of_turn>",
                                        "<|end|>",
                                        "<|end_of_text|>",
                                        "<|endoftext|>",
                                        "<|eom_id|>",
                                        "<|eot_id|>",
                                        "<|im_end|>",
                                        "<EOT>",
                                        "<end_of_utterance>",
                                        "<|end_of_turn|>"};

bool IsControl(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

template <typename Wanted>
PrefixTable TableOf(const Vocabulary& vocabulary, const Wanted& wanted) {
  std::vector<std::pair<std::string, TokenId>> entries;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (wanted(vocabulary.kinds[id])) {
      entries.emplace_back(vocabulary.tokens[id], static_cast<TokenId>(id));
    }
  }
  return PrefixTable(std::move(entries));
}

std::vector<TokenId> EndersOf(const Vocabulary& vocabulary, const TokenIndex& index) {
  std::vector<TokenId> ids;
  for (const TokenId id : {vocabulary.eos, vocabulary.end_of_turn, vocabulary.end_of_message}) {
    if (id >= 0) ids.push_back(id);
  }
  for (const std::string_view text : kEnders) {
    const TokenId id = index.Find(text);
    if (id >= 0 && vocabulary.kinds[id] == TokenKind::kControl) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary, bool adds_bos)
    : vocabulary_(std::move(vocabulary)),
      index_(vocabulary_.tokens),
      control_tokens_(TableOf(vocabulary_, IsControl)),
      user_defined_tokens_(
          TableOf(vocabulary_, [](TokenKind kind) { return kind == TokenKind::kUserDefined; })),
      end_of_text_ids_(EndersOf(vocabulary_, index_)),
      adds_bos_(vocabulary_.add_bos.value_or(adds_bos) && vocabulary_.bos >= 0) {}

std::vector<TokenId> VocabularyTokenizer::Encode(std::string_view text,
                                                 const EncodeOptions& options) const {
  std::string replaced;
  if (!IsWellFormedUtf8(text)) {
    replaced = RepairUtf8(text);
    text = replaced;
  }
  const Stretch whole{text.size(), options.parse_special};
  return EncodeStretches(text, {&whole, 1}, options.add_special ? Extent::kWhole : Extent::kPlain);
}

std::vector<TokenId> VocabularyTokenizer::EncodePieces(std::span<const PromptPiece> pieces,
                                                       bool add_special) const {
  return EncodePieces(pieces, add_special ? Extent::kWhole : Extent::kPlain);
}

std::vector<TokenId> VocabularyTokenizer::EncodeRest(std::span<const PromptPiece> pieces) const {
  return EncodePieces(pieces, Extent::kRest);
}

std::vector<TokenId> VocabularyTokenizer::EncodePieces(std::span<const PromptPiece> pieces,
                                                       Extent extent) const {
  std::string text;
  std::vector<Stretch> stretches;
  for (const PromptPiece& piece : pieces) {
    text += RepairUtf8(piece.text);
    if (stretches.empty() || stretches.back().from_template != piece.from_template) {
      stretches.push_back({0, piece.from_template});
    }
    stretches.back().end = text.size();
  }
  return EncodeStretches(text, stretches, extent);
}

std::vector<TokenId> VocabularyTokenizer::EncodeStretches(std::string_view text,
                                                          std::span<const Stretch> stretches,
                                                          Extent extent) const {
  std::vector<TokenId> ids;
  size_t text_begin = 0;
  bool starts_run = extent != Extent::kRest;
  const auto encode_until = [&](size_t end) {
    if (end > text_begin) {
      EncodeText(text.substr(text_begin, end - text_begin), starts_run, ids);
      starts_run = false;
    }
  };
  size_t stretch_idx = 0;
  for (size_t pos = 0; pos < text.size();) {
    while (stretches[stretch_idx].end <= pos) ++stretch_idx;
    const Stretch& stretch = stretches[stretch_idx];
    PrefixTable::Match match;
    if (user_defined_tokens_.MayBegin(text[pos])) {
      match = user_defined_tokens_.Longest(text.substr(pos));
    }
    bool is_control = false;
    if (stretch.from_template && control_tokens_.MayBegin(text[pos])) {
      const auto control = control_tokens_.Longest(text.substr(pos, stretch.end - pos));
      is_control = control.num_bytes > match.num_bytes;
      if (is_control) match = control;
    }
    if (match.id < 0) {
      ++pos;
      continue;
    }
    encode_until(pos);
    if (!is_control && starts_run) EncodeText({}, true, ids);
    ids.push_back(match.id);
    starts_run = is_control;
    pos += match.num_bytes;
    text_begin = pos;
  }
  encode_until(text.size());

  if (extent == Extent::kWhole && adds_bos_) {
    const bool has_bos = !ids.empty() && ids.front() == vocabulary_.bos;
    if (!has_bos) ids.insert(ids.begin(), vocabulary_.bos);
  }
  if (extent != Extent::kPlain && vocabulary_.add_eos && vocabulary_.eos >= 0) {
    ids.push_back(vocabulary_.eos);
  }
  return ids;
}

std::string VocabularyTokenizer::Decode(std::span<const TokenId> ids, bool with_control) const {
  std::string text;
  bool at_start = strips_leading_space();
  for (const TokenId id : ids) {
    const size_t before = text.size();
    text += TokenBytes(id, with_control);
    if (!at_start || !Contains(id) || IsControl(vocabulary_.kinds[id])) continue;
    if (text.size() == before) continue;
    if (vocabulary_.kinds[id] == TokenKind::kNormal && text[before] == ' ') text.erase(before, 1);
    at_start = false;
  }
  return text;
}

std::string VocabularyTokenizer::TokenBytes(TokenId id, bool with_control) const {
  std::string bytes;
  if (!Contains(id)) return bytes;
  const TokenKind kind = vocabulary_.kinds[id];
  if (kind == TokenKind::kUserDefined || (IsControl(kind) && with_control)) {
    bytes = vocabulary_.tokens[id];
  } else if (kind == TokenKind::kNormal || kind == TokenKind::kByte) {
    AppendBytes(id, bytes);
  }
  return bytes;
}

std::string_view VocabularyTokenizer::TokenText(TokenId id) const {
  return Contains(id) ? std::string_view(vocabulary_.tokens[id]) : std::string_view();
}

TokenKind VocabularyTokenizer::Kind(TokenId id) const {
  return Contains(id) ? vocabulary_.kinds[id] : TokenKind::kUnused;
}

}  // namespace quire
