// Lines of a file or of standard input, one at a time, in bounded memory.
// Used by one thread at a time.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace quire {

struct BatchLine {
  int64_t number = 0;  // from 1
  std::string text{};  // without its end; empty where it is too long
  bool is_too_long = false;
  bool has_newline = false;
  int64_t end_offset = 0;  // bytes of the input up to its end, the newline included
};

enum class LineState : uint8_t {
  kLine,
  kNotYet,  // no whole line is there, and the caller did not want to wait; or a signal came
  kEnd,
};

class BatchInput {
 public:
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  // "-" is standard input.
  static Result<BatchInput> Open(const std::string& path, size_t max_line_bytes = kMaxLineBytes);
  BatchInput(BatchInput&& other) noexcept;
  BatchInput& operator=(BatchInput&&) = delete;
  ~BatchInput();

  // The next line, the last one with or without a newline. A line that is too long is passed over
  // and told.
  Result<LineState> Next(BatchLine& line, bool may_wait);

  // Lines that hold anything but white space, where the input can be read twice.
  std::optional<int64_t> CountLines() const;
  bool is_regular_file() const { return is_regular_file_; }
  // Whether both are one file.
  bool IsSameFile(const struct stat& other) const;

 private:
  BatchInput(int descriptor, std::string path, size_t max_line_bytes);
  // Moves the first whole line of the buffer into `line`.
  bool TakeLine(BatchLine& line);
  // Reads on; false at the end.
  Result<LineState> Fill(bool may_wait);

  int descriptor_;
  std::string path_;
  size_t max_line_bytes_;
  bool is_regular_file_ = false;
  bool is_at_end_ = false;
  std::string buffer_;
  size_t next_ = 0;          // of the buffer: where the next line begins
  size_t searched_ = 0;      // of the buffer: no newline stands before it
  bool skips_line_ = false;  // the rest of a line that is too long
  int64_t num_lines_ = 0;
  int64_t bytes_dropped_ = 0;  // that stood before the buffer
};

}  // namespace quire
