// A cache with small verbs: sequences that compute, checked slot by slot.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/stored_pattern.h"

namespace quire {

// The text of most tests: first, first + 1, ...
inline std::vector<int32_t> Numbers(int count, int first = 0) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline std::vector<int32_t> Join(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class KvFixture : public ::testing::Test {
 protected:
  using Tokens = std::vector<int32_t>;

  // One layer for each window; layers of equal windows are a group.
  void Open(const std::vector<int>& windows, int num_blocks) {
    cache_ = KvCache::Create(PatternLayout(windows), num_blocks).value();
  }
  ~KvFixture() override {
    if (cache_ == nullptr) return;
    cache_->CheckInvariants();
    EXPECT_EQ(cache_->usage().used_blocks, 0);
  }

  PrefixMatch Match(const Tokens& tokens, int max_tokens = 1 << 20) {
    IdentityChain chain(root_);
    return cache_->Match(chain, tokens, max_tokens);
  }
  int Found(const Tokens& tokens) { return Match(tokens).num_tokens; }

  // Computes up to the end of `tokens` in chunks. False when there is no room.
  [[nodiscard]] bool Compute(BlockTables& tables, const Tokens& tokens, int chunk = 1 << 20) {
    const int num_tokens = static_cast<int>(tokens.size());
    while (tables.num_tokens() < num_tokens) {
      const int begin = tables.num_tokens();
      const int end = begin + std::min(chunk, num_tokens - begin);
      if (!cache_->Reserve(tables, end)) return false;
      const auto part = std::span(tokens).first(end);
      StoredPattern(*cache_).Write(tables, 0, part, begin);
      cache_->Commit(tables, part);
    }
    StoredPattern(*cache_).Check(tables, 0, tokens);
    return true;
  }

  // A sequence that takes what is found and computes the rest.
  BlockTables Start(const Tokens& tokens, int chunk = 1 << 20) {
    BlockTables tables =
        cache_->Acquire(root_, tokens, static_cast<int>(tokens.size()) - 1).value();
    StoredPattern(*cache_).Check(tables, 0, std::span(tokens).first(tables.num_tokens()));
    EXPECT_TRUE(Compute(tables, tokens, chunk));
    return tables;
  }
  void RunAndEnd(const Tokens& tokens, int chunk = 1 << 20) { Start(tokens, chunk); }

  const Digest root_ = RootOf(Digest{}, "");
  std::unique_ptr<KvCache> cache_;
};

}  // namespace quire
