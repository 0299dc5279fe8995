#include "cli/plan_break_even.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "cli/disk_speed.h"
#include "formats/printable.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

constexpr double kUsualPrefills[] = {20, 100, 500};     // tokens a second
constexpr double kUsualBandwidths[] = {1e7, 1e8, 1e9};  // bytes a second
constexpr double kMsPerSecond = 1000;

// Three figures.
std::string Short(double value) {
  return value >= 100 ? GroupDigits(static_cast<uint64_t>(std::llround(value)))
                      : fmt::format("{:.3g}", value);
}

std::string TimeText(double ms) {
  if (ms < kMsPerSecond) return Short(ms) + " ms";
  return Short(ms / kMsPerSecond) + " s";
}

std::string BandwidthText(double bytes_per_ms) {
  if (!std::isfinite(bytes_per_ms)) return "none";
  return Short(bytes_per_ms * kMsPerSecond / 1e6) + " MB/s";
}

std::string ComputingText(const PrefillCost& cost) {
  return Short(kMsPerSecond / cost.token_ms) + " tokens/s";
}

template <typename Values, typename ToText>
void PrintRow(std::string& out, std::string_view label, const Values& values,
              const ToText& to_text) {
  fmt::format_to(std::back_inserter(out), "  {:<30}", label);
  for (const auto& value : values)
    fmt::format_to(std::back_inserter(out), " {:>12}", to_text(value));
  out += '\n';
}

std::string LoadingLabel(const BreakEvenReport& report, size_t tier) {
  const TierSpeed& speed = report.table.loading[tier].speed;
  const bool is_measured = !report.measured.empty() && tier + 1 == report.table.loading.size();
  return fmt::format("loading, {}{}", BandwidthText(speed.bytes_per_ms),
                     is_measured ? " measured" : "");
}

void PrintTable(std::string& out, const BreakEvenReport& report) {
  const BreakEven& table = report.table;
  PrintRow(out, "tokens of the prefix", table.lengths,
           [](int length) { return GroupDigits(static_cast<uint64_t>(length)); });
  PrintRow(out, "keys and values", table.bytes,
           [](uint64_t bytes) { return Short(static_cast<double>(bytes) / 1e6) + " MB"; });
  for (const BreakEven::Computing& computing : table.computing) {
    PrintRow(out, "computing, " + ComputingText(computing.cost), computing.ms, TimeText);
  }
  for (size_t tier = 0; tier < table.loading.size(); ++tier) {
    PrintRow(out, LoadingLabel(report, tier), table.loading[tier].ms, TimeText);
  }
}

void PrintBreakEvens(std::string& out, const BreakEvenReport& report) {
  const BreakEven& table = report.table;
  fmt::format_to(std::back_inserter(out), "  both take as long at a bandwidth of (latency {} ms)\n",
                 Short(table.loading[0].speed.latency_ms));
  for (const BreakEven::Computing& computing : table.computing) {
    PrintRow(out, "  beside " + ComputingText(computing.cost), computing.pairs[0].bytes_per_ms,
             BandwidthText);
  }
  fmt::format_to(std::back_inserter(out), "  a load is sooner from so many tokens on\n");
  std::vector<std::string> names;
  for (const BreakEven::Loading& loading : table.loading) {
    names.push_back(BandwidthText(loading.speed.bytes_per_ms));
  }
  PrintRow(out, "", names, [](const std::string& name) { return name; });
  for (const BreakEven::Computing& computing : table.computing) {
    PrintRow(out, "  beside " + ComputingText(computing.cost), computing.pairs,
             [](const BreakEven::Pair& pair) {
               return pair.loads_from_tokens < 0
                          ? "never"
                          : GroupDigits(static_cast<uint64_t>(pair.loads_from_tokens));
             });
  }
}

Status CheckSpeed(const char* flag, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: expected {} to {}, got {}", flag, least, most,
                   value);
}

}  // namespace

Result<BreakEvenReport> FindBreakEven(const BreakEvenFlags& flags, const KvCost& cost,
                                      int context_tokens) {
  std::vector<PrefillCost> prefills;
  std::vector<TierSpeed> tiers;
  QUIRE_RETURN_IF_ERROR(CheckSpeed("--tier-latency-ms", flags.latency_ms, 0, 1e6));
  const auto add_tier = [&](double bytes_per_second) {
    tiers.push_back(
        {.latency_ms = flags.latency_ms, .bytes_per_ms = bytes_per_second / kMsPerSecond});
  };
  for (const double speed : flags.prefill_speeds) {
    QUIRE_RETURN_IF_ERROR(CheckSpeed("--prefill-speed", speed, 1e-3, 1e9));
    prefills.push_back({.token_ms = kMsPerSecond / speed});
  }
  if (prefills.empty()) {
    for (const double speed : kUsualPrefills)
      prefills.push_back({.token_ms = kMsPerSecond / speed});
  }
  for (const std::string& text : flags.bandwidths) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, ParseByteSize(text));
    QUIRE_RETURN_IF_ERROR(CheckSpeed("--tier-bandwidth", static_cast<double>(bytes), 1, 1e15));
    add_tier(static_cast<double>(bytes));
  }
  BreakEvenReport report;
  if (!flags.directory.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const TierSpeed speed, MeasureDiskSpeed(flags.directory));
    tiers.push_back(speed);
    report.measured = flags.directory;
  } else if (tiers.empty()) {
    for (const double bandwidth : kUsualBandwidths) add_tier(bandwidth);
  }
  report.table = MakeBreakEven(cost, context_tokens, prefills, tiers);
  return report;
}

std::string BreakEvenAsText(const BreakEvenReport& report) {
  std::string out = "\nloading a prefix from a tier, or computing it\n";
  PrintTable(out, report);
  PrintBreakEvens(out, report);
  if (!report.measured.empty()) {
    const TierSpeed& speed = report.table.loading.back().speed;
    fmt::format_to(std::back_inserter(out),
                   "  measured in {}: {} with {} to 16 KiB, of a file of 64 MiB; where the "
                   "system kept that in memory, it is the speed of memory\n",
                   Printable(report.measured, 4096), BandwidthText(speed.bytes_per_ms),
                   TimeText(speed.latency_ms));
  }
  return out;
}

}  // namespace quire
