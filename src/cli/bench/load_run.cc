#include "cli/bench/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

class LoadDriver {
 public:
  LoadDriver(Engine& engine, std::span<const LoadRequest> load, const LoadRunOptions& options,
             int max_in_flight)
      : engine_(engine),
        load_(load),
        options_(options),
        gate_(options.batching, max_in_flight),
        start_(Clock::now()) {
    run_.requests.resize(load.size());
    states_.resize(load.size());
    for (size_t i = 0; i < load.size(); ++i) {
      if (load[i].follows >= 0) states_[load[i].follows].next_turn = static_cast<int>(i);
    }
  }

  Result<LoadRun> Run(const std::function<bool(const LoadProgress&)>& progress) {
    const int64_t preempted = engine_.batch().counters().preemptions;
    const int64_t evicted = engine_.cache().counters().blocks_evicted;
    while (num_finished_ < load_.size()) {
      TakeArrivals();
      if (Status submitted = SubmitWhatMayGo(); !submitted.ok()) return Stop(submitted.error());
      if (gate_.in_flight() == 0) {
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(
            std::min(50.0, load_[next_arrival_].arrival_ms - NowMs())));
      } else {
        engine_.Step();
        Sample();
      }
      if (!failure_.ok()) return Stop(failure_.error());
      if (progress && !progress(Progress())) {
        return Stop(MakeError(ErrorCode::kInterrupted,
                              "interrupted: {} of {} requests had been answered", num_finished_,
                              load_.size()));
      }
    }
    run_.duration_ms = NowMs();
    run_.mean_running = run_.steps == 0 ? 0 : running_sum_ / static_cast<double>(run_.steps);
    run_.preemptions = engine_.batch().counters().preemptions - preempted;
    run_.blocks_evicted = engine_.cache().counters().blocks_evicted - evicted;
    run_.kv_waste = waste_.share();
    return std::move(run_);
  }

 private:
  struct State {
    std::vector<int32_t> prompt;  // whole
    RequestId id = 0;
    double last_token_ms = 0;
    int next_turn = -1;
    bool is_live = false;
  };

  double NowMs() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

  LoadProgress Progress() const {
    return {.finished = static_cast<int>(num_finished_),
            .total = static_cast<int>(load_.size()),
            .tokens_per_second = 1000.0 * static_cast<double>(num_sampled_) / NowMs()};
  }

  // Requests whose time has come, as many as their clients may have under way.
  void TakeArrivals() {
    for (; next_arrival_ < load_.size(); ++next_arrival_) {
      const LoadRequest& request = load_[next_arrival_];
      if (request.follows >= 0) continue;  // arrives with the end of the turn before
      const int under_way = gate_.in_flight() + gate_.num_waiting();
      if (options_.max_concurrency > 0 && under_way >= options_.max_concurrency) {
        is_held_ = true;
        return;
      }
      if (request.arrival_ms > NowMs()) return;
      Arrive(static_cast<int>(next_arrival_), is_held_ ? NowMs() : request.arrival_ms,
             request.prompt);
      is_held_ = false;
    }
  }

  void Arrive(int request, double now_ms, std::vector<int32_t> prompt) {
    run_.requests[request].arrival_ms = now_ms;
    states_[request].prompt = std::move(prompt);
    gate_.Arrive(request);
  }

  Status SubmitWhatMayGo() {
    std::vector<int> batch;
    int longest = 0;
    while (const std::optional<int> next = gate_.Next()) {
      batch.push_back(*next);
      longest = std::max(longest, load_[*next].output_tokens);
    }
    for (const int i : batch) {
      const int room = engine_.context_length() - static_cast<int>(states_[i].prompt.size());
      const bool is_padded = options_.batching == Batching::kStatic;
      QUIRE_RETURN_IF_ERROR(
          Submit(i, is_padded ? std::min(longest, room) : load_[i].output_tokens));
    }
    return {};
  }

  Status Submit(int i, int max_tokens) {
    Request request{.prompt = states_[i].prompt,
                    .sampling = {.temperature = 0},
                    .max_tokens = max_tokens,
                    .ignore_end_of_text = true};
    RequestHooks hooks{.on_piece = [this, i](const AnswerPiece&) { OnToken(i); },
                       .on_finish = [this, i](RequestResult result) { OnFinish(i, result); }};
    QUIRE_ASSIGN_OR_RETURN(states_[i].id, engine_.Submit(std::move(request), std::move(hooks)));
    states_[i].is_live = true;
    return {};
  }

  void OnToken(int i) {
    RequestRecord& record = run_.requests[i];
    if (record.output_tokens == load_[i].output_tokens) return;  // padding
    const double now_ms = NowMs();
    if (record.output_tokens == 0) {
      record.first_token_ms = now_ms - record.arrival_ms;
    } else {
      record.gaps_ms.push_back(now_ms - states_[i].last_token_ms);
    }
    states_[i].last_token_ms = now_ms;
    ++record.output_tokens;
    ++num_sampled_;
  }

  void OnFinish(int i, const RequestResult& result) {
    const double now_ms = NowMs();
    State& state = states_[i];
    state.is_live = false;
    gate_.End();
    ++num_finished_;
    if (is_stopping_) return;
    if (!result.status.ok()) {
      failure_ = result.status;
      return;
    }
    RequestRecord& record = run_.requests[i];
    record.prompt_tokens = result.prompt_tokens;
    record.cached_tokens = result.cached_tokens;
    if (state.next_turn < 0) return;
    std::vector<int32_t> prompt = std::move(state.prompt);
    const std::vector<int32_t>& answer = result.choices.front().tokens;
    prompt.insert(prompt.end(), answer.begin(), answer.begin() + record.output_tokens);
    const std::vector<int32_t>& turn = load_[state.next_turn].prompt;
    prompt.insert(prompt.end(), turn.begin(), turn.end());
    Arrive(state.next_turn, now_ms, std::move(prompt));
  }

  // After a step: what is reserved and what is filled.
  void Sample() {
    const KvUsage usage = engine_.cache().usage();
    ++run_.steps;
    running_sum_ += engine_.num_running();
    run_.peak_used_blocks = std::max(run_.peak_used_blocks, usage.used_blocks);
    if (options_.allocation == Allocation::kReserve) {
      const int64_t groups = engine_.cache().layout().num_groups();
      waste_.AddReserved(gate_.in_flight(), groups * options_.reserve_tokens,
                         groups * WantedSlots());
    } else {
      waste_.AddPaged(usage);
    }
  }

  // Slots that hold, or are about to, what live requests asked for: padding is waste.
  int64_t WantedSlots() const {
    int64_t slots = 0;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].is_live) continue;
      slots += static_cast<int64_t>(states_[i].prompt.size()) + run_.requests[i].output_tokens;
    }
    return slots;
  }

  // Ends what runs, so that the engine can be used again.
  Error Stop(Error error) {
    is_stopping_ = true;
    for (const State& state : states_) {
      if (state.is_live) engine_.Abort(state.id);
    }
    engine_.RunUntilIdle();
    return error;
  }

  Engine& engine_;
  std::span<const LoadRequest> load_;
  LoadRunOptions options_;
  SubmissionGate gate_;
  Clock::time_point start_;
  LoadRun run_;
  std::vector<State> states_;
  WasteMeter waste_;
  Status failure_;
  size_t next_arrival_ = 0;
  size_t num_finished_ = 0;
  int64_t num_sampled_ = 0;
  double running_sum_ = 0;
  bool is_held_ = false;  // the next arrival waits at its client
  bool is_stopping_ = false;
};

