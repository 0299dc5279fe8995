#include "cli/plan_floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <iterator>

#include "base/available_memory.h"
#include "base/huge_buffer.h"
#include "cli/bench/load.h"
#include "engine/generation.h"
#include "formats/gguf.h"
#include "models/weight_plan.h"
#include "plan/byte_size.h"
#include "plan/machine_limits.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr int kDepths[] = {0, 2048, 8192};

// What a depth needs beside itself: one token of prompt, and those that are decoded.
constexpr int kRoomBesideDepth = kFloorDecodeTokens + 2;

int PromptTokens(int context_tokens, int depth) {
  return std::clamp(context_tokens - depth - 1, 1, kFloorPromptTokens);
}

MachineLimits Best(const MachineLimits& one, const MachineLimits& other) {
  return {.bytes_per_second = std::max(one.bytes_per_second, other.bytes_per_second),
          .int8_ops_per_second = std::max(one.int8_ops_per_second, other.int8_ops_per_second),
          .f32_ops_per_second = std::max(one.f32_ops_per_second, other.f32_ops_per_second)};
}

// The ceilings of this moment.
MachineLimits MeetLimits(ThreadPool& pool, std::string_view kernels,
                         std::span<const std::byte> bytes) {
  const double read_rate = static_cast<double>(bytes.size()) / ReadSeconds(pool, bytes);
  const ArithmeticPeaks peaks = MeasureArithmeticPeaks(pool, kernels);
  return {.bytes_per_second = read_rate,
          .int8_ops_per_second = peaks.int8_ops_per_second,
          .f32_ops_per_second = peaks.f32_ops_per_second};
}

// By the row's limits.
void SetFloors(const FloorModel& model, FloorRow& row) {
  row.ttft = TtftFloor(model, row.ttft_limits, row.depth, row.prompt_tokens);
  row.tpot = TpotFloor(model, row.tpot_limits, row.depth, kFloorDecodeTokens);
  row.batch = ComputeBoundBatchOf(model, row.tpot_limits, row.depth);
}

// One request, alone, to its end.
Result<RequestResult> RunOne(Engine& engine, std::vector<int32_t> prompt, int max_tokens,
                             const std::function<bool()>& go_on) {
  QUIRE_ASSIGN_OR_RETURN(RequestResult result,
                         Generate(engine,
                                  {.prompt = std::move(prompt),
                                   .sampling = {.temperature = 0},
                                   .max_tokens = max_tokens,
                                   .ignore_end_of_text = true},
                                  {.on_text = {}, .interrupted = [&go_on] { return !go_on(); }}));
  if (result.choices.empty() || result.choices.front().finish_reason == FinishReason::kAborted) {
    return MakeError(ErrorCode::kInterrupted, "interrupted");
  }
  return result;
}

std::vector<int32_t> PromptOf(std::span<const int32_t> tokens, int depth,
                              std::span<const int32_t> tail) {
  std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + depth);
  prompt.insert(prompt.end(), tail.begin(), tail.end());
  return prompt;
}

// A run beside what the machine could do meanwhile.
struct Run {
  double ms = 0;
  MachineLimits limits{};
  double share = -1;  // of the time, that its floor is; 0 where the floor is above it
};

// Ceilings that were both met in a bad moment say nothing of a run.
Run RunOf(double ms, const MachineLimits& limits, double floor_ms) {
  return {.ms = ms, .limits = limits, .share = floor_ms <= ms ? floor_ms / ms : 0};
}

void KeepCloser(const Run& run, Run& closest) {
  if (run.share > closest.share) closest = run;
}

// The row's times, at its depth, whose entries the cache has from the second run on.
Status MeasureRow(Engine& engine, const FloorModel& model, std::span<const int32_t> tokens,
                  std::span<const int32_t> vocabulary, const std::function<bool()>& go_on,
                  MachineLimits& best, FloorRow& row) {
  const auto meet = [&] {
    const MachineLimits met = MeetLimits(engine.runner().threads(), engine.runner().kernels().name,
                                         WeightBytes(engine.model().weights()));
    best = Best(best, met);
    return met;
  };
  if (row.depth > 0) {
    const auto warm = RunOne(engine, PromptOf(tokens, row.depth, {}), 1, go_on);
    if (!warm.ok()) return warm.error();
  }
  Run prefill;
  Run decode;
  MachineLimits before = meet();
  for (int i = 0; i < kFloorPrefills; ++i) {
    // Tails that no run had before: what lies behind the depth is computed.
    const uint32_t stream = 1u << 20 | static_cast<uint32_t>(row.depth + i);
    const std::vector<int32_t> tail = RandomTokens(1, stream, row.prompt_tokens, vocabulary);
    QUIRE_ASSIGN_OR_RETURN(const RequestResult first,
                           RunOne(engine, PromptOf(tokens, row.depth, tail), 1, go_on));
    MachineLimits after = meet();
    MachineLimits around = Best(before, after);
    const double ttft_ms = TtftFloor(model, around, row.depth, row.prompt_tokens).ms;
    KeepCloser(RunOf(first.first_token_ms, around, ttft_ms), prefill);
    before = after;
    for (int j = 0; j < kFloorDecodes; ++j) {
      QUIRE_ASSIGN_OR_RETURN(const RequestResult answer,
                             RunOne(engine, PromptOf(tokens, row.depth, std::span(tail).first(1)),
                                    kFloorDecodeTokens + 1, go_on));
      after = meet();
      around = Best(before, after);
      const double tpot_ms = TpotFloor(model, around, row.depth, kFloorDecodeTokens).ms;
      KeepCloser(RunOf(answer.decode_ms / kFloorDecodeTokens, around, tpot_ms), decode);
      before = after;
    }
  }
  row.ttft_ms = prefill.ms;
  row.ttft_limits = prefill.limits;
  row.tpot_ms = decode.ms;
  row.tpot_limits = decode.limits;
  return {};
}

}  // namespace

