#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace quire {

std::string FormatProgress(std::string_view label, uint64_t done_bytes, uint64_t total_bytes) {
  const double total = static_cast<double>(std::max<uint64_t>(total_bytes, 1));
  const double done = std::min(static_cast<double>(done_bytes), total);
  return fmt::format("{:3.0f} %  {:.1f} of {:.1f} MB  {}", 100.0 * done / total, done / 1e6,
                     total / 1e6, label);
}

ProgressLine::ProgressLine(std::FILE* stream)
    : stream_(stream), is_terminal_(::isatty(::fileno(stream)) == 1) {}

ProgressLine::~ProgressLine() { Clear(); }

void ProgressLine::Update(std::string_view label, uint64_t done_bytes, uint64_t total_bytes) {
  if (is_terminal_) Show(FormatProgress(label, done_bytes, total_bytes));
}

void ProgressLine::Show(std::string_view text) {
  if (!is_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_update_ < std::chrono::milliseconds(100)) return;
  last_update_ = now;
  shown_ = true;
  // Back to the first column, the text, and the rest of the line erased.
  std::fputs(fmt::format("\r{}\x1b[K", text).c_str(), stream_);
  std::fflush(stream_);
}

void ProgressLine::Clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
  shown_ = false;
}

}  // namespace quire