void AddSummary(std::vector<Figure>& figures, const std::string& name, const std::string& label,
                std::vector<double> samples) {
  const Summary summary = Summarize(std::move(samples));
  const auto add = [&](const std::string& statistic, double value) {
    figures.push_back({.key = fmt::format("{}_{}_ms", statistic, name),
                       .label = fmt::format("{} {}", label, statistic),
                       .unit = "ms",
                       .value = value,
                       .decimals = 2});
  };
  add("mean", summary.mean);
  add("median", summary.median);
  add("p90", summary.p90);
  add("p99", summary.p99);
  add("max", summary.highest);
}

}  // namespace

Result<LoadRun> RunLoad(Engine& engine, std::span<const LoadRequest> load,
                        const LoadRunOptions& options,
                        const std::function<bool(const LoadProgress&)>& progress) {
  int max_in_flight = 0;
  if (options.allocation == Allocation::kReserve) {
    const int64_t blocks_each = static_cast<int64_t>(BlocksFor(options.reserve_tokens)) *
                                engine.cache().layout().num_groups();
    const int64_t total = engine.cache().usage().total_blocks;
    max_in_flight = static_cast<int>(total / blocks_each);
    if (max_in_flight == 0) {
      return MakeError(ErrorCode::kResourceExhausted,
                       "a reservation of {} tokens takes {} blocks and the pool has {}; a larger "
                       "pool or a smaller reservation is needed",
                       options.reserve_tokens, blocks_each, total);
    }
  }
  engine.runner().cache().DropCached();
  return LoadDriver(engine, load, options, max_in_flight).Run(progress);
}

