#include "plan/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace quire {
namespace {

constexpr int kPlotColumns = 72;
constexpr int kPlotRows = 18;

// A grid of characters over two logarithmic axes.
class LogPlot {
 public:
  LogPlot(double least_x, double most_x, double least_y, double most_y)
      : low_x_(std::floor(std::log2(least_x))),
        high_x_(std::ceil(std::log2(most_x))),
        low_y_(std::floor(std::log10(least_y))),
        high_y_(std::ceil(std::log10(most_y))),
        rows_(kPlotRows, std::string(kPlotColumns, ' ')) {
    high_x_ = std::max(high_x_, low_x_ + 1);
    high_y_ = std::max(high_y_, low_y_ + 1);
  }

  double XOf(int column) const {
    return std::exp2(low_x_ + (high_x_ - low_x_) * column / (kPlotColumns - 1));
  }

  // Over what is there; what is outside is left out.
  void Mark(double x, double y, char mark) {
    const int column = ColumnOf(x);
    const double place = (std::log10(y) - low_y_) / (high_y_ - low_y_) * (kPlotRows - 1);
    const int row = kPlotRows - 1 - static_cast<int>(std::lround(place));
    if (column < 0 || column >= kPlotColumns || row < 0 || row >= kPlotRows) return;
    rows_[row][column] = mark;
  }

  std::string Text(std::string_view unit_x, std::string_view unit_y) const {
    std::string text = fmt::format("{:>10} {}\n", "", unit_y);
    for (int row = 0; row < kPlotRows; ++row) {
      const double exponent = high_y_ - (high_y_ - low_y_) * row / (kPlotRows - 1);
      const double next = high_y_ - (high_y_ - low_y_) * (row + 1) / (kPlotRows - 1);
      const bool labelled = row == 0 || std::floor(exponent) != std::floor(next);
      const double whole = row == 0 ? high_y_ : std::ceil(next);
      std::string line = fmt::format(
          "{:>10} |{}", labelled ? fmt::format("{:g}", std::pow(10, whole)) : "", rows_[row]);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    text += fmt::format("{:>10} +{}\n", "", std::string(kPlotColumns, '-'));
    std::string axis(kPlotColumns + 8, ' ');
    for (double x = low_x_; x <= high_x_; x += 2) {
      const std::string label = fmt::format("{:g}", std::exp2(x));
      axis.replace(std::max(0, ColumnOf(std::exp2(x))), label.size(), label);
    }
    axis.erase(axis.find_last_not_of(' ') + 1);
    return text + fmt::format("{:>10}  {}  {}\n", "", axis, unit_x);
  }

 private:
  int ColumnOf(double x) const {
    const double place = (std::log2(x) - low_x_) / (high_x_ - low_x_) * (kPlotColumns - 1);
    return static_cast<int>(std::lround(place));
  }

  double low_x_;
  double high_x_;
  double low_y_;
  double high_y_;
  std::vector<std::string> rows_;
};

// Prefill in capitals.
std::optional<char> MarkOf(const RooflinePoint& point) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kMarks = {
      {{"all", 't'}, {"project", 'p'}, {"feed_forward", 'f'}, {"attend", 'a'}, {"output", 'o'}}};
  for (const auto& [name, mark] : kMarks) {
    if (name != point.operators) continue;
    return point.phase == "prefill" ? static_cast<char>(mark - 'a' + 'A') : mark;
  }
  return std::nullopt;
}

bool IsOnThePlot(const RooflinePoint& point, int depth) {
  return point.depth == depth && point.ms > 0 && point.cost.ops() > 0 && point.cost.bytes() > 0 &&
         MarkOf(point).has_value();
}

void DrawRoofs(const MachineCeilings& ceilings, LogPlot& plot) {
  const MachineLimits limits = ceilings.limits();
  const double int8_top = 1e-9 * limits.int8_ops_per_second;
  const double f32_top = 1e-9 * limits.f32_ops_per_second;
  for (int column = 0; column < kPlotColumns; ++column) {
    const double x = plot.XOf(column);
    for (const MemoryCeiling& level : ceilings.memory) {
      const double rate = 1e-9 * level.bytes_per_second * x;
      if (rate < std::max(int8_top, f32_top)) plot.Mark(x, rate, '.');
    }
    const double by_weights = 1e-9 * limits.bytes_per_second * x;
    if (by_weights < std::max(int8_top, f32_top)) plot.Mark(x, by_weights, '/');
    for (const double peak : {int8_top, f32_top}) {
      if (by_weights >= peak) plot.Mark(x, peak, '-');
    }
  }
}

}  // namespace

