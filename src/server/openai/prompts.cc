#include "server/openai/prompts.h"

#include <algorithm>
#include <array>

#include "engine/chat.h"

namespace quire {
namespace {

using Refusal = std::optional<ApiError>;

int MaxTokensOf(const OpenAiRequest& body, std::optional<int> default_max_tokens) {
  // The engine's answers have a token at least; one that was not asked for is not shown.
  if (body.max_tokens) return std::max(*body.max_tokens, 1);
  const bool is_completion = body.endpoint == OpenAiEndpoint::kCompletions;
  const int limit = default_max_tokens.value_or(is_completion ? kDefaultCompletionTokens : -1);
  // A default gives way to what the body says.
  return limit < 0 ? limit : std::max(limit, body.request.min_tokens);
}

Result<std::vector<PromptPiece>> RenderMessages(const OpenAiRequest& body,
                                                const LoadedModel& model) {
  TemplateInput input;
  input.messages = body.messages;
  input.tools = body.tools;
  input.documents = body.documents;
  input.extra = body.template_arguments;
  input.add_generation_prompt = body.add_generation_prompt;
  return body.continue_final_message ? RenderUnfinishedChat(model, std::move(input))
                                     : RenderChat(model, std::move(input));
}

// Of ids that were encoded from a text that begins so.
int NumAdded(const Tokenizer& tokenizer, std::span<const int32_t> ids, std::string_view text) {
  const bool begins_with_bos = tokenizer.bos() >= 0 && !ids.empty() && ids[0] == tokenizer.bos();
  return begins_with_bos && !text.starts_with(tokenizer.TokenText(tokenizer.bos())) ? 1 : 0;
}

ApiError NotRendered(const LoadedModel& model, const Error& error) {
  // No template, or one that nobody could use.
  if (!model.chat_template().ok()) {
    return {.message = error.message + "; /v1/completions takes a prompt as it is",
            .param = "messages",
            .code = "no_chat_template"};
  }
  ApiError result = ApiErrorOf(error, "messages");
  if (error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kResourceExhausted) {
    // The template does not fit these messages, or would take too long over them.
    result = {.message = error.message, .param = "messages", .code = "invalid_messages"};
  }
  return result;
}

// The tokens around a text that is to be filled in: in front of what precedes it, in front of what
// follows it, and where the model goes on.
struct FillTokens {
  std::array<int32_t, 3> ids = {-1, -1, -1};

