// Keeps an engine busy with the lines of a file, and writes a result for each.
//
// Lines are read a bounded number ahead of the results: enough that the scheduler sees what shares
// a prefix and never lacks work. A line that cannot be answered is told and the rest is done.
// Invariant: a custom_id is answered at most once, over all runs that share an output.
// Used by one thread; the engine, the input and the output outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "cli/batch_input.h"
#include "cli/batch_output.h"
#include "cli/batch_record.h"
#include "engine/engine.h"

namespace quire {

struct BatchOptions {
  std::string model_name{};         // that the results name
  std::optional<int> max_tokens{};  // of bodies that do not say
  int max_sequences_ahead = 64;     // read and not answered yet
  size_t max_bytes_ahead = size_t{64} << 20;
};

struct BatchSummary {
  int64_t answered = 0;         // by this run
  int64_t refused = 0;          // by this run, lines without a request included
  int64_t skipped = 0;          // answered by an earlier run
  int64_t skipped_refused = 0;  // refused by an earlier run
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;
  bool was_interrupted = false;
  // The first of those refused by this run, each with its line's number.
  static constexpr size_t kMaxErrors = 20;
  std::vector<std::string> errors{};
  // What the bodies hold and nobody knows, and other models than this that they ask for.
  std::set<std::string> ignored_fields{};
  std::set<std::string> other_models{};

  int64_t lines_done() const { return answered + refused + skipped + skipped_refused; }
};

class BatchRun {
 public:
  BatchRun(Engine& engine, BatchInput& input, BatchOutput& output, BatchOptions options);
  ~BatchRun();

  // Until all lines have their results, or `interrupted` says true: then what is under way is given
  // up, and a later run answers it. on_step is called between steps. Fails where the input cannot
  // be read or the output not be written.
  Status Run(const std::function<bool()>& interrupted, const std::function<void()>& on_step);

  const BatchSummary& summary() const { return summary_; }

 private:
  struct Job;

  // Reads lines until enough is under way.
  Status ReadAhead();
  void TakeLine(BatchLine line);
  void Start(const BatchLine& line, BatchRequest request);
  void Refuse(const std::string& custom_id, const ApiError& error, int64_t line_number);
  void RefuseLine(const ApiError& error, int64_t line_number);
  void OnFinish(Job& job, size_t prompt, RequestResult result);
  void Complete(Job& job);
  void Write(std::string line);
  void GiveUp();

  Engine& engine_;
  BatchInput& input_;
  BatchOutput& output_;
  BatchOptions options_;
  OpenAiLimits limits_;
  BatchSummary summary_;
  Status status_;  // of the output
  bool is_at_end_ = false;
  bool is_giving_up_ = false;
  std::map<int64_t, std::unique_ptr<Job>> jobs_;  // by line number
  int64_t sequences_ahead_ = 0;
  size_t bytes_ahead_ = 0;
  std::unordered_set<std::string> seen_;  // custom_ids of this run
};

}  // namespace quire
