#include "kv/tiers/tier_set.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "kv/tiers/tier_readers.h"
#include "kv/tiers/tier_writers.h"

namespace quire {

namespace {

size_t LargestGroup(const RecordCodec& codec) {
  const std::vector<size_t>& bytes = codec.model().group_bytes;
  return bytes.empty() ? 0 : *std::ranges::max_element(bytes);
}

class ThreadedTierSet : public TierSet {
 public:
  ThreadedTierSet(std::shared_ptr<const RecordCodec> codec,
                  std::vector<std::unique_ptr<Tier>> tiers, const TierSetOptions& options)
      : codec_(std::move(codec)),
        tiers_(std::move(tiers)),
        asked_(tiers_.size()),
        clock_(options.clock ? options.clock : [] { return std::chrono::steady_clock::now(); }),
        readers_(tiers_, options.read_threads, clock_),
        writers_(tiers_, LargestGroup(*codec_), options, clock_) {
    for (const auto& tier : tiers_) is_read_only_.push_back(tier->status().is_read_only);
  }

  int num_tiers() const override { return static_cast<int>(tiers_.size()); }
  const Tier& tier(int idx) const override { return *tiers_[static_cast<size_t>(idx)]; }
  const RecordCodec& codec() const override { return *codec_; }
  TierSpeed speed(int idx) const override { return readers_.speed(idx); }
  std::vector<TierStatus> status() const override;

  TierTicket Find(std::vector<BlockKey> keys, TierDeadline deadline) override;
  TierTicket Load(int tier, std::vector<BlockLoad> loads, TierDeadline deadline) override;
  void Cancel(TierTicket ticket) override { readers_.Cancel(ticket); }
  std::vector<TierEvent> TakeEvents() override { return readers_.TakeEvents(); }
  bool WaitForEvents(std::chrono::microseconds at_most) override {
    return readers_.WaitForEvents(at_most);
  }

  OfferOutcome Offer(const StoredBlock& block, std::span<const std::byte> payload) override;
  bool HasStorer() const override {
    const std::vector<bool> storing = Storing();
    return std::ranges::find(storing, true) != storing.end();
  }
  bool MayStore() const override {
    return std::ranges::find(is_read_only_, false) != is_read_only_.end();
  }
  bool HasRoom() const override { return writers_.HasRoom(Storing()); }
  Status Flush(TierDeadline deadline) override;
  void Measure(TierDeadline deadline) override;

 private:
  // Names that were answered by MayHold.
  struct Asked {
    std::atomic<int64_t> names = 0;
    std::atomic<int64_t> found = 0;
  };

  // [num_tiers]: which take blocks at this moment.
  std::vector<bool> Storing() const;

  std::shared_ptr<const RecordCodec> codec_;
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::vector<bool> is_read_only_;
  std::vector<Asked> asked_;
  const TierReaders::Clock clock_;
  TierTicket last_ticket_ = 0;
  // Last, so that their threads end before what they work on.
  TierReaders readers_;
  TierWriters writers_;
};

std::vector<TierStatus> ThreadedTierSet::status() const {
  std::vector<TierStatus> statuses;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const int idx = static_cast<int>(i);
    TierStatus status = tiers_[i]->status();
    status.speed = readers_.speed(idx);
    status.blocks_dropped = writers_.dropped(idx);
    status.counters.names_asked += asked_[i].names.load(std::memory_order_relaxed);
    status.counters.names_found += asked_[i].found.load(std::memory_order_relaxed);
    const auto faults = readers_.faults(idx);
    for (size_t f = 0; f < faults.size(); ++f) status.counters.faults[f] += faults[f];
    statuses.push_back(std::move(status));
  }
  return statuses;
}

TierTicket ThreadedTierSet::Find(std::vector<BlockKey> keys, TierDeadline deadline) {
  const TierTicket ticket = ++last_ticket_;
  const auto shared = std::make_shared<const std::vector<BlockKey>>(std::move(keys));
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const int idx = static_cast<int>(i);
    if (!tiers_[i]->KnowsAll() || !tiers_[i]->state().is_up) {
      readers_.Find(ticket, idx, shared, deadline);
      continue;
    }
    TierEvent event{.kind = TierEvent::Kind::kFound, .ticket = ticket, .tier = idx};
    event.found.reserve(shared->size());
    for (const BlockKey& key : *shared) event.found.push_back(tiers_[i]->MayHold(key));
    asked_[i].names.fetch_add(static_cast<int64_t>(shared->size()), std::memory_order_relaxed);
    asked_[i].found.fetch_add(std::ranges::count(event.found, true), std::memory_order_relaxed);
    readers_.Answer(std::move(event));
  }
  return ticket;
}

