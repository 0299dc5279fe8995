#include "cli/plan_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "base/bytes.h"
#include "cli/bench/crowd.h"
#include "cli/bench/load.h"
#include "cli/process_memory.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;  // base/huge_buffer.h
// Tokens that all sequences decode together at the end of their contexts.
constexpr int kLastTokens = 16;
// Rounds of short answers until every thread has sampled in every way, at most.
constexpr int kMostSamplerRounds = 8;

// Draws that take all the memory a sampler ever does: a row of its own, weights and keys of the
// whole vocabulary.
SamplingParameters HeaviestSampling(int vocab_size) {
  return {.temperature = 1.0f, .top_k = vocab_size - 1, .repetition_penalty = 1.1f};
}

// Where the process's memory is at one moment.
struct Moment {
  uint64_t resident = 0;
  uint64_t heap = 0;
  uint64_t weights = 0;
  uint64_t kv = 0;
  uint64_t workspace = 0;
  uint64_t rounding = 0;  // pages of those three beyond their ends
  uint64_t file = 0;      // of the model, mapped
  MemoryHeld held{};

  // Of the heap, what the engine names itself.
  uint64_t named_heap() const {
    return held.attention_bytes + held.logits_bytes + held.sampling_bytes;
  }
};

// Pages of a range, and of what its last page of 2 MiB has beyond it.
Status AddRange(std::span<const std::byte> range, uint64_t& inside, uint64_t& rounding) {
  QUIRE_ASSIGN_OR_RETURN(inside, ResidentBytes(range));
  const size_t whole = AlignUp(range.size(), kHugePageBytes);
  QUIRE_ASSIGN_OR_RETURN(const uint64_t beyond,
                         ResidentBytes({range.data() + range.size(), whole - range.size()}));
  rounding += beyond;
  return {};
}

Result<Moment> Look(const Engine& engine) {
  // What was freed lately is nobody's; in the peak of the process it stays.
  TrimHeap();
  Moment moment{.heap = HeapBytes(), .held = engine.memory_held()};
  QUIRE_ASSIGN_OR_RETURN(moment.resident, ResidentBytes());
  QUIRE_RETURN_IF_ERROR(AddRange(moment.held.weights, moment.weights, moment.rounding));
  QUIRE_RETURN_IF_ERROR(AddRange(moment.held.kv, moment.kv, moment.rounding));
  QUIRE_RETURN_IF_ERROR(AddRange(moment.held.workspace, moment.workspace, moment.rounding));
  for (const MappedFile& part : engine.model().file().parts()) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, ResidentBytes(part.bytes()));
    moment.file += bytes;
  }
  return moment;
}

Request RequestFor(std::vector<int32_t> prompt, const SamplingParameters& sampling,
                   int max_tokens) {
  return {.prompt = std::move(prompt),
          .sampling = sampling,
          .max_tokens = max_tokens,
          .ignore_end_of_text = true};
}

// One engine on its way to the heaviest shape.
class Verification {
 public:
  explicit Verification(const VerifyQuestion& question) : question_(question) {}

  Result<VerifyReport> Run() {
    heap_before_ = HeapBytes();
    QUIRE_RETURN_IF_ERROR(MakeTheEngine());
    vocabulary_ = PlainTokens(engine_->model().tokenizer());
    if (vocabulary_.empty()) {
      return MakeError(ErrorCode::kUnsupported, "the model's vocabulary holds no ordinary tokens");
    }
    QUIRE_ASSIGN_OR_RETURN(loaded_, Look(*engine_));
    QUIRE_RETURN_IF_ERROR(MeasureOneBlock());
    QUIRE_RETURN_IF_ERROR(FillSamplers());
    QUIRE_RETURN_IF_ERROR(ComputeLargestStep());
    QUIRE_ASSIGN_OR_RETURN(empty_, Look(*engine_));
    QUIRE_RETURN_IF_ERROR(ComputePrompts());
    QUIRE_RETURN_IF_ERROR(FillContexts());
    VerifyReport report;
    QUIRE_RETURN_IF_ERROR(Compare(report));
    if (question_.with_floors) {
      QUIRE_ASSIGN_OR_RETURN(report.floors,
                             MeasureFloors(*engine_, Tokens(0, question_.plan.context_tokens),
                                           question_.go_on, question_.show));
    }
    return report;
  }

