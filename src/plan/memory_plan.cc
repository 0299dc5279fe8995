#include "plan/memory_plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "base/thread_pool.h"
#include "models/workspace.h"
#include "plan/byte_size.h"
#include "plan/saturating.h"

namespace quire {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;  // base/huge_buffer.h

// Code and libraries in use, and the heap of an idle process: measured on the program itself, with
// a model of a few KiB.
constexpr uint64_t kIdleProcessBytes = uint64_t{34} << 19;
// What any engine with any model has on the heap, beside what is counted.
constexpr uint64_t kEngineBytes = uint64_t{300} << 10;
// The part of a worker's stack that is ever touched, and its corner of the heap.
constexpr uint64_t kThreadBytes = uint64_t{160} << 10;

// The pool's record of a block, and the index's way from a block to its name.
constexpr uint64_t kBlockRecordBytes = 32;
// A name in the index (kv/prefix_index.h): two digests, 16 token ids, the blocks of every group,
// and what a hash table and an ordered set keep beside them.
constexpr uint64_t kNameBytes = 320;
// A token of a sequence: its id, as the request has it, as it is fed and as it is given back, in
// lists that grow by doubling.
constexpr uint64_t kTokenRecordBytes = 28;
// The memory of what was evicted (kv/eviction_record.h): an entry in each of two tables, four times
// as many as there are blocks, in whole powers of two of sets of eight, and no more than 2,048
// sets.
constexpr uint64_t kEvictedBytes = 104;
constexpr uint64_t kEvictedWays = 8;
constexpr uint64_t kMostEvictedSets = 2048;
// A sampler may sort 8-byte keys and sum 8-byte weights beside 4-byte logits. Each thread has one,
// as far as there are sequences to sample for.
constexpr uint64_t kSamplerBytesPerToken = 20;

constexpr uint64_t kTileQueries = 8;
constexpr uint64_t kTilesAtOnce = 8;
constexpr uint64_t kSpanKeys = 128;

uint64_t SpansOf(uint64_t num_tokens) { return (num_tokens + kSpanKeys - 1) / kSpanKeys; }

// Tiles of a layer's attention over so many rows of a sequence.
uint64_t TilesOf(const LayerConfig& layer, uint64_t rows) {
  const uint64_t kv_heads = std::max(layer.num_kv_heads, 1);
  const uint64_t sharing = (layer.num_heads + kv_heads - 1) / kv_heads;
  return kv_heads * ((rows * sharing + kTileQueries - 1) / kTileQueries);
}

// Partials that wait to be merged, where the spans of the tiles are shared out among the threads
// because groups of whole tiles would keep them busy unevenly: in decodes of few sequences, and at
// the beginning of a prompt, whose last rows have more spans than its first.
uint64_t WaveOf(const LayerConfig& layer, const PlanOptions& options, uint64_t context) {
  constexpr uint64_t kMostWaiting = 256;
  const auto threads = static_cast<uint64_t>(options.num_threads);
  const uint64_t decode =
      std::min(kTilesAtOnce * threads,
               TilesOf(layer, 1) * static_cast<uint64_t>(options.num_sequences)) *
      SpansOf(context);
  const uint64_t rows = std::min(static_cast<uint64_t>(options.prefill_chunk), context);
  const uint64_t spans = SpansOf(rows);
  const uint64_t tiles = TilesOf(layer, rows);
  const bool is_uneven = spans > 1 && tiles * (spans + 1) < 16 * kTilesAtOnce * threads * spans;
  const uint64_t prefill = is_uneven ? tiles * (spans + 1) / 2 : 0;
  return std::min(kMostWaiting, std::max(decode, prefill));
}

// Scratch of the attention (kernels/attention.h): for each thread eight tiles of queries and a
// partial, the partials that wait, and for each query of the step its share of a tile's record and
// its totals.
uint64_t AttentionBytes(const ModelConfig& config, const PlanOptions& options, uint64_t rows,
                        uint64_t context) {
  constexpr uint64_t kQueryBytes = 16;
  uint64_t key_dim = 0;
  uint64_t heads = 0;
  uint64_t partial = 0;
  uint64_t waiting = 0;
  for (const LayerConfig& layer : config.layers) {
    key_dim = std::max<uint64_t>(key_dim, layer.key_dim);
    heads = std::max<uint64_t>(heads, layer.num_heads);
    const uint64_t bytes =
        (16 + kTileQueries * static_cast<uint64_t>(layer.value_dim)) * sizeof(float);
    partial = std::max(partial, bytes);
    waiting = std::max(waiting, WaveOf(layer, options, context) * bytes);
  }
  const uint64_t queries = kTileQueries * key_dim * sizeof(float);
  const auto threads = static_cast<uint64_t>(options.num_threads);
  return threads * (kTilesAtOnce * queries + partial) + waiting + rows * heads * kQueryBytes;
}

// Of a pool of so many blocks.
uint64_t EvictionRecordBytes(uint64_t blocks) {
  const uint64_t sets = std::bit_ceil(std::min(4 * blocks / kEvictedWays + 1, kMostEvictedSets));
  return sets * kEvictedWays * kEvictedBytes;
}

Status CheckRange(std::string_view what, int value, int min, int max) {
  if (value >= min && value <= max) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{} {}; expected {} to {}", value, what, min, max);
}

Status CheckOptions(const PlanOptions& options) {
  QUIRE_RETURN_IF_ERROR(
      CheckRange("tokens of context", options.context_tokens, 0, std::numeric_limits<int>::max()));
  QUIRE_RETURN_IF_ERROR(CheckRange("sequences", options.num_sequences, 1, kMaxPlannedSequences));
  QUIRE_RETURN_IF_ERROR(CheckRange("tokens a step", options.prefill_chunk, 1, kMaxPlannedChunk));
  QUIRE_RETURN_IF_ERROR(CheckRange("threads", options.num_threads, 1, ThreadPool::kMaxThreads));
  return CheckRange("rows of logits", options.logits_rows, 0, kMaxPlannedSequences);
}

uint64_t RoundingOf(uint64_t bytes) {
  return bytes > kNeverFits - kHugePageBytes ? 0 : AlignUp(bytes, kHugePageBytes) - bytes;
}

// The plan of checked options: what the searches repeat.
MemoryPlan PlanChecked(const ModelShape& shape, const KvCost& cost, const PlanOptions& options) {
  const ModelConfig& config = shape.config;
  const auto sequences = static_cast<uint64_t>(options.num_sequences);
  const int context = options.context_tokens > 0 ? options.context_tokens : config.context_length;
  // A step takes several prompts where one does not fill it.
  const auto rows = static_cast<int>(std::max<int64_t>(
      options.num_sequences,
      std::min<int64_t>(options.prefill_chunk, int64_t{context} * options.num_sequences)));

  MemoryPlan plan{.context_tokens = context, .num_sequences = options.num_sequences};
  plan.kv_bytes_per_token = cost.BytesPerToken();
  plan.kv_bytes_per_block = cost.BytesPerBlock();
  plan.kv_blocks_per_sequence = cost.Blocks(context, options.prefill_chunk);
  plan.kv_blocks = plan.kv_blocks_per_sequence * options.num_sequences;
  plan.kv_sequence_formula_bytes = cost.FormulaBytes(context);
  plan.kv_sequence_bytes = cost.BlockBytes(context, options.prefill_chunk);
  plan.kv_formula_bytes = SaturatingMul(plan.kv_sequence_formula_bytes, sequences);
  plan.kv_bytes = SaturatingMul(plan.kv_sequence_bytes, sequences);
  plan.weight_bytes = shape.weight_bytes;
  if (options.overhead_bytes) {
    plan.overhead_bytes = *options.overhead_bytes;
    return plan;
  }
  const uint64_t workspace = Workspace(config, options.num_threads).BytesFor(rows);
  const auto entries = static_cast<uint64_t>((context + int64_t{kBlockSlots} - 1) / kBlockSlots);
  const auto groups = static_cast<uint64_t>(cost.layout().num_groups());
  plan.table_bytes = sequences * (entries * (kNameBytes + 2 * groups * sizeof(int32_t)) +
                                  static_cast<uint64_t>(context) * kTokenRecordBytes) +
                     static_cast<uint64_t>(plan.kv_blocks) * kBlockRecordBytes +
                     EvictionRecordBytes(static_cast<uint64_t>(plan.kv_blocks));
  plan.activation_bytes = workspace + AttentionBytes(config, options, static_cast<uint64_t>(rows),
                                                     static_cast<uint64_t>(context));
  const uint64_t logits_rows = options.logits_rows > 0 ? options.logits_rows : sequences;
  const uint64_t samplers =
      std::min<uint64_t>(static_cast<uint64_t>(options.num_threads), logits_rows);
  plan.logits_bytes = static_cast<uint64_t>(config.vocab_size) *
                      (logits_rows * sizeof(float) + samplers * kSamplerBytesPerToken);
  plan.text_bytes = shape.text_bytes + shape.mapped_bytes + kEngineBytes;
  plan.process_bytes = kIdleProcessBytes + options.num_threads * kThreadBytes;
  plan.rounding_bytes =
      RoundingOf(plan.weight_bytes) + RoundingOf(plan.kv_bytes) + RoundingOf(workspace);
  return plan;
}

}  // namespace

