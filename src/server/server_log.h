// The server's log: a JSON object a line on standard error, or text on a terminal.
//
// A line has its time (UTC), level, event, and fields. Prompts and answers are never among them
// unless LogOptions::shows_text.
//
// Invariants:
//   1. Write waits for nobody who reads the log: lines queue for a thread of their own (spdlog),
//   and
//      when the queue is full the oldest is lost. A line "log_lines_lost" then says how many.
//   2. A line is well-formed UTF-8 and holds no control character, whatever the fields hold: it can
//      neither break a line nor command a terminal.
//   3. A value of more than kMaxLoggedBytes is cut.
// Thread-safe. The destructor writes what is queued, unless the reader does not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace quire {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

inline constexpr size_t kMaxLoggedBytes = size_t{16} << 10;

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool as_json = true;
  bool shows_text = false;
  int descriptor = 2;  // where to; stays open, and is not closed here
};

using LogValue = std::variant<std::string, int64_t, double, bool>;
using LogField = std::pair<std::string_view, LogValue>;

class ServerLog {
 public:
  explicit ServerLog(const LogOptions& options);
  ~ServerLog();

  // Write(LogLevel::kInfo, "request", {{"id", id}, {"status", int64_t{200}}});
  void Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
    Write(level, event, std::span(fields.begin(), fields.size()));
  }
  void Write(LogLevel level, std::string_view event, std::span<const LogField> fields);
  bool shows_text() const { return shows_text_; }

 private:
  struct Sink;
  std::unique_ptr<Sink> sink_;
  bool shows_text_ = false;
};

}  // namespace quire
