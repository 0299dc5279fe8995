#include "plan/operator_run.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "kv/kv_cache.h"

namespace quire {
namespace {

// Ids that look random and repeat with the seed (a multiplicative congruential generator modulo
// 2^64, of which the high bits are good).
std::vector<int32_t> DrawTokens(uint64_t seed, int count, std::span<const int32_t> vocabulary) {
  std::vector<int32_t> tokens(count);
  uint64_t state = seed * 2 + 1;
  for (int32_t& token : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = vocabulary[(state >> 33) % vocabulary.size()];
  }
  return tokens;
}

class Run {
 public:
  Run(const OperatorRunInput& input, const OperatorRunOptions& options, int num_tokens)
      : input_(input),
        options_(options),
        decoder_(input.config, input.weights, input.kernels, input.threads),
        tokens_(DrawTokens(options.seed, num_tokens, input.vocabulary)),
        logits_(input.config.vocab_size) {}

  // The first touch of the decoder's memory and of the weights is nobody's time.
  Status WarmUp() {
    BlockTables tables = input_.cache.AcquirePrivate();
    return Advance(tables, std::max({options_.prefill_tokens, options_.decode_steps, 1}), nullptr);
  }

  // Computes the tables' next tokens in one step; adds to the sample where there is one.
  Status Advance(BlockTables& tables, int num_tokens, OperatorSample* sample) {
    if (options_.go_on && !options_.go_on()) {
      return MakeError(ErrorCode::kInterrupted, "interrupted");
    }
    const int first = tables.num_tokens();
    const int end = first + num_tokens;
    if (!input_.cache.Reserve(tables, end)) {
      return MakeError(ErrorCode::kResourceExhausted,
                       "the KV cache has no room for {} tokens: {} blocks are available", end,
                       input_.cache.usage().available_blocks());
    }
    const std::span<const int32_t> tokens(tokens_);
    const KvSequence sequence{
        .num_rows = num_tokens, .first_position = first, .block_tables = tables.views()};
    const int last_row = num_tokens - 1;
    const auto start = std::chrono::steady_clock::now();
    QUIRE_RETURN_IF_ERROR(decoder_.Forward({.tokens = tokens.subspan(first, num_tokens),
                                            .sequences = {&sequence, 1},
                                            .logits_rows = {&last_row, 1},
                                            .times = sample != nullptr ? &sample->times : nullptr},
                                           input_.cache.view(), logits_));
    if (sample != nullptr) AddStep(*sample, first, num_tokens, start);
    input_.cache.Commit(tables, tokens.first(end));
    return {};
  }

  // What follows the tables' tokens, on tables of its own.
  Result<OperatorSample> Measure(std::string_view phase, const BlockTables& before, int num_steps,
                                 int step_tokens) {
    OperatorSample sample{.phase = phase, .depth = before.num_tokens()};
    BlockTables tables = input_.cache.Fork(before);
    for (int i = 0; i < num_steps; ++i) {
      QUIRE_RETURN_IF_ERROR(Advance(tables, step_tokens, &sample));
    }
    return sample;
  }

 private:
  void AddStep(OperatorSample& sample, int first, int num_tokens,
               std::chrono::steady_clock::time_point start) {
    sample.forward_ms +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    const OperatorCosts costs = CostByOperator(input_.config, input_.weights,
                                               input_.cache.layout().type, first, num_tokens, 1);
    for (size_t i = 0; i < costs.size(); ++i) sample.costs[i] += costs[i];
    sample.num_tokens += num_tokens;
    ++sample.num_steps;
  }

  const OperatorRunInput& input_;
  const OperatorRunOptions& options_;
  Decoder decoder_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;
};

// Ascending, those that the context has room for.
std::vector<int> DepthsThatFit(const OperatorRunInput& input, const OperatorRunOptions& options) {
  std::set<int> depths;
  const int measured = std::max(options.prefill_tokens, options.decode_steps);
  for (const int depth : options.depths) {
    if (depth >= 0 && depth <= input.context_length - measured) depths.insert(depth);
  }
  return {depths.begin(), depths.end()};
}

}  // namespace

Result<std::vector<OperatorSample>> MeasureOperators(const OperatorRunInput& input,
                                                     const OperatorRunOptions& options) {
  QUIRE_CHECK(!input.vocabulary.empty(), "no tokens to draw from");
  const std::vector<int> depths = DepthsThatFit(input, options);
  const int measured = std::max(options.prefill_tokens, options.decode_steps);
  if (depths.empty()) {
    if (options.depths.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "no depth to measure at; expected one or more");
    }
    return MakeError(ErrorCode::kContextLength,
                     "no depth of {} fits into the context of {}: {} tokens are measured behind it",
                     std::ranges::min(options.depths), input.context_length, measured);
  }
  Run run(input, options, depths.back() + std::max(measured, 1));
  QUIRE_RETURN_IF_ERROR(run.WarmUp());
  std::vector<OperatorSample> samples;
  std::vector<OperatorSample> decodes;
  BlockTables tables = input.cache.AcquirePrivate();
  for (const int depth : depths) {
    while (tables.num_tokens() < depth) {
      const int left = depth - tables.num_tokens();
      QUIRE_RETURN_IF_ERROR(run.Advance(tables, std::min(left, options.chunk_tokens), nullptr));
    }
    if (options.prefill_tokens > 0) {
      QUIRE_ASSIGN_OR_RETURN(auto prefill,
                             run.Measure("prefill", tables, 1, options.prefill_tokens));
      samples.push_back(prefill);
    }
    if (options.decode_steps > 0) {
      QUIRE_ASSIGN_OR_RETURN(auto decode, run.Measure("decode", tables, options.decode_steps, 1));
      decodes.push_back(decode);
    }
  }
  samples.insert(samples.end(), decodes.begin(), decodes.end());
  return samples;
}

}  // namespace quire
