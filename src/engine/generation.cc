#include "engine/generation.h"

#include <algorithm>
#include <chrono>

#include "sampling/sampler.h"
#include "sampling/seed.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Turns sampled ids into text and says when the answer ends.
class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, const GenerationOptions& options, StopMatcher stops)
      : tokenizer_(tokenizer), options_(options), decoder_(tokenizer), stops_(std::move(stops)) {}

  // True when this token ends the answer.
  bool Push(int32_t token, const GenerationHooks& hooks) {
    if (EndsAnswer(token)) return true;
    Emit(stops_.Push(decoder_.Push(token)), hooks);
    return stops_.matched().has_value();
  }

  std::string Finish(const GenerationHooks& hooks) {
    if (!stops_.matched()) {
      Emit(stops_.Push(decoder_.Finish()), hooks);
      if (!stops_.matched()) Emit(stops_.Finish(), hooks);
    }
    return std::move(text_);
  }

 private:
  bool EndsAnswer(int32_t token) const {
    if (std::ranges::find(options_.stop_token_ids, token) != options_.stop_token_ids.end()) {
      return true;
    }
    return !options_.ignore_end_of_text &&
           std::ranges::binary_search(tokenizer_.end_of_text_ids(), token);
  }

  void Emit(std::string_view piece, const GenerationHooks& hooks) {
    if (piece.empty()) return;
    text_ += piece;
    if (hooks.on_text) hooks.on_text(piece);
  }

  const Tokenizer& tokenizer_;
  const GenerationOptions& options_;
  StreamDecoder decoder_;
  StopMatcher stops_;
  std::string text_;
};

Status CheckRequest(const Engine& engine, const Sequence& sequence,
                    const GenerationOptions& options) {
  QUIRE_RETURN_IF_ERROR(options.sampling.Validate(engine.vocab_size()));
  if (options.max_tokens == 0 || options.max_tokens < -1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "max_tokens is {}; expected 1 or more, or -1 for as many as fit",
                     options.max_tokens);
  }
  if (sequence.num_tokens() == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the prompt has no tokens; expected at least one");
  }
  if (sequence.num_tokens() >= engine.context_length()) {
    return MakeError(ErrorCode::kContextLength,
                     "the prompt has {} tokens; the context of {} has room for {} and an answer of "
                     "one",
                     sequence.num_tokens(), engine.context_length(), engine.context_length() - 1);
  }
  return {};
}

}  // namespace

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kInterrupted:
      return "interrupted";
  }
  return "";
}

Result<GenerationResult> Generate(Engine& engine, Sequence& sequence,
                                  const GenerationOptions& options, const GenerationHooks& hooks) {
  QUIRE_RETURN_IF_ERROR(CheckRequest(engine, sequence, options));
  QUIRE_ASSIGN_OR_RETURN(StopMatcher stops, StopMatcher::Create(options.stops));
  AnswerText answer(engine.model().tokenizer(), options, std::move(stops));
  GenerationResult result{.text = {}, .tokens = {}, .log_probs = {}};
  result.prompt_tokens = sequence.num_tokens();
  // The last token is always fed again: its logits are what the answer begins with.
  sequence.Forget(sequence.num_tokens() - 1);
  result.cached_tokens = sequence.num_computed();
  if (options.sampling.seed) {
    result.seed = *options.sampling.seed;
  } else {
    QUIRE_ASSIGN_OR_RETURN(result.seed, RandomSeed());
  }
  TokenCounts history;
  if (options.sampling.uses_history()) history.AddPrompt(sequence.tokens());
  const int room = engine.context_length() - sequence.num_tokens();
  const int max_tokens = options.max_tokens < 0 ? room : std::min(options.max_tokens, room);

  SamplerScratch scratch;
  const Clock::time_point start = Clock::now();
  Clock::time_point first_token = start;
  result.finish_reason = FinishReason::kLength;
  while (static_cast<int>(result.tokens.size()) < max_tokens) {
    if (hooks.interrupted && hooks.interrupted()) {
      result.finish_reason = FinishReason::kInterrupted;
      break;
    }
    QUIRE_ASSIGN_OR_RETURN(const StepRecord step, engine.Step(sequence));
    if (!step.gave_logits) {
      if (hooks.on_step) hooks.on_step(step, sequence, std::nullopt);
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(SampledToken sampled,
                           Sample({.logits = engine.logits(),
                                   .parameters = options.sampling,
                                   .history = history,
                                   .seed = result.seed,
                                   .position = static_cast<uint32_t>(sequence.num_tokens())},
                                  &scratch));
    sequence.Append(sampled.token);
    if (options.sampling.uses_history()) history.AddOutput(sampled.token);
    result.tokens.push_back(sampled.token);
    if (sampled.log_probs) result.log_probs.push_back(std::move(*sampled.log_probs));
    if (result.tokens.size() == 1) {
      first_token = Clock::now();
      result.first_token_ms = MillisecondsSince(start);
    }
    if (hooks.on_step) hooks.on_step(step, sequence, sampled.token);
    if (answer.Push(sampled.token, hooks)) {
      result.finish_reason = FinishReason::kStop;
      break;
    }
    if (!options.use_kv_cache) sequence.Forget(0);
  }
  if (!result.tokens.empty()) result.decode_ms = MillisecondsSince(first_token);
  result.text = answer.Finish(hooks);
  return result;
}

}  // namespace quire
