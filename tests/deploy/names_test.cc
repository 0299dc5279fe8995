// What dashboards, alert rules and documents name must be there under that name.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/metrics/server_metrics.h"
#include "server/support/tier_rows.h"
#include "support/exposition_reader.h"

namespace quire {
namespace {

const std::filesystem::path kRoot = std::filesystem::path(QUIRE_TESTS_DIR).parent_path();

std::string ReadFile(const std::string& name) {
  std::ifstream stream(kRoot / name);
  EXPECT_TRUE(stream) << name;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// A server that has seen everything that makes a series appear.
Exposition Sample() {
  ServerMetrics metrics({.model_name = "tiny", .context_length = 2048});
  metrics.CountRefusal(429);
  Exposition exposition = ReadExposition(metrics.Render(testing::StatusWithTiers(), {}));
  EXPECT_EQ(exposition.fault, "");
  return exposition;
}

// Names of samples (those of histograms with their suffixes) and the labels that each has.
std::map<std::string, std::set<std::string>> LabelsBySample(const Exposition& exposition) {
  std::map<std::string, std::set<std::string>> labels;
  for (const auto& [key, value] : exposition.samples) {
    const size_t brace = key.find('{');
    std::set<std::string>& names = labels[key.substr(0, brace)];
    for (size_t at = brace; at != std::string::npos && key[at] != '}';) {
      const size_t end = key.find('=', at);
      names.insert(key.substr(at + 1, end - at - 1));
      at = key.find('"', end + 2) + 1;
    }
  }
  return labels;
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

// Whatever in the text is spelled like a metric of ours, or of vLLM.
std::set<std::string> MetricsNamedIn(const std::string& text) {
  std::set<std::string> names;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsNameCharacter(text[end])) ++end;
    const std::string word = text.substr(at, end - at);
    for (const char* prefix : {"vllm:", "quire_", "process_"}) {
      if (word.starts_with(prefix)) names.insert(word);
    }
    at = std::max(end, at + 1);
  }
  return names;
}

TEST(Deployment, NamesOnlyMetricsThatAreExposed) {
  const auto exposed = LabelsBySample(Sample());
  for (const char* file : {"deploy/grafana/quire.json", "deploy/prometheus/alerts.yml",
                           "deploy/prometheus/prometheus.yml"}) {
    for (const std::string& name : MetricsNamedIn(ReadFile(file))) {
      EXPECT_TRUE(exposed.contains(name)) << file << " names " << name;
    }
  }
  EXPECT_GT(MetricsNamedIn(ReadFile("deploy/grafana/quire.json")).size(), 30u);
  EXPECT_GT(MetricsNamedIn(ReadFile("deploy/prometheus/alerts.yml")).size(), 5u);
}

// Every "expr" of the dashboard, or of whatever else is JSON.
void CollectExpressions(const boost::json::value& value, std::vector<std::string>& expressions) {
  if (const auto* object = value.if_object()) {
    for (const auto& [key, member] : *object) {
      if (key == "expr") expressions.emplace_back(member.as_string());
      CollectExpressions(member, expressions);
    }
  } else if (const auto* array = value.if_array()) {
    for (const boost::json::value& element : *array) CollectExpressions(element, expressions);
  }
}

TEST(Deployment, TheDashboardGroupsByLabelsThatItsMetricsHave) {
  const auto exposed = LabelsBySample(Sample());
  std::vector<std::string> expressions;
  CollectExpressions(boost::json::parse(ReadFile("deploy/grafana/quire.json")), expressions);
  ASSERT_GT(expressions.size(), 30u);
  for (const std::string& expression : expressions) {
    EXPECT_EQ(std::ranges::count(expression, '('), std::ranges::count(expression, ')'));
    const size_t by = expression.find(" by (");
    if (by == std::string::npos) continue;
    const std::string label = expression.substr(by + 5, expression.find(')', by) - by - 5);
    for (const std::string& name : MetricsNamedIn(expression)) {
      EXPECT_TRUE(exposed.at(name).contains(label)) << expression;
    }
  }
}

TEST(Deployment, TheDashboardsPanelsAreTheirOwn) {
  const boost::json::value dashboard = boost::json::parse(ReadFile("deploy/grafana/quire.json"));
  std::set<int64_t> ids;
  for (const boost::json::value& panel : dashboard.at("panels").as_array()) {
    EXPECT_TRUE(ids.insert(panel.at("id").as_int64()).second);
    EXPECT_LE(panel.at("gridPos").at("x").as_int64() + panel.at("gridPos").at("w").as_int64(), 24);
  }
}

// Rows of docs/metrics.md: | `name` | type | ...
TEST(Deployment, TheDocumentListsEveryMetricWithItsTypeAndLabels) {
  const Exposition exposition = Sample();
  std::map<std::string, std::string> documented;
  std::map<std::string, std::set<std::string>> documented_labels;
  std::istringstream lines(ReadFile("docs/metrics.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const size_t name_end = line.find('`', 3);
    const std::string name = line.substr(3, name_end - 3);
    const size_t type = line.find("| ", name_end) + 2;
    const size_t type_end = line.find(" |", type);
    EXPECT_TRUE(documented.emplace(name, line.substr(type, type_end - type)).second) << name;
    const size_t labels_end = line.find('|', type_end + 2);
    std::set<std::string>& labels = documented_labels[name];
    for (size_t at = type_end; (at = line.find('`', at)) < labels_end;) {
      const size_t end = line.find('`', at + 1);
      labels.insert(line.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  EXPECT_EQ(documented, exposition.families);
  const auto exposed = LabelsBySample(exposition);
  for (const auto& [name, type] : exposition.families) {
    std::set<std::string> labels = exposed.at(type == "histogram" ? name + "_sum" : name);
    if (name != "vllm:cache_config_info") {
      EXPECT_EQ(labels.erase("model_name") + labels.erase("engine"), 2u) << name;
    }
    EXPECT_EQ(labels, documented_labels[name]) << name;
  }
}

}  // namespace
}  // namespace quire
