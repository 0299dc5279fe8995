// Any bytes as bodies: an error in the API's form, or a request whose parameters the sampler
// accepts. Any text as an answer that may hold calls of tools: the same however it is cut.
//
// The first byte selects: e, t and d are bodies of /v1/embeddings, /tokenize and /detokenize, h and
// j answers in the two dialects; all else is, with that byte, the body of a chat and a completion.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/openai/embedding.h"
#include "server/openai/request.h"
#include "server/openai/tokenize.h"
#include "server/openai/tool_calls.h"

namespace {

constexpr quire::OpenAiLimits kLimits = {.max_body_bytes = 1 << 16, .vocab_size = 1000};

void CheckError(const quire::ApiError& error) {
  QUIRE_CHECK(error.status >= 400 && error.status < 500, "status {}", error.status);
  QUIRE_CHECK(!error.message.empty() && !quire::ToJson(error).empty());
}

void CheckIds(const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) QUIRE_CHECK(id >= 0 && id < kLimits.vocab_size, "token {}", id);
}

void ParseAs(quire::OpenAiEndpoint endpoint, std::string_view text) {
  const auto parsed = quire::ParseOpenAiRequest(endpoint, text, kLimits);
  if (const auto* error = std::get_if<quire::ApiError>(&parsed)) return CheckError(*error);
  const auto& body = std::get<quire::OpenAiRequest>(parsed);
  const quire::Request& request = body.request;
  const auto valid = request.sampling.Validate(kLimits.vocab_size);
  QUIRE_CHECK(valid.ok(), "{}", valid.error().message);
  QUIRE_CHECK(request.num_choices >= 1 && request.num_choices <= kLimits.max_choices);
  QUIRE_CHECK(request.stops.size() <= static_cast<size_t>(kLimits.max_stops));
  QUIRE_CHECK(request.min_tokens >= 0 && body.max_tokens.value_or(1) >= 0);
  CheckIds(request.sampling.allowed_token_ids);
  QUIRE_CHECK(body.bad_words.size() <= kLimits.max_bad_words);
  QUIRE_CHECK(body.truncate_prompt_tokens.value_or(1) != 0);
  QUIRE_CHECK(body.messages.IsList());
  const bool is_chat = endpoint == quire::OpenAiEndpoint::kChatCompletions;
  QUIRE_CHECK(is_chat == body.prompts.empty());
  for (const quire::OpenAiPrompt& prompt : body.prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    if (ids == nullptr) continue;
    QUIRE_CHECK(!ids->empty());
    CheckIds(*ids);
  }
}

void ParseEmbedding(std::string_view text) {
  const auto parsed = quire::ParseEmbeddingRequest(text, kLimits);
  if (const auto* error = std::get_if<quire::ApiError>(&parsed)) return CheckError(*error);
  QUIRE_CHECK(!std::get<quire::EmbeddingRequest>(parsed).inputs.empty());
}

void ParseTokenize(std::string_view text) {
  const auto parsed = quire::ParseTokenizeRequest(text, kLimits);
  if (const auto* error = std::get_if<quire::ApiError>(&parsed)) return CheckError(*error);
  const quire::OpenAiRequest& body = std::get<quire::TokenizeRequest>(parsed).body;
  QUIRE_CHECK(body.prompts.size() == 1 || !body.messages.AsSequence().items.empty());
}

void ParseDetokenize(std::string_view text) {
  const auto parsed = quire::ParseDetokenizeRequest(text, kLimits);
  if (const auto* error = std::get_if<quire::ApiError>(&parsed)) return CheckError(*error);
  CheckIds(std::get<quire::DetokenizeRequest>(parsed).tokens);
}

// What an answer says and calls, in pieces of so many bytes.
std::string Told(quire::ToolDialect dialect, std::string_view text, size_t piece) {
  quire::ToolCallParser parser({.dialect = dialect, .names = {"add"}});
  std::string told;
  bool in_text = false;
  const auto take = [&](const std::vector<quire::ToolDelta>& deltas) {
    for (const quire::ToolDelta& delta : deltas) {
      const bool is_text = delta.kind == quire::ToolDelta::Kind::kText;
      QUIRE_CHECK(!(is_text ? delta.text : delta.name).empty());
      if (!is_text || !in_text) told += is_text ? "\ntext " : "\ncall ";
      told += is_text ? delta.text : delta.name + ' ' + delta.arguments;
      in_text = is_text;
    }
  };
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    take(parser.Push(text.substr(0, piece)));
  }
  take(parser.Finish());
  return told;
}

void ReadAnswer(quire::ToolDialect dialect, std::string_view text) {
  const std::string whole = Told(dialect, text, text.size() + 1);
  for (const size_t piece : {1, 3, 7}) QUIRE_CHECK(Told(dialect, text, piece) == whole);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view rest = text.substr(std::min<size_t>(1, size));
  switch (text.empty() ? '\0' : text[0]) {
    case 'e':
      ParseEmbedding(rest);
      break;
    case 't':
      ParseTokenize(rest);
      break;
    case 'd':
      ParseDetokenize(rest);
      break;
    case 'h':
      ReadAnswer(quire::ToolDialect::kHermes, rest);
      break;
    case 'j':
      ReadAnswer(quire::ToolDialect::kJson, rest);
      break;
    default:
      ParseAs(quire::OpenAiEndpoint::kChatCompletions, text);
      ParseAs(quire::OpenAiEndpoint::kCompletions, text);
  }
  return 0;
}
