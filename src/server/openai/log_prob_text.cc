#include "server/openai/log_prob_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/utf8.h"

namespace quire {
namespace {

// What the OpenAI API gives for a token that cannot be: JSON has no infinity.
constexpr double kLowestLogProb = -9999.0;

double NumberOf(double log_prob) { return std::isfinite(log_prob) ? log_prob : kLowestLogProb; }

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

// The members of an entry; the object stays open.
void BeginChatEntry(const TokenLogProb& token, const TokenSpelling& spelling, JsonWriter& json) {
  const std::string bytes = spelling.Bytes(token.token);
  json.BeginObject();
  json.Key("token");
  json.String(spelling.ChatText(token.token, bytes));
  json.Key("logprob");
  json.Number(NumberOf(token.log_prob));
  json.Key("bytes");
  json.BeginArray();
  for (const char byte : bytes) json.Int(static_cast<uint8_t>(byte));
  json.EndArray();
}

// Begins an element of a list of JSON values.
std::string& NextOf(std::string& list) {
  if (!list.empty()) list += ',';
  return list;
}

}  // namespace

int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

std::string TokenSpelling::ChatText(int32_t token, std::string_view bytes) const {
  return as_ids_ ? fmt::format("token_id:{}", token) : RepairUtf8(bytes);
}

std::string TokenSpelling::CompletionText(int32_t token, std::string_view bytes) const {
  if (as_ids_) return fmt::format("token_id:{}", token);
  if (IsWellFormedUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  return text;
}

void WriteChatLogProbs(std::span<const LogProbs> entries, int count, const TokenSpelling& spelling,
                       JsonWriter& json) {
  json.BeginObject();
  json.Key("content");
  json.BeginArray();
  for (const LogProbs& entry : entries) {
    BeginChatEntry(entry.chosen, spelling, json);
    json.Key("top_logprobs");
    json.BeginArray();
    for (const TokenLogProb& token : TopOf(entry, count, /*with_chosen=*/false)) {
      BeginChatEntry(token, spelling, json);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.Key("refusal");
  json.Null();
  json.EndObject();
}

void WritePromptLogProbs(std::span<const std::optional<LogProbs>> positions, int count,
                         const TokenSpelling& spelling, JsonWriter& json) {
  json.BeginArray();
  for (const auto& position : positions) {
    if (!position) {
      json.Null();
      continue;
    }
    json.BeginObject();
    int rank = 0;
    for (const TokenLogProb& token : TopOf(*position, count, /*with_chosen=*/true)) {
      ++rank;
      json.Key(fmt::to_string(token.token));
      json.BeginObject();
      json.Key("logprob");
      json.Number(NumberOf(token.log_prob));
      json.Key("rank");
      // The rank of a token beyond the best is not known.
      rank > count ? json.Null() : json.Int(rank);
      json.Key("decoded_token");
      json.String(RepairUtf8(spelling.Bytes(token.token)));
      json.EndObject();
    }
    json.EndObject();
  }
  json.EndArray();
}

CompletionLogProbs::CompletionLogProbs(int count, const TokenSpelling& spelling)
    : count_(count), spelling_(spelling) {}

void CompletionLogProbs::Add(int32_t token, std::string_view bytes, const LogProbs* entry,
                             int64_t offset) {
  const std::string text = spelling_.CompletionText(token, bytes);
  JsonWriter(NextOf(tokens_)).String(text);
  JsonWriter(NextOf(offsets_)).Int(offset);
  JsonWriter log_prob(NextOf(log_probs_));
  JsonWriter top(NextOf(top_));
  if (entry == nullptr) {
    log_prob.Null();
    top.Null();
    return;
  }
  log_prob.Number(NumberOf(entry->chosen.log_prob));
  top.BeginObject();
  // The chosen token first: of tokens that are spelled alike, the first has the key.
  std::set<std::string, std::less<>> keys = {text};
  top.Key(text);
  top.Number(NumberOf(entry->chosen.log_prob));
  for (const TokenLogProb& other : TopOf(*entry, count_, /*with_chosen=*/false)) {
    if (other.token == token) continue;
    std::string key = spelling_.CompletionText(other.token, spelling_.Bytes(other.token));
    if (keys.contains(key)) continue;
    top.Key(key);
    top.Number(NumberOf(other.log_prob));
    keys.insert(std::move(key));
  }
  top.EndObject();
}

void CompletionLogProbs::Write(JsonWriter& json) {
  json.BeginObject();
  const auto list = [&](std::string_view name, std::string& elements) {
    json.Key(name);
    json.BeginArray();
    if (!elements.empty()) json.Raw(elements);
    json.EndArray();
    elements.clear();
  };
  list("text_offset", offsets_);
  list("token_logprobs", log_probs_);
  list("tokens", tokens_);
  list("top_logprobs", top_);
  json.EndObject();
}

std::string EchoPrompt(std::span<const int32_t> prompt, int num_added,
                       std::span<const std::optional<LogProbs>> log_probs,
                       const TokenSpelling& spelling, CompletionLogProbs* entries) {
  StreamDecoder decoder(spelling.tokenizer(), /*with_control=*/true);
  std::string text;
  int64_t offset = 0;
  for (size_t i = 0; i < prompt.size(); ++i) {
    const int32_t token = prompt[i];
    std::string added;
    const bool is_text = i >= static_cast<size_t>(num_added);
    if (is_text) added = decoder.Push(token);
    if (entries != nullptr) {
      const LogProbs* entry = i < log_probs.size() && log_probs[i] ? &*log_probs[i] : nullptr;
      entries->Add(token, is_text ? decoder.last_bytes() : spelling.Bytes(token), entry, offset);
    }
    offset += CountCharacters(added);
    text += added;
  }
  return text + decoder.Finish();
}

}  // namespace quire
