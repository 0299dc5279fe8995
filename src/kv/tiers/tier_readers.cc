#include "kv/tiers/tier_readers.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/thread_name.h"

namespace quire {

namespace {

// A slice: enough blocks that a server's round trip or a disk's queue is worth it, few enough that
// a question or another thread does not wait long.
constexpr size_t kMinSliceBlocks = 4;
constexpr size_t kMaxSliceBlocks = 32;
constexpr size_t kMaxSliceBytes = size_t{4} << 20;

double Ms(TierDeadline::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

// A load of some blocks. All but `is_cancelled` under the readers' mutex.
struct TierReaders::Batch {
  TierTicket ticket = 0;
  std::vector<BlockLoad> loads{};
  TierDeadline deadline{};
  size_t next = 0;     // the first block that has not begun
  size_t in_hand = 0;  // blocks that the tier has not told of
  std::atomic<bool> is_cancelled = false;

  // For the meter.
  TierDeadline begin{};
  TierDeadline last{};  // arrival
  double first_ms = 0;
  size_t first_bytes = 0;  // 0 = none has arrived
  size_t num_bytes = 0;    // that have
  bool was_late = false;   // the tier had blocks in hand at the deadline
};

TierReaders::TierReaders(std::span<const std::unique_ptr<Tier>> tiers, int num_threads, Clock clock)
    : clock_(std::move(clock)) {
  for (const auto& tier : tiers) {
    auto lane = std::make_unique<Lane>();
    lane->tier = tier.get();
    lane->idx = static_cast<int>(lanes_.size());
    lane->hands = std::vector<Hand>(static_cast<size_t>(std::max(1, num_threads)));
    lanes_.push_back(std::move(lane));
  }
  for (auto& lane : lanes_) {
    for (Hand& hand : lane->hands) {
      hand.thread = std::thread([this, &lane = *lane, &hand] { Run(lane, hand); });
    }
  }
}

TierReaders::~TierReaders() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (auto& lane : lanes_) {
      for (Hand& hand : lane->hands) {
        if (hand.batch) hand.batch->is_cancelled = true;
      }
      lane->work.notify_all();
    }
  }
  for (auto& lane : lanes_) {
    for (Hand& hand : lane->hands) hand.thread.join();
  }
}

void TierReaders::Find(TierTicket ticket, int tier,
                       std::shared_ptr<const std::vector<BlockKey>> keys, TierDeadline deadline) {
  Lane& lane = *lanes_[static_cast<size_t>(tier)];
  const Question question{.ticket = ticket, .keys = std::move(keys), .deadline = deadline};
  const bool is_up = lane.tier->state().is_up;
  const std::lock_guard lock(mutex_);
  if (!is_up) {
    TellNothing(lane, question, RecordFault::kDown);
  } else if (lane.questions.size() >= kMaxFinds) {
    TellNothing(lane, question, RecordFault::kTimeout);
  } else {
    next_deadline_ = std::min(next_deadline_, deadline);
    lane.questions.push_back(question);
    lane.work.notify_one();
  }
}

void TierReaders::Load(TierTicket ticket, int tier, std::vector<BlockLoad> loads,
                       TierDeadline deadline) {
  if (loads.empty()) return;
  Lane& lane = *lanes_[static_cast<size_t>(tier)];
  auto batch = std::make_shared<Batch>();
  batch->ticket = ticket;
  batch->loads = std::move(loads);
  batch->deadline = deadline;
  const bool is_up = lane.tier->state().is_up;

  const std::lock_guard lock(mutex_);
  const size_t room = is_up ? kMaxBlocks - lane.num_blocks : 0;
  const RecordFault fault = is_up ? RecordFault::kTimeout : RecordFault::kDown;
  for (size_t i = room; i < batch->loads.size(); ++i) TellBlock(lane, *batch, i, fault);
  if (room == 0) return;
  if (batch->loads.size() > room) batch->loads.resize(room);
  lane.num_blocks += batch->loads.size();
  lane.batches.push_back(batch);
  next_deadline_ = std::min(next_deadline_, deadline);
  lane.work.notify_all();
}

void TierReaders::Cancel(TierTicket ticket) {
  const std::lock_guard lock(mutex_);
  for (auto& lane : lanes_) {
    std::erase_if(lane->questions, [&](const Question& q) { return q.ticket == ticket; });
    const auto it = std::ranges::find_if(
        lane->batches, [&](const auto& batch) { return batch->ticket == ticket; });
    if (it != lane->batches.end()) {
      const std::shared_ptr<Batch> batch = *it;
      TellRest(*lane, *batch, RecordFault::kCancelled);
    }
    for (Hand& hand : lane->hands) {
      if (hand.question == ticket) hand.question = 0;
      if (hand.batch && hand.batch->ticket == ticket) hand.batch->is_cancelled = true;
    }
  }
  std::erase_if(events_, [&](const TierEvent& event) {
    return event.ticket == ticket && event.kind == TierEvent::Kind::kFound;
  });
}

void TierReaders::Answer(TierEvent event) {
  const std::lock_guard lock(mutex_);
  Tell(std::move(event));
}

std::vector<TierEvent> TierReaders::TakeEvents() {
  std::vector<TierEvent> events;
  const std::lock_guard lock(mutex_);
  Expire();
  events.swap(events_);
  return events;
}

bool TierReaders::WaitForEvents(std::chrono::microseconds at_most) {
  std::unique_lock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    Expire();
    if (!events_.empty()) break;
    auto until = end;
    if (next_deadline_ != TierDeadline::max()) {
      const auto wait = std::max(next_deadline_ - clock_(), TierDeadline::duration(1000));
      until = std::min(until, std::chrono::steady_clock::now() +
                                  std::min<TierDeadline::duration>(wait, std::chrono::hours(1)));
    }
    told_.wait_until(lock, until);
    if (std::chrono::steady_clock::now() >= end) {
      Expire();
      break;
    }
  }
  return !events_.empty();
}

