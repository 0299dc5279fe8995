// A scenario is a story in a text file: requests arrive, steps pass, and what each step plans and
// leaves behind stands indented below it. The runner plays the story over a Batch, a KvCache and
// the fake model, and writes down what really happens in the same words; the test compares the two.
//
//   # a comment
//   pool 8 blocks                       windows 0 32: one group of layers each, 0 = all tokens
//   options max_sequences 4             names of SchedulerOptions; more than one may follow
//   request s1: 1x34 7 8..10, 35 new    tokens: 34 times 1, 7, 8, 9, 10; then 35 are sampled
//     further words: priority N, deadline MS, chunk N, salt WORD, computed (does not read the
//     cache), private (nor keeps), by hand (samples only by `append`)
//   fork s2 from s1 | append s1: 7 8 | abort s1 | end s1 | forget s1
//   step                                one step; a millisecond passes
//   steps 12 | steps until s1 ends | steps until all end
//   took 20 ms                          what the last step is told to have taken
//   at 50                               the clock
//   tables s1                           blocks by group, `-` where a window has left one
//   counters                            what has happened so far
//
// After every step the invariants of batch and cache are checked and every entry that was read is
// compared with what it must be. At the end of the file no block may be used.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/batch.h"
#include "scenarios/fake_model.h"

namespace quire {

class ScenarioRunner {
 public:
  // The story with what really happened in the indented lines. A line that begins with "error:"
  // says what is wrong with the story or with the state.
  static std::vector<std::string> Play(const std::vector<std::string>& story);

 private:
  struct Told {
    size_t num_new = 0;  // to be sampled; 0 = by hand
    size_t num_sampled = 0;
  };

  void Line(std::string_view line);
  bool Setup(const std::vector<std::string_view>& words);
  void Request(std::string_view text);
  void Fork(const std::vector<std::string_view>& words);
  void Append(std::string_view text);
  void Remove(std::string_view name);
  void Steps(const std::vector<std::string_view>& words);
  void Step(bool is_shown);
  void Tables(SequenceId id);
  void Counters();
  void Finish();

  void Say(std::string text) { told_.push_back("  " + std::move(text)); }
  void Error(std::string text) { told_.push_back("error: " + std::move(text)); }
  void SayBlocks();
  // 0, and an error, where the text names no sequence.
  SequenceId Named(std::string_view name);
  void Expect(std::string_view name, SequenceId id);
  void Check();

  std::vector<std::string> told_;
  int num_blocks_ = 0;
  std::vector<int> windows_ = {0};
  SchedulerOptions options_;
  double now_ms_ = 0;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Batch> batch_;  // gives its blocks back before the cache goes
  StepPlan last_plan_;
  std::map<SequenceId, Told> sequences_;
};

}  // namespace quire
