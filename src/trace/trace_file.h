// A trace as a file: JSON lines (docs/trace-format.md), written by a thread of its own.
//
//   Add (engine's thread) -> buffer of bytes -> writer -> file
//
// Invariants:
//   1. Add never waits for the disk: while the buffer is full, events are dropped, counted, and a
//      DroppedEvent stands in the file where they would.
//   2. Lines are whole but for the last one of a disk that failed; nothing is written behind it.
//   3. The thread sleeps while nothing is added.
// Add is called by one thread at a time, Close and the destructor by whoever calls Add no more.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "trace/trace_sink.h"

namespace quire {

struct TraceFileOptions {
  TraceDetail detail{};
  size_t max_buffer_bytes = size_t{16} << 20;  // that wait for the disk at most
};

class TraceFile : public TraceSink {
 public:
  // Makes the file, readable by its owner alone: it holds what was asked and answered. An earlier
  // trace there is gone once the first event is written, and stays where none comes. kIo, naming
  // it, where it cannot be made or is being written; kInvalidArgument for a file that holds
  // anything but a trace.
  static Result<std::unique_ptr<TraceFile>> Create(const std::filesystem::path& path,
                                                   const TraceFileOptions& options);
  ~TraceFile() override;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  TraceDetail detail() const override { return options_.detail; }
  void Add(const TraceEvent& event) override;

  // Writes what is left and ends. kIo, with the number of events that are lacking, where the disk
  // failed or was too slow. The same at every further call.
  Status Close();

 private:
  TraceFile(std::filesystem::path path, int fd, bool replaces, const TraceFileOptions& options);
  void Write();
  // Appends the event, or counts it as dropped. Holding the lock.
  void Append(const TraceEvent& event);

  const std::filesystem::path path_;
  const int fd_;
  const bool replaces_;  // what the file holds
  const TraceFileOptions options_;

  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_;
  std::string buffer_;  // lines that the writer has not taken
  double last_ms_ = 0;  // of the last event that has a time
  int64_t num_dropped_ = 0;
  int64_t num_dropped_untold_ = 0;
  int error_ = 0;  // errno of the first write that failed
  bool is_closing_ = false;

  std::thread writer_;  // last: it uses the rest
};

}  // namespace quire
