#include "server/openai/request.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "formats/printable.h"
#include "server/openai/body_reader.h"
#include "text/chat_template/json_text.h"
#include "text/chat_template/messages.h"

namespace quire {
namespace {

using jinja::Value;

// Accepted, and without meaning here: who asks, what for, and hints to other servers.
constexpr std::string_view kWithoutMeaning[] = {
    "user",         "metadata",           "store",     "service_tier", "safety_identifier",
    "request_id",   "prompt_cache_key",   "verbosity", "detokenize",   "prediction",
    "cache_prompt", "parallel_tool_calls"};

// Would change the answer, and Quire does not do it.
constexpr std::string_view kNotSupported[] = {"suffix",
                                              "functions",
                                              "function_call",
                                              "audio",
                                              "web_search_options",
                                              "reasoning_effort",
                                              "guided_json",
                                              "guided_regex",
                                              "guided_choice",
                                              "guided_grammar",
                                              "structured_outputs",
                                              "logits_processors",
                                              "allowed_token_ids",
                                              "bad_words",
                                              "truncate_prompt_tokens",
                                              "chat_template",
                                              "documents",
                                              "mm_processor_kwargs"};

// Supported with one value alone, which is the default.
struct OnlyValue {
  std::string_view name;
  bool value;
};
constexpr OnlyValue kOnlyValues[] = {{"skip_special_tokens", true},
                                     {"spaces_between_special_tokens", true},
                                     {"add_special_tokens", true},
                                     {"continue_final_message", false}};

constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                       "tool",   "function",  "ipython", "model"};

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

// The first token id of a list that is not one, as an error message, or nothing.
std::optional<std::string> ReadTokenIds(const std::vector<Value>& items, int vocab_size,
                                        std::vector<int32_t>& ids) {
  const int64_t highest = vocab_size > 0 ? vocab_size - 1 : std::numeric_limits<int32_t>::max();
  ids.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const auto id = WholeNumber(items[i]);
    if (!id || *id < 0 || *id > highest) {
      return fmt::format("must hold token ids from 0 to {}, but element {} is {}", highest, i,
                         DescribeJson(items[i]));
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return std::nullopt;
}

// Writes into a field where the body has the member.
template <typename Field, typename Read>
void Assign(Field& field, const std::optional<Read>& value) {
  if (value) field = static_cast<Field>(*value);
}

void ReadSampling(BodyReader& reader, const OpenAiLimits& limits, SamplingParameters& sampling) {
  Assign(sampling.temperature, reader.Number("temperature", 0, 2));
  Assign(sampling.top_p, reader.Number("top_p", 0, 1));
  Assign(sampling.top_k, reader.Int("top_k", -1, kMaxInt));
  Assign(sampling.min_p, reader.Number("min_p", 0, 1));
  // 0.01 as a float is what Validate accepts.
  Assign(sampling.repetition_penalty, reader.Number("repetition_penalty", 0.01, 100));
  Assign(sampling.presence_penalty, reader.Number("presence_penalty", -2, 2));
  Assign(sampling.frequency_penalty, reader.Number("frequency_penalty", -2, 2));
  if (const auto seed = reader.Int("seed", INT64_MIN, INT64_MAX)) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  const jinja::Dict* biases = reader.Object("logit_bias");
  if (biases == nullptr) return;
  const int64_t highest = limits.vocab_size > 0 ? limits.vocab_size - 1 : kMaxInt;
  for (const auto& [key, value] : biases->entries()) {
    const std::string& text = key.Text();
    int64_t token = -1;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, token);
    if (parsed.ec != std::errc() || parsed.ptr != end || token < 0 || token > highest) {
      return reader.Fail("logit_bias", fmt::format("must have token ids from 0 to {} as keys, "
                                                   "got '{}'",
                                                   highest, Printable(text, 40)));
    }
    const bool is_number = value.IsInt() || value.IsFloat();
    const double bias = is_number ? value.NumberAsFloat() : 0;
    if (!is_number || !(bias >= -100 && bias <= 100)) {
      return reader.Fail("logit_bias", fmt::format("of token {} must be a number from -100 to 100, "
                                                   "got {}",
                                                   token, DescribeJson(value)));
    }
    sampling.logit_bias[static_cast<int32_t>(token)] = static_cast<float>(bias);
  }
}

void ReadStops(BodyReader& reader, const OpenAiLimits& limits, Request& request) {
  const Value* stop = reader.Find("stop");
  if (stop != nullptr) {
    if (stop->IsString()) {
      request.stops.push_back(stop->Text());
    } else if (!stop->IsList()) {
      return reader.Fail(
          "stop",
          fmt::format("must be a string or an array of strings, got {}", DescribeJson(*stop)),
          "invalid_type");
    } else {
      const auto& items = stop->AsSequence().items;
      if (items.size() > static_cast<size_t>(limits.max_stops)) {
        return reader.Fail("stop", fmt::format("may hold {} strings at most, got {}",
                                               limits.max_stops, items.size()));
      }
      for (const Value& item : items) {
        if (!item.IsString()) {
          return reader.Fail("stop", "must hold strings alone, got " + DescribeJson(item),
                             "invalid_type");
        }
        request.stops.push_back(item.Text());
      }
    }
    if (std::ranges::find(request.stops, "") != request.stops.end()) {
      return reader.Fail("stop", "must not hold an empty string");
    }
  }
  Assign(request.include_stop, reader.Bool("include_stop_str_in_output"));
  Assign(request.ignore_end_of_text, reader.Bool("ignore_eos"));
  const auto* ids = reader.List("stop_token_ids");
  if (ids == nullptr) return;
  if (ids->size() > static_cast<size_t>(limits.max_stop_token_ids)) {
    return reader.Fail("stop_token_ids", fmt::format("may hold {} ids at most, got {}",
                                                     limits.max_stop_token_ids, ids->size()));
  }
  const auto fault = ReadTokenIds(*ids, limits.vocab_size, request.stop_token_ids);
  if (fault) reader.Fail("stop_token_ids", *fault);
}

void ReadLengths(BodyReader& reader, OpenAiRequest& body) {
  // With echo, no new token at all is an answer: the prompt's log-probabilities.
  const int lowest = body.echo ? 0 : 1;
  const auto read = [&](std::string_view name) {
    const auto limit = reader.Int(name, lowest, INT64_MAX);
    if (limit) body.max_tokens = static_cast<int>(std::min(*limit, kMaxInt));
  };
  read("max_tokens");
  // The newer name wins.
  read("max_completion_tokens");
  Assign(body.request.min_tokens, reader.Int("min_tokens", 0, kMaxInt));
  if (body.max_tokens && body.request.min_tokens > *body.max_tokens) {
    reader.Fail("min_tokens", fmt::format("must be at most max_tokens, which is {}, got {}",
                                          *body.max_tokens, body.request.min_tokens));
  }
}

void ReadChoices(BodyReader& reader, const OpenAiLimits& limits, Request& request) {
  Assign(request.num_choices, reader.Int("n", 1, limits.max_choices));
  const auto best_of = reader.Int("best_of", 1, kMaxInt);
  if (best_of && *best_of != request.num_choices) {
    reader.Fail("best_of", fmt::format("must equal n, which is {}, got {}: choosing the best of "
                                       "more answers is not supported",
                                       request.num_choices, *best_of));
  }
  constexpr int kMaxBeams = kMaxLogProbs / 2;
  const bool uses_beams = reader.Bool("use_beam_search").value_or(false);
  const auto width = reader.Int("beam_width", 1, kMaxBeams);
  Assign(request.beams.length_penalty, reader.Number("length_penalty", -10, 10));
  Assign(request.beams.early_stopping, reader.Bool("early_stopping"));
  if (!uses_beams) return;
  if (!request.stops.empty()) {
    return reader.Fail("stop", "is not supported with beam search; stop_token_ids are",
                       "unsupported_parameter");
  }
  request.beams.width = static_cast<int>(width.value_or(request.num_choices));
  if (request.beams.width < request.num_choices || request.beams.width > kMaxBeams) {
    reader.Fail(width ? "beam_width" : "n",
                fmt::format("must be from {} to {} with beam search, got {}",
                            width ? request.num_choices : 1, kMaxBeams, request.beams.width));
  }
}

void ReadLogProbs(BodyReader& reader, OpenAiRequest& body) {
  std::optional<int>& logprobs = body.request.sampling.logprobs;
  if (body.endpoint == OpenAiEndpoint::kCompletions) {
    Assign(logprobs, reader.Int("logprobs", 0, kMaxLogProbs));
  } else {
    const bool wanted = reader.Bool("logprobs").value_or(false);
    const auto top = reader.Int("top_logprobs", 0, kMaxLogProbs);
    if (wanted) logprobs = static_cast<int>(top.value_or(0));
    if (!wanted && top.value_or(0) > 0) {
      reader.Fail("top_logprobs", "needs logprobs to be true");
    }
  }
  Assign(body.prompt_logprobs, reader.Int("prompt_logprobs", 0, kMaxLogProbs));
  body.request.prompt_logprobs = body.prompt_logprobs;
  if (body.echo && logprobs) {
    body.request.prompt_logprobs = std::max(*logprobs, body.prompt_logprobs.value_or(0));
  }
  Assign(body.return_token_ids, reader.Bool("return_token_ids"));
  Assign(body.tokens_as_token_ids, reader.Bool("return_tokens_as_token_ids"));
}

void ReadStream(BodyReader& reader, OpenAiRequest& body) {
  Assign(body.stream, reader.Bool("stream"));
  const jinja::Dict* options = reader.Object("stream_options");
  if (options == nullptr) return;
  if (!body.stream) return reader.Fail("stream_options", "needs stream to be true");
  BodyReader option_reader(*options);
  Assign(body.include_usage, option_reader.Bool("include_usage"));
  if (option_reader.error()) reader.Fail("stream_options", option_reader.error()->message);
}

void ReadResponseFormat(BodyReader& reader) {
  const jinja::Dict* format = reader.Object("response_format");
  if (format == nullptr) return;
  const Value* type = format->Find("type");
  if (type == nullptr || !type->IsString()) {
    return reader.Fail("response_format", "must have a type, which is a string");
  }
  if (type->Text() != "text") {
    reader.Fail("response_format",
                fmt::format("of type '{}' is not supported; the only type is 'text'",
                            Printable(type->Text(), 40)),
                "unsupported_value");
  }
}

void ReadTools(BodyReader& reader, OpenAiRequest& body) {
  const auto* tools = reader.List("tools");
  const Value* choice = reader.Find("tool_choice");
  bool offers_tools = true;
  if (choice != nullptr) {
    const bool is_word = choice->IsString();
    if (!is_word || (choice->Text() != "none" && choice->Text() != "auto")) {
      return reader.Fail("tool_choice",
                         fmt::format("must be 'none' or 'auto', got {}: a call cannot be forced",
                                     DescribeJson(*choice)),
                         "unsupported_value");
    }
    offers_tools = choice->Text() == "auto";
  }
  if (tools == nullptr) return;
  for (size_t i = 0; i < tools->size(); ++i) {
    if (!(*tools)[i].IsDict()) {
      return reader.Fail("tools",
                         fmt::format("must hold objects alone, but element {} is {}", i,
                                     DescribeJson((*tools)[i])),
                         "invalid_type");
    }
  }
  // A tool that must not be called is not shown to the model.
  if (offers_tools && !tools->empty()) body.tools = Value::MakeList(*tools);
}

void ReadMessages(BodyReader& reader, OpenAiRequest& body) {
  const auto* messages = reader.List("messages");
  if (reader.error()) return;
  if (messages == nullptr || messages->empty()) {
    return reader.Fail("messages", "must hold at least one message", "missing_required_parameter");
  }
  auto normalized = NormalizeMessages(Value::MakeList(*messages));
  if (!normalized.ok()) {
    return reader.Fail("messages", "are not in OpenAI's form: " + normalized.error().message);
  }
  const auto& items = normalized->AsSequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string& role = items[i].AsDict().Find("role")->Text();
    if (std::ranges::find(kRoles, role) == std::end(kRoles)) {
      return reader.Fail("messages",
                         fmt::format("must have roles such as system, user, assistant or tool, but "
                                     "messages[{}].role is '{}'",
                                     i, Printable(role, 40)));
    }
  }
  body.messages = std::move(normalized).value();
  ReadTools(reader, body);
  Assign(body.add_generation_prompt, reader.Bool("add_generation_prompt"));
  if (const Value* arguments = reader.Find("chat_template_kwargs")) {
    if (!arguments->IsDict()) {
      return reader.Fail("chat_template_kwargs",
                         "must be an object, got " + DescribeJson(*arguments), "invalid_type");
    }
    body.template_arguments = *arguments;
  }
}

