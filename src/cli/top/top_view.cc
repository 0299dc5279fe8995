#include "cli/top/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "formats/printable.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

constexpr int kNameColumns = 30;
constexpr int kValueColumns = 24;
constexpr std::string_view kUnknown = "-";

// A view with the difference of its looks worked out.
struct Figures {
  const ServerLook& now;
  double interval_s = 0;  // 0 = rates are not known
  std::optional<ServerCounts> recent{};
};

Figures FiguresOf(const TopView& view) {
  Figures figures{.now = *view.now};
  if (view.before == nullptr || view.before->start_time_s != view.now->start_time_s) return figures;
  const double interval_s = view.now->at_s - view.before->at_s;
  if (interval_s <= 0) return figures;
  figures.recent = view.now->counts.Since(view.before->counts);
  if (figures.recent) figures.interval_s = interval_s;
  return figures;
}

std::optional<double> ShareOf(int64_t part, int64_t whole) {
  if (whole <= 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string Grouped(int64_t count) { return GroupDigits(static_cast<uint64_t>(count)); }

std::string Percent(std::optional<double> share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : std::string(kUnknown);
}

// "12.5 MiB"
std::string ShortSize(int64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(kUnits); ++unit) size /= 1024;
  return fmt::format("{:.{}f} {}", size, unit == 0 ? 0 : 1, kUnits[unit]);
}

// A figure of the last interval beside that of the server's whole life.
class Table {
 public:
  explicit Table(const Figures& figures) : figures_(figures) {}

  void Row(std::string_view name, std::string_view recent, std::string_view total) {
    lines_.push_back(fmt::format("{:<{}}{:>{}}{:>{}}", name, kNameColumns, recent, kValueColumns,
                                 total, kValueColumns));
  }
  // Of a count: its rate, and the count.
  void Rate(std::string_view name, int64_t ServerCounts::* count) {
    std::string recent(kUnknown);
    if (figures_.recent) {
      const double number = static_cast<double>((*figures_.recent).*count);
      recent = fmt::format("{:.1f} /s", number / figures_.interval_s);
    }
    Row(name, recent, Grouped(figures_.now.counts.*count));
  }
  void Count(std::string_view name, int64_t ServerCounts::* count) {
    Row(name, figures_.recent ? Grouped((*figures_.recent).*count) : std::string(kUnknown),
        Grouped(figures_.now.counts.*count));
  }
  // What a function says of counts.
  template <typename Function>
  void Of(std::string_view name, Function function) {
    Row(name, figures_.recent ? function(*figures_.recent) : std::string(kUnknown),
        function(figures_.now.counts));
  }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  const Figures& figures_;
  std::vector<std::string> lines_;
};

// Mean, median and 95th percentile.
std::string LatencyText(const LatencyHistogram& histogram) {
  const auto mean = histogram.MeanSeconds();
  if (!mean) return std::string(kUnknown);
  return fmt::format("{:.1f}, {:.0f}, {:.0f} ms", 1000 * *mean,
                     1000 * histogram.QuantileSeconds(0.5).value_or(0),
                     1000 * histogram.QuantileSeconds(0.95).value_or(0));
}

int64_t MemoryTokens(const ServerCounts& counts) {
  return counts.found_tokens - counts.disk_tokens - counts.remote_tokens;
}

// Where the tokens that were found have been.
std::string HitsByTier(const ServerCounts& counts) {
  const auto memory = ShareOf(MemoryTokens(counts), counts.looked_up_tokens);
  if (!memory) return std::string(kUnknown);
  return fmt::format("{:.1f}, {:.1f}, {:.1f} %", 100 * *memory,
                     100 * ShareOf(counts.disk_tokens, counts.looked_up_tokens).value_or(0),
                     100 * ShareOf(counts.remote_tokens, counts.looked_up_tokens).value_or(0));
}

std::vector<std::string> CountLines(const Figures& figures) {
  Table table(figures);
  table.Row("", figures.recent ? fmt::format("last {:.1f} s", figures.interval_s) : "",
            "since the start");
  table.Rate("output tokens", &ServerCounts::output_tokens);
  table.Rate("prompt tokens", &ServerCounts::prompt_tokens);
  table.Of("prefix hit rate", [](const ServerCounts& counts) {
    return Percent(ShareOf(counts.found_tokens, counts.looked_up_tokens));
  });
  if (!figures.now.tiers.empty()) table.Of("  memory, disk, remote", HitsByTier);
  table.Of("TTFT mean, 50 %, 95 %",
           [](const ServerCounts& counts) { return LatencyText(counts.ttft); });
  table.Of("ITL mean, 50 %, 95 %",
           [](const ServerCounts& counts) { return LatencyText(counts.itl); });
  table.Rate("steps", &ServerCounts::steps);
  table.Of("  tokens a step", [](const ServerCounts& counts) {
    const auto rows = ShareOf(counts.computed_tokens, counts.steps);
    return rows ? fmt::format("{:.1f}", *rows) : std::string(kUnknown);
  });
  table.Of("drafts accepted", [](const ServerCounts& counts) {
    return Percent(ShareOf(counts.accepted_tokens, counts.draft_tokens));
  });
  table.Count("preemptions", &ServerCounts::preemptions);
  table.Count("blocks evicted", &ServerCounts::evicted_blocks);
  return table.Take();
}

// One letter for each part of the pool; a part that is there has one at least.
std::string Bar(const ServerLook& look, int width) {
  const auto cells = [&](int64_t blocks) {
    if (blocks <= 0 || look.total_blocks <= 0) return 0;
    const double share = static_cast<double>(blocks) / static_cast<double>(look.total_blocks);
    return std::clamp(static_cast<int>(std::lround(share * width)), 1, width);
  };
  const int used = cells(look.used_blocks);
  const int cached = std::min(cells(look.cached_blocks), width - used);
  std::string bar(static_cast<size_t>(used), '#');
  bar.append(static_cast<size_t>(cached), '=');
  bar.append(static_cast<size_t>(width - used - cached), '.');
  return bar;
}

std::vector<std::string> BlockLines(const ServerLook& look, int columns) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("KV in memory: {} blocks of {} tokens, {} each",
                              Grouped(look.total_blocks), look.block_tokens,
                              ShortSize(look.block_bytes)));
  lines.push_back("[" + Bar(look, std::clamp(columns - 2, 10, 100)) + "]");
  const auto line = [&](std::string_view name, int64_t blocks, std::string_view more) {
    // In doubles: a product of two numbers of a stranger's has no bound.
    const double bytes = static_cast<double>(blocks) * static_cast<double>(look.block_bytes);
    lines.push_back(fmt::format("{:<12}{:>14}{:>9}{:>14}{}", name, Grouped(blocks),
                                Percent(ShareOf(blocks, look.total_blocks)),
                                ShortSize(static_cast<int64_t>(std::min(bytes, 9e18))), more));
  };
  line("# used", look.used_blocks,
       look.pinned_blocks > 0 ? fmt::format("   {} of them pinned", Grouped(look.pinned_blocks))
                              : "");
  line("= cached", look.cached_blocks, "");
  line(". free", look.free_blocks, "");
  return lines;
}

