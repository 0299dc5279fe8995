// How much memory an engine takes, line by line, before it takes any; and what fits into a size.
//
// PlanMemory is the forward answer. Everything else (the largest context, the number of sequences)
// is a search over it, so the two always agree. Cost is not linear: windows stop growing, weights
// and activations are there once, memory comes in blocks and in huge pages.
//
// What is counted is what stays resident at the peak: the lines of MemoryPlan. The system's page
// cache is not: a file's weights leave this process as they are read. The first start of a model,
// which packs its weights, peaks higher than later ones by the pages that the system maps around
// those in use (2 MiB of a file of 100 MB, 8 MiB of one of 1.1 GB), and by nothing else.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/kv_cost.h"
#include "plan/model_shape.h"

namespace quire {

struct PlanOptions {
  KvElement kv_element = KvElementOf(KvType::kF16);
  int context_tokens = 0;   // of each sequence, prompt and answer; 0 = what the model was made for
  int num_sequences = 1;    // that hold a whole context at once
  int prefill_chunk = 512;  // tokens a step computes, at most
  int num_threads = 1;
  int logits_rows = 0;  // rows of logits held at once; 0 = one a sequence
  // In place of the estimates of everything but weights, keys and values.
  std::optional<uint64_t> overhead_bytes{};
};

// One line of a plan. `name` is the JSON field without "_bytes".
struct MemoryLine {
  std::string_view name;
  std::string_view label;
  uint64_t bytes = 0;
};

struct MemoryPlan {
  int context_tokens = 0;
  int num_sequences = 0;

  uint64_t kv_bytes_per_token = 0;  // over all layers, windows open
  uint64_t kv_bytes_per_block = 0;
  int64_t kv_blocks_per_sequence = 0;
  int64_t kv_blocks = 0;  // of all sequences: the size of the pool
  uint64_t kv_sequence_formula_bytes = 0;
  uint64_t kv_sequence_bytes = 0;  // in blocks
  uint64_t kv_formula_bytes = 0;   // of all sequences

  // The lines of the total, without gaps or overlaps.
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;          // in blocks
  uint64_t table_bytes = 0;       // block tables, token ids, records of the pool and the index
  uint64_t activation_bytes = 0;  // of one step's rows
  uint64_t logits_bytes = 0;      // and what a sampler needs beside them
  uint64_t text_bytes = 0;        // vocabulary and tokenizer, with the metadata of the file
  uint64_t process_bytes = 0;     // code, stacks, heap
  uint64_t rounding_bytes = 0;    // of weights, cache and activations, to huge pages
  uint64_t overhead_bytes = 0;    // when given, in place of the five before it

  // Saturates at kNeverFits.
  uint64_t total_bytes() const;
  // With the formula's keys and values in place of the blocks.
  uint64_t total_formula_bytes() const;
  uint64_t bytes_without_kv() const { return total_of(0); }
  std::vector<MemoryLine> Lines() const;

 private:
  uint64_t total_of(uint64_t kv) const;
};

// kInvalidArgument for options out of range, kUnsupported where the KV type cannot store the heads.
Result<MemoryPlan> PlanMemory(const ModelShape& shape, const PlanOptions& options);

// The longest context that options.num_sequences sequences can have at once in so many bytes, all
// told; 0 = not even one token. May be longer than the model was made for.
Result<int> LargestContext(const ModelShape& shape, PlanOptions options, uint64_t budget_bytes);

// How many sequences of the whole context fit into so many bytes, all told.
Result<int> SequencesThatFit(const ModelShape& shape, PlanOptions options, uint64_t budget_bytes);

// What is left for keys and values of so many bytes, all told, where as many sequences of the whole
// context run as fit: it holds those of SequencesThatFit and not one more, for one more would need
// tables and logits too.
Result<uint64_t> KvBytesThatFit(const ModelShape& shape, PlanOptions options,
                                uint64_t budget_bytes);

// What fits where keys and values are of one type.
struct KvTypeFit {
  KvElement element{};
  uint64_t kv_bytes_per_token = 0;
  int largest_context = 0;  // of options.num_sequences sequences
  int sequences = 0;        // of the whole context
};

// LargestContext and SequencesThatFit by each type of kKvElements that can store the model's heads;
// options.kv_element does not matter.
Result<std::vector<KvTypeFit>> FitByKvType(const ModelShape& shape, PlanOptions options,
                                           uint64_t budget_bytes);

// Success when the plan fits. kResourceExhausted otherwise, with what is needed, what there is, and
// what would fit, in tokens and bytes.
Status CheckFits(const ModelShape& shape, const PlanOptions& options, uint64_t budget_bytes);

// Sequences and steps beyond these are refused; so many do not run on one machine.
inline constexpr int kMaxPlannedSequences = 1 << 20;
inline constexpr int kMaxPlannedChunk = 1 << 20;

}  // namespace quire
