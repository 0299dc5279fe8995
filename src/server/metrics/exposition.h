// Prometheus' text form, version 0.0.4, of what prometheus-cpp has collected.
//
// Written here because a scrape is to cost next to nothing: prometheus-cpp's own writer goes
// through iostreams and takes several times as long. Bounds of buckets are spelled as Prometheus'
// Python client spells them ("1.0"), so that a query that names one finds it.
#pragma once

#include <string>
#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace quire {

// Appends families with their HELP and TYPE lines, in their order.
void AppendExposition(const std::vector<prometheus::MetricFamily>& families, std::string& text);

}  // namespace quire
