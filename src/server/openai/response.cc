#include "server/openai/response.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/utf8.h"
#include "sampling/seed.h"
#include "text/stream_decoder.h"

namespace quire {
namespace {

namespace json = boost::json;

// What the OpenAI API gives for a token that cannot be: JSON has no infinity.
constexpr double kLowestLogProb = -9999.0;

json::value NumberOf(double log_prob) {
  return std::isfinite(log_prob) ? log_prob : kLowestLogProb;
}

json::array IdsOf(std::span<const int32_t> ids) { return json::array(ids.begin(), ids.end()); }

int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

// How tokens are written, in both dialects.
class TokenWriter {
 public:
  TokenWriter(const Tokenizer& tokenizer, bool as_ids) : tokenizer_(tokenizer), as_ids_(as_ids) {}

  std::string Bytes(int32_t token) const {
    return tokenizer_.TokenBytes(token, /*with_control=*/true);
  }
  // Chat: bytes that are no text become U+FFFD; the entry has the bytes beside it.
  std::string ChatText(int32_t token, std::string_view bytes) const {
    return as_ids_ ? fmt::format("token_id:{}", token) : RepairUtf8(bytes);
  }
  // Completions have no bytes beside it, so that the OpenAI API spells them: "bytes:\xe2\x82".
  std::string CompletionText(int32_t token, std::string_view bytes) const {
    if (as_ids_) return fmt::format("token_id:{}", token);
    if (IsWellFormedUtf8(bytes)) return std::string(bytes);
    std::string text = "bytes:";
    for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    return text;
  }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  const Tokenizer& tokenizer_;
  bool as_ids_;
};

// The best `count` tokens, and the chosen one where it is not among them and `with_chosen`.
std::vector<TokenLogProb> TopOf(const LogProbs& entry, int count, bool with_chosen) {
  const size_t best = std::min(entry.top.size(), static_cast<size_t>(count));
  std::vector<TokenLogProb> top(entry.top.begin(),
                                entry.top.begin() + static_cast<ptrdiff_t>(best));
  const auto is_chosen = [&](const TokenLogProb& token) {
    return token.token == entry.chosen.token;
  };
  if (with_chosen && std::ranges::none_of(top, is_chosen)) top.push_back(entry.chosen);
  return top;
}

json::object ChatEntry(const TokenLogProb& token, const TokenWriter& writer) {
  const std::string bytes = writer.Bytes(token.token);
  json::array numbers;
  for (const char byte : bytes) numbers.push_back(static_cast<uint8_t>(byte));
  return {{"token", writer.ChatText(token.token, bytes)},
          {"logprob", NumberOf(token.log_prob)},
          {"bytes", std::move(numbers)}};
}

json::value ChatLogProbs(const Choice& choice, int count, const TokenWriter& writer) {
  json::array content;
  for (const LogProbs& entry : choice.log_probs) {
    json::object written = ChatEntry(entry.chosen, writer);
    json::array top;
    for (const TokenLogProb& token : TopOf(entry, count, /*with_chosen=*/false)) {
      top.push_back(ChatEntry(token, writer));
    }
    written["top_logprobs"] = std::move(top);
    content.push_back(std::move(written));
  }
  return json::object{{"content", std::move(content)}, {"refusal", nullptr}};
}

// The parallel arrays of a completion's log-probabilities.
class CompletionLogProbs {
 public:
  CompletionLogProbs(int count, const TokenWriter& writer) : count_(count), writer_(writer) {}

  // `bytes`: what the token adds to the text, or its spelling; entry: null for a prompt's first.
  void Add(int32_t token, std::string_view bytes, const LogProbs* entry, int64_t offset) {
    const std::string text = writer_.CompletionText(token, bytes);
    tokens_.emplace_back(text);
    offsets_.emplace_back(offset);
    if (entry == nullptr) {
      log_probs_.emplace_back(nullptr);
      top_.emplace_back(nullptr);
      return;
    }
    log_probs_.push_back(NumberOf(entry->chosen.log_prob));
    // The chosen token first: of tokens that are spelled alike, it has the key.
    json::object top = {{text, NumberOf(entry->chosen.log_prob)}};
    for (const TokenLogProb& other : TopOf(*entry, count_, /*with_chosen=*/false)) {
      if (other.token == token) continue;
      top.emplace(writer_.CompletionText(other.token, writer_.Bytes(other.token)),
                  NumberOf(other.log_prob));
    }
    top_.push_back(std::move(top));
  }