  bool complete() const {
    return std::ranges::none_of(ids, [](int32_t id) { return id < 0; });
  }
};

FillTokens FillTokensOf(const LoadedModel& model) {
  struct Part {
    std::string_view keys[2];
    std::string_view spellings[3];
  };
  static constexpr Part kParts[] = {
      {{"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
       {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>"}},
      {{"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
       {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>"}},
      {{"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
       {"<|fim_middle|>", "<fim_middle>", "<fim-middle>"}}};
  const Tokenizer& tokenizer = model.tokenizer();
  FillTokens tokens;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    int32_t& id = tokens.ids[i];
    for (const std::string_view key : kParts[i].keys) {
      const auto value = model.file().GetUint(key);
      const bool is_token = value.ok() && *value < static_cast<uint64_t>(tokenizer.num_tokens());
      if (id < 0 && is_token) id = static_cast<int32_t>(*value);
    }
    for (const std::string_view spelling : kParts[i].spellings) {
      if (id < 0) id = tokenizer.FindToken(spelling);
    }
  }
  return tokens;
}

// vLLM's reading of a bad word: at the beginning of a text, and behind a space where that is a
// token of its own kind.
void AddBadWord(const Tokenizer& tokenizer, const std::string& word,
                std::vector<std::vector<int32_t>>& sequences) {
  const size_t begin = std::min(word.find_first_not_of(" \t\n\r"), word.size());
  const std::string bare = word.substr(begin);
  const EncodeOptions options = {.add_special = false, .parse_special = true};
  std::vector<int32_t> plain = tokenizer.Encode(bare, options);
  std::vector<int32_t> spaced = tokenizer.Encode(" " + bare, options);
  const bool differs = !plain.empty() && spaced.size() == plain.size() && spaced[0] != plain[0];
  if (!plain.empty()) sequences.push_back(std::move(plain));
  if (differs) sequences.push_back(std::move(spaced));
}

class RequestBuilder {
 public:
  RequestBuilder(const OpenAiRequest& body, const PromptSource& source,
                 std::optional<int> default_max_tokens)
      : body_(body), source_(source), tokenizer_(source.model.tokenizer()), base_(body.request) {
    base_.max_tokens = MaxTokensOf(body, default_max_tokens);
    for (const std::string& word : body.bad_words) {
      AddBadWord(tokenizer_, word, base_.sampling.bad_words);
    }
  }

  std::variant<std::vector<EngineRequest>, ApiError> Build() {
    Refusal refusal = body_.endpoint == OpenAiEndpoint::kChatCompletions ? AddChat() : AddPrompts();
    if (refusal) return *std::move(refusal);
    return std::move(requests_);
  }

 private:
  Refusal AddChat() {
    auto pieces = RenderMessages(body_, source_.model);
    if (!pieces.ok()) return NotRendered(source_.model, pieces.error());
    return AddText(std::move(pieces).value());
  }

  Refusal AddPrompts() {
    FillTokens fill;
    if (body_.suffix) {
      fill = FillTokensOf(source_.model);
      if (!fill.complete()) {
        return ApiError{.message =
                            "suffix is not supported: this model has no tokens for a text "
                            "to be filled in",
                        .param = "suffix",
                        .code = "unsupported_parameter"};
      }
    }
    for (const OpenAiPrompt& prompt : body_.prompts) {
      const auto* text = std::get_if<std::string>(&prompt);
      Refusal refusal = body_.suffix      ? AddFilled(prompt, fill)
                        : text != nullptr ? AddText({{*text, /*from_template=*/true}})
                                          : AddIds(std::get<std::vector<int32_t>>(prompt), "");
      if (refusal) return refusal;
    }
    return std::nullopt;
  }

  Refusal AddFilled(const OpenAiPrompt& prompt, const FillTokens& fill) {
    const auto name = [&](size_t part) {
      return std::string(tokenizer_.TokenText(fill.ids[part]));
    };
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      return AddText({{name(0) + *text + name(1) + *body_.suffix + name(2), true}});
    }
    const auto& before = std::get<std::vector<int32_t>>(prompt);
    const std::vector<int32_t> after =
        tokenizer_.Encode(*body_.suffix, {.add_special = false, .parse_special = true});
    std::vector<int32_t> ids = {fill.ids[0]};
    ids.insert(ids.end(), before.begin(), before.end());
    ids.push_back(fill.ids[1]);
    ids.insert(ids.end(), after.begin(), after.end());
    ids.push_back(fill.ids[2]);
    return AddIds(std::move(ids), "");
  }

  Refusal AddText(std::vector<PromptPiece> pieces) {
    std::string text;
    for (const PromptPiece& piece : pieces) text += piece.text;
    const bool adds_special = body_.add_special_tokens.value_or(true);
    std::vector<int32_t> ids = adds_special ? source_.encode(pieces, base_.cache_salt)
                                            : tokenizer_.EncodePieces(pieces, false);
    const int num_added = NumAdded(tokenizer_, ids, text);
    if (Refusal refusal = AddIds(std::move(ids), std::move(text))) return refusal;
    EngineRequest& added = requests_.back();
    added.num_added = std::max(0, num_added - num_cut_);
    // What is remembered of an answer belongs to the ids that its whole text has by itself.
    if (adds_special && num_cut_ == 0) added.request.prompt_pieces = std::move(pieces);
    return std::nullopt;
  }

  Refusal AddIds(std::vector<int32_t> ids, std::string text) {
    if (Refusal refusal = Truncate(ids)) return refusal;
    if (ids.empty()) {
      // A text that is empty is a prompt where the model has a token to begin with.
      return ApiError{.message = fmt::format("{} must not be empty: this model has no token that a "
                                             "text begins with",
                                             PromptFieldOf(body_)),
                      .param = std::string(PromptFieldOf(body_)),
                      .code = "invalid_value"};
    }
    requests_.push_back({.request = base_, .text = std::move(text)});
    requests_.back().request.prompt = std::move(ids);
    return std::nullopt;
  }

  Refusal Truncate(std::vector<int32_t>& ids) {
    num_cut_ = 0;
    if (!body_.truncate_prompt_tokens) return std::nullopt;
    int kept = *body_.truncate_prompt_tokens;
    if (kept > source_.context_length) {
      return ApiError{.message = fmt::format("truncate_prompt_tokens must be -1 or from 1 to the "
                                             "context, which has {} tokens, got {}",
                                             source_.context_length, kept),
                      .param = "truncate_prompt_tokens",
                      .code = "invalid_value"};
    }
    // As much as leaves room for what is asked for.
    const int answer = std::clamp(base_.max_tokens, 1, std::max(1, source_.context_length - 1));
    if (kept < 0) kept = std::max(1, source_.context_length - answer);
    num_cut_ = std::max(0, static_cast<int>(ids.size()) - kept);
    ids.erase(ids.begin(), ids.begin() + num_cut_);
    return std::nullopt;
  }

  const OpenAiRequest& body_;
  const PromptSource& source_;
  const Tokenizer& tokenizer_;
  Request base_;     // what all have in common
  int num_cut_ = 0;  // tokens of the last prompt
  std::vector<EngineRequest> requests_;
};

}  // namespace

std::string_view PromptFieldOf(const OpenAiRequest& body) {
  return body.endpoint == OpenAiEndpoint::kChatCompletions ? "messages" : "prompt";
}

std::variant<std::vector<EngineRequest>, ApiError> EngineRequestsOf(
    const OpenAiRequest& body, const PromptSource& source, std::optional<int> default_max_tokens) {
  return RequestBuilder(body, source, default_max_tokens).Build();
}

}  // namespace quire