 private:
  const MemoryPlan& plan() const { return question_.plan; }
  int prompt_tokens() const { return plan().context_tokens - kLastTokens; }
  std::vector<int32_t> Tokens(int sequence, int count) const {
    return RandomTokens(1, static_cast<uint32_t>(sequence), count, vocabulary_);
  }

  Status MakeTheEngine() {
    EngineFlags flags = question_.engine;
    flags.context = plan().context_tokens;
    flags.max_sequences = plan().num_sequences;
    flags.kv_size = fmt::format("{}B", plan().kv_bytes);
    QUIRE_ASSIGN_OR_RETURN(engine_, MakeEngine(flags));
    return {};
  }

  // The blocks of the first 16 tokens: one of each group.
  Status MeasureOneBlock() {
    Crowd crowd(*engine_, question_.go_on);
    QUIRE_RETURN_IF_ERROR(crowd.Add(RequestFor(Tokens(0, kBlockSlots), {.temperature = 0}, 1)));
    QUIRE_RETURN_IF_ERROR(crowd.StepToTheEnd());
    const KvUsage usage = engine_->cache().usage();
    first_blocks_ = usage.used_blocks + usage.cached_blocks;
    return {};
  }

  Status FillSamplers() {
    question_.show("filling the samplers");
    size_t before = 0;
    for (int round = 0; round < kMostSamplerRounds; ++round) {
      Crowd crowd(*engine_, question_.go_on);
      for (int i = 0; i < plan().num_sequences; ++i) {
        QUIRE_RETURN_IF_ERROR(crowd.Add(
            RequestFor(Tokens(i, kBlockSlots), HeaviestSampling(engine_->vocab_size()), 4)));
      }
      QUIRE_RETURN_IF_ERROR(crowd.StepToTheEnd());
      const size_t now = engine_->memory_held().sampling_bytes;
      if (round > 0 && now == before) break;
      before = now;
    }
    return {};
  }

  // A step of as many rows as a step may have, where the prompts below are too short for one.
  // Embeddings alone leave no room for an answer.
  Status ComputeLargestStep() {
    const int64_t rows = std::min<int64_t>(question_.engine.max_batched_tokens,
                                           int64_t{plan().context_tokens} * plan().num_sequences);
    if (int64_t{prompt_tokens()} * plan().num_sequences >= rows) return {};
    Crowd crowd(*engine_, question_.go_on);
    for (int i = 0; i < plan().num_sequences; ++i) {
      QUIRE_RETURN_IF_ERROR(
          crowd.Add({.prompt = Tokens(i, plan().context_tokens), .embedding = Pooling::kLast}));
    }
    QUIRE_RETURN_IF_ERROR(crowd.StepToTheEnd());
    engine_->runner().cache().DropCached();
    return {};
  }

  // All prompts, in the largest steps; their entries stay in the cache.
  Status ComputePrompts() {
    Crowd crowd(*engine_, question_.go_on);
    for (int i = 0; i < plan().num_sequences; ++i) {
      QUIRE_RETURN_IF_ERROR(
          crowd.Add(RequestFor(Tokens(i, prompt_tokens()), {.temperature = 0}, 1)));
    }
    const int64_t first = engine_->counters().computed_tokens;
    const int64_t all = int64_t{prompt_tokens()} * plan().num_sequences;
    return crowd.StepUntil([&] {
      question_.show(fmt::format("computing the prompts: {} of {} tokens",
                                 engine_->counters().computed_tokens - first, all));
      return false;
    });
  }

