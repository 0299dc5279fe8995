// A strict reader of Prometheus' text form, version 0.0.4: finds what a scraper would refuse, and
// what no server should say.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace quire {

struct Exposition {
  // The first fault, with its line; empty where there is none.
  std::string fault{};
  std::map<std::string, std::string> families{};  // name -> type
  // name{labels in alphabetical order} -> value
  std::map<std::string, double> samples{};
};

// Beyond the grammar it demands: a TYPE before the first sample of a family, no sample twice,
// counters and buckets that are not negative, buckets that rise and end in +Inf with the count.
Exposition ReadExposition(std::string_view text);

}  // namespace quire