double RooflinePoint::fraction(const MachineLimits& limits) const {
  if (ms <= 0 || (cost.ops() == 0 && cost.bytes() == 0)) return 0;
  return BoundOf(cost, limits).limit_ms() / ms;
}

double Roofline::int8_ridge() const {
  const MachineLimits limits = ceilings.limits();
  return limits.bytes_per_second > 0 ? limits.int8_ops_per_second / limits.bytes_per_second : 0;
}

double Roofline::f32_ridge() const {
  const MachineLimits limits = ceilings.limits();
  return limits.bytes_per_second > 0 ? limits.f32_ops_per_second / limits.bytes_per_second : 0;
}

std::vector<RooflinePoint> PointsOf(const std::vector<OperatorSample>& samples) {
  std::vector<RooflinePoint> points;
  for (const OperatorSample& sample : samples) {
    const RooflinePoint place{.phase = sample.phase,
                              .depth = sample.depth,
                              .num_tokens = sample.num_tokens,
                              .num_steps = sample.num_steps};
    RooflinePoint all = place;
    all.operators = "all";
    all.ms = sample.forward_ms;
    for (const StepCost& cost : sample.costs) all.cost += cost;
    points.push_back(all);
    for (int i = 0; i < kNumDecoderOperators; ++i) {
      RooflinePoint point = place;
      point.operators = NameOf(static_cast<DecoderOperator>(i));
      point.cost = sample.costs[i];
      point.ms = sample.times.ms[i];
      points.push_back(point);
    }
  }
  return points;
}

std::string DisturbanceOf(const MachineCeilings& ceilings) {
  constexpr double kLeastFraction = .95;  // measurements of one level differ by that much
  for (const MemoryCeiling& level : ceilings.memory) {
    if (level.name == "weights") continue;
    for (const MemoryCeiling& larger : ceilings.memory) {
      if (larger.set_bytes <= level.set_bytes ||
          level.bytes_per_second >= kLeastFraction * larger.bytes_per_second) {
        continue;
      }
      return fmt::format(
          "the machine was disturbed while it was measured: {} was read more slowly than {}{}; "
          "measure again when nothing else runs",
          level.name, larger.name == "weights" ? "the " : "", larger.name);
    }
  }
  return "";
}

double RoofOver(const StepCost& cost, const MachineLimits& limits) {
  const double ms = BoundOf(cost, limits).limit_ms();
  return ms > 0 ? cost.ops() / ms * 1000 : 0;
}

std::string RooflinePlot(const Roofline& roofline, int depth) {
  const MachineLimits limits = roofline.ceilings.limits();
  if (!(limits.bytes_per_second > 0 && limits.int8_ops_per_second > 0 &&
        limits.f32_ops_per_second > 0)) {
    return "";
  }
  double least_x = 1;
  double most_x = 2 * roofline.int8_ridge();
  double least_y = 1e-9 * limits.bytes_per_second;
  const double top = 1e-9 * std::max(limits.int8_ops_per_second, limits.f32_ops_per_second);
  for (const RooflinePoint& point : roofline.points) {
    if (!IsOnThePlot(point, depth)) continue;
    least_x = std::min(least_x, point.cost.intensity());
    most_x = std::max(most_x, point.cost.intensity());
    least_y = std::min(least_y, 1e-9 * point.ops_per_second());
  }
  LogPlot plot(least_x, most_x, least_y, top);
  DrawRoofs(roofline.ceilings, plot);
  for (const RooflinePoint& point : roofline.points) {
    if (!IsOnThePlot(point, depth)) continue;
    plot.Mark(point.cost.intensity(), 1e-9 * point.ops_per_second(), *MarkOf(point));
  }
  return plot.Text("operations a byte", "G operations a second");
}

}  // namespace quire
