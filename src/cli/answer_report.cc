#include "cli/answer_report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cmath>

#include "base/utf8.h"

namespace quire {
namespace {

double PerSecond(double count, double milliseconds) {
  return milliseconds > 0 ? count * 1000.0 / milliseconds : 0;
}

// Entries that hold keys and values, in bytes.
size_t EntryBytes(const RequestResult& result, const Engine& engine) {
  // The last token has none: it was not fed.
  const int entries = result.prompt_tokens + result.completion_tokens() - 1;
  return engine.cache().layout().FormulaBytes(entries);
}

double PrefillPerSecond(const RequestResult& result) {
  return PerSecond(result.prompt_tokens - result.cached_tokens, result.first_token_ms);
}

double DecodePerSecond(const RequestResult& result) {
  // The first token belongs to the prefill.
  return PerSecond(result.completion_tokens() - 1.0, result.decode_ms);
}

boost::json::value Number(double value) {
  return std::isfinite(value) ? boost::json::value(value) : boost::json::value(nullptr);
}

boost::json::array LogProbsAsJson(const RequestResult& result, const Tokenizer& tokenizer) {
  const auto entry = [&](const TokenLogProb& token) {
    return boost::json::object{
        {"id", token.token},
        {"token", RepairUtf8(tokenizer.TokenBytes(token.token, /*with_control=*/true))},
        {"logprob", Number(token.log_prob)}};
  };
  boost::json::array list;
  for (const LogProbs& step : result.choices[0].log_probs) {
    boost::json::object chosen = entry(step.chosen);
    boost::json::array top;
    for (const TokenLogProb& token : step.top) top.push_back(entry(token));
    chosen["top_logprobs"] = std::move(top);
    list.push_back(std::move(chosen));
  }
  return list;
}

// "1984 cached", or with tiers "1984 cached, 1984 of them from disk".
std::string CachedText(const RequestResult& result) {
  std::string text = fmt::format("{} cached", result.cached_tokens);
  const CachedTokens& by_tier = result.cached_by_tier;
  if (by_tier.disk > 0) text += fmt::format(", {} of them from disk", by_tier.disk);
  if (by_tier.remote > 0) text += fmt::format(", {} of them from Redis", by_tier.remote);
  return text;
}

// " (150 of 160 drafts accepted)", where there were any.
std::string DraftText(const RequestResult& result) {
  return result.draft_tokens == 0 ? std::string()
                                  : fmt::format(" ({} of {} drafts accepted)",
                                                result.accepted_draft_tokens, result.draft_tokens);
}

}  // namespace

std::string FormatStats(const RequestResult& result, const Engine& engine) {
  return fmt::format(
      "{} prompt tokens ({}), first token {:.3f} s, prefill {:.1f} tok/s, {} tokens at "
      "{:.1f} tok/s{}, KV {:.2f} MiB, {}",
      result.prompt_tokens, CachedText(result), result.first_token_ms / 1000,
      PrefillPerSecond(result), result.completion_tokens(), DecodePerSecond(result),
      DraftText(result), static_cast<double>(EntryBytes(result, engine)) / (1 << 20),
      NameOf(result.choices[0].finish_reason));
}

void PrintStats(const RequestResult& result, const Engine& engine) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  fmt::print(stderr, "{}{}{}\n", terminal ? "\x1b[2m" : "", FormatStats(result, engine),
             terminal ? "\x1b[0m" : "");
}

std::string AnswerAsJson(const RequestResult& result, const Engine& engine) {
  boost::json::array tokens;
  const Choice& choice = result.choices[0];
  for (const int32_t token : choice.tokens) tokens.emplace_back(token);
  boost::json::object answer = {
      {"text", choice.text},
      {"tokens", std::move(tokens)},
      {"finish_reason", NameOf(choice.finish_reason)},
      {"usage",
       {{"prompt_tokens", result.prompt_tokens},
        {"completion_tokens", choice.tokens.size()},
        {"total_tokens", static_cast<size_t>(result.prompt_tokens) + choice.tokens.size()},
        {"prompt_tokens_details", {{"cached_tokens", result.cached_tokens}}},
        {"completion_tokens_details",
         {{"accepted_prediction_tokens", result.accepted_draft_tokens},
          {"rejected_prediction_tokens", result.draft_tokens - result.accepted_draft_tokens}}},
        {"cached_by_tier",
         {{"memory", result.cached_by_tier.memory},
          {"disk", result.cached_by_tier.disk},
          {"remote", result.cached_by_tier.remote}}}}},
      {"timings",
       {{"load_ms",
         std::chrono::duration<double, std::milli>(engine.runner().load_duration()).count()},
        {"first_token_ms", result.first_token_ms},
        {"decode_ms", result.decode_ms},
        {"prefill_per_second", PrefillPerSecond(result)},
        {"draft_n", result.draft_tokens},
        {"draft_n_accepted", result.accepted_draft_tokens},
        {"decode_per_second", DecodePerSecond(result)}}},
      {"kv_bytes", EntryBytes(result, engine)},
      {"seed", result.seed},
      {"kernels", engine.runner().kernels().name}};
  if (!choice.log_probs.empty()) {
    answer["logprobs"] = LogProbsAsJson(result, engine.model().tokenizer());
  }
  return boost::json::serialize(answer);
}

}  // namespace quire