  json::object Take() && {
    return {{"text_offset", std::move(offsets_)},
            {"token_logprobs", std::move(log_probs_)},
            {"tokens", std::move(tokens_)},
            {"top_logprobs", std::move(top_)}};
  }

 private:
  int count_;
  const TokenWriter& writer_;
  json::array tokens_;
  json::array log_probs_;
  json::array top_;
  json::array offsets_;
};

// The prompt's text, and an entry for each of its tokens. An added token adds nothing to the text.
std::string EchoPrompt(const PromptAnswer& answer, const TokenWriter& writer,
                       CompletionLogProbs* entries) {
  StreamDecoder decoder(writer.tokenizer(), /*with_control=*/true);
  std::string text;
  int64_t offset = 0;
  const auto& log_probs = answer.result.prompt_log_probs;
  for (size_t i = 0; i < answer.prompt.size(); ++i) {
    const int32_t token = answer.prompt[i];
    std::string added;
    const bool is_text = i >= static_cast<size_t>(answer.num_added);
    if (is_text) added = decoder.Push(token);
    if (entries != nullptr) {
      const LogProbs* entry = i < log_probs.size() && log_probs[i] ? &*log_probs[i] : nullptr;
      entries->Add(token, is_text ? decoder.last_bytes() : writer.Bytes(token), entry, offset);
    }
    offset += CountCharacters(added);
    text += added;
  }
  return text + decoder.Finish();
}

void AddAnswerEntries(const Choice& choice, int64_t first_offset, const TokenWriter& writer,
                      CompletionLogProbs& entries) {
  const int64_t text_length = CountCharacters(choice.text);
  StreamDecoder decoder(writer.tokenizer());
  int64_t offset = 0;
  for (size_t i = 0; i < choice.log_probs.size(); ++i) {
    const int32_t token = choice.tokens[i];
    // What a stop string cut off has no place in the text: it stands at the end.
    entries.Add(token, writer.Bytes(token), &choice.log_probs[i],
                first_offset + std::min(offset, text_length));
    offset += CountCharacters(decoder.Push(token));
  }
}

// vLLM's form: for each position null, or an object of token id to entry.
json::array PromptLogProbs(const PromptAnswer& answer, int count, const TokenWriter& writer) {
  json::array list;
  for (const auto& position : answer.result.prompt_log_probs) {
    if (!position) {
      list.emplace_back(nullptr);
      continue;
    }
    json::object entries;
    int rank = 0;
    for (const TokenLogProb& token : TopOf(*position, count, /*with_chosen=*/true)) {
      ++rank;
      // The rank of a token beyond the best is not known.
      entries[fmt::to_string(token.token)] = {
          {"logprob", NumberOf(token.log_prob)},
          {"rank", rank > count ? json::value(nullptr) : json::value(rank)},
          {"decoded_token", RepairUtf8(writer.Bytes(token.token))}};
    }
    list.push_back(std::move(entries));
  }
  return list;
}

std::string_view FinishReasonOf(const Choice& choice) {
  // Those that OpenAI's API has, and vLLM's word for an answer that was broken off.
  switch (choice.finish_reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return NameOf(choice.finish_reason);
    default:
      return NameOf(FinishReason::kAborted);
  }
}

// vLLM's stop_reason: the stop string or stop token of the request that ended the answer.
json::value StopReasonOf(const Choice& choice, const Request& request) {
  if (choice.matched_stop) return json::value(*choice.matched_stop);
  const auto& ids = request.stop_token_ids;
  if (choice.matched_stop_token &&
      std::ranges::find(ids, *choice.matched_stop_token) != ids.end()) {
    return *choice.matched_stop_token;
  }
  return nullptr;
}

class ResponseWriter {
 public:
  ResponseWriter(const OpenAiRequest& body, const Tokenizer& tokenizer)
      : body_(body),
        writer_(tokenizer, body.tokens_as_token_ids),
        is_chat_(body.endpoint == OpenAiEndpoint::kChatCompletions),
        shows_answer_(body.max_tokens != 0) {}

