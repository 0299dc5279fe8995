// Files of raw logits over windows of a text (docs/logits-format.md).
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace quire {

struct LogitsHeader {
  uint32_t vocab_size = 0;
  uint32_t window = 0;  // tokens a window
  uint32_t num_windows = 0;
  uint32_t first_scored = 0;  // rows first_scored..window - 2 of each window are stored

  uint32_t rows_per_window() const { return window - 1 - first_scored; }
};

// Writes rows in order. Fails at the first write that the system refuses.
class LogitsWriter {
 public:
  // tokens [num_windows * window]
  static Result<LogitsWriter> Create(const std::filesystem::path& path, const LogitsHeader& header,
                                     std::span<const int32_t> tokens);
  Status Append(std::span<const float> rows);
  Status Finish();

 private:
  explicit LogitsWriter(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::ofstream out_;
};

// A file of exactly the size that its header says.
class LogitsReader {
 public:
  static Result<LogitsReader> Open(const std::filesystem::path& path);

  const LogitsHeader& header() const { return header_; }
  std::span<const int32_t> tokens() const;
  // [vocab_size]; window_idx and row_idx within the header's bounds.
  std::span<const float> row(uint32_t window_idx, uint32_t row_idx) const;

 private:
  LogitsReader(MappedFile file, LogitsHeader header) : file_(std::move(file)), header_(header) {}

  MappedFile file_;
  LogitsHeader header_;
};

}  // namespace quire