// One prompt of an array of prompts.
void ReadPromptItem(BodyReader& reader, const Value& item, const OpenAiLimits& limits,
                    std::vector<OpenAiPrompt>& prompts) {
  if (item.IsString()) {
    prompts.emplace_back(item.Text());
    return;
  }
  if (!item.IsList()) {
    return reader.Fail(
        "prompt",
        "must be a string, token ids, or an array of such; it holds " + DescribeJson(item),
        "invalid_type");
  }
  std::vector<int32_t> ids;
  if (item.AsSequence().items.empty()) return reader.Fail("prompt", "must hold at least one token");
  if (const auto fault = ReadTokenIds(item.AsSequence().items, limits.vocab_size, ids)) {
    return reader.Fail("prompt", *fault);
  }
  prompts.emplace_back(std::move(ids));
}

void ReadPrompts(BodyReader& reader, const OpenAiLimits& limits, OpenAiRequest& body) {
  const Value* prompt = reader.Find("prompt");
  if (reader.error()) return;
  if (prompt == nullptr) {
    return reader.Fail("prompt", "is missing", "missing_required_parameter");
  }
  const bool is_list = prompt->IsList();
  const auto* items = is_list ? &prompt->AsSequence().items : nullptr;
  if (is_list && items->empty()) {
    return reader.Fail("prompt", "must hold at least one prompt or token");
  }
  // An array that begins with a number is one prompt.
  if (!is_list || items->front().IsInt() || items->front().IsFloat()) {
    return ReadPromptItem(reader, *prompt, limits, body.prompts);
  }
  if (items->size() > limits.max_prompts) {
    return reader.Fail("prompt", fmt::format("may hold {} prompts at most, got {}",
                                             limits.max_prompts, items->size()));
  }
  for (const Value& item : *items) {
    ReadPromptItem(reader, item, limits, body.prompts);
    if (reader.error()) return;
  }
}