bool FloorReport::holds() const {
  return std::ranges::all_of(
      rows, [](const FloorRow& row) { return row.ttft_holds() && row.tpot_holds(); });
}

std::vector<int> FloorDepths(int context_tokens) {
  std::vector<int> depths;
  for (const int depth : kDepths) {
    if (depth + kRoomBesideDepth <= context_tokens) depths.push_back(depth);
  }
  return depths;
}

Result<FloorReport> PredictFloors(const FloorQuestion& question,
                                  const std::function<bool()>& go_on) {
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(question.path));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  QUIRE_ASSIGN_OR_RETURN(const WeightPlan plan, PlanWeights(file, config));
  // Address space that nobody touches: the shapes of packed weights, without their bytes.
  QUIRE_ASSIGN_OR_RETURN(const HugeBuffer space, HugeBuffer::Allocate(plan.packed_bytes));
  const Weights weights = BindWeights(plan, config.num_layers(), space.data());
  const KernelSet* kernels = nullptr;
  QUIRE_ASSIGN_OR_RETURN(kernels, SelectKernels(""));

  ThreadPool pool(question.num_threads);
  FloorReport report{.num_threads = pool.num_threads(), .kernels = std::string(kernels->name)};
  const uint64_t free_bytes = AvailableMemory();
  const size_t size =
      free_bytes == 0 ? plan.packed_bytes : std::min<uint64_t>(plan.packed_bytes, free_bytes / 2);
  QUIRE_ASSIGN_OR_RETURN(const HugeBuffer memory, HugeBuffer::Allocate(size));
  // Untouched pages are all one page of zeros.
  pool.ParallelFor(size, size_t{2} << 20, [&](size_t begin, size_t end, int) {
    std::memset(memory.data() + begin, 1, end - begin);
  });
  for (int i = 0; i < kFloorPrefills; ++i) {
    if (!go_on()) return MakeError(ErrorCode::kInterrupted, "interrupted");
    report.limits = Best(report.limits, MeetLimits(pool, report.kernels, memory.bytes()));
  }
  const FloorModel model{.config = &config,
                         .weights = &weights,
                         .kv_type = question.kv_type,
                         .prefill_chunk = question.prefill_chunk};
  for (const int depth : FloorDepths(question.context_tokens)) {
    FloorRow row{.depth = depth,
                 .prompt_tokens = PromptTokens(question.context_tokens, depth),
                 .ttft_limits = report.limits,
                 .tpot_limits = report.limits};
    SetFloors(model, row);
    report.rows.push_back(row);
  }
  return report;
}

Result<FloorReport> MeasureFloors(Engine& engine, std::span<const int32_t> tokens,
                                  const std::function<bool()>& go_on,
                                  const std::function<void(std::string_view)>& show) {
  const std::vector<int32_t> vocabulary = PlainTokens(engine.model().tokenizer());
  if (vocabulary.empty()) {
    return MakeError(ErrorCode::kUnsupported, "the model's vocabulary holds no ordinary tokens");
  }
  FloorReport report{.num_threads = engine.runner().threads().num_threads(),
                     .kernels = std::string(engine.runner().kernels().name)};
  const FloorModel model{.config = &engine.model().config(),
                         .weights = &engine.model().weights(),
                         .kv_type = engine.cache().layout().type,
                         .prefill_chunk = engine.scheduler_options().max_batched_tokens};
  const int context = std::min(engine.context_length(), static_cast<int>(tokens.size()));
  for (const int depth : FloorDepths(context)) {
    show(fmt::format("measuring TTFT and TPOT at a depth of {} tokens", depth));
    FloorRow row{.depth = depth, .prompt_tokens = PromptTokens(context, depth)};
    QUIRE_RETURN_IF_ERROR(MeasureRow(engine, model, tokens, vocabulary, go_on, report.limits, row));
    SetFloors(model, row);
    report.rows.push_back(row);
  }
  for (FloorRow& row : report.rows) {
    FloorRow least = row;
    least.ttft_limits = least.tpot_limits = report.limits;
    SetFloors(model, least);
    row.least_ttft_ms = least.ttft.ms;
    row.least_tpot_ms = least.tpot.ms;
  }
  return report;
}