std::vector<MemoryLine> MemoryPlan::Lines() const {
  if (overhead_bytes > 0) {
    return {{"weights", "weights", weight_bytes},
            {"kv", "keys and values", kv_bytes},
            {"overhead", "overhead, as given", overhead_bytes}};
  }
  return {{"weights", "weights", weight_bytes},
          {"kv", "keys and values", kv_bytes},
          {"tables", "tables and index", table_bytes},
          {"activations", "activations", activation_bytes},
          {"logits", "logits and sampling", logits_bytes},
          {"text", "vocabulary", text_bytes},
          {"process", "code and stacks", process_bytes},
          {"rounding", "rounding to pages", rounding_bytes}};
}

uint64_t MemoryPlan::total_of(uint64_t kv) const {
  uint64_t total = kv;
  for (const MemoryLine& line : Lines()) {
    if (line.name != "kv") total = SaturatingAdd(total, line.bytes);
  }
  return total;
}

uint64_t MemoryPlan::total_bytes() const { return total_of(kv_bytes); }
uint64_t MemoryPlan::total_formula_bytes() const { return total_of(kv_formula_bytes); }

Result<MemoryPlan> PlanMemory(const ModelShape& shape, const PlanOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckOptions(options));
  if (options.context_tokens == 0 && shape.config.context_length == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the model does not say what context it was made for; --ctx-size does");
  }
  QUIRE_ASSIGN_OR_RETURN(const KvCost cost, KvCost::Make(shape.config, options.kv_element));
  return PlanChecked(shape, cost, options);
}

