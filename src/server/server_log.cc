#include "server/server_log.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <iterator>

#include "base/utf8.h"

namespace quire {
namespace {

using std::chrono::steady_clock;

constexpr size_t kQueuedLines = 2048;
// A pipe that poll() calls writable takes this many bytes without blocking (POSIX, PIPE_BUF).
constexpr size_t kPieceBytes = 4096;
constexpr std::chrono::milliseconds kPatience{200};          // between two looks whether it ends
constexpr std::chrono::milliseconds kPatienceAtTheEnd{500};  // for all that is queued

// A reader that has gone is an error of write here, not the end of the process.
void BlockBrokenPipes() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "";
}

// "2031-05-01T07:20:09.123Z"
void AppendTime(std::string& line) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  fmt::format_to(std::back_inserter(line), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
                 utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                 utc.tm_sec, now.tv_nsec / 1'000'000);
}

// As a JSON string. C1 control characters, which terminals obey too, are escaped with the rest.
void AppendQuoted(std::string_view text, std::string& line) {
  const std::string whole = RepairUtf8(text.substr(0, kMaxLoggedBytes));
  line += '"';
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto byte = static_cast<unsigned char>(whole[i]);
    const auto next = static_cast<unsigned char>(i + 1 < whole.size() ? whole[i + 1] : '\0');
    if (byte == '"' || byte == '\\') {
      line += '\\';
      line += whole[i];
    } else if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", byte);
    } else if (byte == 0xC2 && next < 0xA0) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", next);
      ++i;
    } else {
      line += whole[i];
    }
  }
  if (text.size() > kMaxLoggedBytes) line += "...";
  line += '"';
}

bool IsPlain(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+@%,";
  return !text.empty() && text.size() <= kMaxLoggedBytes &&
         text.find_first_not_of(kPlain) == std::string_view::npos;
}

void AppendValue(const LogValue& value, bool as_json, std::string& line) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (!as_json && IsPlain(*text)) {
      line += *text;
    } else {
      AppendQuoted(*text, line);
    }
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    fmt::format_to(std::back_inserter(line), "{}", *integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    // JSON knows no infinity.
    line += std::isfinite(*number) ? fmt::format("{:.3f}", *number) : "null";
  } else {
    line += std::get<bool>(value) ? "true" : "false";
  }
}

std::string JsonLine(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  std::string line = R"({"time":")";
  AppendTime(line);
  line += R"(","level":")";
  line += NameOf(level);
  line += R"(","event":)";
  AppendQuoted(event, line);
  for (const auto& [name, value] : fields) {
    line += ',';
    AppendQuoted(name, line);
    line += ':';
    AppendValue(value, true, line);
  }
  line += "}\n";
  return line;
}

std::string TextLine(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  std::string line;
  AppendTime(line);
  fmt::format_to(std::back_inserter(line), " {:<7} ", NameOf(level));
  AppendValue(std::string(event), false, line);
  for (const auto& [name, value] : fields) {
    line += ' ';
    AppendValue(std::string(name), false, line);
    line += '=';
    AppendValue(value, false, line);
  }
  line += '\n';
  return line;
}

std::string LineOf(LogLevel level, std::string_view event, std::span<const LogField> fields,
                   bool as_json) {
  return as_json ? JsonLine(level, event, fields) : TextLine(level, event, fields);
}

// Writes lines to a descriptor whose reader may have stopped reading, or gone.
class DescriptorSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  DescriptorSink(int descriptor, bool as_json) : descriptor_(descriptor), as_json_(as_json) {}

  // The queue that calls it, which knows how many lines it has lost. Before the first line.
  void SetQueue(spdlog::details::thread_pool* queue) { queue_ = queue; }
  // No more waiting than kPatienceAtTheEnd from here on. Any thread.
  void End() { deadline_ = (steady_clock::now() + kPatienceAtTheEnd).time_since_epoch(); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const size_t lost = queue_->overrun_counter();
    if (lost > lost_and_told_) {
      const auto count = static_cast<int64_t>(lost - lost_and_told_);
      const LogField field{"count", count};
      WriteWhole(LineOf(LogLevel::kWarning, "log_lines_lost", {&field, 1}, as_json_));
      lost_and_told_ = lost;
    }
    WriteWhole({message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

 private:
  using Deadline = steady_clock::duration;

  void WriteWhole(std::string_view rest) {
    while (!rest.empty()) {
      if (!IsReady()) {
        if (HasEnded()) return;
        continue;
      }
      const ssize_t written = write(descriptor_, rest.data(), std::min(rest.size(), kPieceBytes));
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (written <= 0) return;
      rest.remove_prefix(static_cast<size_t>(written));
    }
  }
  bool HasEnded() const { return steady_clock::now().time_since_epoch() >= deadline_.load(); }
  // Takes a piece, or fails, without blocking.
  bool IsReady() const {
    const Deadline left = deadline_.load() - steady_clock::now().time_since_epoch();
    const Deadline patience = std::clamp<Deadline>(left, Deadline::zero(), kPatience);
    pollfd waiting{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
    return poll(&waiting, 1, static_cast<int>(ms)) == 1;
  }

  const int descriptor_;
  const bool as_json_;
  spdlog::details::thread_pool* queue_ = nullptr;
  size_t lost_and_told_ = 0;
  std::atomic<Deadline> deadline_{Deadline::max()};
};

}  // namespace

struct ServerLog::Sink {
  explicit Sink(const LogOptions& options)
      : level(options.level),
        as_json(options.as_json),
        descriptor_sink(std::make_shared<DescriptorSink>(options.descriptor, options.as_json)),
        queue(std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1, BlockBrokenPipes)),
        logger(std::make_shared<spdlog::async_logger>(
            "quire", descriptor_sink, queue, spdlog::async_overflow_policy::overrun_oldest)) {
    descriptor_sink->SetQueue(queue.get());
  }
  // The queue ends when its lines are written, and before the logger that they name.
  ~Sink() {
    descriptor_sink->End();
    queue.reset();
  }

  const LogLevel level;
  const bool as_json;
  const std::shared_ptr<DescriptorSink> descriptor_sink;
  std::shared_ptr<spdlog::details::thread_pool> queue;
  const std::shared_ptr<spdlog::async_logger> logger;
};

ServerLog::ServerLog(const LogOptions& options)
    : sink_(std::make_unique<Sink>(options)), shows_text_(options.shows_text) {}
ServerLog::~ServerLog() = default;

void ServerLog::Write(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  if (level < sink_->level || level == LogLevel::kOff) return;
  const std::string line = LineOf(level, event, fields, sink_->as_json);
  // Levels are settled here; spdlog is to pass every line on.
  sink_->logger->log(spdlog::level::critical, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace quire
