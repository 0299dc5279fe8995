// The members of a request's body, read by noun: each function knows those of one. Faults go to the
// reader. What a function needs of another is said with it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai/body_reader.h"
#include "server/openai/request.h"

namespace quire {

inline constexpr int64_t kMaxIntField = std::numeric_limits<int>::max();

// Writes into a field where the body has the member.
template <typename Field, typename Read>
void Assign(Field& field, const std::optional<Read>& value) {
  if (value) field = static_cast<Field>(*value);
}

// The first token id of a list that is not one, as an error message, or nothing.
std::optional<std::string> ReadTokenIds(const std::vector<jinja::Value>& items, int vocab_size,
                                        std::vector<int32_t>& ids);

// A prompt, or several: the member `name`, in the four forms of the API.
void ReadPrompts(BodyReader& reader, std::string_view name, const OpenAiLimits& limits,
                 std::vector<OpenAiPrompt>& prompts);
// add_special_tokens, truncate_prompt_tokens.
void ReadPromptShape(BodyReader& reader, OpenAiRequest& body);
// suffix. After ReadPrompts and echo.
void ReadSuffix(BodyReader& reader, OpenAiRequest& body);

// messages, tools, and what else goes into the template.
void ReadChat(BodyReader& reader, const OpenAiLimits& limits, OpenAiRequest& body);

void ReadSampling(BodyReader& reader, const OpenAiLimits& limits, SamplingParameters& sampling);
// bad_words, allowed_token_ids.
void ReadBans(BodyReader& reader, const OpenAiLimits& limits, OpenAiRequest& body);
void ReadStops(BodyReader& reader, const OpenAiLimits& limits, Request& request);
// After echo.
void ReadLengths(BodyReader& reader, OpenAiRequest& body);
// After ReadStops.
void ReadChoices(BodyReader& reader, const OpenAiLimits& limits, Request& request);
// After echo.
void ReadLogProbs(BodyReader& reader, OpenAiRequest& body);

// speculative.n_max.
void ReadSpeculation(BodyReader& reader, Request& request);
// cache_salt, priority.
void ReadQueueing(BodyReader& reader, std::string& cache_salt, int& priority);
// Accepted and passed over; refused by name.
void RefuseOthers(BodyReader& reader);

// The object in a body's text, or what is wrong with it.
std::variant<jinja::Value, ApiError> ObjectOf(std::string_view text, const OpenAiLimits& limits);

}  // namespace quire
