// The threads that ask tiers and load from them, their queues, and what they bring back.
//
// Each tier is a lane: a queue of questions, a queue of loads, and threads that serve both,
// questions first. A load is taken in slices, so that all threads of its lane share a long one and
// no question waits for more than a slice. Queues are bounded: what finds no place is answered
// kTimeout at once. What has not begun by its deadline is answered kTimeout without its tier, by
// whoever looks first: a thread of the lane or the taker of events.
//
// Invariants:
//   1. Every block of a load gives one event: it is queued, or in a tier's hands, or told.
//   2. A question gives at most one event; after Cancel none.
//   3. No verb waits for a tier, the destructor apart.
// Verbs are one thread's; speed and counters any thread's.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "kv/tiers/tier_set.h"

namespace quire {

class TierReaders {
 public:
  static constexpr size_t kMaxFinds = 256;                // questions that wait, a lane
  static constexpr size_t kMaxBlocks = size_t{16} << 10;  // blocks that wait, a lane

  using Clock = std::function<TierDeadline()>;

  TierReaders(std::span<const std::unique_ptr<Tier>> tiers, int num_threads, Clock clock);
  // Cancels loads and waits for what is in the tiers' hands.
  ~TierReaders();
  TierReaders(const TierReaders&) = delete;
  TierReaders& operator=(const TierReaders&) = delete;

  void Find(TierTicket ticket, int tier, std::shared_ptr<const std::vector<BlockKey>> keys,
            TierDeadline deadline);
  void Load(TierTicket ticket, int tier, std::vector<BlockLoad> loads, TierDeadline deadline);
  void Cancel(TierTicket ticket);
  // An answer that took no thread.
  void Answer(TierEvent event);

  std::vector<TierEvent> TakeEvents();
  bool WaitForEvents(std::chrono::microseconds at_most);

  TierSpeed speed(int tier) const;
  void Observe(int tier, const TierSpeed& speed);
  // Faults that were told without asking the tier.
  std::array<int64_t, kNumRecordFaults> faults(int tier) const;

 private:
  struct Question {
    TierTicket ticket = 0;
    std::shared_ptr<const std::vector<BlockKey>> keys{};
    TierDeadline deadline{};
  };
  struct Batch;
  // What a thread holds.
  struct Hand {
    TierTicket question = 0;  // 0 = none, or cancelled
    std::shared_ptr<Batch> batch{};
    std::thread thread{};
  };
  struct Lane {
    Tier* tier = nullptr;
    int idx = 0;
    std::deque<Question> questions{};
    std::deque<std::shared_ptr<Batch>> batches{};  // with blocks that have not begun
    size_t num_blocks = 0;                         // of them
    std::condition_variable work{};
    std::vector<Hand> hands{};
    TierSpeedMeter meter{};
    std::array<int64_t, kNumRecordFaults> faults{};
  };

  void Run(Lane& lane, Hand& hand);
  void Ask(std::unique_lock<std::mutex>& lock, Lane& lane, Hand& hand);
  void LoadSlice(std::unique_lock<std::mutex>& lock, Lane& lane, Hand& hand);

  // All that follows: under the mutex.
  size_t SliceOf(const Lane& lane, const Batch& batch) const;
  void Tell(TierEvent event);
  void TellNothing(Lane& lane, const Question& question, RecordFault fault);
  // Of the blocks that have not begun; takes the batch out of the queue.
  void TellRest(Lane& lane, Batch& batch, RecordFault fault);
  void TellBlock(Lane& lane, const Batch& batch, size_t idx, RecordFault fault);
  void FinishIfDone(Lane& lane, Batch& batch);
  void Expire();

  const Clock clock_;
  mutable std::mutex mutex_;
  std::condition_variable told_;
  std::vector<TierEvent> events_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  TierDeadline next_deadline_ = TierDeadline::max();  // nothing that waits is due before
  bool is_stopping_ = false;
};

}  // namespace quire
