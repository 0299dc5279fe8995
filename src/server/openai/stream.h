// A response as server-sent events: the chunks that OpenAI's clients expect, as text.
//
//   ChunkWriter writer(body, tokenizer, head);       // one a response
//   for each prompt i:  writer.Begin(i, ids, num_added, out);   // role, or the echoed prompt
//   for each piece:     writer.Piece({.prompt = i, ...}, out);
//   for each prompt i:  writer.End(i, answer, out);  // what is left, finish_reason
//   writer.Finish(out);                              // usage where asked for, [DONE]
//   or, at any time, instead of what follows: AppendErrorEvent(error, out)
//
// Everything is appended to `out`, whole events alone; a call may have nothing to say.
// Invariants:
//   1. The chunks of a choice, joined, are the choice of ResponseBody for the same answers: text,
//      calls of tools, log-probabilities, token ids, finish_reason.
//   2. Pieces may be merged, or left out altogether: End writes what no piece has brought. So do
//      answers of beam search, and of echo with log-probabilities, which are known at the end.
//   3. Text that is held back (it may be the beginning of a call) makes no chunk. Log-probabilities
//      and ids wait for the next chunk with text, or for the end.
// body and tokenizer outlive the writer. One thread at a time. A plain chunk takes well under a
// microsecond.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/openai/request.h"
#include "server/openai/response.h"

namespace quire {

// A part of one answer, of any number of tokens.
struct StreamPiece {
  size_t prompt = 0;                  // which of the body's
  int choice = 0;                     // of that prompt's answers
  std::string_view text{};            // may be empty
  std::span<const int32_t> tokens{};  // that were sampled meanwhile
  // [tokens], where the body asks for log-probabilities; empty otherwise.
  std::span<const LogProbs> log_probs{};
};

class ChunkWriter {
 public:
  ChunkWriter(const OpenAiRequest& body, const Tokenizer& tokenizer, ResponseHead head);
  ~ChunkWriter();
  ChunkWriter(const ChunkWriter&) = delete;
  ChunkWriter& operator=(const ChunkWriter&) = delete;

  // `prompt`: the ids that the engine got; num_added of them are no part of its text.
  void Begin(size_t prompt_idx, std::span<const int32_t> prompt, int num_added, std::string& out);
  void Piece(const StreamPiece& piece, std::string& out);
  // Once a prompt. Not of status kError.
  void End(size_t prompt_idx, const PromptAnswer& answer, std::string& out);
  // After every End.
  void Finish(std::string& out);

  // Whether pieces are of no use, since all is written by End.
  bool writes_at_end() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

// `data: {"error":{...}}` and [DONE], as vLLM ends a stream that fails after its start.
void AppendErrorEvent(const ApiError& error, std::string& out);

}  // namespace quire
