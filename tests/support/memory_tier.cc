#include "support/memory_tier.h"

#include <sys/resource.h>

#include <algorithm>
#include <span>
#include <utility>

namespace quire::testing {

namespace {

using std::chrono::steady_clock;

double MsSince(TierDeadline begin) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count();
}

void FlipBit(std::vector<std::byte>& record, uint64_t seed) {
  if (record.empty()) return;
  const uint64_t bit = (seed * 0x9E3779B97F4A7C15u >> 8) % (record.size() * 8);
  record[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
}

// The ingredient of the fingerprint in which they differ.
std::string_view Difference(const FingerprintInput& a, const FingerprintInput& b) {
  if (a.weights != b.weights) return "weights";
  if (a.architecture != b.architecture) return "architecture";
  if (a.layout != b.layout) return "kv_type or layout";
  return "numerics";
}

}  // namespace

void MemoryStore::SetFaults(const MemoryTierFaults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
  changed_.notify_all();
}

MemoryTierFaults MemoryStore::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

size_t MemoryStore::num_records() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

std::vector<BlockKey> MemoryStore::stored() const {
  const std::lock_guard lock(mutex_);
  return stored_;
}

std::vector<BlockKey> MemoryStore::touched() const {
  const std::lock_guard lock(mutex_);
  return touched_;
}

int MemoryStore::writer_niceness() const {
  const std::lock_guard lock(mutex_);
  return writer_niceness_;
}

int64_t MemoryStore::num_finds() const {
  const std::lock_guard lock(mutex_);
  return num_finds_;
}

int64_t MemoryStore::num_loads() const {
  const std::lock_guard lock(mutex_);
  return num_loads_;
}

void MemoryStore::WaitForHanging(int num_verbs) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_hanging_ == num_verbs; });
}

void MemoryStore::FlipBits(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, record] : records_) FlipBit(record, ++seed);
}

void MemoryStore::Clear() {
  const std::lock_guard lock(mutex_);
  records_.clear();
}

class MemoryTier : public Tier {
 public:
  MemoryTier(std::shared_ptr<const RecordCodec> codec, std::shared_ptr<MemoryStore> store,
             const MemoryTierOptions& options)
      : codec_(std::move(codec)), store_(std::move(store)), options_(options) {}

  TierKind kind() const override { return options_.kind; }

  TierStatus status() const override {
    const std::lock_guard lock(store_->mutex_);
    TierStatus status{.kind = options_.kind,
                      .place = "memory",
                      .is_read_only = options_.read_only,
                      .state = StateLocked(),
                      .counters = counters_,
                      .num_records = static_cast<int64_t>(store_->records_.size())};
    for (const auto& [name, record] : store_->records_) status.bytes += record.size();
    return status;
  }

  TierState state() const override {
    const std::lock_guard lock(store_->mutex_);
    return StateLocked();
  }

  bool MayHold(const BlockKey& key) const override {
    const RecordName name = codec_->NameOf(key);
    const std::lock_guard lock(store_->mutex_);
    return options_.knows_all ? store_->records_.contains(name) : known_.contains(name);
  }

  bool KnowsAll() const override { return options_.knows_all; }

  Status Find(std::span<const BlockKey> keys, TierDeadline deadline,
              std::vector<bool>& found) override {
    std::unique_lock lock(store_->mutex_);
    ++store_->num_finds_;
    counters_.names_asked += static_cast<int64_t>(keys.size());
    found.assign(keys.size(), false);
    const bool in_time =
        Delay(lock, &MemoryTierFaults::finds_hang, store_->faults_.find_ms, deadline);
    if (!in_time || store_->faults_.find_fails || store_->faults_.is_down) {
      ++Fault(!in_time ? RecordFault::kTimeout : RecordFault::kIo);
      return MakeError(ErrorCode::kIo, "the store does not answer");
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const RecordName name = codec_->NameOf(keys[i]);
      found[i] = store_->records_.contains(name);
      if (!found[i]) continue;
      known_.insert(name);
      ++counters_.names_found;
    }
    return {};
  }

  void Load(std::span<const BlockLoad> loads, TierDeadline deadline,
            const std::function<bool()>& cancelled,
            const std::function<void(size_t idx, RecordFault fault)>& done) override {
    {
      const std::lock_guard lock(store_->mutex_);
      ++store_->num_loads_;
    }
    for (size_t i = 0; i < loads.size(); ++i) {
      const auto begin = steady_clock::now();
      const RecordFault fault = cancelled() ? RecordFault::kCancelled : LoadOne(loads[i], deadline);
      {
        const std::lock_guard lock(store_->mutex_);
        if (fault == RecordFault::kNone) {
          ++counters_.blocks_loaded;
          counters_.bytes_loaded += static_cast<int64_t>(loads[i].payload.size());
          counters_.load_ms += MsSince(begin);
        } else {
          ++Fault(fault);
        }
      }
      done(i, fault);
    }
  }