std::string TierLine(const TierLook& tier) {
  std::string line = fmt::format("KV on {:<7}{:<5}", tier.tier, tier.is_up ? "up" : "down");
  if (tier.records) line += fmt::format("{:>14} records", Grouped(*tier.records));
  if (tier.bytes) line += "  " + ShortSize(*tier.bytes);
  if (tier.bytes && tier.max_bytes) line += " of " + ShortSize(*tier.max_bytes);
  line += "  " + tier.place;
  if (!tier.reason.empty()) line += ": " + tier.reason;
  return line;
}

boost::json::value OrNull(std::optional<double> value) {
  if (!value) return nullptr;
  return *value;
}

boost::json::object LatencyJson(const LatencyHistogram& histogram) {
  const auto ms = [](std::optional<double> seconds) {
    return OrNull(seconds ? std::optional(1000 * *seconds) : std::nullopt);
  };
  return {{"count", static_cast<int64_t>(std::clamp(histogram.count, 0.0, 9e15))},
          {"mean", ms(histogram.MeanSeconds())},
          {"p50", ms(histogram.QuantileSeconds(0.5))},
          {"p95", ms(histogram.QuantileSeconds(0.95))}};
}

boost::json::object CountsJson(const ServerCounts& counts) {
  return {{"output_tokens", counts.output_tokens},
          {"prompt_tokens", counts.prompt_tokens},
          {"cached_tokens", counts.cached_tokens},
          {"computed_tokens", counts.computed_tokens},
          {"prefix_tokens_looked_up", counts.looked_up_tokens},
          {"prefix_tokens_found", counts.found_tokens},
          {"found_in",
           {{"memory", MemoryTokens(counts)},
            {"disk", counts.disk_tokens},
            {"remote", counts.remote_tokens}}},
          {"prefix_hit_rate", OrNull(ShareOf(counts.found_tokens, counts.looked_up_tokens))},
          {"steps", counts.steps},
          {"requests_ended", counts.requests_ended},
          {"requests_refused", counts.requests_refused},
          {"preemptions", counts.preemptions},
          {"evicted_blocks", counts.evicted_blocks},
          {"draft_tokens", counts.draft_tokens},
          {"accepted_tokens", counts.accepted_tokens},
          {"ttft_ms", LatencyJson(counts.ttft)},
          {"itl_ms", LatencyJson(counts.itl)}};
}

