// What drafts cost, measured: by how much they make a step longer than it is without.
//
// The kernels cut rows into tiles of eight and a last one of what is left, and a small step is
// mostly the reading of weights, so the cost of one more row is a stair with uneven steps. Every
// number of rows up to kMostRows, of every number of decodes, is kept apart: the median of its last
// kSamples steps, each as a multiple of what the same decodes took without drafts a little before.
// How deep the sequences are weighs on both and cancels. A number of rows that was not seen is
// taken from its neighbours, and beyond the largest grows by what a row is expected to cost, which
// is little, so that it is tried once where it would pay.
//
// What is old counts as not seen, so that a slow moment of the machine is not held against drafts
// for ever, nor in their favour:
//
//   plain    kFreshPlainSteps steps. Then there are no drafts until it was measured again, so that
//            where drafts always pay a few steps go without. At once where steps with drafts take
//            much less than it says.
//   drafted  kFreshSteps steps, or where the plain step is quite another by then
//
// Thread-compatible.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

class StepTimes {
 public:
  static constexpr int kMostRows = 32;
  static constexpr int kSamples = 5;
  static constexpr int kTrustedSamples = 2;
  static constexpr int64_t kFreshSteps = 512;
  static constexpr int64_t kFreshPlainSteps = 128;

  // A step of so many decodes, each with its drafts: rows in all. Others are passed over.
  void Observe(int num_decodes, int num_rows, double duration_ms);

  // Of so many decodes without drafts; 0 = not known, or not lately.
  double PlainMs(int num_decodes) const;
  // What num_rows of so many decodes, drafts among them, take over the plain step: 1 or more.
  double Ratio(int num_decodes, int num_rows) const;
  // The same where it was measured; 0 elsewhere.
  double MeasuredRatio(int num_decodes, int num_rows) const;

 private:
  struct Samples {
    std::array<double, kSamples> values{};
    int64_t count = 0;
    int64_t last_step = 0;
    double plain_ms = 0;  // beside which the last was taken

    void Add(double value);
    double Median() const;
  };

  std::array<Samples, kMostRows + 1> plain_{};  // by decodes, ms
  // By decodes and rows.
  std::array<std::array<Samples, kMostRows + 1>, kMostRows + 1> ratios_{};
  // By decodes: steps in a row that took much less than the plain step.
  std::array<int, kMostRows + 1> doubts_{};
  int64_t num_steps_ = 0;
};

}  // namespace quire
