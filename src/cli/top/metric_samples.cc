#include "cli/top/metric_samples.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace quire {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

bool IsNameByte(char c, bool is_first) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
  return is_letter || (!is_first && c >= '0' && c <= '9');
}

// "1.5", "+Inf", "NaN", "1e9": all of `text`.
std::optional<double> ReadNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = read.ptr == text.data() + text.size();
  if (text.empty() || !is_whole) return std::nullopt;
  // Too large or too small for a double; nobody counts so far.
  if (read.ec != std::errc()) return std::nullopt;
  return value;
}

// What is left to read of a line.
struct Cursor {
  std::string_view rest;

  void SkipBlanks() {
    while (!rest.empty() && IsBlank(rest.front())) rest.remove_prefix(1);
  }
  bool Take(char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  }
  std::string_view TakeName() {
    size_t length = 0;
    while (length < rest.size() && IsNameByte(rest[length], length == 0)) ++length;
    const std::string_view name = rest.substr(0, length);
    rest.remove_prefix(length);
    return name;
  }
  std::string_view TakeWord() {
    size_t length = 0;
    while (length < rest.size() && !IsBlank(rest[length])) ++length;
    const std::string_view word = rest.substr(0, length);
    rest.remove_prefix(length);
    return word;
  }
  // "text", of which \\, \" and \n are escapes.
  bool TakeQuoted(std::string& text) {
    if (!Take('"')) return false;
    while (!rest.empty()) {
      const char c = rest.front();
      rest.remove_prefix(1);
      if (c == '"') return true;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (rest.empty()) return false;
      text += rest.front() == 'n' ? '\n' : rest.front();
      rest.remove_prefix(1);
    }
    return false;
  }
};

// {name="value",...}; a comma may stand before the closing brace.
const char* ReadLabels(Cursor& line, MetricSample& sample) {
  if (!line.Take('{')) return nullptr;
  for (;;) {
    line.SkipBlanks();
    if (line.Take('}')) return nullptr;
    if (sample.labels.size() == MetricSamples::kMaxLabels) return "too many labels";
    auto& [name, value] = sample.labels.emplace_back();
    name = line.TakeName();
    line.SkipBlanks();
    if (name.empty() || !line.Take('=')) return "a label without a name or a value";
    line.SkipBlanks();
    if (!line.TakeQuoted(value)) return "a label's value without its quotes";
    line.SkipBlanks();
    if (!line.Take(',') && !line.rest.starts_with('}')) return "labels without an end";
  }
}

// What is wrong with it; null where nothing is.
const char* ReadSample(std::string_view text, std::string& name, MetricSample& sample) {
  Cursor line{text};
  line.SkipBlanks();
  name = line.TakeName();
  if (name.empty()) return "no metric's name";
  line.SkipBlanks();
  if (const char* fault = ReadLabels(line, sample)) return fault;
  line.SkipBlanks();
  const std::optional<double> value = ReadNumber(line.TakeWord());
  if (!value) return "no number as its value";
  sample.value = *value;
  line.SkipBlanks();
  const std::string_view timestamp = line.TakeWord();
  line.SkipBlanks();
  if (!line.rest.empty() || (!timestamp.empty() && !ReadNumber(timestamp))) {
    return "more than a value and a time";
  }
  return nullptr;
}

}  // namespace

const std::string* MetricSample::Label(std::string_view name) const {
  for (const auto& [label, text] : labels) {
    if (label == name) return &text;
  }
  return nullptr;
}

Result<MetricSamples> MetricSamples::Parse(std::string_view text) {
  MetricSamples all;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.size() > kMaxLineBytes) {
      return MakeError(ErrorCode::kCorrupt, "metrics: line {} has {} bytes, {} at most", number,
                       line.size(), kMaxLineBytes);
    }
    if (all.num_samples_ == kMaxSamples) {
      return MakeError(ErrorCode::kCorrupt, "metrics: more than {} samples", kMaxSamples);
    }
    std::string name;
    MetricSample sample;
    if (const char* fault = ReadSample(line, name, sample)) {
      return MakeError(ErrorCode::kCorrupt, "metrics: line {} is no sample: {}", number, fault);
    }
    all.samples_[std::move(name)].push_back(std::move(sample));
    ++all.num_samples_;
  }
  return all;
}

const std::vector<MetricSample>& MetricSamples::Named(std::string_view name) const {
  static const std::vector<MetricSample> kNone;
  const auto found = samples_.find(name);
  return found == samples_.end() ? kNone : found->second;
}

std::optional<double> MetricSamples::Find(std::string_view name) const {
  const std::vector<MetricSample>& named = Named(name);
  if (named.empty() || !std::isfinite(named.front().value)) return std::nullopt;
  return named.front().value;
}

double MetricSamples::Sum(std::string_view name) const {
  double sum = 0;
  for (const MetricSample& sample : Named(name)) {
    if (std::isfinite(sample.value)) sum += sample.value;
  }
  return sum;
}

double MetricSamples::Sum(std::string_view name, std::string_view label,
                          std::string_view value) const {
  double sum = 0;
  for (const MetricSample& sample : Named(name)) {
    const std::string* text = sample.Label(label);
    if (text && *text == value && std::isfinite(sample.value)) sum += sample.value;
  }
  return sum;
}

std::string MetricSamples::LabelOf(std::string_view name, std::string_view label) const {
  const std::vector<MetricSample>& named = Named(name);
  const std::string* text = named.empty() ? nullptr : named.front().Label(label);
  return text ? *text : std::string();
}

LatencyHistogram MetricSamples::HistogramOf(std::string_view name) const {
  LatencyHistogram histogram;
  const std::string base(name);
  for (const MetricSample& sample : Named(base + "_bucket")) {
    const std::string* bound = sample.Label("le");
    const std::optional<double> le = bound ? ReadNumber(*bound) : std::nullopt;
    if (le && !std::isnan(*le) && std::isfinite(sample.value)) {
      histogram.buckets[*le] += sample.value;
    }
  }
  histogram.sum_s = Sum(base + "_sum");
  histogram.count = Sum(base + "_count");
  return histogram;
}

}  // namespace quire
