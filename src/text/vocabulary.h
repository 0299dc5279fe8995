// What a model file says about its tokens, as plain data, and whether it makes sense.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace quire {

struct Vocabulary {
  std::string model;  // "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  std::string pre;    // name of the pre-tokenizer, for "gpt2"
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;     // as many as tokens
  std::vector<float> scores;        // for "llama": as many as tokens, higher merges first
  std::vector<std::string> merges;  // for "gpt2": "LEFT RIGHT", those that merge first in front
  // -1: none.
  TokenId bos = -1;
  TokenId eos = -1;
  TokenId unknown = -1;
  TokenId end_of_turn = -1;
  TokenId end_of_message = -1;
  std::optional<bool> add_bos;  // absent: as is usual for the family
  bool add_eos = false;
  bool add_space_prefix = true;  // for "llama"
};

// Reads the tokenizer.ggml.* keys, and checks. Names of keys and values are those of
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
Result<Vocabulary> ReadVocabulary(const GgufFile& file);

// Counts agree, ids are in range, texts of tokens in use differ, sizes are sane, scores are
// numbers. Merges are checked by the tokenizer, which has to look their tokens up anyway.
Status CheckVocabulary(const Vocabulary& vocabulary);

// The byte that a text such as "<0x0A>" stands for.
std::optional<uint8_t> ParseByteToken(std::string_view text);

}  // namespace quire
