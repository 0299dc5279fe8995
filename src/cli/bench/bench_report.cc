#include "cli/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

namespace quire {
namespace {

boost::json::object SettingAsJson(const BenchSetting& setting) {
  return {{"model", setting.model},
          {"kernels", setting.kernels},
          {"kv_type", setting.kv_type},
          {"threads", setting.threads},
          {"context_length", setting.context_length},
          {"total_blocks", setting.total_blocks},
          {"block_bytes", setting.block_bytes},
          {"peak_memory_bytes", PeakMemoryBytes()}};
}

std::string SettingAsText(const BenchSetting& setting) {
  return fmt::format("{}, {} kernels, {} threads, KV {} in {} blocks of {:.1f} KiB ({:.1f} MiB)\n",
                     setting.model, setting.kernels, setting.threads, setting.kv_type,
                     setting.total_blocks, static_cast<double>(setting.block_bytes) / 1024,
                     static_cast<double>(setting.total_blocks) *
                         static_cast<double>(setting.block_bytes) / (1024 * 1024));
}

std::string PeakMemoryAsText() {
  return fmt::format("peak memory of the process: {:.1f} MiB\n",
                     static_cast<double>(PeakMemoryBytes()) / (1024 * 1024));
}

// Counts as integers.
boost::json::value NumberOf(const Figure& figure, double value) {
  if (figure.decimals == 0 && value == std::floor(value)) return static_cast<int64_t>(value);
  return value;
}

Summary SpeedOf(const SpeedRow& row) {
  std::vector<double> speeds;
  for (const SpeedSample& sample : row.samples) speeds.push_back(sample.tokens_per_second);
  return Summarize(std::move(speeds));
}

}  // namespace

BenchSetting SettingOf(Engine& engine) {
  const KvUsage usage = engine.cache().usage();
  return {.model = engine.model().config().name,
          .kernels = std::string(engine.runner().kernels().name),
          .kv_type = std::string(NameOf(engine.cache().layout().type)),
          .threads = engine.runner().threads().num_threads(),
          .context_length = engine.context_length(),
          .total_blocks = usage.total_blocks,
          .block_bytes = usage.block_bytes};
}

std::string SpeedAsText(const BenchSetting& setting, std::span<const SpeedRow> rows) {
  std::string text = SettingAsText(setting);
  text += fmt::format("{:<10}{:>8}{:>10}{:>10}{:>12}  {:<22}{:>12}\n", "test", "depth", "parallel",
                      "tokens", "tok/s", "(lowest to highest)", "ms a step");
  for (const SpeedRow& row : rows) {
    const SpeedTest& test = row.test;
    const bool is_prefill = test.num_prompt > 0;
    const Summary speed = SpeedOf(row);
    text += fmt::format(
        "{:<10}{:>8}{:>10}{:>10}{:>12.1f}  {:<22}{:>12}\n", is_prefill ? "prefill" : "decode",
        test.depth, test.num_parallel, is_prefill ? test.num_prompt : test.num_generated,
        speed.median, fmt::format("({:.1f} to {:.1f})", speed.lowest, speed.highest),
        is_prefill ? "" : fmt::format("{:.2f}", 1000 * test.num_parallel / speed.median));
  }
  return text + PeakMemoryAsText();
}

std::string SpeedAsJson(const BenchSetting& setting, std::span<const SpeedRow> rows) {
  boost::json::array tests;
  for (const SpeedRow& row : rows) {
    const Summary speed = SpeedOf(row);
    boost::json::array samples;
    double longest_step_ms = 0;
    for (const SpeedSample& sample : row.samples) {
      samples.push_back(sample.tokens_per_second);
      longest_step_ms = std::max(longest_step_ms, sample.longest_step_ms);
    }
    tests.push_back({{"n_prompt", row.test.num_prompt},
                     {"n_gen", row.test.num_generated},
                     {"n_depth", row.test.depth},
                     {"n_parallel", row.test.num_parallel},
                     {"median_ts", speed.median},
                     {"min_ts", speed.lowest},
                     {"max_ts", speed.highest},
                     {"longest_step_ms", longest_step_ms},
                     {"samples_ts", std::move(samples)}});
  }
  boost::json::object object = SettingAsJson(setting);
  object["tests"] = std::move(tests);
  return boost::json::serialize(object) + "\n";
}

std::string FiguresAsText(const BenchSetting& setting, const FigureReport& report) {
  std::string text = SettingAsText(setting) + report.title + ":";
  for (const auto& [name, value] : report.options) text += fmt::format(" {} {},", name, value);
  text.back() = '\n';
  return text + FormatFigures(report.figures) + PeakMemoryAsText();
}

std::string FiguresAsJson(const BenchSetting& setting, const FigureReport& report) {
  boost::json::object object = SettingAsJson(setting);
  boost::json::object options;
  for (const auto& [name, value] : report.options) options[name] = value;
  object["options"] = std::move(options);
  boost::json::object spread;
  for (const SpreadFigure& figure : report.figures) {
    object[figure.figure.key] = NumberOf(figure.figure, figure.figure.value);
    spread[figure.figure.key] = {NumberOf(figure.figure, figure.lowest),
                                 NumberOf(figure.figure, figure.highest)};
  }
  object["spread"] = std::move(spread);
  return boost::json::serialize(object) + "\n";
}

}  // namespace quire