  // All sequences to their whole context, side by side.
  Status FillContexts() {
    question_.show("decoding to the whole context");
    Crowd crowd(*engine_, question_.go_on);
    for (int i = 0; i < plan().num_sequences; ++i) {
      QUIRE_RETURN_IF_ERROR(
          crowd.Add(RequestFor(Tokens(i, prompt_tokens()), {.temperature = 0}, kLastTokens)));
    }
    const auto count_running = [&] {
      most_sequences_ = std::max(most_sequences_, engine_->num_running());
    };
    QUIRE_RETURN_IF_ERROR(crowd.StepUntil([&] {
      count_running();
      return crowd.fewest_tokens() >= kLastTokens - 1;
    }));
    const KvUsage usage = engine_->cache().usage();
    full_blocks_ = usage.used_blocks + usage.cached_blocks;
    QUIRE_ASSIGN_OR_RETURN(full_, Look(*engine_));
    QUIRE_RETURN_IF_ERROR(crowd.StepUntil([&] {
      count_running();
      return false;
    }));
    // Prompts that windows have passed over may be lost in part and computed again, so that the
    // sequences come one after the other: those count that the cache had room for.
    if (std::ranges::any_of(engine_->cache().layout().groups,
                            [](const KvGroup& group) { return group.window > 0; })) {
      most_sequences_ = plan().num_sequences;
    }
    // Whoever was preempted did not run beside the others.
    most_sequences_ = std::max(0, most_sequences_ - crowd.num_preemptions());
    return {};
  }

  Status Compare(VerifyReport& report) const {
    const auto add = [&](std::string_view name, std::string_view label, VerifyUnit unit,
                         uint64_t predicted, uint64_t measured) {
      report.items.push_back({name, label, unit, predicted, measured});
    };
    QUIRE_ASSIGN_OR_RETURN(const uint64_t peak, PeakResidentBytes());
    const std::vector<MemoryLine> lines = plan().Lines();
    for (const MemoryLine& line : lines) {
      add(line.name, line.label, VerifyUnit::kBytes, line.bytes, Measured(line.name));
    }
    add("total", "total, at the peak", VerifyUnit::kBytes, plan().total_bytes(), peak);
    const uint64_t block_bytes =
        full_blocks_ > 0 ? full_.kv / static_cast<uint64_t>(full_blocks_) : 0;
    add("kv_bytes_per_block", "a block", VerifyUnit::kBytesEach, plan().kv_bytes_per_block,
        block_bytes);
    add("kv_bytes_per_token", "a token, all layers", VerifyUnit::kBytesEach,
        plan().kv_bytes_per_token,
        static_cast<uint64_t>(first_blocks_) * block_bytes / kBlockSlots);
    add("kv_blocks", "blocks", VerifyUnit::kCount, static_cast<uint64_t>(plan().kv_blocks),
        static_cast<uint64_t>(full_blocks_));
    add("sequences", "sequences at once", VerifyUnit::kCount,
        static_cast<uint64_t>(plan().num_sequences), static_cast<uint64_t>(most_sequences_));
    return {};
  }

  // The line of the plan as it is at the heaviest moment.
  uint64_t Measured(std::string_view line) const {
    const auto since = [](uint64_t now, uint64_t before) { return now - std::min(now, before); };
    const uint64_t text = since(loaded_.heap, heap_before_ + loaded_.named_heap()) + full_.file;
    const uint64_t tables =
        since(full_.heap - full_.named_heap(), empty_.heap - empty_.named_heap());
    if (line == "weights") return full_.weights;
    if (line == "kv") return full_.kv;
    if (line == "tables") return tables;
    if (line == "activations") return full_.workspace + full_.held.attention_bytes;
    if (line == "logits") return full_.held.logits_bytes + full_.held.sampling_bytes;
    if (line == "text") return text;
    if (line == "rounding") return full_.rounding;
    const uint64_t others = full_.weights + full_.kv + tables + full_.workspace +
                            full_.named_heap() + text + full_.rounding;
    return since(full_.resident, others);
  }

