// What `quire bench --limits` prints: tables for people, JSON for programs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/bench_report.h"
#include "cli/bench/limits_run.h"

namespace quire {

std::string MachineAsText(const MachineReport& report);
// {"threads", "kernels", "reads": [{"bytes", "median_bytes_per_second", "min_...", "max_..."}],
// "int8_ops_per_second", "f32_ops_per_second"}
std::string MachineAsJson(const MachineReport& report);

// A speed test and what its repetitions gave beside the limits.
struct LimitRow {
  SpeedTest test{};
  std::vector<LimitSample> samples{};
};

std::string LimitsAsText(const BenchSetting& setting, std::span<const LimitRow> rows);
// As SpeedAsJson, and in each test "limits": {"read_bytes_per_second", "int8_ops_per_second",
// "f32_ops_per_second", "bytes_per_second", "bound_by", "share_of_read", "share_of_int8",
// "share_of_limit"}, medians of the repetitions.
std::string LimitsAsJson(const BenchSetting& setting, std::span<const LimitRow> rows);

}  // namespace quire
