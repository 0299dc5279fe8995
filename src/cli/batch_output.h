// The file of results: written a line at a time, taken up again where an earlier run ended.
//
// Invariants:
//   1. The file holds whole lines at any moment that anyone can see, a crash inside a write aside;
//      what such a crash leaves is cut off by the next Open.
//   2. One process writes it: a lock on the file keeps others out.
// A pipe, terminal or device as output is only written to. Used by one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "base/result.h"
#include "cli/batch_input.h"

namespace quire {

// What the file held when it was opened.
struct PastResults {
  std::unordered_set<std::string> answered{};  // custom_ids
  std::unordered_set<std::string> refused{};   // custom_ids
  std::unordered_set<int64_t> bad_lines{};     // numbers of lines without a request
};

class BatchOutput {
 public:
  // "-" is standard output. Fails, with the file as it was, where another process writes it, where
  // it is the input, and where it holds what is no result. drop_refused: takes what was not
  // answered out of the file, so that it can be tried again.
  static Result<BatchOutput> Open(const std::string& path, const BatchInput& input,
                                  bool drop_refused);
  BatchOutput(BatchOutput&& other) noexcept;
  BatchOutput& operator=(BatchOutput&& other) noexcept;
  ~BatchOutput();

  const PastResults& past() const { return past_; }

  // Adds a line, whole or not at all. kResourceExhausted for a full disk, kIo otherwise.
  Status Write(std::string line);
  // Returns when what was written is on the disk.
  Status Sync();

 private:
  BatchOutput(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  static Result<BatchOutput> OpenLocked(const std::string& path);
  // Reads what is there and cuts off a torn end.
  Status TakeUp();
  Status DropRefused();
  Error WriteError(int error) const;

  int descriptor_ = -1;
  std::string path_;
  bool is_regular_file_ = false;
  int64_t size_ = 0;  // of the whole lines; regular files
  PastResults past_;
};

}  // namespace quire
