// A checked body, turned into what the engine takes: one request a prompt.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "server/openai/request.h"

namespace quire {

struct EngineRequest {
  Request request{};
  // Tokens in front that the tokenizer added: no part of the prompt's text.
  int num_added = 0;
  std::string text{};  // that the prompt was encoded from; empty for one of ids
};

// What prompts are made with. The model outlives it.
struct PromptSource {
  const LoadedModel& model;
  int context_length = 0;
  // Ids of a prompt's text under a salt, as Engine::EncodePrompt.
  std::function<std::vector<int32_t>(std::span<const PromptPiece> pieces, std::string_view salt)>
      encode{};
};
// Of an Engine, or an EngineThread; it outlives the result.
template <typename EngineLike>
PromptSource PromptSourceOf(EngineLike& engine) {
  return {.model = engine.model(),
          .context_length = engine.context_length(),
          .encode = [&engine](std::span<const PromptPiece> pieces, std::string_view salt) {
            return engine.EncodePrompt(pieces, salt);
          }};
}

// What a completion without max_tokens gets, as in the OpenAI API. A chat goes on until the context
// is full.
inline constexpr int kDefaultCompletionTokens = 16;

// Renders the chat or encodes the prompts, in order. default_max_tokens is for a body without one.
// Control tokens are read in what the template wrote and in a completion's text, never in messages.
std::variant<std::vector<EngineRequest>, ApiError> EngineRequestsOf(
    const OpenAiRequest& body, const PromptSource& source,
    std::optional<int> default_max_tokens = {});

// The field that holds the prompt: what an error about its length names.
std::string_view PromptFieldOf(const OpenAiRequest& body);

}  // namespace quire