TierSpeed TierReaders::speed(int tier) const {
  const std::lock_guard lock(mutex_);
  return lanes_[static_cast<size_t>(tier)]->meter.speed();
}

void TierReaders::Observe(int tier, const TierSpeed& speed) {
  const std::lock_guard lock(mutex_);
  lanes_[static_cast<size_t>(tier)]->meter.Observe(speed);
}

std::array<int64_t, kNumRecordFaults> TierReaders::faults(int tier) const {
  const std::lock_guard lock(mutex_);
  return lanes_[static_cast<size_t>(tier)]->faults;
}

void TierReaders::Run(Lane& lane, Hand& hand) {
  NameThisThread("quire-tier-r");
  std::unique_lock lock(mutex_);
  for (;;) {
    lane.work.wait(
        lock, [&] { return is_stopping_ || !lane.questions.empty() || !lane.batches.empty(); });
    if (is_stopping_) return;
    Expire();
    if (!lane.questions.empty()) {
      Ask(lock, lane, hand);
    } else if (!lane.batches.empty()) {
      LoadSlice(lock, lane, hand);
    }
  }
}

void TierReaders::Ask(std::unique_lock<std::mutex>& lock, Lane& lane, Hand& hand) {
  const Question question = std::move(lane.questions.front());
  lane.questions.pop_front();
  hand.question = question.ticket;
  lock.unlock();

  TierEvent event{.kind = TierEvent::Kind::kFound, .ticket = question.ticket, .tier = lane.idx};
  const Status status = lane.tier->Find(*question.keys, question.deadline, event.found);
  if (!status.ok()) {
    event.fault = !lane.tier->state().is_up       ? RecordFault::kDown
                  : clock_() >= question.deadline ? RecordFault::kTimeout
                                                  : RecordFault::kIo;
    event.found.assign(question.keys->size(), false);
  }
  QUIRE_CHECK(event.found.size() == question.keys->size(), "{} answers for {} names",
              event.found.size(), question.keys->size());

  lock.lock();
  if (hand.question == question.ticket) Tell(std::move(event));
  hand.question = 0;
}

