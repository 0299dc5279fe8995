// The disk tier behind its threads: loads, stores, and what the engine's thread pays.
//
// Blocks are those of Qwen2.5-1.5B: 16 tokens of 28 layers, f16. A load copies a block once from
// the page cache (or the disk) and goes over it once for its checksum, so its limit is the slower
// of the disk and about half the memory's bandwidth; an offer is a copy. The directory is made in
// TMPDIR, and is gone afterwards.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/tier_set.h"

namespace quire::bench {
namespace {

constexpr size_t kBlockBytes = 458'752;
constexpr int kNumBlocks = 1024;  // stored: 448 MiB
constexpr int kBatch = 125;       // blocks of a prefix of 2,000 tokens

TierDeadline InAMinute() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

std::shared_ptr<const RecordCodec> Codec() {
  StoredModel model{.type = KvType::kF16, .group_bytes = {kBlockBytes}};
  model.fingerprint = FingerprintOf(model.ingredients);
  return std::make_shared<const RecordCodec>(std::move(model), nullptr, false);
}

StoredBlock BlockOf(const RecordCodec& codec, int number) {
  StoredBlock block{.root = RootOf(codec.model().fingerprint, "")};
  block.tokens.fill(number);
  block.parent = block.root;
  block.id = ChildOf(block.parent, block.tokens);
  return block;
}

// A disk tier in a directory of its own.
class DiskRig {
 public:
  explicit DiskRig(const TierSetOptions& options) : codec_(Codec()) {
    std::string name = (std::filesystem::temp_directory_path() / "quire-tier-XXXXXX").string();
    QUIRE_CHECK(::mkdtemp(name.data()) != nullptr, "no directory {}", name);
    directory_ = name;
    auto tier = OpenDiskTier(
        codec_,
        {.directory = directory_ / "kv", .max_bytes = uint64_t{4} << 30, .min_free_bytes = 0});
    QUIRE_CHECK(tier.ok(), "{}", tier.error().message);
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(std::move(*tier));
    set_ = TierSet::Create(codec_, std::move(tiers), options);
  }
  ~DiskRig() {
    set_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  TierSet& set() { return *set_; }
  StoredBlock Block(int number) const { return BlockOf(*codec_, number); }

  // Blocks first..end-1, all stored when it comes back.
  void Store(int first, int end) {
    for (int i = first; i < end; ++i) {
      while (set_->Offer(Block(i), payload_) == OfferOutcome::kNoRoom) {
        std::this_thread::yield();
      }
    }
    const Status status = set_->Flush(InAMinute());
    QUIRE_CHECK(status.ok(), "{}", status.error().message);
  }
  void Await(size_t num_events) {
    while (num_events > 0) {
      QUIRE_CHECK(set_->WaitForEvents(std::chrono::minutes(1)), "nothing comes");
      for (const TierEvent& event : set_->TakeEvents()) {
        QUIRE_CHECK(event.fault == RecordFault::kNone, "fault {}", NameOf(event.fault));
        --num_events;
      }
    }
  }

 private:
  std::shared_ptr<const RecordCodec> codec_;
  std::filesystem::path directory_;
  std::unique_ptr<TierSet> set_;
  std::vector<std::byte> payload_ = std::vector<std::byte>(kBlockBytes, std::byte{17});
};

void BM_Load(benchmark::State& state) {
  DiskRig rig({.read_threads = static_cast<int>(state.range(0))});
  rig.Store(0, kNumBlocks);
  std::vector<std::byte> memory(kBatch * kBlockBytes);
  int number = 0;
  for (auto _ : state) {
    std::vector<BlockLoad> loads;
    for (size_t i = 0; i < kBatch; ++i) {
      loads.push_back({.block = rig.Block(number),
                       .payload = std::span(memory).subspan(i * kBlockBytes, kBlockBytes)});
      number = (number + 1) % kNumBlocks;
    }
    rig.set().Load(0, std::move(loads), InAMinute());
    rig.Await(kBatch);
  }
  state.SetBytesProcessed(state.iterations() * kBatch * static_cast<int64_t>(kBlockBytes));
  const TierSpeed speed = rig.set().speed(0);
  state.counters["measured_latency_ms"] = speed.latency_ms;
  state.counters["measured_GB_s"] = speed.bytes_per_ms / 1e6;
}
BENCHMARK(BM_Load)
    ->ArgName("read_threads")
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_Store(benchmark::State& state) {
  DiskRig rig({});
  int number = 0;
  for (auto _ : state) {
    rig.Store(number, number + kBatch);  // flushed: on the disk
    number += kBatch;
  }
  state.SetBytesProcessed(state.iterations() * kBatch * static_cast<int64_t>(kBlockBytes));
}
BENCHMARK(BM_Store)->UseRealTime()->Unit(benchmark::kMillisecond);

// What an offer costs the engine's thread, the copies in memory and waiting for none.
void BM_Offer(benchmark::State& state) {
  DiskRig rig({});
  const std::vector<std::byte> payload(kBlockBytes, std::byte{17});
  int number = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const StoredBlock block = rig.Block(number++);
    while (!rig.set().HasRoom()) std::this_thread::yield();
    state.ResumeTiming();
    benchmark::DoNotOptimize(rig.set().Offer(block, payload));
  }
}
BENCHMARK(BM_Offer)->UseRealTime()->Iterations(2000)->Unit(benchmark::kMicrosecond);

// Of a block that the tier holds.
void BM_OfferAgain(benchmark::State& state) {
  DiskRig rig({});
  rig.Store(0, 64);
  const std::vector<std::byte> payload(kBlockBytes, std::byte{17});
  const StoredBlock block = rig.Block(3);
  for (auto _ : state) benchmark::DoNotOptimize(rig.set().Offer(block, payload));
}
BENCHMARK(BM_OfferAgain)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_Find(benchmark::State& state) {
  DiskRig rig({});
  rig.Store(0, kNumBlocks);
  std::vector<BlockKey> keys;
  for (int i = 0; i < state.range(0); ++i) keys.push_back(rig.Block(i).key());
  for (auto _ : state) {
    rig.set().Find(keys, InAMinute());
    rig.Await(1);
  }
}
BENCHMARK(BM_Find)->ArgName("names")->Arg(125)->Arg(2000)->UseRealTime()->Unit(
    benchmark::kMicrosecond);

}  // namespace
}  // namespace quire::bench

BENCHMARK_MAIN();
