#include "cli/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>

namespace quire {
namespace {

Result<std::pair<int32_t, float>> ParseBias(const std::string& text) {
  const size_t equals = text.find('=');
  int32_t token = 0;
  float bias = 0;
  const char* end = text.data() + text.size();
  const auto bad = [&] {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--logit-bias {}: expected TOKEN_ID=BIAS, such as 15043=-100", text);
  };
  if (equals == std::string::npos) return bad();
  const auto id = std::from_chars(text.data(), text.data() + equals, token);
  const auto value = std::from_chars(text.data() + equals + 1, end, bias);
  if (id.ec != std::errc() || id.ptr != text.data() + equals || value.ec != std::errc() ||
      value.ptr != end) {
    return bad();
  }
  return std::pair{token, bias};
}

}  // namespace

SamplingFlags::SamplingFlags() {
  request.sampling.temperature = 0.8f;
  request.sampling.top_k = 40;
  request.sampling.top_p = 0.95f;
  request.sampling.min_p = 0.05f;
}

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags) {
  SamplingParameters& sampling = flags.request.sampling;
  app.add_option("-n,--predict,--max-tokens", flags.request.max_tokens,
                 "tokens to sample at most; -1 = until the context is full")
      ->capture_default_str();
  app.add_option("--temp,--temperature", sampling.temperature, "0 to 2; 0 = always the best token")
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "draw among the k best tokens; 0 = off")
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p,
                 "draw among the fewest tokens of this joint probability; 1 = off")
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p,
                 "drop tokens below this share of the best one's probability; 0 = off")
      ->capture_default_str();
  app.add_option("--repeat-penalty,--repetition-penalty", sampling.repetition_penalty,
                 "0.01 to 100, on tokens of prompt and answer; 1 = off")
      ->capture_default_str();
  app.add_option("--presence-penalty", sampling.presence_penalty,
                 "-2 to 2, once for each token of the answer; 0 = off")
      ->capture_default_str();
  app.add_option("--frequency-penalty", sampling.frequency_penalty,
                 "-2 to 2, for each time a token is in the answer; 0 = off")
      ->capture_default_str();
  app.add_option("--logit-bias", flags.logit_bias, "TOKEN_ID=BIAS, -100 to 100; may be repeated")
      ->allow_extra_args(false);
  app.add_option("-s,--seed", sampling.seed,
                 "makes draws repeatable (default: a new one each time)");
  app.add_option("--logprobs", sampling.logprobs,
                 "with --json: log-probabilities of so many best tokens, 0 to 20")
      ->check(CLI::Range(0, kMaxLogProbs));
  app.add_option("--stop", flags.request.stops,
                 "text that ends the answer and is not part of it; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--stop-token-id", flags.request.stop_token_ids,
                 "token id that ends the answer; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", flags.request.ignore_end_of_text,
               "go on after the model's end-of-text tokens");
  app.add_flag("!--no-kv-cache", flags.request.use_kv_cache,
               "compute every token again at every step: the same output, only slower");
}

Result<Request> RequestOf(const SamplingFlags& flags) {
  Request request = flags.request;
  for (const std::string& text : flags.logit_bias) {
    QUIRE_ASSIGN_OR_RETURN(const auto bias, ParseBias(text));
    request.sampling.logit_bias[bias.first] = bias.second;
  }
  return request;
}

}  // namespace quire
