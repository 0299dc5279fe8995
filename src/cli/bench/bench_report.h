// What `quire bench` prints: tables for people, JSON for programs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/figures.h"
#include "cli/bench/load_run.h"
#include "cli/bench/speed_test.h"

namespace quire {

// What a benchmark ran on; part of every report.
struct BenchSetting {
  std::string model{};
  std::string kernels{};
  std::string kv_type{};
  int threads = 0;
  int context_length = 0;
  int64_t total_blocks = 0;
  size_t block_bytes = 0;
};
BenchSetting SettingOf(Engine& engine);

// A speed test and what its repetitions gave.
struct SpeedRow {
  SpeedTest test{};
  std::vector<SpeedSample> samples{};
};

std::string SpeedAsText(const BenchSetting& setting, std::span<const SpeedRow> rows);
// {"model", ..., "peak_memory_bytes", "tests": [{"n_prompt", "n_gen", "n_depth", "n_parallel",
// "median_ts", "min_ts", "max_ts", "samples_ts"}]}, llama-bench's names where it has them.
std::string SpeedAsJson(const BenchSetting& setting, std::span<const SpeedRow> rows);

// A load or another run whose result is a list of figures.
struct FigureReport {
  std::string title{};                                         // for people
  std::vector<std::pair<std::string, std::string>> options{};  // of the run, as text
  std::vector<SpreadFigure> figures{};
};

std::string FiguresAsText(const BenchSetting& setting, const FigureReport& report);
// {"model", ..., "options": {...}, KEY: median, ..., "spread": {KEY: [lowest, highest]}}
std::string FiguresAsJson(const BenchSetting& setting, const FigureReport& report);

}  // namespace quire
