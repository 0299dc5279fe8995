// A tiny random model in memory, with its decoder's needs and a cache, and no engine around it.
#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "kernels/kernel_set.h"
#include "kv/kv_cache.h"
#include "models/decoder.h"
#include "models/pack.h"
#include "plan/model_shape.h"
#include "plan/operator_run.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire::testing {

struct LoadedTiny {
  explicit LoadedTiny(const TinyShape& shape) {
    const ScratchDirectory directory;
    QUIRE_CHECK(TinyLlama(shape).Write(directory.path() / "model.gguf"), "not written");
    const auto file = GgufFile::Open(directory.path() / "model.gguf");
    config = ReadModelConfig(*file).value();
    const WeightPlan plan = PlanWeights(*file, config).value();
    pack = PackWeights(*file, plan, threads, {}).value();
    weights = BindWeights(plan, config.num_layers(), pack.memory.data());
    cache =
        KvCache::Create(KvLayout::Make(KvShapesOfLayers(config), KvType::kF16).value(), 64).value();
    vocabulary.resize(config.vocab_size);
    std::iota(vocabulary.begin(), vocabulary.end(), 0);
  }

  Result<std::vector<OperatorSample>> Measure(const OperatorRunOptions& options) {
    return MeasureOperators({.config = config,
                             .weights = weights,
                             .kernels = kernels,
                             .threads = threads,
                             .cache = *cache,
                             .context_length = config.context_length,
                             .vocabulary = vocabulary},
                            options);
  }

  // After tokens 1..20.
  std::vector<float> Logits(OperatorTimes* times) {
    std::vector<int32_t> tokens(20);
    std::iota(tokens.begin(), tokens.end(), 1);
    BlockTables tables = cache->AcquirePrivate();
    QUIRE_CHECK(cache->Reserve(tables, 20), "no room");
    const KvSequence sequence{.num_rows = 20, .block_tables = tables.views()};
    const int last_row = 19;
    std::vector<float> logits(config.vocab_size);
    Decoder decoder(config, weights, kernels, threads);
    const Status computed = decoder.Forward({.tokens = tokens,
                                             .sequences = {&sequence, 1},
                                             .logits_rows = {&last_row, 1},
                                             .times = times},
                                            cache->view(), logits);
    QUIRE_CHECK(computed.ok(), "{}", computed.error().message);
    return logits;
  }

  ThreadPool threads{1};
  const KernelSet& kernels = *SelectKernels("").value();
  ModelConfig config{};
  Pack pack{};
  Weights weights{};
  std::unique_ptr<KvCache> cache{};
  std::vector<int32_t> vocabulary{};
};

}  // namespace quire::testing
