// Bodies of OpenAI's /v1/chat/completions and /v1/completions, checked, as plain data.
//
// Names, types, ranges and defaults are those of the OpenAI API; extensions have vLLM's names. A
// member that is null is absent. What would change the answer and is not supported is refused by
// name; what has no meaning here (`user`, `metadata`) is accepted; unknown members are listed in
// `ignored`. docs/openai-api.md has the table.
//
// JSON: of members that are there twice the last counts; a lone surrogate, a NUL byte outside of
// "\u0000" and nesting beyond jinja::kMaxValueDepth are no JSON. "\u0000" in a text is a character
// as others are.
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
  size_t max_bad_words = 256;
  size_t max_word_bytes = 1024;  // of a bad word
  size_t max_tools = 1024;
  size_t max_tool_name_bytes = 256;
  // Of what each prompt of a body gets a copy of (stop strings, bad words, biases, allowed ids),
  // over all of its prompts; does not bound a body of one prompt.
  size_t max_repeated_bytes = size_t{64} << 20;
  size_t max_prompts = 2048;
};

// A prompt as text, or as token ids.
using OpenAiPrompt = std::variant<std::string, std::vector<int32_t>>;

struct OpenAiRequest {
  OpenAiEndpoint endpoint = OpenAiEndpoint::kChatCompletions;
  std::string model{};  // empty = absent

  // Of a chat: NormalizeMessages has accepted them; at least one.
  jinja::Value messages = jinja::Value::MakeList({});
  jinja::Value tools = jinja::Value::MakeNone();
  std::vector<std::string> tool_names{};  // of tools
  bool parallel_tool_calls = true;        // off: an answer holds one call at most
  jinja::Value documents = jinja::Value::MakeNone();
  jinja::Value template_arguments = jinja::Value::MakeNone();  // chat_template_kwargs
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends with the last message's content

  // Of a completion: at least one.
  std::vector<OpenAiPrompt> prompts{};
  std::optional<std::string> suffix{};  // what follows the text to be filled in

  bool echo = false;
  std::string chat_echo{};  // of a chat with echo: the last message, where it is the assistant's
  // Absent: special tokens as the model wants them, and no second one where the template wrote it.
  std::optional<bool> add_special_tokens{};
  std::optional<int> truncate_prompt_tokens{};  // the last so many are kept; -1 = that fit
  std::vector<std::string> bad_words{};

  // Absent: the caller's default. 0 (with echo alone): the prompt and nothing else.
  std::optional<int> max_tokens{};
  bool stream = false;
  bool include_usage = false;            // stream_options
  bool continuous_usage = false;         // stream_options: continuous_usage_stats
  bool include_quire = false;            // `quire`: usage has an object of what is ours
  bool return_token_ids = false;         // vLLM: prompt_token_ids and token_ids beside the text
  bool tokens_as_token_ids = false;      // vLLM: log-probabilities name tokens "token_id:17"
  std::optional<int> prompt_logprobs{};  // vLLM's field, as asked for

  // All but prompt, prompt_pieces, max_tokens and bad words. prompt_logprobs is set where echo
  // needs it, too.
  Request request{};
  std::string request_id{};  // vLLM's field; empty = absent

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
