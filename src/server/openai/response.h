// Answers of the engine as the bodies that OpenAI's clients read.
//
//   chat.completion     one choice an answer; log-probabilities as `content` entries with bytes
//   text_completion     n choices a prompt, prompt-major; log-probabilities as parallel arrays
//
// `usage` counts each prompt once and always says how many of its tokens were cached. With echo,
// the prompt's text and log-probabilities stand in front of the answer's, the first one null.
// Log-probabilities have an entry for each sampled token, the one that ended the answer included.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/openai/request.h"
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
};

// answers: one for each prompt of the body, in order.
std::string ResponseBody(const OpenAiRequest& body, std::span<const PromptAnswer> answers,
                         const Tokenizer& tokenizer, const ResponseHead& head);

// An identifier that no other response has: "chatcmpl-" or "cmpl-" and 32 random digits.
std::string NewResponseId(OpenAiEndpoint endpoint);

}  // namespace quire