void TierReaders::LoadSlice(std::unique_lock<std::mutex>& lock, Lane& lane, Hand& hand) {
  const std::shared_ptr<Batch> batch = lane.batches.front();
  const size_t first = batch->next;
  const size_t num_blocks = SliceOf(lane, *batch);
  if (first == 0) batch->begin = clock_();
  batch->next += num_blocks;
  batch->in_hand += num_blocks;
  lane.num_blocks -= num_blocks;
  if (batch->next == batch->loads.size()) lane.batches.pop_front();
  hand.batch = batch;
  lock.unlock();

  std::vector<bool> told(num_blocks);
  lane.tier->Load(
      std::span<const BlockLoad>(batch->loads).subspan(first, num_blocks), batch->deadline,
      [&] { return batch->is_cancelled.load(std::memory_order_relaxed); },
      [&](size_t idx, RecordFault fault) {
        QUIRE_CHECK(idx < num_blocks && !told[idx], "block {} of {} is told twice", idx,
                    num_blocks);
        told[idx] = true;
        const size_t bytes = batch->loads[first + idx].payload.size();
        const std::lock_guard told_lock(mutex_);
        --batch->in_hand;
        if (fault == RecordFault::kNone) {
          batch->last = clock_();
          if (batch->first_bytes == 0) {
            batch->first_bytes = bytes;
            batch->first_ms = Ms(batch->last - batch->begin);
          }
          batch->num_bytes += bytes;
        } else if (fault == RecordFault::kTimeout) {
          batch->was_late = true;
        }
        FinishIfDone(lane, *batch);
        Tell({.kind = TierEvent::Kind::kLoaded,
              .ticket = batch->ticket,
              .tier = lane.idx,
              .idx = first + idx,
              .fault = fault});
      });
  QUIRE_CHECK(std::ranges::find(told, false) == told.end(), "a tier told not of all {} blocks",
              num_blocks);

  lock.lock();
  hand.batch = nullptr;
}

size_t TierReaders::SliceOf(const Lane& lane, const Batch& batch) const {
  const size_t rest = batch.loads.size() - batch.next;
  // A part of what is left, so that the threads end a batch together.
  const size_t fair = rest / (2 * lane.hands.size());
  const size_t most = std::min(rest, std::clamp(fair, kMinSliceBlocks, kMaxSliceBlocks));
  size_t bytes = 0;
  size_t num_blocks = 0;
  while (num_blocks < most && (num_blocks == 0 || bytes < kMaxSliceBytes)) {
    bytes += batch.loads[batch.next + num_blocks].payload.size();
    ++num_blocks;
  }
  return num_blocks;
}

void TierReaders::Tell(TierEvent event) {
  events_.push_back(std::move(event));
  told_.notify_all();
}

void TierReaders::TellNothing(Lane& lane, const Question& question, RecordFault fault) {
  ++lane.faults[static_cast<size_t>(fault)];
  Tell({.kind = TierEvent::Kind::kFound,
        .ticket = question.ticket,
        .tier = lane.idx,
        .found = std::vector<bool>(question.keys->size(), false),
        .fault = fault});
}

void TierReaders::TellRest(Lane& lane, Batch& batch, RecordFault fault) {
  std::erase_if(lane.batches, [&](const auto& other) { return other.get() == &batch; });
  lane.num_blocks -= batch.loads.size() - batch.next;
  while (batch.next < batch.loads.size()) TellBlock(lane, batch, batch.next++, fault);
  FinishIfDone(lane, batch);
}

void TierReaders::TellBlock(Lane& lane, const Batch& batch, size_t idx, RecordFault fault) {
  ++lane.faults[static_cast<size_t>(fault)];
  Tell({.kind = TierEvent::Kind::kLoaded,
        .ticket = batch.ticket,
        .tier = lane.idx,
        .idx = idx,
        .fault = fault});
}

// Once the tier is done with the last block of a batch, its times go to the meter. Where the tier
// let the deadline pass, the time until then is what the blocks that came have taken at least.
void TierReaders::FinishIfDone(Lane& lane, Batch& batch) {
  if (batch.next < batch.loads.size() || batch.in_hand > 0) return;
  const TierDeadline end = batch.was_late ? clock_() : batch.last;
  if (batch.first_bytes > 0) {
    lane.meter.Observe(batch.first_bytes, batch.first_ms, batch.num_bytes, Ms(end - batch.begin));
  } else if (batch.was_late) {
    const size_t bytes = batch.loads.front().payload.size();
    lane.meter.Observe(bytes, Ms(end - batch.begin), bytes, Ms(end - batch.begin));
  }
}

void TierReaders::Expire() {
  if (next_deadline_ == TierDeadline::max()) return;
  const TierDeadline now = clock_();
  if (now < next_deadline_) return;
  next_deadline_ = TierDeadline::max();
  for (auto& lane : lanes_) {
    std::erase_if(lane->questions, [&](const Question& question) {
      if (question.deadline > now) {
        next_deadline_ = std::min(next_deadline_, question.deadline);
        return false;
      }
      TellNothing(*lane, question, RecordFault::kTimeout);
      return true;
    });
    const std::deque<std::shared_ptr<Batch>> batches = lane->batches;
    for (const auto& batch : batches) {
      if (batch->deadline > now) {
        next_deadline_ = std::min(next_deadline_, batch->deadline);
      } else {
        TellRest(*lane, *batch, RecordFault::kTimeout);
      }
    }
  }
}

}  // namespace quire
