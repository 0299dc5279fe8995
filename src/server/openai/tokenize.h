// Bodies of /tokenize and /detokenize, in vLLM's form.
//
//   {"prompt": "...", "add_special_tokens": true}  or  {"messages": [...]}, as of a chat
//     -> {"count": 3, "max_model_len": 8192, "tokens": [1, 2, 3], "token_strs": null}
//   {"tokens": [1, 2, 3]} -> {"prompt": "..."}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/openai/prompts.h"
#include "server/openai/request.h"

namespace quire {

struct TokenizeRequest {
  // A chat, or a completion of one text.
  OpenAiRequest body{};
  bool return_token_strs = false;
};

std::variant<TokenizeRequest, ApiError> ParseTokenizeRequest(std::string_view text,
                                                             const OpenAiLimits& limits = {});
// Renders, encodes and writes the answer.
std::variant<std::string, ApiError> TokenizeBody(const TokenizeRequest& request,
                                                 const PromptSource& source);

struct DetokenizeRequest {
  std::string model{};  // empty = absent
  std::vector<int32_t> tokens{};
  std::vector<std::string> ignored{};
};

std::variant<DetokenizeRequest, ApiError> ParseDetokenizeRequest(std::string_view text,
                                                                 const OpenAiLimits& limits = {});
std::string DetokenizeBody(const DetokenizeRequest& request, const Tokenizer& tokenizer);

}  // namespace quire
