#include "sampling/parameters.h"

#include <string_view>

namespace quire {
namespace {

// A comparison with NaN is false, so NaN is refused as well.
Status CheckRange(std::string_view name, float value, float lowest, float highest) {
  if (value >= lowest && value <= highest) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{} must be from {} to {}, got {}", name, lowest,
                   highest, value);
}

Status CheckId(std::string_view name, int32_t token, int vocab_size) {
  if (token >= 0 && token < vocab_size) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} names token {}, but this model's token ids are 0 to {}", name, token,
                   vocab_size - 1);
}

Status CheckLogitBias(const std::map<int32_t, float>& logit_bias, int vocab_size) {
  for (const auto& [token, bias] : logit_bias) {
    QUIRE_RETURN_IF_ERROR(CheckId("logit_bias", token, vocab_size));
    if (!(bias >= -100.0f && bias <= 100.0f)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias of token {} must be from -100 to 100, got {}", token, bias);
    }
  }
  return {};
}

Status CheckAllowedIds(const std::vector<int32_t>& allowed, int vocab_size) {
  if (allowed.size() > static_cast<size_t>(vocab_size)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "allowed_token_ids holds {} ids; this model has {} tokens", allowed.size(),
                     vocab_size);
  }
  for (const int32_t token : allowed) {
    QUIRE_RETURN_IF_ERROR(CheckId("allowed_token_ids", token, vocab_size));
  }
  return {};
}

Status CheckBadWords(const std::vector<std::vector<int32_t>>& bad_words, int vocab_size) {
  if (bad_words.size() > kMaxBadWords) {
    return MakeError(ErrorCode::kInvalidArgument, "bad_words must be at most {} words, got {}",
                     kMaxBadWords, bad_words.size());
  }
  for (const std::vector<int32_t>& word : bad_words) {
    if (word.empty() || word.size() > kMaxBadWordTokens) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "each of bad_words must be 1 to {} tokens, got one of {}", kMaxBadWordTokens,
                       word.size());
    }
    for (const int32_t token : word) {
      QUIRE_RETURN_IF_ERROR(CheckId("bad_words", token, vocab_size));
    }
  }
  return {};
}

}  // namespace

Status SamplingParameters::Validate(int vocab_size) const {
  QUIRE_RETURN_IF_ERROR(CheckRange("temperature", temperature, 0.0f, 2.0f));
  if (top_k < -1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "top_k must be at least 1, or 0 or -1 for no limit, got {}", top_k);
  }
  QUIRE_RETURN_IF_ERROR(CheckRange("top_p", top_p, 0.0f, 1.0f));
  QUIRE_RETURN_IF_ERROR(CheckRange("min_p", min_p, 0.0f, 1.0f));
  QUIRE_RETURN_IF_ERROR(CheckRange("repetition_penalty", repetition_penalty, 0.01f, 100.0f));
  QUIRE_RETURN_IF_ERROR(CheckRange("presence_penalty", presence_penalty, -2.0f, 2.0f));
  QUIRE_RETURN_IF_ERROR(CheckRange("frequency_penalty", frequency_penalty, -2.0f, 2.0f));
  QUIRE_RETURN_IF_ERROR(CheckLogitBias(logit_bias, vocab_size));
  QUIRE_RETURN_IF_ERROR(CheckAllowedIds(allowed_token_ids, vocab_size));
  QUIRE_RETURN_IF_ERROR(CheckBadWords(bad_words, vocab_size));
  if (logprobs && (*logprobs < 0 || *logprobs > kMaxLogProbs)) {
    return MakeError(ErrorCode::kInvalidArgument, "logprobs must be from 0 to {}, got {}",
                     kMaxLogProbs, *logprobs);
  }
  return {};
}

}  // namespace quire
