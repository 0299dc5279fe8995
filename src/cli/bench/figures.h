// What benchmarks say: numbers with a name and a unit, and how repetitions come together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/kv_cache.h"

namespace quire {

// Of a set of samples; all 0 for none.
struct Summary {
  int count = 0;
  double mean = 0;
  double median = 0;
  double p90 = 0;
  double p99 = 0;
  double lowest = 0;
  double highest = 0;
};
Summary Summarize(std::vector<double> samples);

// A result of one run. Figures of one kind of run come in the same order each time.
struct Figure {
  std::string key{};    // in JSON; vLLM's name where it has one
  std::string label{};  // for people
  std::string unit{};
  double value = 0;
  int decimals = 1;
};

// The median of repetitions, and how far they lie apart.
struct SpreadFigure {
  Figure figure{};  // value: the median
  double lowest = 0;
  double highest = 0;
};
// Runs have the same figures.
std::vector<SpreadFigure> MergeRuns(std::span<const std::vector<Figure>> runs);

// "label    value unit  (lowest to highest)", a line each.
std::string FormatFigures(std::span<const SpreadFigure> figures);

// KV waste: of the slots that live sequences have reserved, the share that holds no token, over
// samples taken after each step.
class WasteMeter {
 public:
  // What the cache holds for its sequences.
  void AddPaged(const KvUsage& usage);
  // Each live sequence has reserved this many slots of every group, whatever it needs.
  void AddReserved(int live_sequences, int64_t slots_each, int64_t filled_slots);

  double share() const;
  bool empty() const { return reserved_ == 0; }

 private:
  double reserved_ = 0;
  double filled_ = 0;
};

// The most memory that this process has held (VmHWM); 0 where the system does not say.
uint64_t PeakMemoryBytes();

}  // namespace quire