namespace {

std::string MeasuredText(double floor_ms, double measured_ms, const MachineLimits& limits,
                         bool holds) {
  if (measured_ms == 0) return "";
  return fmt::format("{:>10.2f} ms measured beside {:.1f} GB/s, the floor is {:.0f} % of it{}",
                     measured_ms, limits.bytes_per_second * 1e-9, 100 * floor_ms / measured_ms,
                     holds ? "" : ": BELOW WHAT IS POSSIBLE");
}

std::string BatchText(const ComputeBoundBatch& batch) {
  if (batch.counted == 0) return "at no number of sequences";
  return fmt::format("from {} sequence{} on ({:.1f} by the formula)", batch.counted,
                     batch.counted == 1 ? "" : "s", batch.formula);
}

json::object FloorJson(const TimeFloor& floor, const MachineLimits& limits, double measured_ms) {
  json::object object{{"floor_ms", floor.ms},
                      {"memory_ms", floor.memory_ms},
                      {"compute_ms", floor.compute_ms},
                      {"bound_by", std::string(floor.bound_by())},
                      {"bytes_per_second", limits.bytes_per_second}};
  if (measured_ms > 0) {
    object["measured_ms"] = measured_ms;
    object["share"] = floor.ms / measured_ms;
  }
  return object;
}

}  // namespace

std::string FloorsAsText(const FloorReport& report) {
  const MachineLimits& limits = report.limits;
  const Ridge ridge = RidgeOf(limits);
  std::string out = "\ntimes that this machine allows at best\n";
  const auto end = std::back_inserter(out);
  const bool is_one = report.num_threads == 1;
  fmt::format_to(
      end,
      "  measured: {} thread{} read{} {:.1f} GB/s and compute{} {:.0f} G int8 and {:.0f} G f32 "
      "operations a second ({})\n",
      report.num_threads, is_one ? "" : "s", is_one ? "s" : "", limits.bytes_per_second * 1e-9,
      is_one ? "s" : "", limits.int8_ops_per_second * 1e-9, limits.f32_ops_per_second * 1e-9,
      report.kernels);
  fmt::format_to(end,
                 "  ridge: {:.1f} int8 or {:.1f} f32 operations a byte; with more, arithmetic "
                 "decides, with fewer, memory\n",
                 ridge.int8_ops_per_byte, ridge.f32_ops_per_byte);
  for (const FloorRow& row : report.rows) {
    fmt::format_to(end, "  depth {}\n", GroupDigits(static_cast<uint64_t>(row.depth)));
    fmt::format_to(end, "    TTFT of {:>3} prompt tokens {:>10.2f} ms at least ({}){}\n",
                   row.prompt_tokens, row.ttft.ms, row.ttft.bound_by(),
                   MeasuredText(row.ttft.ms, row.ttft_ms, row.ttft_limits, row.ttft_holds()));
    fmt::format_to(end, "    TPOT of one sequence      {:>10.2f} ms at least ({}){}\n", row.tpot.ms,
                   row.tpot.bound_by(),
                   MeasuredText(row.tpot.ms, row.tpot_ms, row.tpot_limits, row.tpot_holds()));
    fmt::format_to(end, "    decode is bound by arithmetic {}\n", BatchText(row.batch));
  }
  return out;
}

std::string FloorsAsJson(const FloorReport& report) {
  const MachineLimits& limits = report.limits;
  const Ridge ridge = RidgeOf(limits);
  json::array rows;
  for (const FloorRow& row : report.rows) {
    rows.push_back(json::object{
        {"depth", row.depth},
        {"prompt_tokens", row.prompt_tokens},
        {"ttft", FloorJson(row.ttft, row.ttft_limits, row.ttft_ms)},
        {"tpot", FloorJson(row.tpot, row.tpot_limits, row.tpot_ms)},
        {"compute_bound_batch",
         {{"formula", row.batch.formula > 0 ? json::value(row.batch.formula) : json::value()},
          {"counted", row.batch.counted > 0 ? json::value(row.batch.counted) : json::value()}}}});
  }
  return json::serialize(json::object{{"threads", report.num_threads},
                                      {"kernels", report.kernels},
                                      {"bytes_per_second", limits.bytes_per_second},
                                      {"int8_ops_per_second", limits.int8_ops_per_second},
                                      {"f32_ops_per_second", limits.f32_ops_per_second},
                                      {"ridge_int8_ops_per_byte", ridge.int8_ops_per_byte},
                                      {"ridge_f32_ops_per_byte", ridge.f32_ops_per_byte},
                                      {"depths", std::move(rows)},
                                      {"holds", report.holds()}});
}

}  // namespace quire
