// Runs a load through an engine and measures what its clients would see.
//
// Times of a request count from its arrival: waiting for a batch, for memory or for a place is part
// of its time to first token. With a limit on concurrency, requests are held by their clients and
// arrive as others end. Reserve-to-maximum allocation and static batching are ways of
// submitting only: steps, kernels and cache are those of every other run. A static batch runs until
// its longest answer ends, and the rows of those that ended before are computed as padding, as
// described by Yu et al.: "Orca: A Distributed Serving System for Transformer-Based Generative
// Models" (OSDI 2022). Padding counts as neither output nor filled slots.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cli/bench/figures.h"
#include "cli/bench/load.h"
#include "cli/bench/submission_gate.h"
#include "engine/engine.h"

namespace quire {

enum class Allocation : uint8_t {
  kPaged,    // blocks as tokens come
  kReserve,  // a request is submitted only when its largest size is free, and holds all of it
};

struct LoadRunOptions {
  Batching batching = Batching::kContinuous;
  Allocation allocation = Allocation::kPaged;
  int reserve_tokens = 2048;  // slots of a reservation
  int max_concurrency = 0;    // requests that have arrived and not ended; 0 = no limit
};

// As its client saw it, in ms.
struct RequestRecord {
  double arrival_ms = 0;          // since the start of the run
  double first_token_ms = 0;      // since arrival
  std::vector<double> gaps_ms{};  // between its tokens
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int output_tokens = 0;
};

struct LoadRun {
  std::vector<RequestRecord> requests{};  // [load.size()]
  double duration_ms = 0;
  int64_t steps = 0;
  double mean_running = 0;  // sequences with blocks, over steps
  int64_t peak_used_blocks = 0;
  int64_t preemptions = 0;
  int64_t blocks_evicted = 0;
  double kv_waste = 0;  // cli/bench/figures.h
};

struct LoadProgress {
  int finished = 0;
  int total = 0;
  double tokens_per_second = 0;  // sampled, since the start
};

// Starts with a cache that holds nothing. kInterrupted, with what was done, when `progress` returns
// false; kResourceExhausted where the pool cannot hold one reservation.
Result<LoadRun> RunLoad(Engine& engine, std::span<const LoadRequest> load,
                        const LoadRunOptions& options,
                        const std::function<bool(const LoadProgress&)>& progress);

// TTFT, ITL and TPOT (mean, median, p90, p99), throughput, cached tokens, KV waste. A request
// counts as a hit where at least half of its prompt was found.
std::vector<Figure> FiguresOf(const LoadRun& run);

}  // namespace quire
