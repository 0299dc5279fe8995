#include "trace/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "base/thread_name.h"
#include "trace/event_json.h"

namespace quire {
namespace {

// What is gathered before a write, for so long at most.
constexpr size_t kWriteBytes = size_t{256} << 10;
constexpr std::chrono::milliseconds kGatherTime{50};
constexpr std::string_view kTraceBegins = R"({"event":"run")";

// 0, or the errno of what failed.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// A name given by mistake, of a model say, costs nobody a file.
Status CheckIsTrace(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::array<char, kTraceBegins.size()> bytes{};
  const ssize_t count = fd < 0 ? -1 : ::read(fd, bytes.data(), bytes.size());
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (count < 0) {
    return MakeError(ErrorCode::kIo, "cannot see whether {} is a trace to replace: {}",
                     path.string(), std::strerror(error));
  }
  if (std::string_view(bytes.data(), static_cast<size_t>(count)) != kTraceBegins) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is there and is not a trace: a trace would replace what it holds; remove "
                     "it or name another file",
                     path.string());
  }
  return {};
}

double TimeOf(const TraceEvent& event) {
  return std::visit(
      [](const auto& e) {
        if constexpr (requires { e.ms; }) {
          return e.ms;
        } else {
          return 0.0;
        }
      },
      event);
}

}  // namespace

Result<std::unique_ptr<TraceFile>> TraceFile::Create(const std::filesystem::path& path,
                                                     const TraceFileOptions& options) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return MakeError(ErrorCode::kIo, "cannot write the trace {}: {}", path.string(),
                     std::strerror(errno));
  }
  struct stat status{};
  const bool is_file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  // The lock is the descriptor: it goes when the process does.
  if (is_file && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    return MakeError(ErrorCode::kIo,
                     "another process writes the trace {}; wait for it, or name another file",
                     path.string());
  }
  const bool replaces = is_file && ::fstat(fd, &status) == 0 && status.st_size > 0;
  if (replaces) {
    if (const Status is_trace = CheckIsTrace(path); !is_trace.ok()) {
      ::close(fd);
      return is_trace.error();
    }
  }
  return std::unique_ptr<TraceFile>(new TraceFile(path, fd, replaces, options));
}

TraceFile::TraceFile(std::filesystem::path path, int fd, bool replaces,
                     const TraceFileOptions& options)
    : path_(std::move(path)), fd_(fd), replaces_(replaces), options_(options), writer_([this] {
        Write();
      }) {}

TraceFile::~TraceFile() {
  (void)Close();
  ::close(fd_);
}

void TraceFile::Add(const TraceEvent& event) {
  if (!options_.detail.blocks && std::holds_alternative<BlockEvent>(event)) return;
  bool wakes = false;
  {
    const std::scoped_lock lock(mutex_);
    const size_t before = buffer_.size();
    Append(event);
    // Once for what begins to wait, once for what is worth a write.
    wakes = buffer_.size() > before &&
            (before == 0 || (before < kWriteBytes && buffer_.size() >= kWriteBytes));
  }
  if (wakes) wake_.notify_one();
}

void TraceFile::Append(const TraceEvent& event) {
  last_ms_ = std::max(last_ms_, TimeOf(event));
  if (error_ != 0 || buffer_.size() >= options_.max_buffer_bytes) {
    ++num_dropped_;
    ++num_dropped_untold_;
    return;
  }
  if (num_dropped_untold_ > 0) {
    AppendEventJson(DroppedEvent{.ms = last_ms_, .count = std::exchange(num_dropped_untold_, 0)},
                    buffer_);
    buffer_ += '\n';
  }
  AppendEventJson(event, buffer_);
  buffer_ += '\n';
}

void TraceFile::Write() {
  NameThisThread("quire-trace");
  std::string lines;
  bool empties = replaces_;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return is_closing_ || !buffer_.empty(); });
    wake_.wait_for(lock, kGatherTime,
                   [this] { return is_closing_ || buffer_.size() >= kWriteBytes; });
    if (buffer_.empty() && is_closing_) {
      if (num_dropped_untold_ == 0 || error_ != 0) return;
      AppendEventJson(DroppedEvent{.ms = last_ms_, .count = std::exchange(num_dropped_untold_, 0)},
                      buffer_);
      buffer_ += '\n';
    }
    lines.clear();
    lines.swap(buffer_);
    lock.unlock();
    const bool is_ready = !std::exchange(empties, false) || ::ftruncate(fd_, 0) == 0;
    const int error = is_ready ? WriteAll(fd_, lines) : errno;
    lock.lock();
    if (error != 0) {
      error_ = error;
      buffer_.clear();
      buffer_.shrink_to_fit();
    }
  }
}

Status TraceFile::Close() {
  {
    const std::scoped_lock lock(mutex_);
    is_closing_ = true;
  }
  wake_.notify_one();
  if (writer_.joinable()) writer_.join();
  const std::scoped_lock lock(mutex_);
  if (error_ != 0) {
    return MakeError(ErrorCode::kIo, "cannot write the trace {}: {}; it ends where that happened",
                     path_.string(), std::strerror(error_));
  }
  if (num_dropped_ > 0) {
    return MakeError(ErrorCode::kIo, "the trace {} lacks {} events: the disk was too slow for them",
                     path_.string(), num_dropped_);
  }
  return {};
}

}  // namespace quire