boost::json::object TierJson(const TierLook& tier) {
  const auto count = [](std::optional<int64_t> value) -> boost::json::value {
    if (!value) return nullptr;
    return *value;
  };
  return {{"tier", tier.tier},
          {"place", tier.place},
          {"state", tier.is_up ? "up" : "down"},
          {"reason", tier.reason},
          {"records", count(tier.records)},
          {"bytes", count(tier.bytes)},
          {"max_bytes", count(tier.max_bytes)}};
}

}  // namespace

std::vector<std::string> TopLines(const TopView& view, int columns) {
  const Figures figures = FiguresOf(view);
  const ServerLook& now = figures.now;
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("quire top  {}  {}  quire {}", Printable(view.url), now.model, now.version));
  lines.push_back("");
  lines.push_back(fmt::format("requests: {} running, {} waiting, {} ended, {} refused",
                              Grouped(now.running), Grouped(now.waiting),
                              Grouped(now.counts.requests_ended),
                              Grouped(now.counts.requests_refused)));
  std::ranges::move(CountLines(figures), std::back_inserter(lines));
  lines.push_back("");
  std::ranges::move(BlockLines(now, columns), std::back_inserter(lines));
  for (const TierLook& tier : now.tiers) lines.push_back(TierLine(tier));
  return lines;
}

std::string TopJson(const TopView& view) {
  const Figures figures = FiguresOf(view);
  const ServerLook& now = figures.now;
  boost::json::array tiers;
  for (const TierLook& tier : now.tiers) tiers.push_back(TierJson(tier));
  boost::json::object json = {{"url", view.url},
                              {"model", now.model},
                              {"version", now.version},
                              {"requests", {{"running", now.running}, {"waiting", now.waiting}}},
                              {"kv",
                               {{"block_tokens", now.block_tokens},
                                {"block_bytes", now.block_bytes},
                                {"total_blocks", now.total_blocks},
                                {"used_blocks", now.used_blocks},
                                {"cached_blocks", now.cached_blocks},
                                {"free_blocks", now.free_blocks},
                                {"pinned_blocks", now.pinned_blocks}}},
                              {"tiers", std::move(tiers)},
                              {"total", CountsJson(now.counts)},
                              {"interval", nullptr}};
  if (figures.recent) {
    boost::json::object interval = CountsJson(*figures.recent);
    interval["seconds"] = figures.interval_s;
    interval["output_tokens_per_second"] =
        static_cast<double>(figures.recent->output_tokens) / figures.interval_s;
    interval["prompt_tokens_per_second"] =
        static_cast<double>(figures.recent->prompt_tokens) / figures.interval_s;
    json["interval"] = std::move(interval);
  }
  return boost::json::serialize(json);
}

}  // namespace quire