TierTicket ThreadedTierSet::Load(int tier, std::vector<BlockLoad> loads, TierDeadline deadline) {
  QUIRE_CHECK(tier >= 0 && tier < num_tiers(), "tier {} of {}", tier, num_tiers());
  const std::vector<size_t>& bytes = codec_->model().group_bytes;
  for (const BlockLoad& load : loads) {
    const auto group = static_cast<size_t>(load.block.group);
    QUIRE_CHECK(group < bytes.size() && load.payload.size() == bytes[group],
                "{} bytes for a block of group {}", load.payload.size(), group);
  }
  const TierTicket ticket = ++last_ticket_;
  readers_.Load(ticket, tier, std::move(loads), deadline);
  return ticket;
}

std::vector<bool> ThreadedTierSet::Storing() const {
  std::vector<bool> storing(tiers_.size());
  for (size_t i = 0; i < tiers_.size(); ++i) {
    storing[i] = !is_read_only_[i] && tiers_[i]->state().is_up;
  }
  return storing;
}

OfferOutcome ThreadedTierSet::Offer(const StoredBlock& block, std::span<const std::byte> payload) {
  std::vector<bool> wants = Storing();
  if (std::ranges::find(wants, true) == wants.end()) return OfferOutcome::kNoTier;
  const BlockKey key = block.key();
  bool is_wanted = false;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    if (!wants[i]) continue;
    if (tiers_[i]->MayHold(key)) {
      tiers_[i]->Touch(std::span(&key, 1));
      wants[i] = false;
    }
    is_wanted = is_wanted || wants[i];
  }
  if (!is_wanted) return OfferOutcome::kHeld;
  return writers_.Offer(block, payload, wants) ? OfferOutcome::kTaken : OfferOutcome::kNoRoom;
}

Status ThreadedTierSet::Flush(TierDeadline deadline) {
  std::vector<bool> rest(tiers_.size());
  for (size_t i = 0; i < tiers_.size(); ++i) rest[i] = !is_read_only_[i];
  Status first_error;
  const auto flush = [&](size_t idx, Status status) {
    rest[idx] = false;
    if (status.ok() && tiers_[idx]->state().is_up) status = tiers_[idx]->Flush(deadline);
    if (!status.ok() && first_error.ok()) first_error = std::move(status);
  };
  // Whoever is ready first, so that one tier that hangs does not take the time of the others.
  while (std::ranges::find(rest, true) != rest.end()) {
    const std::optional<int> idle = writers_.WaitUntilStored(rest, deadline);
    if (!idle) break;
    flush(static_cast<size_t>(*idle), {});
  }
  for (size_t i = 0; i < tiers_.size(); ++i) {
    if (!rest[i]) continue;
    const size_t num_waiting = writers_.num_waiting(static_cast<int>(i));
    if (tiers_[i]->state().is_up) (void)tiers_[i]->Flush(deadline);
    flush(i,
          MakeError(ErrorCode::kIo,
                    "the {} tier has not stored {} blocks in time; they will have to be computed "
                    "again",
                    NameOf(tiers_[i]->kind()), num_waiting));
  }
  return first_error;
}

void ThreadedTierSet::Measure(TierDeadline deadline) {
  std::vector<std::thread> threads;
  for (int idx = 0; idx < num_tiers(); ++idx) {
    threads.emplace_back([this, idx, deadline] {
      const std::optional<TierSpeed> speed = tiers_[static_cast<size_t>(idx)]->Measure(deadline);
      if (speed) readers_.Observe(idx, *speed);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::unique_ptr<TierSet> TierSet::Create(std::shared_ptr<const RecordCodec> codec,
                                         std::vector<std::unique_ptr<Tier>> tiers,
                                         const TierSetOptions& options) {
  return std::make_unique<ThreadedTierSet>(std::move(codec), std::move(tiers), options);
}

}  // namespace quire
