#include "server/metrics/exposition.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>

#include <cmath>
#include <iterator>
#include <string_view>

#include "base/check.h"

namespace quire {
namespace {

void AppendNumber(double value, std::string& text) {
  if (std::isnan(value)) {
    text += "NaN";
  } else if (std::isinf(value)) {
    text += value > 0 ? "+Inf" : "-Inf";
  } else if (value == std::floor(value) && std::abs(value) < 1e15) {
    fmt::format_to(std::back_inserter(text), "{}", static_cast<int64_t>(value));
  } else {
    fmt::format_to(std::back_inserter(text), "{}", value);
  }
}

void AppendBound(double bound, std::string& text) {
  AppendNumber(bound, text);
  if (bound == std::floor(bound) && std::abs(bound) < 1e15) text += ".0";
}

// In label values a quote is escaped too.
void AppendEscaped(std::string_view value, bool is_label, std::string& text) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || (is_label && c == '"')) text += '\\';
    text += c;
  }
}

std::string LabelsOf(const prometheus::ClientMetric& metric) {
  std::string labels;
  for (const prometheus::ClientMetric::Label& label : metric.label) {
    if (!labels.empty()) labels += ',';
    labels += label.name;
    labels += "=\"";
    AppendEscaped(label.value, true, labels);
    labels += '"';
  }
  return labels;
}

void AppendSample(std::string_view name, std::string_view suffix, std::string_view labels,
                  double value, std::string& text) {
  text += name;
  text += suffix;
  if (!labels.empty()) {
    text += '{';
    text += labels;
    text += '}';
  }
  text += ' ';
  AppendNumber(value, text);
  text += '\n';
}

void AppendHistogram(std::string_view name, std::string_view labels,
                     const prometheus::ClientMetric::Histogram& histogram, std::string& text) {
  for (const prometheus::ClientMetric::Bucket& bucket : histogram.bucket) {
    text += name;
    text += "_bucket{";
    text += labels;
    text += labels.empty() ? "le=\"" : ",le=\"";
    AppendBound(bucket.upper_bound, text);
    text += "\"} ";
    AppendNumber(static_cast<double>(bucket.cumulative_count), text);
    text += '\n';
  }
  AppendSample(name, "_sum", labels, histogram.sample_sum, text);
  AppendSample(name, "_count", labels, static_cast<double>(histogram.sample_count), text);
}

std::string_view NameOf(prometheus::MetricType type) {
  switch (type) {
    case prometheus::MetricType::Counter:
      return "counter";
    case prometheus::MetricType::Gauge:
      return "gauge";
    case prometheus::MetricType::Histogram:
      return "histogram";
    default:
      QUIRE_CHECK(false, "a metric of a type that is not written");
      return "untyped";
  }
}

}  // namespace

void AppendExposition(const std::vector<prometheus::MetricFamily>& families, std::string& text) {
  for (const prometheus::MetricFamily& family : families) {
    text += "# HELP ";
    text += family.name;
    text += ' ';
    AppendEscaped(family.help, false, text);
    text += "\n# TYPE ";
    text += family.name;
    text += ' ';
    text += NameOf(family.type);
    text += '\n';
    for (const prometheus::ClientMetric& metric : family.metric) {
      const std::string labels = LabelsOf(metric);
      if (family.type == prometheus::MetricType::Histogram) {
        AppendHistogram(family.name, labels, metric.histogram, text);
      } else {
        const bool is_counter = family.type == prometheus::MetricType::Counter;
        AppendSample(family.name, "", labels,
                     is_counter ? metric.counter.value : metric.gauge.value, text);
      }
    }
  }
}

}  // namespace quire
