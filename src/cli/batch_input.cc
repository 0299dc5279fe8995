#include "cli/batch_input.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace quire {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<BatchInput> BatchInput::Open(const std::string& path, size_t max_line_bytes) {
  int descriptor = STDIN_FILENO;
  if (path != "-") {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
      return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}", path,
                       std::strerror(errno));
    }
  }
  BatchInput input(descriptor, path == "-" ? "standard input" : path, max_line_bytes);
  struct stat status{};
  if (::fstat(descriptor, &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      return MakeError(ErrorCode::kInvalidArgument, "{} is a folder; expected a file of JSON lines",
                       path);
    }
    input.is_regular_file_ = S_ISREG(status.st_mode);
  }
  return input;
}

BatchInput::BatchInput(int descriptor, std::string path, size_t max_line_bytes)
    : descriptor_(descriptor), path_(std::move(path)), max_line_bytes_(max_line_bytes) {}

BatchInput::BatchInput(BatchInput&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      max_line_bytes_(other.max_line_bytes_),
      is_regular_file_(other.is_regular_file_),
      is_at_end_(other.is_at_end_),
      buffer_(std::move(other.buffer_)),
      next_(other.next_),
      searched_(other.searched_),
      skips_line_(other.skips_line_),
      num_lines_(other.num_lines_),
      bytes_dropped_(other.bytes_dropped_) {}

BatchInput::~BatchInput() {
  if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
}

Result<LineState> BatchInput::Next(BatchLine& line, bool may_wait) {
  while (!TakeLine(line)) {
    if (is_at_end_) return LineState::kEnd;
    QUIRE_ASSIGN_OR_RETURN(const LineState state, Fill(may_wait));
    if (state == LineState::kNotYet) return state;
  }
  return LineState::kLine;
}

bool BatchInput::TakeLine(BatchLine& line) {
  while (true) {
    const size_t newline = buffer_.find('\n', searched_);
    const bool is_whole = newline != std::string::npos;
    const size_t end = is_whole ? newline : buffer_.size();
    if (!is_whole) {
      searched_ = end;
      if (end - next_ > max_line_bytes_) {
        skips_line_ = true;
        next_ = end;
      }
      if (!is_at_end_ || (next_ == end && !skips_line_)) return false;
    }
    std::string_view text = std::string_view(buffer_).substr(next_, end - next_);
    next_ = searched_ = is_whole ? end + 1 : end;
    ++num_lines_;
    if (num_lines_ == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(3);
    line.number = num_lines_;
    line.has_newline = is_whole;
    line.end_offset = bytes_dropped_ + static_cast<int64_t>(next_);
    line.is_too_long = std::exchange(skips_line_, false) || text.size() > max_line_bytes_;
    line.text = line.is_too_long ? std::string_view() : text;
    if (line.is_too_long || !IsBlank(text)) return true;
  }
}

Result<LineState> BatchInput::Fill(bool may_wait) {
  buffer_.erase(0, next_);
  bytes_dropped_ += static_cast<int64_t>(next_);
  searched_ -= next_;
  next_ = 0;
  if (!may_wait) {
    struct pollfd ready = {.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 0) <= 0) return LineState::kNotYet;
  }
  const size_t size = buffer_.size();
  buffer_.resize(size + kChunkBytes);
  const ssize_t count = ::read(descriptor_, buffer_.data() + size, kChunkBytes);
  const int error = errno;
  buffer_.resize(size + static_cast<size_t>(count > 0 ? count : 0));
  if (count < 0) {
    if (error == EINTR || error == EAGAIN) return LineState::kNotYet;
    return MakeError(ErrorCode::kIo, "cannot read {}: {}", path_, std::strerror(error));
  }
  is_at_end_ = count == 0;
  return LineState::kLine;
}

std::optional<int64_t> BatchInput::CountLines() const {
  if (!is_regular_file_) return std::nullopt;
  std::vector<char> chunk(kChunkBytes);
  int64_t count = 0;
  bool is_blank = true;
  off_t offset = 0;
  while (true) {
    const ssize_t size = ::pread(descriptor_, chunk.data(), chunk.size(), offset);
    if (size < 0) return std::nullopt;
    if (size == 0) break;
    offset += size;
    std::string_view text(chunk.data(), static_cast<size_t>(size));
    while (!text.empty()) {
      const size_t newline = text.find('\n');
      is_blank = is_blank && IsBlank(text.substr(0, newline));
      if (newline == std::string_view::npos) break;
      count += is_blank ? 0 : 1;
      is_blank = true;
      text.remove_prefix(newline + 1);
    }
  }
  return count + (is_blank ? 0 : 1);
}

bool BatchInput::IsSameFile(const struct stat& other) const {
  struct stat own{};
  return ::fstat(descriptor_, &own) == 0 && own.st_dev == other.st_dev &&
         own.st_ino == other.st_ino;
}

}  // namespace quire
