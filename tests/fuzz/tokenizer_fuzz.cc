// Tiny vocabularies and a text from random bytes: encoding ends, loses nothing that the vocabulary
// can spell, does not see seams, and decodes to the same in a stream.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "text/bpe_tokenizer.h"
#include "text/byte_alphabet.h"
#include "text/nfc.h"
#include "text/spm_tokenizer.h"
#include "text/stream_decoder.h"

namespace quire {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t Take() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  std::string Take(size_t count) {
    std::string taken(rest_.substr(0, count));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Skips texts that are there already: a vocabulary refuses doubles.
void AddToken(Vocabulary& vocabulary, const std::string& text, TokenKind kind, float score = 0) {
  for (const std::string& token : vocabulary.tokens) {
    if (token == text) return;
  }
  vocabulary.tokens.push_back(text);
  vocabulary.kinds.push_back(kind);
  if (vocabulary.model == "llama") vocabulary.scores.push_back(score);
}

void AddSpecialTokens(Bytes& bytes, Vocabulary& vocabulary) {
  for (int left = bytes.Take() % 5; left > 0; --left) {
    const uint8_t shape = bytes.Take();
    const std::string text = RepairUtf8(bytes.Take(1 + shape % 4));
    AddToken(vocabulary, text, shape % 2 == 0 ? TokenKind::kControl : TokenKind::kUserDefined);
  }
}

Vocabulary TakeBpe(Bytes& bytes) {
  constexpr std::string_view kPreTokenizers[] = {"default", "gpt-2", "llama-bpe", "qwen2",
                                                 "smollm"};
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = kPreTokenizers[bytes.Take() % 5];
  for (const std::string& spelling : ByteSpellings()) {
    AddToken(vocabulary, spelling, TokenKind::kNormal);
  }
  for (int left = bytes.Take() % 24; left > 0; --left) {
    const size_t num_tokens = vocabulary.tokens.size();
    // Bytes count as themselves; higher numbers reach the tokens of earlier merges.
    const std::string first = vocabulary.tokens[(bytes.Take() + 256 * (left % 2)) % num_tokens];
    const std::string second = vocabulary.tokens[bytes.Take()];
    AddToken(vocabulary, first + second, TokenKind::kNormal);
    if (vocabulary.tokens.size() > num_tokens) vocabulary.merges.push_back(first + " " + second);
  }
  AddSpecialTokens(bytes, vocabulary);
  return vocabulary;
}

Vocabulary TakeSpm(Bytes& bytes) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  AddToken(vocabulary, "<unk>", TokenKind::kUnknown);
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(vocabulary, fmt::format("<0x{:02X}>", byte), TokenKind::kByte);
  }
  AddToken(vocabulary, std::string(kSpace), TokenKind::kNormal, -1);
  for (int left = bytes.Take() % 24; left > 0; --left) {
    const uint8_t shape = bytes.Take();
    std::string piece = shape % 3 == 0 ? std::string(kSpace) : std::string();
    piece += RepairUtf8(bytes.Take(1 + shape / 3 % 4));
    AddToken(vocabulary, piece, TokenKind::kNormal, static_cast<float>(shape % 8) - 4);
  }
  AddSpecialTokens(bytes, vocabulary);
  vocabulary.unknown = 0;
  return vocabulary;
}

std::string SpacesForMarks(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const bool is_mark = text.substr(at).starts_with(kSpace);
    result += is_mark ? ' ' : text[at];
    at += is_mark ? kSpace.size() : 1;
  }
  return result;
}

void CheckStream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const TokenId id : ids) {
    QUIRE_CHECK(id >= 0 && id < tokenizer.num_tokens(), "id {}", id);
    streamed += decoder.Push(id);
  }
  streamed += decoder.Finish();
  QUIRE_CHECK(streamed == RepairUtf8(tokenizer.Decode(ids)), "the stream differs");
}

// `sameness` maps texts that the vocabulary may confuse to one text.
template <typename Sameness>
void CheckText(const Tokenizer& tokenizer, std::string_view bytes, const Sameness& sameness) {
  const std::string text = RepairUtf8(bytes);
  const auto plain = tokenizer.Encode(bytes, {.add_special = false, .parse_special = false});
  QUIRE_CHECK(sameness(tokenizer.Decode(plain)) == sameness(text), "the text changed");
  for (const TokenId id : plain) {
    QUIRE_CHECK(tokenizer.Kind(id) != TokenKind::kControl, "a control token out of plain text");
  }
  CheckStream(tokenizer, plain);
  CheckStream(tokenizer, tokenizer.Encode(bytes, {.add_special = true, .parse_special = true}));

  size_t seam = text.size() / 2;
  while (seam < text.size() && (static_cast<uint8_t>(text[seam]) & 0xC0) == 0x80) ++seam;
  std::vector<PromptPiece> pieces = {{text.substr(0, seam), false}, {text.substr(seam), false}};
  QUIRE_CHECK(tokenizer.EncodePieces(pieces, false) == plain, "the seam shows");
  pieces[0].from_template = true;
  CheckStream(tokenizer, tokenizer.EncodePieces(pieces, true));
}

void FuzzOne(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  const uint8_t shape = bytes.Take();
  if (shape % 2 == 0) {
    Vocabulary vocabulary = TakeBpe(bytes);
    const auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
    QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
    CheckText(**tokenizer, bytes.rest(),
              [](const std::string& text) { return NormalizeNfc(RepairUtf8(text)); });
  } else {
    Vocabulary vocabulary = TakeSpm(bytes);
    vocabulary.add_space_prefix = shape % 4 == 1;
    const auto tokenizer = SpmTokenizer::Create(std::move(vocabulary));
    QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
    CheckText(**tokenizer, bytes.rest(), SpacesForMarks);
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::FuzzOne(data, size);
  return 0;
}
