// One line on a terminal that says how far a long piece of work is.
//
// Writes to standard error, and only where that is a terminal: logs and pipes stay clean. At most
// ten times a second. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace quire {

// "  34 %  33.5 of 98.4 MB  label"; the percentage never exceeds 100.
std::string FormatProgress(std::string_view label, uint64_t done_bytes, uint64_t total_bytes);

class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* stream = stderr);
  ~ProgressLine();  // takes the line away
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Update(std::string_view label, uint64_t done_bytes, uint64_t total_bytes);
  // Any other text of one line.
  void Show(std::string_view text);
  // Takes the line away, so that something else can be written.
  void Clear();

 private:
  std::FILE* stream_;
  bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_update_{};
};

}  // namespace quire