void RefuseOthers(BodyReader& reader) {
  for (const std::string_view name : kWithoutMeaning) reader.Find(name);
  for (const std::string_view name : kNotSupported) {
    const Value* value = reader.Find(name);
    // Nothing asked for is nothing to refuse: "", [] and {}.
    if (value != nullptr && jinja::IsTrue(*value)) {
      reader.Fail(name, "is not supported", "unsupported_parameter");
    }
  }
  for (const auto& [name, only] : kOnlyValues) {
    const auto value = reader.Bool(name);
    if (value && *value != only) {
      reader.Fail(name, fmt::format("must be {}; no other value is supported", only),
                  "unsupported_value");
    }
  }
}

ApiError NotAnObject(std::string_view got) {
  return {.message = fmt::format("the body must be a JSON object; {}", got),
          .code = "invalid_json"};
}

}  // namespace

std::optional<OpenAiEndpoint> EndpointOf(std::string_view url) {
  if (url == "/v1/chat/completions") return OpenAiEndpoint::kChatCompletions;
  if (url == "/v1/completions") return OpenAiEndpoint::kCompletions;
  return std::nullopt;
}

std::variant<OpenAiRequest, ApiError> ParseOpenAiRequest(OpenAiEndpoint endpoint,
                                                         std::string_view text,
                                                         const OpenAiLimits& limits) {
  if (text.size() > limits.max_body_bytes) {
    return ApiError{.status = 413,
                    .message = fmt::format("the body may have {} bytes at most, this has {}",
                                           limits.max_body_bytes, text.size()),
                    .code = "body_too_large"};
  }
  const auto body = jinja::ValueFromJson(text);
  if (!body.ok()) return NotAnObject(body.error().message);
  return ParseOpenAiRequest(endpoint, *body, limits);
}