  void Add(const PromptAnswer& answer) {
    prompt_tokens_ += answer.result.prompt_tokens;
    cached_tokens_ += answer.result.cached_tokens;
    for (const Choice& choice : answer.result.choices) {
      if (shows_answer_) completion_tokens_ += static_cast<int64_t>(choice.tokens.size());
      choices_.push_back(is_chat_ ? ChatChoice(choice) : CompletionChoice(answer, choice));
    }
    // A completion's stand in its choices.
    if (is_chat_ && body_.prompt_logprobs) {
      prompt_log_probs_ = PromptLogProbs(answer, *body_.prompt_logprobs, writer_);
    }
    if (is_chat_ && body_.return_token_ids) prompt_ids_ = IdsOf(answer.prompt);
  }

  std::string Take(const ResponseHead& head) && {
    json::object response = {{"id", head.id},
                             {"object", is_chat_ ? "chat.completion" : "text_completion"},
                             {"created", head.created},
                             {"model", head.model},
                             {"choices", std::move(choices_)},
                             {"usage",
                              {{"prompt_tokens", prompt_tokens_},
                               {"completion_tokens", completion_tokens_},
                               {"total_tokens", prompt_tokens_ + completion_tokens_},
                               {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}}}};
    if (is_chat_ && body_.prompt_logprobs) {
      response["prompt_logprobs"] = std::move(prompt_log_probs_);
    }
    if (is_chat_ && body_.return_token_ids) {
      response["prompt_token_ids"] = std::move(prompt_ids_);
    }
    return json::serialize(response);
  }

 private:
  json::object ChatChoice(const Choice& choice) {
    json::object written = {
        {"index", choices_.size()},
        {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
        {"logprobs", nullptr},
        {"finish_reason", FinishReasonOf(choice)},
        {"stop_reason", StopReasonOf(choice, body_.request)}};
    if (body_.request.sampling.logprobs) {
      written["logprobs"] = ChatLogProbs(choice, *body_.request.sampling.logprobs, writer_);
    }
    if (body_.return_token_ids) written["token_ids"] = IdsOf(choice.tokens);
    return written;
  }

  json::object CompletionChoice(const PromptAnswer& answer, const Choice& choice) {
    const auto& logprobs = body_.request.sampling.logprobs;
    CompletionLogProbs entries(logprobs.value_or(0), writer_);
    std::string text;
    if (body_.echo) text = EchoPrompt(answer, writer_, logprobs ? &entries : nullptr);
    if (shows_answer_) {
      if (logprobs) AddAnswerEntries(choice, CountCharacters(text), writer_, entries);
      text += choice.text;
    }
    json::object written = {
        {"index", choices_.size()},
        {"text", std::move(text)},
        {"logprobs", nullptr},
        {"finish_reason", shows_answer_ ? FinishReasonOf(choice) : NameOf(FinishReason::kLength)},
        {"stop_reason", shows_answer_ ? StopReasonOf(choice, body_.request) : nullptr}};
    if (logprobs) written["logprobs"] = std::move(entries).Take();
    if (body_.prompt_logprobs) {
      written["prompt_logprobs"] = PromptLogProbs(answer, *body_.prompt_logprobs, writer_);
    }
    if (body_.return_token_ids) {
      written["prompt_token_ids"] = IdsOf(answer.prompt);
      written["token_ids"] = shows_answer_ ? IdsOf(choice.tokens) : json::array();
    }
    return written;
  }

  const OpenAiRequest& body_;
  TokenWriter writer_;
  bool is_chat_;
  bool shows_answer_;
  json::array choices_;
  json::array prompt_log_probs_;
  json::array prompt_ids_;
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  int64_t cached_tokens_ = 0;
};

}  // namespace

std::string ResponseBody(const OpenAiRequest& body, std::span<const PromptAnswer> answers,
                         const Tokenizer& tokenizer, const ResponseHead& head) {
  ResponseWriter writer(body, tokenizer);
  for (const PromptAnswer& answer : answers) writer.Add(answer);
  return std::move(writer).Take(head);
}

std::string NewResponseId(OpenAiEndpoint endpoint) {
  const bool is_chat = endpoint == OpenAiEndpoint::kChatCompletions;
  // Where the system has no random bits, identifiers are the least of its troubles.
  const auto high = RandomSeed();
  const auto low = RandomSeed();
  return fmt::format("{}{:016x}{:016x}", is_chat ? "chatcmpl-" : "cmpl-", high.ok() ? *high : 0,
                     low.ok() ? *low : 0);
}

}  // namespace quire
