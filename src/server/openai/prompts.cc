#include "server/openai/prompts.h"

#include <algorithm>

#include "engine/chat.h"

namespace quire {
namespace {

int MaxTokensOf(const OpenAiRequest& body, std::optional<int> default_max_tokens) {
  // The engine's answers have a token at least; one that was not asked for is not shown.
  if (body.max_tokens) return std::max(*body.max_tokens, 1);
  const bool is_completion = body.endpoint == OpenAiEndpoint::kCompletions;
  const int limit = default_max_tokens.value_or(is_completion ? kDefaultCompletionTokens : -1);
  // A default gives way to what the body says.
  return limit < 0 ? limit : std::max(limit, body.request.min_tokens);
}

Result<std::vector<PromptPiece>> RenderBody(const OpenAiRequest& body, const LoadedModel& model) {
  TemplateInput input;
  input.messages = body.messages;
  input.tools = body.tools;
  input.extra = body.template_arguments;
  input.add_generation_prompt = body.add_generation_prompt;
  return RenderChat(model, std::move(input));
}

// Of ids that were encoded from a text that begins so.
int NumAdded(const Tokenizer& tokenizer, std::span<const int32_t> ids, std::string_view text) {
  const bool begins_with_bos = tokenizer.bos() >= 0 && !ids.empty() && ids[0] == tokenizer.bos();
  return begins_with_bos && !text.starts_with(tokenizer.TokenText(tokenizer.bos())) ? 1 : 0;
}

ApiError NoTemplate(const Error& error) {
  ApiError result = ApiErrorOf(error, "messages");
  if (error.code == ErrorCode::kNotFound) {
    result = {.message = error.message + "; /v1/completions takes a prompt as it is",
              .param = "messages",
              .code = "no_chat_template"};
  } else if (error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kResourceExhausted) {
    // The template does not fit these messages, or would take too long over them.
    result = {.message = error.message, .param = "messages", .code = "invalid_messages"};
  }
  return result;
}

}  // namespace

std::string_view PromptFieldOf(const OpenAiRequest& body) {
  return body.endpoint == OpenAiEndpoint::kChatCompletions ? "messages" : "prompt";
}

std::variant<std::vector<EngineRequest>, ApiError> EngineRequestsOf(
    const OpenAiRequest& body, Engine& engine, std::optional<int> default_max_tokens) {
  const Tokenizer& tokenizer = engine.model().tokenizer();
  std::vector<EngineRequest> requests;
  const auto add = [&](std::vector<PromptPiece> pieces, std::vector<int32_t> ids) {
    EngineRequest& added = requests.emplace_back(EngineRequest{.request = body.request});
    Request& request = added.request;
    request.max_tokens = MaxTokensOf(body, default_max_tokens);
    if (!pieces.empty()) {
      ids = engine.EncodePrompt(pieces, request.cache_salt);
      added.num_added = NumAdded(tokenizer, ids, pieces.front().text);
    }
    request.prompt = std::move(ids);
    request.prompt_pieces = std::move(pieces);
    return !request.prompt.empty();
  };
  bool all_hold_tokens = true;
  if (body.endpoint == OpenAiEndpoint::kChatCompletions) {
    auto pieces = RenderBody(body, engine.model());
    if (!pieces.ok()) return NoTemplate(pieces.error());
    all_hold_tokens = add(std::move(pieces).value(), {});
  }
  for (const OpenAiPrompt& prompt : body.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      // A text that is empty is a prompt where the model has a token to begin with.
      std::vector<PromptPiece> pieces = {{*text, /*from_template=*/true}};
      all_hold_tokens = add(std::move(pieces), {}) && all_hold_tokens;
    } else {
      add({}, std::get<std::vector<int32_t>>(prompt));
    }
  }
  if (all_hold_tokens) return requests;
  return ApiError{.message = fmt::format("{} must not be empty: this model has no token that a "
                                         "text begins with",
                                         PromptFieldOf(body)),
                  .param = std::string(PromptFieldOf(body)),
                  .code = "invalid_value"};
}

}  // namespace quire
