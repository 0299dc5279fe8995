#include "engine/model_runner.h"

#include <algorithm>
#include <numeric>

#include "base/available_memory.h"
#include "kernels/numerics_version.h"

namespace quire {
namespace {

Status CheckOptions(const RunnerOptions& options) {
  if (options.num_threads < 0 || options.num_threads > ThreadPool::kMaxThreads) {
    return MakeError(ErrorCode::kInvalidArgument, "{} threads; expected 1 to {}, or 0 for all",
                     options.num_threads, ThreadPool::kMaxThreads);
  }
  if (options.max_batched_tokens < 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "steps of {} tokens; expected 1 or more (--max-batched-tokens)",
                     options.max_batched_tokens);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ModelRunner>> ModelRunner::Create(const std::filesystem::path& path,
                                                         const RunnerOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckOptions(options));
  const auto start = std::chrono::steady_clock::now();
  const int num_threads = options.num_threads > 0 ? options.num_threads : AvailableProcessors();
  std::unique_ptr<ModelRunner> runner(new ModelRunner(num_threads));
  QUIRE_ASSIGN_OR_RETURN(runner->kernels_, SelectKernels(options.kernels));
  MemoryFit fit;
  LoadOptions load = options.load;
  load.admit = [&](const GgufFile& file, const ModelConfig&) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const ModelShape shape, ShapeOfFile(file));
    QUIRE_ASSIGN_OR_RETURN(fit, FitMemory(shape, {.kv_type = options.kv_type,
                                                  .context_length = options.context_length,
                                                  .kv_bytes = options.kv_bytes,
                                                  .num_sequences = options.num_sequences,
                                                  .max_batched_tokens = options.max_batched_tokens,
                                                  .logits_rows = options.logits_rows,
                                                  .num_threads = num_threads,
                                                  .available_bytes = AvailableMemory(),
                                                  .budget_bytes = options.budget_bytes}));
    return {};
  };
  QUIRE_ASSIGN_OR_RETURN(runner->model_, LoadedModel::Load(path, load, runner->pool_));
  QUIRE_RETURN_IF_ERROR(runner->CreateCache(std::move(fit)));
  runner->max_batched_tokens_ = std::min(options.max_batched_tokens, runner->context_length_);
  runner->decoder_ = std::make_unique<Decoder>(runner->model_->config(), runner->model_->weights(),
                                               *runner->kernels_, runner->pool_);
  runner->load_duration_ = std::chrono::steady_clock::now() - start;
  return runner;
}

Status ModelRunner::CreateCache(MemoryFit fit) {
  context_length_ = fit.context_length;
  ingredients_ = {.weights = model_->digest(),
                  .architecture = ArchitectureDigest(model_->config()),
                  .layout = fit.layout.LayoutDigest(),
                  .numerics_version = kNumericsVersion};
  fingerprint_ = FingerprintOf(ingredients_);
  Result<std::unique_ptr<KvCache>> cache = KvCache::Create(std::move(fit.layout), fit.num_blocks);
  if (!cache.ok()) {
    return MakeError(cache.error().code,
                     "no room for the KV cache of a context of {} tokens: {}; --ctx-size makes it "
                     "smaller",
                     context_length_, cache.error().message);
  }
  cache_ = std::move(cache).value();
  return {};
}

Status ModelRunner::Forward(std::span<const StepItem> items, std::span<const int> wanted_rows,
                            std::span<float> logits, std::span<const int> hidden_rows,
                            std::span<float> hidden, OperatorTimes* times) {
  tokens_.clear();
  sequences_.clear();
  for (const StepItem& item : items) {
    sequences_.push_back({.first_row = static_cast<int>(tokens_.size()),
                          .num_rows = item.num_tokens,
                          .first_position = item.first_position,
                          .block_tables = item.block_tables});
    tokens_.insert(tokens_.end(), item.tokens.begin(), item.tokens.end());
  }
  return decoder_->Forward({.tokens = tokens_,
                            .sequences = sequences_,
                            .logits_rows = wanted_rows,
                            .hidden_rows = hidden_rows,
                            .times = times},
                           cache_->view(), logits, hidden);
}

Status ModelRunner::ComputeRows(std::span<const int32_t> tokens, int num_rows,
                                std::span<float> rows) {
  const int num_tokens = static_cast<int>(tokens.size());
  BlockTables tables = cache_->AcquirePrivate();
  int first = 0;
  while (first < num_tokens) {
    const int count = std::min(num_tokens - first, max_batched_tokens_);
    const int end = first + count;
    if (end > context_length_ || !cache_->Reserve(tables, end)) {
      return MakeError(ErrorCode::kContextLength,
                       "{} tokens do not fit into the context of {} tokens", num_tokens,
                       context_length_);
    }
    const int first_wanted = std::max(first, num_tokens - num_rows);
    std::vector<int> wanted(std::max(0, end - first_wanted));
    std::iota(wanted.begin(), wanted.end(), first_wanted - first);
    const StepItem item{.first_position = first,
                        .num_tokens = count,
                        .tokens = tokens.subspan(first, count),
                        .block_tables = tables.views()};
    QUIRE_RETURN_IF_ERROR(Forward({&item, 1}, wanted, rows.first(wanted.size() * vocab_size())));
    rows = rows.subspan(wanted.size() * vocab_size());
    cache_->Commit(tables, tokens.first(end));
    first = end;
  }
  return {};
}

}  // namespace quire
