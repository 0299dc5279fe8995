#include "server/openai/tokenize.h"

#include <algorithm>

#include "base/utf8.h"
#include "engine/loaded_model.h"
#include "server/openai/fields.h"
#include "server/openai/json_writer.h"

namespace quire {

std::variant<TokenizeRequest, ApiError> ParseTokenizeRequest(std::string_view text,
                                                             const OpenAiLimits& limits) {
  const auto object = ObjectOf(text, limits);
  if (const auto* error = std::get_if<ApiError>(&object)) return *error;
  const jinja::Dict& members = std::get<jinja::Value>(object).AsDict();
  BodyReader reader(members);
  TokenizeRequest request;
  OpenAiRequest& body = request.body;
  body.model = reader.String("model").value_or("");
  const jinja::Value* prompt = reader.Find("prompt");
  if (reader.Find("messages") != nullptr) {
    if (prompt != nullptr) reader.Fail("prompt", "and messages cannot both be given");
    ReadChat(reader, limits, body);
    // Only what the prompt is made of; vLLM's default is to ask for an answer here, too.
    body.chat_echo.clear();
  } else if (prompt == nullptr) {
    reader.Fail("prompt", "or messages must be given", "missing_required_parameter");
  } else {
    body.endpoint = OpenAiEndpoint::kCompletions;
    body.prompts.emplace_back(reader.String("prompt").value_or(""));
  }
  ReadPromptShape(reader, body);
  Assign(request.return_token_strs, reader.Bool("return_token_strs"));
  if (reader.error()) return *reader.error();
  body.ignored = reader.UnknownMembers();
  return request;
}

std::variant<std::string, ApiError> TokenizeBody(const TokenizeRequest& request,
                                                 const PromptSource& source) {
  std::vector<int32_t> tokens;
  const bool is_empty =
      !request.body.prompts.empty() && std::get<std::string>(request.body.prompts[0]).empty();
  auto prompts = EngineRequestsOf(request.body, source);
  if (auto* error = std::get_if<ApiError>(&prompts)) {
    // An empty text is no prompt, but it has its tokens: none.
    if (!is_empty) return std::move(*error);
  } else {
    tokens = std::move(std::get<std::vector<EngineRequest>>(prompts).front().request.prompt);
  }
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("count");
  json.Int(static_cast<int64_t>(tokens.size()));
  json.Key("max_model_len");
  json.Int(source.context_length);
  json.Key("tokens");
  json.Ids(tokens);
  json.Key("token_strs");
  if (request.return_token_strs) {
    json.BeginArray();
    for (const int32_t token : tokens) {
      json.String(RepairUtf8(source.model.tokenizer().TokenText(token)));
    }
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  return out;
}

std::variant<DetokenizeRequest, ApiError> ParseDetokenizeRequest(std::string_view text,
                                                                 const OpenAiLimits& limits) {
  const auto object = ObjectOf(text, limits);
  if (const auto* error = std::get_if<ApiError>(&object)) return *error;
  BodyReader reader(std::get<jinja::Value>(object).AsDict());
  DetokenizeRequest request;
  request.model = reader.String("model").value_or("");
  const auto* tokens = reader.List("tokens");
  if (tokens == nullptr) {
    reader.Fail("tokens", "is missing", "missing_required_parameter");
  } else if (const auto fault = ReadTokenIds(*tokens, limits.vocab_size, request.tokens)) {
    reader.Fail("tokens", *fault);
  }
  if (reader.error()) return *reader.error();
  request.ignored = reader.UnknownMembers();
  return request;
}

std::string DetokenizeBody(const DetokenizeRequest& request, const Tokenizer& tokenizer) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("prompt");
  json.String(RepairUtf8(tokenizer.Decode(request.tokens, /*with_control=*/true)));
  json.EndObject();
  return out;
}

}  // namespace quire