  const VerifyQuestion& question_;
  std::unique_ptr<Engine> engine_;
  std::vector<int32_t> vocabulary_;
  uint64_t heap_before_ = 0;
  Moment loaded_;  // the engine has done nothing yet
  Moment empty_;   // it has sampled, and nothing is cached
  Moment full_;    // one token before all contexts are full
  int64_t first_blocks_ = 0;
  int64_t full_blocks_ = 0;
  int most_sequences_ = 0;
};

std::string_view NameOf(VerifyUnit unit) {
  switch (unit) {
    case VerifyUnit::kBytes:
    case VerifyUnit::kBytesEach:
      return "bytes";
    case VerifyUnit::kCount:
      return "";
  }
  return "";
}

}  // namespace

uint64_t VerifyItem::allowed() const {
  if (name == "sequences") return 0;
  const auto part =
      static_cast<uint64_t>(kMostOff * static_cast<double>(std::max(predicted, measured)));
  return unit == VerifyUnit::kBytes ? std::max(part, kLeastOff) : part;
}

bool VerifyItem::holds() const {
  const uint64_t off = measured > predicted ? measured - predicted : predicted - measured;
  return off <= allowed();
}

bool VerifyReport::holds() const {
  return std::ranges::all_of(items, &VerifyItem::holds) && (!floors || floors->holds());
}

std::string VerifyReport::Faults() const {
  std::string text;
  for (const VerifyItem& item : items) {
    if (item.holds()) continue;
    text += fmt::format("{}{} (predicted {}, measured {})", text.empty() ? "" : "; ", item.label,
                        GroupDigits(item.predicted), GroupDigits(item.measured));
  }
  if (floors && !floors->holds()) {
    text += fmt::format("{}a time is below its floor", text.empty() ? "" : "; ");
  }
  return text;
}

Result<VerifyReport> VerifyPlan(const VerifyQuestion& question) {
  const MemoryPlan& plan = question.plan;
  if (plan.overhead_bytes > 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--overhead takes the place of what --verify compares; leave one of them out");
  }
  if (plan.context_tokens < kLeastVerifiedContext) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a context of {} tokens is no load; --verify takes {} or more (--ctx-size)",
                     plan.context_tokens, kLeastVerifiedContext);
  }
  return Verification(question).Run();
}

std::string VerifyAsText(const VerifyReport& report) {
  std::string out = fmt::format("\n  {:<22} {:>16} {:>16} {:>14} {:>8}\n", "predicted and measured",
                                "predicted", "measured", "off", "");
  for (const VerifyItem& item : report.items) {
    const double predicted = static_cast<double>(item.predicted);
    fmt::format_to(std::back_inserter(out), "  {:<22} {:>16} {:>16} {:>14} {:>6.1f} %  {}{}\n",
                   item.label, GroupDigits(item.predicted), GroupDigits(item.measured),
                   fmt::format("{}{}", item.off() < 0 ? "-" : "+",
                               GroupDigits(static_cast<uint64_t>(std::abs(item.off())))),
                   predicted > 0 ? 100 * static_cast<double>(item.off()) / predicted : 0.0,
                   NameOf(item.unit), item.holds() ? "" : "  OFF");
  }
  fmt::format_to(std::back_inserter(out),
                 "  an item may be off by {:.0f} % or 1 MiB, whichever is more; {}\n",
                 100 * kMostOff, report.holds() ? "all hold" : "NOT ALL HOLD");
  if (report.floors) out += FloorsAsText(*report.floors);
  return out;
}

std::string VerifyAsJson(const VerifyReport& report) {
  json::array items;
  for (const VerifyItem& item : report.items) {
    items.push_back(json::object{{"name", std::string(item.name)},
                                 {"predicted", item.predicted},
                                 {"measured", item.measured},
                                 {"allowed", item.allowed()},
                                 {"holds", item.holds()}});
  }
  return json::serialize(json::object{{"items", std::move(items)}, {"holds", report.holds()}});
}

}  // namespace quire
