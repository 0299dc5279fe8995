#include "server/openai/request.h"

#include "formats/printable.h"
#include "server/openai/fields.h"
#include "text/chat_template/json_text.h"

namespace quire {

using jinja::Value;

namespace {

// Accepted, and without meaning here: who asks, what for, and hints to other servers.
constexpr std::string_view kWithoutMeaning[] = {
    "user",         "metadata",         "store",      "service_tier",           "safety_identifier",
    "verbosity",    "detokenize",       "prediction", "prompt_cache_retention", "prompt_cache_key",
    "cache_prompt", "include_reasoning"};

// Would change the answer, and Quire does not do it.
constexpr std::string_view kNotSupported[] = {"functions",
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
                                              "chat_template",
                                              "mm_processor_kwargs",
                                              "prompt_embeds",
                                              "kv_transfer_params",
                                              "grammar",
                                              "json_schema"};

// Supported with one value alone, which is the default.
struct OnlyValue {
  std::string_view name;
  bool value;
};
constexpr OnlyValue kOnlyValues[] = {{"spaces_between_special_tokens", true}};

void ReadStream(BodyReader& reader, OpenAiRequest& body) {
  Assign(body.stream, reader.Bool("stream"));
  if (body.stream && body.prompt_logprobs) {
    reader.Fail("prompt_logprobs", "is not supported with stream: ask for a whole answer",
                "unsupported_parameter");
  }
  const jinja::Dict* options = reader.Object("stream_options");
  if (options == nullptr) return;
  if (!body.stream) return reader.Fail("stream_options", "needs stream to be true");
  BodyReader option_reader(*options);
  Assign(body.include_usage, option_reader.Bool("include_usage"));
  Assign(body.continuous_usage, option_reader.Bool("continuous_usage_stats"));
  // Of no use where nobody listens in between.
  option_reader.Find("include_obfuscation");
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

// Text is the only thing that can come out.
void ReadModalities(BodyReader& reader) {
  const auto* modalities = reader.List("modalities");
  if (modalities == nullptr) return;
  for (const Value& modality : *modalities) {
    if (modality.IsString() && modality.Text() == "text") continue;
    return reader.Fail("modalities", "may hold 'text' alone, got " + DescribeJson(modality),
                       "unsupported_value");
  }
}

// Every prompt becomes a request of its own, with all that the body says of answers.
void CheckRepeated(BodyReader& reader, const OpenAiLimits& limits, const OpenAiRequest& body) {
  if (body.prompts.size() < 2) return;
  const SamplingParameters& sampling = body.request.sampling;
  constexpr size_t kBytesOfBias = 64;  // a node of the map
  size_t bytes = sampling.logit_bias.size() * kBytesOfBias +
                 sampling.allowed_token_ids.size() * sizeof(int32_t);
  for (const std::string& stop : body.request.stops) bytes += stop.size();
  // With and without a space, a token a byte at worst.
  for (const std::string& word : body.bad_words) bytes += word.size() * 2 * sizeof(int32_t);
  if (bytes > limits.max_repeated_bytes / body.prompts.size()) {
    reader.Fail("prompt", fmt::format("holds too many prompts ({}) for so long lists of stop "
                                      "strings, biases, allowed ids and bad words: {} bytes each, "
                                      "{} together are allowed; send fewer prompts a body",
                                      body.prompts.size(), bytes, limits.max_repeated_bytes));
  }
}

ApiError NotAnObject(std::string_view got) {
  return {.message = fmt::format("the body must be a JSON object; {}", got),
          .code = "invalid_json"};
}

}  // namespace

void ReadQueueing(BodyReader& reader, std::string& cache_salt, int& priority) {
  if (auto salt = reader.String("cache_salt")) {
    if (salt->empty()) reader.Fail("cache_salt", "must not be empty");
    cache_salt = std::move(*salt);
  }
  Assign(priority, reader.Int("priority", INT32_MIN, INT32_MAX));
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

std::variant<Value, ApiError> ObjectOf(std::string_view text, const OpenAiLimits& limits) {
  if (text.size() > limits.max_body_bytes) {
    return ApiError{.status = 413,
                    .message = fmt::format("the body may have {} bytes at most, this has {}",
                                           limits.max_body_bytes, text.size()),
                    .code = "body_too_large"};
  }
  auto body = jinja::ValueFromJson(text);
  if (!body.ok()) return NotAnObject(body.error().message);
  if (!body->IsDict()) return NotAnObject("got " + DescribeJson(*body));
  return std::move(body).value();
}

std::optional<OpenAiEndpoint> EndpointOf(std::string_view url) {
  if (url == "/v1/chat/completions") return OpenAiEndpoint::kChatCompletions;
  if (url == "/v1/completions") return OpenAiEndpoint::kCompletions;
  return std::nullopt;
}

std::variant<OpenAiRequest, ApiError> ParseOpenAiRequest(OpenAiEndpoint endpoint,
                                                         std::string_view text,
                                                         const OpenAiLimits& limits) {
  auto body = ObjectOf(text, limits);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  return ParseOpenAiRequest(endpoint, std::get<Value>(body), limits);
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
    ReadChat(reader, limits, body);
  } else {
    ReadPrompts(reader, "prompt", limits, body.prompts);
    Assign(body.echo, reader.Bool("echo"));
    ReadSuffix(reader, body);
  }
  ReadPromptShape(reader, body);
  ReadSampling(reader, limits, body.request.sampling);
  ReadBans(reader, limits, body);
  ReadStops(reader, limits, body.request);
  ReadLengths(reader, body);
  ReadChoices(reader, limits, body.request);
  ReadLogProbs(reader, body);
  ReadStream(reader, body);
  ReadResponseFormat(reader);
  ReadModalities(reader);
  ReadSpeculation(reader, body.request);
  ReadQueueing(reader, body.request.cache_salt, body.request.priority);
  Assign(body.include_quire, reader.Bool("quire"));
  body.request_id = reader.String("request_id").value_or("");
  CheckRepeated(reader, limits, body);
  if (reader.error()) return *reader.error();
  body.ignored = reader.UnknownMembers();
  return body;
}

}  // namespace quire
