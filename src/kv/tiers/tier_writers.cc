#include "kv/tiers/tier_writers.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/thread_name.h"

namespace quire {

namespace {

// What computes goes first. Where the system refuses, the thread works at the usual priority.
void LowerPriority() {
  const sched_param none{};
  ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);
  ::setpriority(PRIO_PROCESS, 0, 19);  // on Linux the calling thread's alone
}

}  // namespace

size_t TierWriters::KeyHash::operator()(const BlockKey& key) const {
  size_t hash = 0;  // identities are hashes already
  std::memcpy(&hash, key.id.data(), sizeof hash);
  return hash + static_cast<size_t>(key.group);
}

TierWriters::TierWriters(std::span<const std::unique_ptr<Tier>> tiers, size_t slot_bytes,
                         const TierSetOptions& options, Clock clock)
    : slot_bytes_(slot_bytes),
      max_slots_(slot_bytes == 0 ? 0 : options.staging_bytes / slot_bytes),
      share_(std::max<size_t>(1, max_slots_ / std::max<size_t>(1, tiers.size()))),
      store_time_(std::chrono::duration_cast<TierDeadline::duration>(
          std::chrono::duration<double, std::milli>(options.store_ms))),
      clock_(std::move(clock)) {
  slots_.reserve(max_slots_);
  free_.reserve(max_slots_);
  waiting_.reserve(max_slots_);
  for (const auto& tier : tiers) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->tier = tier.get();
  }
  for (auto& lane : lanes_) lane->thread = std::thread([this, &lane = *lane] { Run(lane); });
}

TierWriters::~TierWriters() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (auto& lane : lanes_) lane->work.notify_all();
  }
  for (auto& lane : lanes_) lane->thread.join();
}

bool TierWriters::Offer(const StoredBlock& block, std::span<const std::byte> payload,
                        const std::vector<bool>& wants) {
  QUIRE_CHECK(payload.size() <= slot_bytes_, "a block of {} bytes, slots of {}", payload.size(),
              slot_bytes_);
  Slot* slot = nullptr;
  std::vector<Lane*> takers;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.contains(block.key())) return true;
    const bool has_slot = HasFreeSlot();
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (!wants[i]) continue;
      if (has_slot && lanes_[i]->num_waiting() < share_) {
        takers.push_back(lanes_[i].get());
      } else {
        ++lanes_[i]->dropped;
      }
    }
    if (takers.empty()) return false;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    }
  }
  const bool is_made = slot == nullptr;
  std::unique_ptr<Slot> made;
  if (is_made) {
    made = std::make_unique<Slot>();
    made->copy = std::make_unique_for_overwrite<std::byte[]>(slot_bytes_);
    slot = made.get();
  }
  slot->block = block;
  slot->num_bytes = payload.size();
  slot->num_users = static_cast<int>(takers.size());
  std::memcpy(slot->copy.get(), payload.data(), payload.size());

  const std::lock_guard lock(mutex_);
  if (is_made) slots_.push_back(std::move(made));
  waiting_.emplace(block.key(), slot);
  for (Lane* lane : takers) {
    lane->queue.push_back(slot);
    lane->work.notify_one();
  }
  return true;
}

bool TierWriters::HasRoom(const std::vector<bool>& tiers) const {
  const std::lock_guard lock(mutex_);
  if (!HasFreeSlot()) return false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (tiers[i] && lanes_[i]->num_waiting() < share_) return true;
  }
  return false;
}

std::optional<int> TierWriters::WaitUntilStored(const std::vector<bool>& tiers,
                                                TierDeadline deadline) {
  std::unique_lock lock(mutex_);
  std::optional<int> idle;
  stored_.wait_until(lock, deadline, [&] {
    for (size_t i = 0; i < lanes_.size() && !idle; ++i) {
      if (tiers[i] && lanes_[i]->num_waiting() == 0) idle = static_cast<int>(i);
    }
    return idle.has_value();
  });
  return idle;
}

size_t TierWriters::num_waiting(int tier) const {
  const std::lock_guard lock(mutex_);
  return lanes_[static_cast<size_t>(tier)]->num_waiting();
}

int64_t TierWriters::dropped(int tier) const {
  const std::lock_guard lock(mutex_);
  return lanes_[static_cast<size_t>(tier)]->dropped;
}

void TierWriters::Run(Lane& lane) {
  NameThisThread("quire-tier-w");
  LowerPriority();
  std::unique_lock lock(mutex_);
  for (;;) {
    lane.work.wait(lock, [&] { return is_stopping_ || !lane.queue.empty(); });
    if (is_stopping_) return;
    Slot* slot = lane.queue.front();
    lane.queue.pop_front();
    lane.is_storing = true;
    lock.unlock();

    const StoreOutcome outcome =
        lane.tier->Store(slot->block, std::span<const std::byte>(slot->copy.get(), slot->num_bytes),
                         clock_() + store_time_);

    lock.lock();
    lane.is_storing = false;
    if (outcome == StoreOutcome::kDown) ++lane.dropped;
    if (--slot->num_users == 0) {
      waiting_.erase(slot->block.key());
      free_.push_back(slot);
    }
    if (lane.queue.empty()) stored_.notify_all();
  }
}

}  // namespace quire
