// A checked body, turned into what the engine takes: one request a prompt.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "server/openai/request.h"

namespace quire {

struct EngineRequest {
  Request request{};
  // Tokens in front that the tokenizer added: no part of the prompt's text.
  int num_added = 0;
};

// What a completion without max_tokens gets, as in the OpenAI API. A chat goes on until the context
// is full.
inline constexpr int kDefaultCompletionTokens = 16;

// Renders the chat or encodes the prompts, in order. default_max_tokens is for a body without one.
// Control tokens are read in what the template wrote and in a completion's text, never in messages.
std::variant<std::vector<EngineRequest>, ApiError> EngineRequestsOf(
    const OpenAiRequest& body, Engine& engine, std::optional<int> default_max_tokens = {});

// The field that holds the prompt: what an error about its length names.
std::string_view PromptFieldOf(const OpenAiRequest& body);

}  // namespace quire
