#include "engine/request_check.h"

namespace quire {
namespace {

constexpr int kMaxChoices = 128;
constexpr int kMaxBeams = kMaxLogProbs / 2;

Error OutOfRange(std::string_view name, auto value, std::string_view expected) {
  return MakeError(ErrorCode::kInvalidArgument, "{} is {}; expected {}", name, value, expected);
}

Status CheckCounts(const Request& request) {
  if (request.max_tokens == 0 || request.max_tokens < -1) {
    return OutOfRange("max_tokens", request.max_tokens, "1 or more, or -1 for as many as fit");
  }
  if (request.min_tokens < 0 ||
      (request.max_tokens > 0 && request.min_tokens > request.max_tokens)) {
    return OutOfRange("min_tokens", request.min_tokens, "0 to max_tokens");
  }
  if (request.num_choices < 1 || request.num_choices > kMaxChoices) {
    return OutOfRange("n", request.num_choices, fmt::format("1 to {}", kMaxChoices));
  }
  const BeamOptions& beams = request.beams;
  if (beams.width < 0 || beams.width > kMaxBeams) {
    return OutOfRange("beam_width", beams.width, fmt::format("1 to {}", kMaxBeams));
  }
  if (beams.width > 0 && request.num_choices > beams.width) {
    return OutOfRange("n", request.num_choices,
                      fmt::format("at most the {} beams searched", beams.width));
  }
  if (!(beams.length_penalty >= -10 && beams.length_penalty <= 10)) {
    return OutOfRange("length_penalty", beams.length_penalty, "-10 to 10");
  }
  if (request.prompt_logprobs &&
      (*request.prompt_logprobs < 0 || *request.prompt_logprobs > kMaxLogProbs)) {
    return OutOfRange("prompt_logprobs", *request.prompt_logprobs,
                      fmt::format("0 to {}", kMaxLogProbs));
  }
  if (request.max_drafts && *request.max_drafts < 0) {
    return OutOfRange("speculative.n_max", *request.max_drafts, "0 or more");
  }
  if (request.timeout_ms && !(*request.timeout_ms > 0)) {
    return OutOfRange("timeout_ms", *request.timeout_ms, "more than 0");
  }
  return {};
}

// Beam search goes by the model's own log-probabilities.
Status CheckBeams(const Request& request) {
  const auto refusal = [](std::string_view name) {
    return MakeError(ErrorCode::kInvalidArgument, "{} with beam search; expected none", name);
  };
  const SamplingParameters& sampling = request.sampling;
  if (!request.stops.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "stop strings with beam search; expected stop token ids only");
  }
  if (!sampling.logit_bias.empty()) return refusal("logit_bias");
  if (!sampling.allowed_token_ids.empty()) return refusal("allowed_token_ids");
  if (!sampling.bad_words.empty()) return refusal("bad_words");
  if (sampling.repetition_penalty != 1.0f) return refusal("repetition_penalty");
  if (sampling.presence_penalty != 0.0f) return refusal("presence_penalty");
  if (sampling.frequency_penalty != 0.0f) return refusal("frequency_penalty");
  return {};
}

// Whatever would ask for an answer beside the embedding.
Status CheckEmbedding(const Request& request) {
  const auto refusal = [](std::string_view name) {
    return MakeError(ErrorCode::kInvalidArgument, "{} with an embedding; expected none", name);
  };
  if (request.beams.width > 0) return refusal("beam_width");
  if (request.prompt_logprobs) return refusal("prompt_logprobs");
  return {};
}

Status CheckIds(std::span<const int32_t> ids, int vocab_size) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return MakeError(ErrorCode::kInvalidArgument, "token id {}; expected 0 to {}", id,
                     vocab_size - 1);
  }
  return {};
}

}  // namespace

Status CheckRequest(const Request& request, const RequestLimits& limits) {
  QUIRE_RETURN_IF_ERROR(request.sampling.Validate(limits.vocab_size));
  QUIRE_RETURN_IF_ERROR(CheckCounts(request));
  if (request.beams.width > 0) QUIRE_RETURN_IF_ERROR(CheckBeams(request));
  if (request.embedding) QUIRE_RETURN_IF_ERROR(CheckEmbedding(request));
  if (request.prompt.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the prompt has no tokens; expected at least one");
  }
  QUIRE_RETURN_IF_ERROR(CheckIds(request.prompt, limits.vocab_size));
  QUIRE_RETURN_IF_ERROR(CheckIds(request.stop_token_ids, limits.vocab_size));
  const int num_tokens = static_cast<int>(request.prompt.size());
  const int room_for_answer = request.embedding ? 0 : 1;
  if (num_tokens + room_for_answer <= limits.context_length) return {};
  const auto bytes_of = [&](int tokens) {
    return limits.layout->PeakBlocks(tokens, limits.max_batched_tokens) *
           static_cast<int64_t>(limits.layout->block_bytes);
  };
  if (request.embedding) {
    return MakeError(ErrorCode::kContextLength,
                     "the prompt has {} tokens ({} bytes of keys and values); the context has room "
                     "for {} ({} bytes)",
                     num_tokens, bytes_of(num_tokens), limits.context_length,
                     bytes_of(limits.context_length));
  }
  return MakeError(ErrorCode::kContextLength,
                   "the prompt has {} tokens and needs room for an answer of one: {} tokens ({} "
                   "bytes of keys and values); the context of {} tokens ({} bytes) has room for {} "
                   "and an answer of one",
                   num_tokens, num_tokens + 1, bytes_of(num_tokens + 1), limits.context_length,
                   bytes_of(limits.context_length), limits.context_length - 1);
}

}  // namespace quire
