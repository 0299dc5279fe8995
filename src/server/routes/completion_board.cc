#include "server/routes/completion_board.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

constexpr std::chrono::milliseconds kShortestWait{5};

}  // namespace

CompletionBoard::CompletionBoard(ServerContext& context)
    : context_(context),
      comment_interval_(context.post_after ? std::chrono::duration_cast<Clock::duration>(
                                                 std::chrono::duration<double, std::milli>(std::max(
                                                     context.limits.keep_alive_comment_ms, 0.0)))
                                           : Clock::duration(0)) {}

void CompletionBoard::Announce(std::shared_ptr<BoardStream> stream) {
  announced_.push_back(std::move(stream));
}

void CompletionBoard::RunAfterStep(std::function<void()> task) {
  text_tasks_.push_back(std::move(task));
}

void CompletionBoard::AfterStep() {
  for (auto& task : text_tasks_) context_.text.Post(std::move(task));
  text_tasks_.clear();
  if (announced_.empty()) return;
  bool is_first = false;
  {
    const std::scoped_lock lock(mutex_);
    is_first = ready_.empty();
    ready_.insert(ready_.end(), std::make_move_iterator(announced_.begin()),
                  std::make_move_iterator(announced_.end()));
  }
  announced_.clear();
  // A flush that has not begun takes these, too.
  if (is_first) context_.network.Post([this] { Flush(); });
}

void CompletionBoard::Flush() {
  std::vector<std::shared_ptr<BoardStream>> streams;
  {
    const std::scoped_lock lock(mutex_);
    streams.swap(ready_);
  }
  const Clock::time_point now = Clock::now();
  for (const auto& stream : streams) {
    const bool has_begun = stream->last_write() != Clock::time_point();
    const bool goes_on = stream->WriteNews(now);
    if (!has_begun && goes_on) Watch(stream);
    if (!goes_on) watched_.erase(stream.get());
  }
}

void CompletionBoard::Watch(const std::shared_ptr<BoardStream>& stream) {
  if (comment_interval_ == Clock::duration(0)) return;
  watched_.insert_or_assign(stream.get(), stream);
  if (!has_timer_) SetTimer(stream->last_write());
}

void CompletionBoard::Comment() {
  has_timer_ = false;
  const Clock::time_point now = Clock::now();
  std::erase_if(watched_, [&](const auto& watched) {
    const auto stream = watched.second.lock();
    if (!stream) return true;
    return now - stream->last_write() >= comment_interval_ && !stream->WriteComment(now);
  });
  if (!watched_.empty()) SetTimer(now);
}

void CompletionBoard::SetTimer(Clock::time_point now) {
  Clock::time_point earliest = now;
  for (const auto& [key, watched] : watched_) {
    const auto stream = watched.lock();
    if (stream) earliest = std::min(earliest, stream->last_write());
  }
  const auto wait =
      std::chrono::ceil<std::chrono::milliseconds>(earliest + comment_interval_ - now);
  has_timer_ = true;
  context_.post_after(std::max(wait, kShortestWait), [this] { Comment(); });
}

}  // namespace quire
