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

Status CheckLogitBias(const std::map<int32_t, float>& logit_bias, int vocab_size) {
  for (const auto& [token, bias] : logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias names token {}, but this model's token ids are 0 to {}", token,
                       vocab_size - 1);
    }
    if (!(bias >= -100.0f && bias <= 100.0f)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "logit_bias of token {} must be from -100 to 100, got {}", token, bias);
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
  if (logprobs && (*logprobs < 0 || *logprobs > kMaxLogProbs)) {
    return MakeError(ErrorCode::kInvalidArgument, "logprobs must be from 0 to {}, got {}",
                     kMaxLogProbs, *logprobs);
  }
  return {};
}

}  // namespace quire
