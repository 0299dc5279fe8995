// Reads a trace's file, an event at a time. The file may come from anywhere: a line is bounded, and
// nothing of it is trusted. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "trace/events.h"

namespace quire {

class TraceReader {
 public:
  // The file begins with a run event, which is read at once: kNotFound or kIo for a file that
  // cannot be read, kCorrupt and kUnsupported, naming file and line, for one that is no trace.
  static Result<TraceReader> Open(const std::filesystem::path& path);

  const RunEvent& run() const { return run_; }

  // The next event behind the run; nothing at the end. Errors name file and line.
  Result<std::optional<TraceEvent>> Next();

  // At the end: the last line was not whole, as when a program is killed while it writes, and was
  // passed over.
  bool ends_within_a_line() const { return ends_within_a_line_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  TraceReader(std::filesystem::path path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  // False at the end.
  Result<bool> NextLine(std::string& line);
  Error At(const Error& error) const;

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  RunEvent run_{};
  std::string buffer_;  // read, from next_ on not taken
  size_t next_ = 0;
  int64_t line_number_ = 0;
  bool is_at_end_ = false;  // of the file; lines may be left
  bool line_is_whole_ = true;
  bool ends_within_a_line_ = false;
};

}  // namespace quire
