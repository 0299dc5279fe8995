#include "cli/bench/limits_report.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <iterator>

namespace quire {
namespace {

template <typename Value>
Summary Over(const LimitRow& row, const Value& value) {
  std::vector<double> values;
  for (const LimitSample& sample : row.samples) values.push_back(value(sample));
  return Summarize(std::move(values));
}

Summary SpeedOf(const LimitRow& row) {
  return Over(row, [](const LimitSample& sample) { return sample.speed.tokens_per_second; });
}

Summary ReadShareOf(const LimitRow& row) {
  return Over(row, [](const LimitSample& sample) { return sample.share_of_read; });
}

Summary Int8ShareOf(const LimitRow& row) {
  return Over(row, [](const LimitSample& sample) { return sample.share_of_int8; });
}

Summary LimitShareOf(const LimitRow& row) {
  return Over(row, [](const LimitSample& sample) { return sample.share_of_limit(); });
}

// The limits of the repetitions, each its median.
MachineLimits LimitsOf(const LimitRow& row) {
  const auto median = [&](double MachineLimits::* limit) {
    return Over(row, [&](const LimitSample& sample) { return sample.limits.*limit; }).median;
  };
  return {.bytes_per_second = median(&MachineLimits::bytes_per_second),
          .int8_ops_per_second = median(&MachineLimits::int8_ops_per_second),
          .f32_ops_per_second = median(&MachineLimits::f32_ops_per_second)};
}

// "64 KiB", "1 GiB": in the largest unit that leaves a whole number.
std::string SizeOf(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  for (; unit + 1 < std::size(kUnits) && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string Percent(const Summary& share) {
  return fmt::format("{:.0f} % ({:.0f} to {:.0f})", 100 * share.median, 100 * share.lowest,
                     100 * share.highest);
}

boost::json::object AsJson(const LimitRow& row) {
  const MachineLimits limits = LimitsOf(row);
  const double bytes_per_second =
      Over(row, [](const LimitSample& sample) { return sample.bytes_per_second; }).median;
  return {{"read_bytes_per_second", limits.bytes_per_second},
          {"int8_ops_per_second", limits.int8_ops_per_second},
          {"f32_ops_per_second", limits.f32_ops_per_second},
          {"bytes_per_second", bytes_per_second},
          {"bound_by", row.samples.front().bound.bound_by()},
          {"share_of_read", ReadShareOf(row).median},
          {"share_of_int8", Int8ShareOf(row).median},
          {"share_of_limit", LimitShareOf(row).median}};
}

}  // namespace

std::string MachineAsText(const MachineReport& report) {
  std::string text = fmt::format("{} threads{}\n{:<14}{:>10}  {}\n", report.threads,
                                 report.kernels.empty() ? "" : ", " + report.kernels, "working set",
                                 "GB/s", "(lowest to highest)");
  for (const SetRead& read : report.reads) {
    const Summary& rate = read.bytes_per_second;
    text += fmt::format("{:<14}{:>10.1f}  ({:.1f} to {:.1f})\n", SizeOf(read.bytes),
                        rate.median * 1e-9, rate.lowest * 1e-9, rate.highest * 1e-9);
  }
  if (report.left_out_bytes > 0) {
    text += fmt::format("{} and more: left out, more than half of the free memory\n",
                        SizeOf(report.left_out_bytes));
  }
  return text + fmt::format("int8 products {:.0f} G operations a second, f32 {:.0f}\n",
                            report.peaks.int8_ops_per_second * 1e-9,
                            report.peaks.f32_ops_per_second * 1e-9);
}

std::string MachineAsJson(const MachineReport& report) {
  boost::json::array reads;
  for (const SetRead& read : report.reads) {
    reads.push_back({{"bytes", read.bytes},
                     {"median_bytes_per_second", read.bytes_per_second.median},
                     {"min_bytes_per_second", read.bytes_per_second.lowest},
                     {"max_bytes_per_second", read.bytes_per_second.highest}});
  }
  const boost::json::object object = {{"threads", report.threads},
                                      {"kernels", report.kernels},
                                      {"reads", std::move(reads)},
                                      {"int8_ops_per_second", report.peaks.int8_ops_per_second},
                                      {"f32_ops_per_second", report.peaks.f32_ops_per_second}};
  return boost::json::serialize(object) + "\n";
}

std::string LimitsAsText(const BenchSetting& setting, std::span<const LimitRow> rows) {
  std::string text = fmt::format("{}, {} kernels, {} threads, KV {}\n", setting.model,
                                 setting.kernels, setting.threads, setting.kv_type);
  text += fmt::format("{:<9}{:>7}{:>5}{:>8}{:>10}{:>8}{:>8}{:>18}{:>8}{:>18}  {:<8}{:>18}\n",
                      "test", "depth", "npl", "tokens", "tok/s", "GB/s", "read", "of the read",
                      "G int8", "of int8 peak", "bound by", "of the limit");
  for (const LimitRow& row : rows) {
    const SpeedTest& test = row.test;
    const bool is_prefill = test.num_prompt > 0;
    const MachineLimits limits = LimitsOf(row);
    const double bytes_per_second =
        Over(row, [](const LimitSample& sample) { return sample.bytes_per_second; }).median;
    text += fmt::format(
        "{:<9}{:>7}{:>5}{:>8}{:>10.1f}{:>8.1f}{:>8.1f}{:>18}{:>8.0f}{:>18}  {:<8}{:>18}\n",
        is_prefill ? "prefill" : "decode", test.depth, test.num_parallel,
        is_prefill ? test.num_prompt : test.num_generated, SpeedOf(row).median,
        bytes_per_second * 1e-9, limits.bytes_per_second * 1e-9, Percent(ReadShareOf(row)),
        limits.int8_ops_per_second * 1e-9, Percent(Int8ShareOf(row)),
        row.samples.front().bound.bound_by(), Percent(LimitShareOf(row)));
  }
  return text +
         "GB/s: weights, keys and values that a run has to read; read: the weights read raw, "
         "before "
         "and\nafter each run, on the same threads, as is the peak of int8 products; medians "
         "(lowest "
         "to highest)\n";
}

std::string LimitsAsJson(const BenchSetting& setting, std::span<const LimitRow> rows) {
  std::vector<SpeedRow> speeds;
  for (const LimitRow& row : rows) {
    SpeedRow speed{.test = row.test};
    for (const LimitSample& sample : row.samples) speed.samples.push_back(sample.speed);
    speeds.push_back(std::move(speed));
  }
  boost::json::value report = boost::json::parse(SpeedAsJson(setting, speeds));
  boost::json::array& tests = report.as_object()["tests"].as_array();
  for (size_t i = 0; i < rows.size(); ++i) tests[i].as_object()["limits"] = AsJson(rows[i]);
  return boost::json::serialize(report) + "\n";
}

}  // namespace quire
