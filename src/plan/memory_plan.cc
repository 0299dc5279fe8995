#include "plan/memory_plan.h"

#include <algorithm>
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
constexpr uint64_t kIdleProcessBytes = uint64_t{11} << 20;
// The part of a worker's stack that is ever touched, and its corner of the heap.
constexpr uint64_t kThreadBytes = uint64_t{160} << 10;

// The pool's record of a block, and the index's way from a block to its name.
constexpr uint64_t kBlockRecordBytes = 32;
// A name in the index (kv/prefix_index.h): two digests, 16 token ids, the blocks of every group,
// and what a hash table and an ordered set keep beside them.
constexpr uint64_t kNameBytes = 320;
// A token of a sequence: its id as fed and as given back, and its place in a table of ids.
constexpr uint64_t kTokenRecordBytes = 16;
// A sampler without top-k sorts 8-byte keys and sums 8-byte weights beside 4-byte logits.
constexpr uint64_t kSamplerBytesPerToken = 20;

// Scratch of the attention (kernels/attention.h): for each thread eight tiles of queries and a
// partial, for all of them a wave of 256 partials, and for each query of the step its share of a
// tile's record and its totals.
uint64_t AttentionBytes(const ModelConfig& config, int num_threads, uint64_t rows) {
  uint64_t key_dim = 0;
  uint64_t value_dim = 0;
  uint64_t heads = 0;
  for (const LayerConfig& layer : config.layers) {
    key_dim = std::max<uint64_t>(key_dim, layer.key_dim);
    value_dim = std::max<uint64_t>(value_dim, layer.value_dim);
    heads = std::max<uint64_t>(heads, layer.num_heads);
  }
  constexpr uint64_t kTileQueries = 8;
  constexpr uint64_t kTilesAtOnce = 8;
  constexpr uint64_t kWave = 256;
  constexpr uint64_t kQueryBytes = 16;
  const uint64_t partial = (16 + kTileQueries * value_dim) * sizeof(float);
  const uint64_t queries = kTileQueries * key_dim * sizeof(float);
  const uint64_t threads = static_cast<uint64_t>(num_threads);
  return threads * (kTilesAtOnce * queries + partial) + kWave * partial +
         rows * heads * kQueryBytes;
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
  const int rows = std::max(options.num_sequences, std::min(options.prefill_chunk, context));

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
                     static_cast<uint64_t>(plan.kv_blocks) * kBlockRecordBytes;
  plan.activation_bytes = workspace + AttentionBytes(config, options.num_threads, rows);
  const uint64_t logits_rows = options.logits_rows > 0 ? options.logits_rows : sequences;
  plan.logits_bytes = static_cast<uint64_t>(config.vocab_size) *
                      (logits_rows * sizeof(float) + kSamplerBytesPerToken);
  plan.text_bytes = shape.text_bytes + shape.mapped_bytes;
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
