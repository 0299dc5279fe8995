#include "trace/trace_reader.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "trace/event_json.h"

namespace quire {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

}  // namespace

Result<TraceReader> TraceReader::Open(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                     "cannot read the trace {}: {}", path.string(), std::strerror(errno));
  }
  TraceReader reader(path, file);
  QUIRE_ASSIGN_OR_RETURN(std::optional<TraceEvent> first, reader.Next());
  RunEvent* run = first ? std::get_if<RunEvent>(&*first) : nullptr;
  if (run == nullptr) {
    return MakeError(ErrorCode::kCorrupt,
                     "{} is no trace of a run: its first line is no run event; --trace FILE makes "
                     "one",
                     path.string());
  }
  reader.run_ = std::move(*run);
  return reader;
}

Error TraceReader::At(const Error& error) const {
  return MakeError(error.code, "{}, line {}: {}", path_.string(), line_number_, error.message);
}

Result<bool> TraceReader::NextLine(std::string& line) {
  size_t looked_at = next_;
  while (true) {
    const size_t end = buffer_.find('\n', looked_at);
    if (end != std::string::npos) {
      line.assign(buffer_, next_, end - next_);
      next_ = end + 1;
      ++line_number_;
      return true;
    }
    if (is_at_end_) break;
    buffer_.erase(0, next_);
    next_ = 0;
    looked_at = buffer_.size();
    if (buffer_.size() > kMaxEventBytes) {
      ++line_number_;
      return At(MakeError(ErrorCode::kCorrupt, "the line has more than {} bytes", kMaxEventBytes));
    }
    buffer_.resize(looked_at + kReadBytes);
    const size_t count = std::fread(buffer_.data() + looked_at, 1, kReadBytes, file_.get());
    if (std::ferror(file_.get()) != 0) {
      return MakeError(ErrorCode::kIo, "cannot read the trace {}: {}", path_.string(),
                       std::strerror(errno));
    }
    buffer_.resize(looked_at + count);
    is_at_end_ = count == 0;
  }
  line_is_whole_ = false;
  line.assign(buffer_, next_);
  next_ = buffer_.size();
  if (line.empty()) return false;
  ++line_number_;
  return true;
}

Result<std::optional<TraceEvent>> TraceReader::Next() {
  std::string line;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool has_line, NextLine(line));
    if (!has_line) return std::optional<TraceEvent>();
    if (line.empty() || line == "\r") continue;
    Result<TraceEvent> event = EventFromJson(line);
    if (event.ok()) return std::optional<TraceEvent>(std::move(event).value());
    if (!line_is_whole_ && line_number_ > 1) {
      ends_within_a_line_ = true;
      return std::optional<TraceEvent>();
    }
    return At(event.error());
  }
}

}  // namespace quire