  StoreOutcome Store(const StoredBlock& block, std::span<const std::byte> payload,
                     TierDeadline deadline) override {
    const auto begin = steady_clock::now();
    std::vector<std::byte> record;
    codec_->Encode(block, payload, Packing::kNone, record);
    const RecordName name = codec_->NameOf(block.key());

    std::unique_lock lock(store_->mutex_);
    store_->writer_niceness_ = ::getpriority(PRIO_PROCESS, 0);
    const bool in_time =
        Delay(lock, &MemoryTierFaults::stores_hang, store_->faults_.store_ms, deadline);
    if (store_->faults_.is_down || options_.read_only) return StoreOutcome::kDown;
    if (!in_time) {
      ++Fault(RecordFault::kTimeout);
      return StoreOutcome::kFailed;
    }
    if (store_->faults_.store != StoreOutcome::kStored) return Refuse(store_->faults_.store);
    if (store_->records_.contains(name)) return StoreOutcome::kHeld;
    if (options_.max_records != 0 && store_->records_.size() >= options_.max_records) {
      return Refuse(StoreOutcome::kNoRoom);
    }
    ++counters_.blocks_stored;
    counters_.bytes_stored += static_cast<int64_t>(record.size());
    counters_.store_ms += MsSince(begin);
    store_->records_[name] = std::move(record);
    store_->models_[codec_->model().fingerprint] = codec_->model().ingredients;
    store_->stored_.push_back(block.key());
    known_.insert(name);
    return StoreOutcome::kStored;
  }

  void Touch(std::span<const BlockKey> keys) override {
    const std::lock_guard lock(store_->mutex_);
    store_->touched_.insert(store_->touched_.end(), keys.begin(), keys.end());
  }

  Status Flush(TierDeadline) override { return {}; }

  std::optional<TierSpeed> Measure(TierDeadline) override {
    if (options_.speed.bytes_per_ms <= 0) return std::nullopt;
    return options_.speed;
  }

  std::optional<std::string_view> OtherModel(std::string_view salt,
                                             std::span<const int32_t> tokens) const override {
    const std::lock_guard lock(store_->mutex_);
    for (const auto& [fingerprint, ingredients] : store_->models_) {
      if (fingerprint == codec_->model().fingerprint) continue;
      IdentityChain chain(RootOf(fingerprint, salt));
      chain.Extend(tokens);
      for (const Digest& id : chain.ids()) {
        if (store_->records_.contains(codec_->NameOf({.id = id, .group = 0}))) {
          return Difference(ingredients, codec_->model().ingredients);
        }
      }
    }
    return std::nullopt;
  }

 private:
  // All that follows: under the store's mutex, LoadOne apart.

  TierState StateLocked() const {
    if (!store_->faults_.is_down) return {};
    return {.is_up = false, .reason = "by script", .down_for_ms = 1000};
  }

  int64_t& Fault(RecordFault fault) { return counters_.faults[static_cast<size_t>(fault)]; }

  StoreOutcome Refuse(StoreOutcome outcome) {
    if (outcome == StoreOutcome::kFailed) ++Fault(RecordFault::kIo);
    if (outcome == StoreOutcome::kNoRoom || outcome == StoreOutcome::kQuota) {
      ++counters_.stores_refused;
    }
    return outcome;
  }

  // Is late, then hangs as long as it is told to. False where the deadline has passed.
  bool Delay(std::unique_lock<std::mutex>& lock, bool MemoryTierFaults::* hangs, double late_ms,
             TierDeadline deadline) {
    if (late_ms > 0) {
      const auto late = std::chrono::duration_cast<steady_clock::duration>(
          std::chrono::duration<double, std::milli>(late_ms));
      const auto until = std::min(deadline, steady_clock::now() + late);
      while (store_->changed_.wait_until(lock, until) != std::cv_status::timeout) {
      }
    }
    if (store_->faults_.*hangs) {
      ++store_->num_hanging_;
      store_->changed_.notify_all();
      while (store_->faults_.*hangs) {
        if (store_->faults_.hang_passes_deadline) {
          store_->changed_.wait(lock);
        } else if (store_->changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
          break;
        }
      }
      --store_->num_hanging_;
      store_->changed_.notify_all();
    }
    return steady_clock::now() < deadline;
  }

  RecordFault LoadOne(const BlockLoad& load, TierDeadline deadline) {
    std::vector<std::byte> record;
    {
      std::unique_lock lock(store_->mutex_);
      if (!Delay(lock, &MemoryTierFaults::loads_hang, store_->faults_.load_ms, deadline)) {
        return RecordFault::kTimeout;
      }
      const MemoryTierFaults& faults = store_->faults_;
      if (faults.is_down) return RecordFault::kDown;
      const auto it = store_->records_.find(codec_->NameOf(load.block.key()));
      if (it == store_->records_.end()) return RecordFault::kAbsent;
      ++store_->num_blocks_tried_;
      const bool is_hit = faults.nth > 0 && store_->num_blocks_tried_ % faults.nth == 0;
      if (is_hit && faults.flips) {
        FlipBit(it->second, static_cast<uint64_t>(store_->num_blocks_tried_));
      } else if (is_hit && faults.fault != RecordFault::kNone) {
        return faults.fault;
      }
      record = it->second;
    }
    if (record.size() < kRecordHeaderBytes) return RecordFault::kTruncated;
    const std::span<std::byte> bytes(record);
    return codec_->Decode(bytes.first<kRecordHeaderBytes>(), bytes.subspan(kRecordHeaderBytes),
                          load.block, SealDemand::kNone, load.payload);
  }

  std::shared_ptr<const RecordCodec> codec_;
  std::shared_ptr<MemoryStore> store_;
  MemoryTierOptions options_;
  std::set<RecordName> known_;
  TierCounters counters_{};
};

std::unique_ptr<Tier> OpenMemoryTier(std::shared_ptr<const RecordCodec> codec,
                                     std::shared_ptr<MemoryStore> store,
                                     const MemoryTierOptions& options) {
  return std::make_unique<MemoryTier>(std::move(codec), std::move(store), options);
}

}  // namespace quire::testing
