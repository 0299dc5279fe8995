#include "support/exposition_reader.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

namespace quire {
namespace {

using Labels = std::map<std::string, std::string>;

bool IsNameCharacter(char c, bool is_first, bool is_label) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  const bool is_digit = c >= '0' && c <= '9';
  return is_letter || (!is_first && is_digit) || (!is_label && c == ':');
}

struct Line {
  std::string_view rest;

  bool Take(std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
  std::string TakeName(bool is_label) {
    size_t length = 0;
    while (length < rest.size() && IsNameCharacter(rest[length], length == 0, is_label)) ++length;
    std::string name(rest.substr(0, length));
    rest.remove_prefix(length);
    return name;
  }
  // "value", without its quotes but as it is escaped.
  bool TakeQuoted(std::string& value) {
    if (!Take("\"")) return false;
    for (size_t i = 0; i < rest.size(); ++i) {
      if (rest[i] == '\\') {
        const char next = i + 1 < rest.size() ? rest[i + 1] : '\0';
        if (next != '\\' && next != '"' && next != 'n') return false;
        ++i;
      } else if (rest[i] == '"') {
        value = rest.substr(0, i);
        rest.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }
  bool TakeLabels(Labels& labels) {
    if (!Take("{")) return true;
    while (!Take("}")) {
      if (!labels.empty() && !Take(",")) return false;
      const std::string name = TakeName(true);
      std::string value;
      if (name.empty() || !Take("=") || !TakeQuoted(value)) return false;
      if (!labels.emplace(name, value).second) return false;
    }
    return true;
  }
  bool TakeNumber(double& value) {
    const std::string text(rest);
    if (text == "+Inf") {
      value = std::numeric_limits<double>::infinity();
      return true;
    }
    if (text.empty() || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) return false;
    char* end = nullptr;
    value = std::strtod(text.c_str(), &end);
    return *end == '\0';
  }
};

std::string Spell(const std::string& name, const Labels& labels) {
  std::string key = name;
  for (const auto& [label, value] : labels) {
    key += (key.size() == name.size() ? "{" : ",") + label + "=\"" + value + "\"";
  }
  return labels.empty() ? key : key + "}";
}

struct Series {
  double last_bound = -std::numeric_limits<double>::infinity();
  double last_count = 0;
  double count = -1;
  bool has_sum = false;
};

class Reader {
 public:
  Exposition Read(std::string_view text) {
    if (!text.empty() && text.back() != '\n') exposition_.fault = "no newline at the end";
    while (!text.empty() && exposition_.fault.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(line.size() + 1);
      const std::string fault = line.starts_with("#") ? ReadComment(line) : ReadSample(line);
      if (!fault.empty()) exposition_.fault = fault + ": " + std::string(line);
    }
    if (exposition_.fault.empty()) CheckHistograms();
    return std::move(exposition_);
  }

 private:
  std::string ReadComment(std::string_view text) {
    Line line{text};
    if (line.Take("# HELP ")) return line.TakeName(false).empty() ? "no name" : "";
    if (!line.Take("# TYPE ")) return "neither HELP nor TYPE";
    const std::string name = line.TakeName(false);
    if (!line.Take(" ")) return "no type";
    const std::string type(line.rest);
    if (type != "counter" && type != "gauge" && type != "histogram") return "a strange type";
    return exposition_.families.emplace(name, type).second ? "" : "a family twice";
  }

  std::string ReadSample(std::string_view text) {
    Line line{text};
    const std::string name = line.TakeName(false);
    Labels labels;
    double value = 0;
    if (name.empty()) return "no name";
    if (!line.TakeLabels(labels)) return "bad labels";
    if (!line.Take(" ") || !line.TakeNumber(value)) return "bad value";
    if (!exposition_.samples.emplace(Spell(name, labels), value).second) return "a sample twice";
    const auto family = exposition_.families.find(name);
    if (family == exposition_.families.end()) return ReadHistogramSample(name, labels, value);
    if (family->second == "histogram") return "a histogram without a suffix";
    return family->second == "counter" && value < 0 ? "a negative counter" : "";
  }

  std::string ReadHistogramSample(const std::string& name, Labels labels, double value) {
    const size_t cut = name.rfind('_');
    const std::string family = name.substr(0, cut);
    const std::string suffix = cut == std::string::npos ? "" : name.substr(cut);
    const auto found = exposition_.families.find(family);
    if (found == exposition_.families.end() || found->second != "histogram") return "no TYPE";
    const auto bound = labels.extract("le");
    Series& series = series_[Spell(family, labels)];
    if (suffix == "_sum") {
      series.has_sum = true;
    } else if (suffix == "_count") {
      series.count = value;
    } else if (suffix == "_bucket") {
      double le = 0;
      if (bound.empty() || !Line{bound.mapped()}.TakeNumber(le)) return "no bound";
      if (le <= series.last_bound || value < series.last_count) return "buckets that fall";
      series.last_bound = le;
      series.last_count = value;
    } else {
      return "no sample of a histogram";
    }
    return "";
  }

  void CheckHistograms() {
    for (const auto& [name, series] : series_) {
      if (!std::isinf(series.last_bound) || !series.has_sum || series.count != series.last_count) {
        exposition_.fault = "a histogram that does not add up: " + name;
      }
    }
  }

  Exposition exposition_;
  std::map<std::string, Series> series_;
};

}  // namespace

Exposition ReadExposition(std::string_view text) { return Reader().Read(text); }

}  // namespace quire
