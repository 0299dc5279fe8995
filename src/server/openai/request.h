// Bodies of OpenAI's /v1/chat/completions and /v1/completions, checked, as plain data.
//
// Names, types, ranges and defaults are those of the OpenAI API; extensions have vLLM's names. A
// member that is null is absent. What would change the answer and is not supported is refused by
// name; what has no meaning here (`user`, `metadata`) is accepted; unknown members are listed in
// `ignored`. docs/batch.md has the table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"
#include "text/chat_template/value.h"

namespace quire {

enum class OpenAiEndpoint : uint8_t { kChatCompletions, kCompletions };

// The endpoint of a path, or nothing.
std::optional<OpenAiEndpoint> EndpointOf(std::string_view url);

struct OpenAiLimits {
  size_t max_body_bytes = size_t{16} << 20;
  int vocab_size = 0;  // token ids are below it; 0 = not known
  int max_choices = 128;
  int max_stops = 16;
  int max_stop_token_ids = 256;
  size_t max_prompts = 1024;
};

// A prompt as text, or as token ids.
using OpenAiPrompt = std::variant<std::string, std::vector<int32_t>>;

struct OpenAiRequest {
  OpenAiEndpoint endpoint = OpenAiEndpoint::kChatCompletions;
  std::string model{};  // empty = absent

  // Of a chat: NormalizeMessages has accepted them; at least one.
  jinja::Value messages = jinja::Value::MakeList({});
  jinja::Value tools = jinja::Value::MakeNone();
  jinja::Value template_arguments = jinja::Value::MakeNone();  // chat_template_kwargs
  bool add_generation_prompt = true;

  // Of a completion: at least one.
  std::vector<OpenAiPrompt> prompts{};
  bool echo = false;

  // Absent: the caller's default. 0 (with echo alone): the prompt and nothing else.
  std::optional<int> max_tokens{};
  bool stream = false;
  bool include_usage = false;            // stream_options
  bool return_token_ids = false;         // vLLM: prompt_token_ids and token_ids beside the text
  bool tokens_as_token_ids = false;      // vLLM: log-probabilities name tokens "token_id:17"
  std::optional<int> prompt_logprobs{};  // vLLM's field, as asked for

  // All but prompt, prompt_pieces and max_tokens. prompt_logprobs is set where echo needs it, too.
  Request request{};

  std::vector<std::string> ignored{};  // members that nobody knows, fit for printing
};

// `text` is the whole body: any bytes.
std::variant<OpenAiRequest, ApiError> ParseOpenAiRequest(OpenAiEndpoint endpoint,
                                                         std::string_view text,
                                                         const OpenAiLimits& limits = {});
// The same for a body that has been read from its JSON.
std::variant<OpenAiRequest, ApiError> ParseOpenAiRequest(OpenAiEndpoint endpoint,
                                                         const jinja::Value& body,
                                                         const OpenAiLimits& limits = {});

}  // namespace quire
