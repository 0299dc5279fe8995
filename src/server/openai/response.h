// Answers of the engine as the bodies that OpenAI's clients read.
//
//   chat.completion     one choice an answer; log-probabilities as `content` entries with bytes;
//                       calls of tools as `tool_calls`, content null where nothing is said beside
//   text_completion     n choices a prompt, prompt-major; log-probabilities as parallel arrays
//
// `usage` counts each prompt once and always says how many of its tokens were cached. With echo,
// the prompt's text and log-probabilities stand in front of the answer's, the first one null; a
// chat's echo is the last message, where it is the assistant's.
// Log-probabilities have an entry for each sampled token, the one that ended the answer included.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/openai/request.h"
#include "server/openai/tool_calls.h"
#include "text/tokenizer.h"

namespace quire {

// What the engine made of one prompt of a body. Not of status kError.
struct PromptAnswer {
  std::vector<int32_t> prompt{};
  int num_added = 0;  // tokens in front of it that are no part of its text
  RequestResult result{};
};

struct ResponseHead {
  std::string id{};     // "chatcmpl-..." or "cmpl-..."
  std::string model{};  // that answered
  int64_t created = 0;  // Unix time in seconds
  ToolDialect dialect = ToolDialect::kNone;
};

// answers: one for each prompt of the body, in order.
std::string ResponseBody(const OpenAiRequest& body, std::span<const PromptAnswer> answers,
                         const Tokenizer& tokenizer, const ResponseHead& head);

// An identifier that no other response has: "chatcmpl-" or "cmpl-" and 32 random digits.
std::string NewResponseId(OpenAiEndpoint endpoint);
// The same with another beginning: "embd-".
std::string NewResponseId(std::string_view prefix);

// OpenAI's word for how an answer ended; "abort" for one that was broken off.
std::string_view FinishReasonOf(const Choice& choice, bool has_calls);
// Appends vLLM's stop_reason: the stop string or stop token of the request that ended the answer,
// or null.
void AppendStopReason(const Choice& choice, const Request& request, std::string& json);

}  // namespace quire
