#include "cli/batch_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "cli/batch_record.h"

namespace quire {
namespace {

// Results hold log-probabilities of whole answers.
constexpr size_t kMaxResultBytes = size_t{1} << 30;

Error CannotOpen(const std::string& path) {
  return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}", path,
                   std::strerror(errno));
}

// What a crash inside a write leaves: the beginning of a line, or blocks that never reached the
// disk.
bool IsTorn(std::string_view text) {
  return MayBeginResult(text) || std::ranges::all_of(text, [](char byte) { return byte == '\0'; });
}

}  // namespace

BatchOutput::BatchOutput(BatchOutput&& other) noexcept { *this = std::move(other); }

BatchOutput& BatchOutput::operator=(BatchOutput&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  path_ = std::move(other.path_);
  is_regular_file_ = other.is_regular_file_;
  size_ = other.size_;
  past_ = std::move(other.past_);
  return *this;
}

BatchOutput::~BatchOutput() {
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
}

Result<BatchOutput> BatchOutput::Open(const std::string& path, const BatchInput& input,
                                      bool drop_refused) {
  if (path == "-") return BatchOutput(STDOUT_FILENO, "standard output");
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && input.IsSameFile(status)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is both the input and the output; choose another output with -o", path);
  }
  QUIRE_ASSIGN_OR_RETURN(BatchOutput output, OpenLocked(path));
  if (!output.is_regular_file_) return output;
  QUIRE_RETURN_IF_ERROR(output.TakeUp());
  const bool has_refused = !output.past_.refused.empty() || !output.past_.bad_lines.empty();
  if (drop_refused && has_refused) QUIRE_RETURN_IF_ERROR(output.DropRefused());
  return output;
}

Result<BatchOutput> BatchOutput::OpenLocked(const std::string& path) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor < 0) return CannotOpen(path);
    BatchOutput output(descriptor, path);
    struct stat own{};
    if (::fstat(descriptor, &own) != 0) return CannotOpen(path);
    output.is_regular_file_ = S_ISREG(own.st_mode);
    if (!output.is_regular_file_) return output;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return CannotOpen(path);
      return MakeError(ErrorCode::kIo,
                       "another process writes {}; wait for it, or choose another output with -o",
                       path);
    }
    // Another process may have put a new file in its place before the lock was ours.
    struct stat present{};
    if (::stat(path.c_str(), &present) == 0 && present.st_ino == own.st_ino &&
        present.st_dev == own.st_dev) {
      return output;
    }
  }
}

Status BatchOutput::TakeUp() {
  QUIRE_ASSIGN_OR_RETURN(BatchInput lines, BatchInput::Open(path_, kMaxResultBytes));
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) return CannotOpen(path_);
  BatchLine line;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const LineState state, lines.Next(line, /*may_wait=*/true));
    if (state == LineState::kEnd) break;
    if (state == LineState::kNotYet) continue;
    const auto past = ReadResultLine(line.text);
    if (!past || !line.has_newline) {
      const bool is_last = line.end_offset >= status.st_size;
      if (is_last && !line.is_too_long && IsTorn(line.text)) break;
      return MakeError(ErrorCode::kCorrupt,
                       "{}: line {} is no result of `quire batch`; move the file away, or choose "
                       "another output with -o",
                       path_, line.number);
    }
    size_ = line.end_offset;
    if (!past->custom_id) {
      past_.bad_lines.insert(past->line_number);
    } else if (past->is_answered) {
      past_.answered.insert(*past->custom_id);
    } else {
      past_.refused.insert(*past->custom_id);
    }
  }
  if (size_ < status.st_size && ::ftruncate(descriptor_, size_) != 0) return WriteError(errno);
  return {};
}

Status BatchOutput::DropRefused() {
  const std::string new_path = path_ + ".new";
  // Nobody else writes beside a file whose lock is ours.
  ::unlink(new_path.c_str());
  QUIRE_ASSIGN_OR_RETURN(BatchOutput kept, OpenLocked(new_path));
  QUIRE_ASSIGN_OR_RETURN(BatchInput lines, BatchInput::Open(path_, kMaxResultBytes));
  BatchLine line;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const LineState state, lines.Next(line, /*may_wait=*/true));
    if (state == LineState::kEnd) break;
    if (state == LineState::kNotYet) continue;
    const auto past = ReadResultLine(line.text);
    if (past && past->is_answered) QUIRE_RETURN_IF_ERROR(kept.Write(std::move(line.text)));
  }
  QUIRE_RETURN_IF_ERROR(kept.Sync());
  if (::rename(new_path.c_str(), path_.c_str()) != 0) return CannotOpen(path_);
  kept.path_ = path_;
  kept.past_.answered = std::move(past_.answered);
  *this = std::move(kept);
  return {};
}

Error BatchOutput::WriteError(int error) const {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return MakeError(is_full ? ErrorCode::kResourceExhausted : ErrorCode::kIo,
                   "cannot write to {}: {}; what was written stays, and the same command goes on "
                   "from there",
                   path_, std::strerror(error));
}

Status BatchOutput::Write(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = count < 0 ? errno : EIO;
      // Half a line helps nobody.
      if (is_regular_file_ && rest.size() < line.size() && ::ftruncate(descriptor_, size_) != 0) {
        return WriteError(errno);
      }
      return WriteError(error);
    }
    rest.remove_prefix(static_cast<size_t>(count));
  }
  size_ += static_cast<int64_t>(line.size());
  return {};
}

Status BatchOutput::Sync() {
  if (is_regular_file_ && ::fsync(descriptor_) != 0) return WriteError(errno);
  return {};
}

}  // namespace quire
