// Carries what streams have to say from the engine's thread to the network thread.
//
//   hooks --Announce--> announced --AfterStep--> ready --Flush, on the network thread--> streams
//
// However many streams a step has pieces for, one task goes to the network thread; while that one
// is behind, later steps add to the same task. Also the one timer of all streams that have nothing
// to say: each gets a comment, so that proxies and clients know it to be alive. Without streams
// nothing runs.
// Outlives the engine's thread, the network thread's tasks, and every stream.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "server/server_context.h"

namespace quire {

// An answer that goes out in pieces.
class BoardStream {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~BoardStream() = default;
  // On the network thread: writes all that has come since the last call. False once it has ended.
  virtual bool WriteNews(Clock::time_point now) = 0;
  // On the network thread: something that means nothing. False once it has ended.
  virtual bool WriteComment(Clock::time_point now) = 0;
  // Of its last write. On the network thread.
  virtual Clock::time_point last_write() const = 0;
};

class CompletionBoard {
 public:
  using Clock = BoardStream::Clock;

  explicit CompletionBoard(ServerContext& context);

  // On the engine's thread: the stream has news, and is not announced already.
  void Announce(std::shared_ptr<BoardStream> stream);
  // On the engine's thread: something for the text pool, once the step is over. So whoever has the
  // answer finds the engine's status as it is without its request.
  void RunAfterStep(std::function<void()> task);
  // On the engine's thread, after what may have called the above.
  void AfterStep();

 private:
  // On the network thread.
  void Flush();
  void Watch(const std::shared_ptr<BoardStream>& stream);
  void Comment();
  void SetTimer(Clock::time_point now);

  ServerContext& context_;
  const Clock::duration comment_interval_;  // 0 = no comments

  // Of the engine's thread.
  std::vector<std::shared_ptr<BoardStream>> announced_;
  std::vector<std::function<void()>> text_tasks_;

  std::mutex mutex_;  // of the next
  std::vector<std::shared_ptr<BoardStream>> ready_;

  // Of the network thread.
  // That have begun and may not have ended. Those that end are taken out at once: a weak reference
  // keeps the memory of what it refers to.
  std::unordered_map<const BoardStream*, std::weak_ptr<BoardStream>> watched_;
  bool has_timer_ = false;
};

}  // namespace quire