Result<int> LargestContext(const ModelShape& shape, PlanOptions options, uint64_t budget_bytes) {
  options.context_tokens = 1;
  QUIRE_RETURN_IF_ERROR(CheckOptions(options));
  QUIRE_ASSIGN_OR_RETURN(const KvCost cost, KvCost::Make(shape.config, options.kv_element));
  return LargestThat(std::numeric_limits<int>::max(), [&](int context) {
    options.context_tokens = context;
    return PlanChecked(shape, cost, options).total_bytes() <= budget_bytes;
  });
}

Result<int> SequencesThatFit(const ModelShape& shape, PlanOptions options, uint64_t budget_bytes) {
  options.num_sequences = 1;
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan one, PlanMemory(shape, options));
  if (one.total_bytes() > budget_bytes) return 0;
  QUIRE_ASSIGN_OR_RETURN(const KvCost cost, KvCost::Make(shape.config, options.kv_element));
  return LargestThat(kMaxPlannedSequences, [&](int num_sequences) {
    options.num_sequences = num_sequences;
    return PlanChecked(shape, cost, options).total_bytes() <= budget_bytes;
  });
}

Result<uint64_t> KvBytesThatFit(const ModelShape& shape, PlanOptions options,
                                uint64_t budget_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const int sequences, SequencesThatFit(shape, options, budget_bytes));
  const bool is_most = sequences == kMaxPlannedSequences;
  options.num_sequences = is_most ? sequences : sequences + 1;
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan more, PlanMemory(shape, options));
  const uint64_t whole = SaturatingMul(more.kv_sequence_bytes, static_cast<uint64_t>(sequences));
  const uint64_t left = budget_bytes - std::min(budget_bytes, more.bytes_without_kv());
  return is_most ? whole : std::max(left, whole);
}

Result<std::vector<KvTypeFit>> FitByKvType(const ModelShape& shape, PlanOptions options,
                                           uint64_t budget_bytes) {
  std::vector<KvTypeFit> fits;
  for (const KvElement& element : kKvElements) {
    options.kv_element = element;
    const auto cost = KvCost::Make(shape.config, element);
    if (!cost.ok() && cost.error().code == ErrorCode::kUnsupported) continue;
    QUIRE_ASSIGN_OR_RETURN(const int context, LargestContext(shape, options, budget_bytes));
    QUIRE_ASSIGN_OR_RETURN(const int sequences, SequencesThatFit(shape, options, budget_bytes));
    fits.push_back({.element = element,
                    .kv_bytes_per_token = cost->BytesPerToken(),
                    .largest_context = context,
                    .sequences = sequences});
  }
  return fits;
}

Status CheckFits(const ModelShape& shape, const PlanOptions& options, uint64_t budget_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(shape, options));
  const uint64_t needed = plan.total_bytes();
  if (needed <= budget_bytes) return {};
  QUIRE_ASSIGN_OR_RETURN(const int context, LargestContext(shape, options, budget_bytes));
  QUIRE_ASSIGN_OR_RETURN(const int sequences, SequencesThatFit(shape, options, budget_bytes));
  const std::string needs =
      fmt::format("{} of {} tokens {} {}, {} of them for keys and values; there are {}",
                  options.num_sequences == 1 ? "a sequence"
                                             : fmt::format("{} sequences", options.num_sequences),
                  plan.context_tokens, options.num_sequences == 1 ? "needs" : "need",
                  FormatBytes(needed), GroupDigits(plan.kv_bytes), FormatBytes(budget_bytes));
  if (context == 0) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}; {} bytes are needed without any keys and values", needs,
                     GroupDigits(plan.bytes_without_kv()));
  }
  PlanOptions fitting = options;
  fitting.context_tokens = context;
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan smaller, PlanMemory(shape, fitting));
  return MakeError(ErrorCode::kResourceExhausted,
                   "{}; what fits: a context of at most {} tokens (--ctx-size {}), which takes {} "
                   "bytes, or {} sequences of {} tokens",
                   needs, context, context, GroupDigits(smaller.total_bytes()), sequences,
                   plan.context_tokens);
}

}  // namespace quire
