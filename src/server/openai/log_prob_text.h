// Tokens and their log-probabilities as the API's two dialects write them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/log_probs.h"
#include "server/openai/json_writer.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace quire {

// Characters of UTF-8.
int64_t CountCharacters(std::string_view text);

// How tokens are spelled. The tokenizer outlives it.
class TokenSpelling {
 public:
  TokenSpelling(const Tokenizer& tokenizer, bool as_ids) : tokenizer_(tokenizer), as_ids_(as_ids) {}

  std::string Bytes(int32_t token) const {
    return tokenizer_.TokenBytes(token, /*with_control=*/true);
  }
  // Chat: bytes that are no text become U+FFFD; the entry has the bytes beside it.
  std::string ChatText(int32_t token, std::string_view bytes) const;
  // Completions have no bytes beside it, so that the OpenAI API spells them: "bytes:\xe2\x82".
  std::string CompletionText(int32_t token, std::string_view bytes) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  const Tokenizer& tokenizer_;
  bool as_ids_;
};

// {"content": [an entry for each], "refusal": null}; `count` best tokens in each.
void WriteChatLogProbs(std::span<const LogProbs> entries, int count, const TokenSpelling& spelling,
                       JsonWriter& json);

// vLLM's form of a prompt's: for each position null, or an object of token id to entry.
void WritePromptLogProbs(std::span<const std::optional<LogProbs>> positions, int count,
                         const TokenSpelling& spelling, JsonWriter& json);

// The parallel arrays of a completion's log-probabilities.
class CompletionLogProbs {
 public:
  CompletionLogProbs(int count, const TokenSpelling& spelling);

  // `bytes`: what the token adds to the text, or its spelling; entry: null for a prompt's first.
  void Add(int32_t token, std::string_view bytes, const LogProbs* entry, int64_t offset);
  bool empty() const { return tokens_.empty(); }
  // The arrays; they are empty then.
  void Write(JsonWriter& json);

 private:
  int count_;
  const TokenSpelling& spelling_;
  std::string offsets_, log_probs_, tokens_, top_;  // elements, with commas between
};

// A prompt's text, and an entry for each of its tokens. An added token adds nothing to the text.
// log_probs may be shorter than the prompt; entries may be null.
std::string EchoPrompt(std::span<const int32_t> prompt, int num_added,
                       std::span<const std::optional<LogProbs>> log_probs,
                       const TokenSpelling& spelling, CompletionLogProbs* entries);

// Where each token of an answer begins in its text, in characters.
class AnswerOffsets {
 public:
  AnswerOffsets(const Tokenizer& tokenizer, bool with_control)
      : decoder_(tokenizer, with_control) {}

  // As if nothing were cut off by a stop string.
  int64_t Next(int32_t token) {
    const int64_t begin = offset_;
    offset_ += CountCharacters(decoder_.Push(token));
    return begin;
  }

 private:
  StreamDecoder decoder_;
  int64_t offset_ = 0;
};

}  // namespace quire