std::vector<Figure> FiguresOf(const LoadRun& run) {
  std::vector<double> first_token;
  std::vector<double> hits;
  std::vector<double> misses;
  std::vector<double> gaps;
  std::vector<double> mean_gap;
  double input = 0;
  double cached = 0;
  double output = 0;
  for (const RequestRecord& record : run.requests) {
    first_token.push_back(record.first_token_ms);
    const bool is_hit =
        record.cached_tokens > 0 && 2 * record.cached_tokens >= record.prompt_tokens;
    (is_hit ? hits : misses).push_back(record.first_token_ms);
    gaps.insert(gaps.end(), record.gaps_ms.begin(), record.gaps_ms.end());
    if (!record.gaps_ms.empty()) mean_gap.push_back(Summarize(record.gaps_ms).mean);
    input += record.prompt_tokens;
    cached += record.cached_tokens;
    output += record.output_tokens;
  }
  const double seconds = std::max(run.duration_ms, 1e-6) / 1000;
  const double completed = static_cast<double>(run.requests.size());
  std::vector<Figure> figures = {
      {"completed", "requests", "", completed, 0},
      {"duration", "duration", "s", seconds, 2},
      {"total_input_tokens", "input tokens", "", input, 0},
      {"total_cached_tokens", "cached tokens", "", cached, 0},
      {"cached_share", "cached share of the input", "%", input == 0 ? 0 : 100 * cached / input, 2},
      {"total_output_tokens", "output tokens", "", output, 0},
      {"request_throughput", "request throughput", "1/s", completed / seconds, 3},
      {"output_throughput", "output throughput", "tok/s", output / seconds, 1},
      {"total_token_throughput", "total throughput", "tok/s", (input + output) / seconds, 1},
      {"mean_concurrency", "sequences running, mean", "", run.mean_running, 1}};
  AddSummary(figures, "ttft", "TTFT", std::move(first_token));
  figures.push_back({"median_ttft_hit_ms", "TTFT median, prompt found", "ms",
                     Summarize(std::move(hits)).median, 2});
  figures.push_back({"median_ttft_miss_ms", "TTFT median, prompt computed", "ms",
                     Summarize(std::move(misses)).median, 2});
  AddSummary(figures, "tpot", "TPOT", std::move(mean_gap));
  AddSummary(figures, "itl", "ITL", std::move(gaps));
  figures.push_back({"kv_waste", "KV waste", "%", 100 * run.kv_waste, 2});
  figures.push_back({"peak_used_blocks", "blocks in use, peak", "",
                     static_cast<double>(run.peak_used_blocks), 0});
  figures.push_back({"preemptions", "preemptions", "", static_cast<double>(run.preemptions), 0});
  figures.push_back(
      {"blocks_evicted", "blocks evicted", "", static_cast<double>(run.blocks_evicted), 0});
  figures.push_back({"steps", "steps", "", static_cast<double>(run.steps), 0});
  return figures;
}

}  // namespace quire
