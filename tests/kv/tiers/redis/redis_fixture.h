// Redis tiers of the golden model over a server of the test's own: blocks by number, whose bytes
// are known by heart.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kv/tiers/record_fixture.h"
#include "kv/tiers/redis/redis_tier.h"
#include "support/redis_server.h"

#define QUIRE_SKIP_WITHOUT_REDIS()                                                      \
  if (!testing::RedisServer::IsThere()) {                                               \
    GTEST_SKIP() << "THERE IS NO redis-server: install it, or name QUIRE_REDIS_SERVER"; \
  }

namespace quire {

inline constexpr int kLongMs = 60'000;  // for what must not take long, and does not fail by it

// The first block of prompt `number`.
inline StoredBlock BlockOf(int number, int group = 1, const std::string& salt = "") {
  StoredBlock block;
  block.root = block.parent = RootOf(GoldenModel().fingerprint, salt);
  block.group = group;
  block.tokens = TokensFrom(number * 100);
  block.id = ChildOf(block.parent, block.tokens);
  return block;
}

// Bytes that do not pack, so that records have one size.
inline Bytes PayloadOf(int number, int group = 1) {
  Bytes payload(GoldenModel().group_bytes[static_cast<size_t>(group)]);
  uint64_t state = static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15ull + 1;
  for (std::byte& byte : payload) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return payload;
}

inline std::shared_ptr<const RecordCodec> SealingCodec(uint8_t secret = 0) {
  return std::make_shared<const RecordCodec>(GoldenModel(), RingOf({SecretFrom(secret)}), false);
}
inline std::shared_ptr<const RecordCodec> BareCodec() {
  return std::make_shared<const RecordCodec>(GoldenModel(), nullptr, false);
}

inline std::unique_ptr<Tier> Open(const std::string& url, RedisTierOptions options = {},
                                  std::shared_ptr<const RecordCodec> codec = SealingCodec()) {
  options.url = url;
  auto tier = OpenRedisTier(std::move(codec), options);
  EXPECT_TRUE(tier.ok()) << (tier.ok() ? "" : tier.error().message);
  return std::move(tier).value();
}

inline StoreOutcome Store(Tier& tier, int number, const std::string& salt = "") {
  return tier.Store(BlockOf(number, 1, salt), PayloadOf(number), testing::In(kLongMs));
}

inline bool Finds(Tier& tier, int number, const std::string& salt = "") {
  const BlockKey key = BlockOf(number, 1, salt).key();
  std::vector<bool> found;
  const Status status = tier.Find(std::span(&key, 1), testing::In(kLongMs), found);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return found[0];
}

// What loading these blocks ends with. A block that is said to be there has its bytes.
inline std::vector<RecordFault> Load(Tier& tier, const std::vector<int>& numbers,
                                     int deadline_ms = kLongMs) {
  std::vector<Bytes> payloads(numbers.size(), Bytes(GoldenModel().group_bytes[1]));
  std::vector<BlockLoad> loads;
  for (size_t i = 0; i < numbers.size(); ++i) {
    loads.push_back({.block = BlockOf(numbers[i]), .payload = payloads[i]});
  }
  std::vector<RecordFault> faults(numbers.size(), RecordFault::kNone);
  std::vector<int> num_told(numbers.size(), 0);
  tier.Load(
      loads, testing::In(deadline_ms), [] { return false; },
      [&](size_t idx, RecordFault fault) {
        faults[idx] = fault;
        ++num_told[idx];
      });
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(num_told[i], 1);
    EXPECT_TRUE(faults[i] != RecordFault::kNone || payloads[i] == PayloadOf(numbers[i]));
  }
  return faults;
}
inline RecordFault LoadOne(Tier& tier, int number, int deadline_ms = kLongMs) {
  return Load(tier, {number}, deadline_ms)[0];
}

inline int64_t FaultCount(const Tier& tier, RecordFault fault) {
  return tier.status().counters.faults[static_cast<size_t>(fault)];
}

// The key of a block's value, as docs/kv-redis.md gives it.
inline std::string KeyOf(const RecordCodec& codec, const StoredBlock& block) {
  return "quire:kv:1:" + ToHex(codec.model().fingerprint).substr(0, 16) + ":" +
         ToHex(codec.NameOf(block.key()).digest);
}

}  // namespace quire
