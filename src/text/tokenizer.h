// Text to token ids and back, from a GGUF file's vocabulary.
//
// Two families: byte-level BPE ("gpt2" in files; docs/tokenizers.md lists the pre-tokenizers) and
// SentencePiece BPE ("llama"). Time is linear, or n log n, in the length of the text, for any text.
// Const after creation: any number of threads may call it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class GgufFile;

using TokenId = int32_t;

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct EncodeOptions {
  // Adds the file's BOS and EOS tokens where it says so. A text that already begins with the BOS
  // token (parse_special) does not get a second one.
  bool add_special = true;
  // Reads control-token text such as <|im_end|> as that token. Off, it is ordinary text. The text
  // of user-defined tokens is always read as those tokens.
  bool parse_special = false;
};

// A piece of a rendered prompt: only text the template itself wrote may hold control tokens.
struct PromptPiece {
  std::string text;
  bool from_template = false;
};

class Tokenizer {
 public:
  // Fails for a vocabulary that contradicts itself or a tokenizer that Quire does not know.
  static Result<std::unique_ptr<Tokenizer>> FromGguf(const GgufFile& file);
  virtual ~Tokenizer() = default;

  // Invalid UTF-8 is read as U+FFFD, one for each maximal invalid part (Unicode 15, 3.9).
  virtual std::vector<TokenId> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;
  // A prompt in pieces: control tokens are read in template pieces alone; between two control
  // tokens the pieces merge as if they were one text.
  virtual std::vector<TokenId> EncodePieces(std::span<const PromptPiece> pieces,
                                            bool add_special) const = 0;
  // As EncodePieces with special tokens, for the rest of a prompt whose ids so far end in a token
  // that is not a control token: nothing goes in front.
  virtual std::vector<TokenId> EncodeRest(std::span<const PromptPiece> pieces) const = 0;
  // The bytes that the tokens stand for, in order. Control tokens give nothing unless
  // `with_control`, when they give their text; ids outside the vocabulary give nothing. The
  // SentencePiece dummy space in front of a text is removed, once, when the ids are a whole text.
  virtual std::string Decode(std::span<const TokenId> ids, bool with_control = false) const = 0;
  // The bytes of one token as it continues a text (no dummy-space removal); control tokens
  // likewise.
  virtual std::string TokenBytes(TokenId id, bool with_control = false) const = 0;

  virtual int num_tokens() const = 0;
  virtual std::string_view TokenText(TokenId id) const = 0;  // as the file spells it
  virtual TokenKind Kind(TokenId id) const = 0;
  // -1 where the file has none.
  virtual TokenId bos() const = 0;
  virtual TokenId eos() const = 0;
  virtual bool adds_bos() const = 0;
  // Whether the first piece of a decoded text loses one leading space (see Decode).
  virtual bool strips_leading_space() const = 0;
  // Every id that ends an answer: EOS, EOT, EOM and their like, sorted.
  virtual std::span<const TokenId> end_of_text_ids() const = 0;
  // The id of a token's exact text, or -1.
  virtual TokenId FindToken(std::string_view text) const = 0;
};

}  // namespace quire
