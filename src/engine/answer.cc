#include "engine/answer.h"

#include <algorithm>

namespace quire {

Result<Answer> Answer::Create(const Tokenizer& tokenizer, const Request& request, int index,
                              uint64_t seed, int max_tokens) {
  QUIRE_ASSIGN_OR_RETURN(StopMatcher stops, StopMatcher::Create(request.stops));
  return Answer(tokenizer, request, index, seed, max_tokens, std::move(stops));
}

Answer::Answer(const Tokenizer& tokenizer, const Request& request, int index, uint64_t seed,
               int max_tokens, StopMatcher stops)
    : tokenizer_(&tokenizer),
      request_(&request),
      seed_(seed),
      max_tokens_(max_tokens),
      decoder_(tokenizer, request.show_control_tokens),
      stops_(std::move(stops)) {
  choice_.index = index;
  if (request.sampling.uses_history()) history_.AddPrompt(request.prompt);
  enders_ = request.stop_token_ids;
  if (!request.ignore_end_of_text) {
    const auto ids = tokenizer.end_of_text_ids();
    enders_.insert(enders_.end(), ids.begin(), ids.end());
  }
}

SampleInput Answer::NextDraw(std::span<const float> logits, int position) const {
  return {.logits = logits,
          .parameters = request_->sampling,
          .history = history_,
          .seed = seed_,
          .choice = static_cast<uint32_t>(choice_.index),
          .position = static_cast<uint32_t>(position),
          .output = choice_.tokens,
          .banned =
              below_min_tokens() ? std::span<const int32_t>(enders_) : std::span<const int32_t>()};
}

std::string Answer::Push(SampledToken sampled) {
  const int32_t token = sampled.token;
  if (request_->sampling.uses_history()) history_.AddOutput(token);
  // A token that was banned and drawn all the same cannot be: nothing else could be drawn.
  const bool is_ender = IsEnder(token);
  const bool matches_stops = !below_min_tokens();
  choice_.tokens.push_back(token);
  if (sampled.log_probs) {
    choice_.cumulative_log_prob += sampled.log_probs->chosen.log_prob;
    choice_.log_probs.push_back(std::move(*sampled.log_probs));
  }
  if (is_ender) {
    choice_.matched_stop_token = token;
    if (!request_->include_stop) return Finish(FinishReason::kStop);
  }
  std::string text = decoder_.Push(token);
  text = Show(matches_stops ? stops_.Push(text) : std::move(text));
  if (stops_.matched()) {
    choice_.matched_stop = request_->stops[*stops_.matched()];
    if (request_->include_stop) text += Show(*choice_.matched_stop);
    return text + Finish(FinishReason::kStop);
  }
  if (is_ender) return text + Finish(FinishReason::kStop);
  if (static_cast<int>(choice_.tokens.size()) >= max_tokens_) {
    return text + Finish(FinishReason::kLength);
  }
  return text;
}

std::string Answer::Finish(FinishReason reason) {
  if (ended_) return "";
  ended_ = true;
  choice_.finish_reason = reason;
  std::string rest;
  if (!stops_.matched()) {
    rest = stops_.Push(decoder_.Finish());
    if (!stops_.matched()) rest += stops_.Finish();
  }
  return Show(std::move(rest));
}

bool Answer::IsEnder(int32_t token) const {
  return std::ranges::find(enders_, token) != enders_.end();
}

std::string Answer::Show(std::string text) {
  choice_.text += text;
  return text;
}

}  // namespace quire