std::variant<OpenAiRequest, ApiError> ParseOpenAiRequest(OpenAiEndpoint endpoint,
                                                         const Value& value,
                                                         const OpenAiLimits& limits) {
  if (!value.IsDict()) return NotAnObject("got " + DescribeJson(value));
  BodyReader reader(value.AsDict());
  OpenAiRequest body{.endpoint = endpoint};
  body.model = reader.String("model").value_or("");
  RefuseOthers(reader);
  if (endpoint == OpenAiEndpoint::kChatCompletions) {
    ReadMessages(reader, body);
  } else {
    ReadPrompts(reader, limits, body);
    Assign(body.echo, reader.Bool("echo"));
  }
  ReadSampling(reader, limits, body.request.sampling);
  ReadStops(reader, limits, body.request);
  ReadLengths(reader, body);
  ReadChoices(reader, limits, body.request);
  ReadLogProbs(reader, body);
  ReadStream(reader, body);
  ReadResponseFormat(reader);
  if (auto salt = reader.String("cache_salt")) {
    if (salt->empty()) reader.Fail("cache_salt", "must not be empty");
    body.request.cache_salt = std::move(*salt);
  }
  Assign(body.request.priority, reader.Int("priority", INT32_MIN, INT32_MAX));
  if (reader.error()) return *reader.error();
  body.ignored = reader.UnknownMembers();
  return body;
}

}  // namespace quire
