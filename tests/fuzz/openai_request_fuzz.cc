// Any bytes as the body of both endpoints: an error in the API's form, or a request whose
// parameters the sampler accepts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/openai/request.h"

namespace {

constexpr quire::OpenAiLimits kLimits = {.max_body_bytes = 1 << 16, .vocab_size = 1000};

void ParseAs(quire::OpenAiEndpoint endpoint, std::string_view text) {
  const auto parsed = quire::ParseOpenAiRequest(endpoint, text, kLimits);
  if (const auto* error = std::get_if<quire::ApiError>(&parsed)) {
    QUIRE_CHECK(error->status >= 400 && error->status < 500, "status {}", error->status);
    QUIRE_CHECK(!error->message.empty() && !quire::ToJson(*error).empty());
    return;
  }
  const auto& body = std::get<quire::OpenAiRequest>(parsed);
  const quire::Request& request = body.request;
  const auto valid = request.sampling.Validate(kLimits.vocab_size);
  QUIRE_CHECK(valid.ok(), "{}", valid.error().message);
  QUIRE_CHECK(request.num_choices >= 1 && request.num_choices <= kLimits.max_choices);
  QUIRE_CHECK(request.stops.size() <= static_cast<size_t>(kLimits.max_stops));
  QUIRE_CHECK(request.min_tokens >= 0 && body.max_tokens.value_or(1) >= 0);
  QUIRE_CHECK(body.messages.IsList());
  const bool is_chat = endpoint == quire::OpenAiEndpoint::kChatCompletions;
  QUIRE_CHECK(is_chat == body.prompts.empty());
  for (const quire::OpenAiPrompt& prompt : body.prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    if (ids == nullptr) continue;
    QUIRE_CHECK(!ids->empty() && *std::ranges::min_element(*ids) >= 0 &&
                *std::ranges::max_element(*ids) < kLimits.vocab_size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ParseAs(quire::OpenAiEndpoint::kChatCompletions, text);
  ParseAs(quire::OpenAiEndpoint::kCompletions, text);
  return 0;
}
