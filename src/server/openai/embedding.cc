#include "server/openai/embedding.h"

#include <bit>
#include <cstring>

#include "base/base64.h"
#include "base/utf8.h"
#include "engine/loaded_model.h"
#include "formats/printable.h"
#include "server/openai/fields.h"
#include "server/openai/json_writer.h"

namespace quire {
namespace {

std::string Base64Of(std::span<const float> values) {
  std::vector<uint8_t> bytes;
  bytes.reserve(values.size() * sizeof(float));
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  return Base64(bytes);
}

// One of two words; the second says whether it is the other.
std::optional<bool> ReadChoice(BodyReader& reader, std::string_view name, std::string_view usual,
                               std::string_view other) {
  const auto word = reader.String(name);
  if (!word) return std::nullopt;
  if (*word != usual && *word != other) {
    reader.Fail(name,
                fmt::format("must be '{}' or '{}', got '{}'", usual, other, Printable(*word, 40)));
  }
  return *word == other;
}

}  // namespace

std::variant<EmbeddingRequest, ApiError> ParseEmbeddingRequest(std::string_view text,
                                                               const OpenAiLimits& limits) {
  const auto object = ObjectOf(text, limits);
  if (const auto* error = std::get_if<ApiError>(&object)) return *error;
  BodyReader reader(std::get<jinja::Value>(object).AsDict());
  EmbeddingRequest body;
  body.model = reader.String("model").value_or("");
  ReadPrompts(reader, "input", limits, body.inputs);
  body.as_base64 = ReadChoice(reader, "encoding_format", "float", "base64").value_or(false);
  if (ReadChoice(reader, "pooling", "mean", "last").value_or(false)) body.pooling = Pooling::kLast;
  body.dimensions = reader.Int("dimensions", 1, INT32_MAX);
  OpenAiRequest shape;
  ReadPromptShape(reader, shape);
  body.truncate_prompt_tokens = shape.truncate_prompt_tokens;
  body.add_special_tokens = shape.add_special_tokens.value_or(true);
  ReadQueueing(reader, body.cache_salt, body.priority);
  for (const std::string_view name : {"user", "metadata", "request_id"}) reader.Find(name);
  if (reader.error()) return *reader.error();
  body.ignored = reader.UnknownMembers();
  return body;
}

std::variant<std::vector<EngineRequest>, ApiError> EngineRequestsOf(const EmbeddingRequest& body,
                                                                    const PromptSource& source) {
  const int64_t length = source.model.config().d_model;
  if (body.dimensions && *body.dimensions != length) {
    return ApiError{.message = fmt::format("dimensions must be {}, the length of this model's "
                                           "embeddings, got {}: they cannot be cut",
                                           length, *body.dimensions),
                    .param = "dimensions",
                    .code = "unsupported_value"};
  }
  OpenAiRequest completion{.endpoint = OpenAiEndpoint::kCompletions};
  completion.prompts = body.inputs;
  completion.max_tokens = 1;
  completion.add_special_tokens = body.add_special_tokens;
  completion.truncate_prompt_tokens = body.truncate_prompt_tokens;
  completion.request.embedding = body.pooling;
  completion.request.cache_salt = body.cache_salt;
  completion.request.priority = body.priority;
  auto requests = EngineRequestsOf(completion, source);
  if (auto* error = std::get_if<ApiError>(&requests);
      error != nullptr && error->param == "prompt") {
    error->param = "input";
    error->message = "input" + error->message.substr(std::string_view("prompt").size());
  }
  return requests;
}

std::string EmbeddingBody(const EmbeddingRequest& body, std::span<const RequestResult> results,
                          const ResponseHead& head) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("id");
  json.String(head.id);
  json.Key("object");
  json.String("list");
  json.Key("created");
  json.Int(head.created);
  json.Key("model");
  json.String(RepairUtf8(head.model));
  json.Key("data");
  json.BeginArray();
  int64_t num_tokens = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    num_tokens += results[i].prompt_tokens;
    json.BeginObject();
    json.Key("index");
    json.Int(static_cast<int64_t>(i));
    json.Key("object");
    json.String("embedding");
    json.Key("embedding");
    if (body.as_base64) {
      json.String(Base64Of(results[i].embedding));
    } else {
      json.BeginArray();
      for (const float value : results[i].embedding) json.Float(value);
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray();
  json.Key("usage");
  json.BeginObject();
  json.Key("prompt_tokens");
  json.Int(num_tokens);
  json.Key("total_tokens");
  json.Int(num_tokens);
  json.EndObject();
  json.EndObject();
  return out;
}

}  // namespace quire
