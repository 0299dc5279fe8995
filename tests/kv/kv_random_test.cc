// Random use of KvCache, compared with its twin after every operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <random>

#include "kv/kv_twin.h"
#include "kv/stored_pattern.h"

namespace quire {
namespace {

using Tokens = KvTwin::Tokens;

struct Load {
  const char* name = "";
  std::vector<int> windows{};  // of the layers
  int num_blocks = 0;
  int num_operations = 0;
  int max_sequences = 6;
  int max_tokens = 100;
};

// One sequence in both worlds.
struct Pair {
  BlockTables tables;
  KvTwin::Table twin;
  Tokens wanted{};  // it computes these first, then anything
};

class RandomUse {
 public:
  RandomUse(const Load& load, uint32_t seed)
      : load_(load),
        random_(seed),
        cache_(KvCache::Create(PatternLayout(load.windows), load.num_blocks).value()),
        twin_(cache_->layout(), load.num_blocks),
        pattern_(*cache_) {
    for (int root = 0; root < 2; ++root) {
      roots_.push_back(RootOf(Digest{}, std::to_string(root)));
    }
  }

  void Run() {
    for (int i = 0; i < load_.num_operations && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(i);
      DoOne();
      cache_->CheckInvariants();
      Compare();
    }
    live_.clear();
    EXPECT_EQ(cache_->usage().used_blocks, 0);
    cache_->CheckInvariants();
  }

  const KvCounters& counters() const { return cache_->counters(); }
  int num_refused() const { return num_refused_; }
  int num_forgotten() const { return num_forgotten_; }
  int num_misses(MissReason reason) const { return num_misses_[static_cast<int>(reason)]; }

 private:
  int Below(int end) { return static_cast<int>(random_() % end); }

  void DoOne() {
    const int kind = Below(100);
    if (live_.empty() || (kind < 20 && static_cast<int>(live_.size()) < load_.max_sequences)) {
      Start();
    } else if (kind < 80) {
      Grow(Any());
    } else if (kind < 86 && static_cast<int>(live_.size()) < load_.max_sequences) {
      Pair& parent = Any();
      live_.push_back({cache_->Fork(parent.tables), twin_.Fork(parent.twin), parent.wanted});
    } else if (kind < 98) {
      End();
    } else if (kind == 98) {
      cache_->ReturnIdleMemory();
    } else if (Below(10) == 0) {
      cache_->DropCached();
      twin_.DropCached();
    }
  }

  Pair& Any() { return *std::next(live_.begin(), Below(static_cast<int>(live_.size()))); }

  // Often begins as an earlier sequence does, and sometimes ends where it ended.
  Tokens AnyPrompt() {
    Tokens tokens;
    if (!past_.empty() && Below(4) > 0) {
      tokens = past_[Below(static_cast<int>(past_.size()))];
      if (Below(2) == 0) tokens.resize(Below(static_cast<int>(tokens.size()) + 1));
    }
    for (int more = Below(3) == 0 ? 0 : Below(30); more > 0; --more) tokens.push_back(Below(2));
    if (tokens.empty()) tokens.push_back(0);
    return tokens;
  }

  void Start() {
    if (Below(20) == 0) {
      live_.push_back({cache_->AcquirePrivate(), twin_.AcquirePrivate()});
      return;
    }
    const Tokens tokens = AnyPrompt();
    const int root = Below(5) == 0 ? 1 : 0;
    const int num_tokens = static_cast<int>(tokens.size());
    const int max_tokens = Below(4) == 0 ? Below(num_tokens + 1) : num_tokens - 1;
    IdentityChain chain(roots_[root]);
    const PrefixMatch match = cache_->Match(chain, tokens, max_tokens);
    const PrefixMatch expected = twin_.Match(root, tokens, max_tokens);
    EXPECT_EQ(match.num_tokens, expected.num_tokens);
    EXPECT_EQ(match.copied_tokens, expected.copied_tokens);
    EXPECT_EQ(match.blocks_used, expected.blocks_used);
    EXPECT_EQ(match.blocks_cached, expected.blocks_cached);
    if (max_tokens == num_tokens - 1) CheckMiss(chain, root, tokens, match.num_tokens);
    std::optional<BlockTables> tables = cache_->Acquire(roots_[root], tokens, max_tokens);
    std::optional<KvTwin::Table> twin = twin_.Acquire(root, tokens, max_tokens);
    ASSERT_EQ(tables.has_value(), twin.has_value());
    if (!tables) {
      ++num_refused_;
      return;
    }
    EXPECT_EQ(tables->num_tokens(), match.num_tokens);
    // Some go on otherwise than the prompt that was looked for.
    live_.push_back({std::move(*tables), std::move(*twin), Below(5) == 0 ? Tokens() : tokens});
  }

  void CheckMiss(IdentityChain& chain, int root, const Tokens& tokens, int num_found) {
    const PrefixMiss miss = cache_->Explain(chain, tokens, num_found);
    PrefixMiss expected = twin_.Explain(root, tokens, num_found);
    if (expected.reason == MissReason::kEvicted && miss.reason != MissReason::kEvicted) {
      ++num_forgotten_;  // the record is bounded
      expected = twin_.Explain(root, tokens, num_found, /*remembers=*/false);
    }
    EXPECT_EQ(NameOf(miss.reason), NameOf(expected.reason));
    EXPECT_EQ(miss.position, expected.position);
    ++num_misses_[static_cast<int>(miss.reason)];
    EXPECT_EQ(miss.cached_tokens.empty(), miss.reason != MissReason::kDiffers);
    if (miss.reason != MissReason::kDiffers) return;
    EXPECT_NE(miss.cached_tokens[0], tokens[num_found]);
    EXPECT_TRUE(twin_.HoldsThere(root, tokens, num_found, miss.cached_tokens));
  }

  void Grow(Pair& pair) {
    const int begin = pair.tables.num_tokens();
    const int chunk = Below(3) == 0 ? 1 + Below(40) : 1;
    const int end = std::min(begin + chunk, load_.max_tokens);
    ASSERT_EQ(cache_->BlocksToReserve(pair.tables, end), twin_.BlocksToReserve(pair.twin, end));
    const bool is_reserved = cache_->Reserve(pair.tables, end);
    ASSERT_EQ(is_reserved, twin_.Reserve(pair.twin, end));
    if (!is_reserved) {
      ++num_refused_;
      End();
      return;
    }
    if (Below(10) == 0) return;  // reserved, and used at the next turn or never
    Tokens tokens = pair.twin.tokens;
    while (static_cast<int>(tokens.size()) < end) {
      const size_t position = tokens.size();
      tokens.push_back(position < pair.wanted.size() ? pair.wanted[position] : Below(2));
    }
    pattern_.Write(pair.tables, RootNumber(pair), tokens, begin);
    cache_->Commit(pair.tables, tokens);
    twin_.Commit(pair.twin, tokens);
  }

  void End() {
    const auto pair = std::next(live_.begin(), Below(static_cast<int>(live_.size())));
    if (pair->twin.is_findable) {
      if (past_.size() < 8) past_.emplace_back();
      past_[Below(static_cast<int>(past_.size()))] = pair->twin.tokens;
    }
    twin_.Release(pair->twin);
    live_.erase(pair);
  }

  // Nobody reads what a private sequence writes.
  static uint64_t RootNumber(const Pair& pair) {
    return pair.twin.is_findable ? pair.twin.root : 99;
  }

  void Compare() {
    const KvUsage usage = cache_->usage();
    EXPECT_EQ(usage.used_blocks, twin_.num_used());
    EXPECT_EQ(usage.cached_blocks, twin_.num_cached());
    EXPECT_EQ(usage.available_blocks(), twin_.num_available());
    EXPECT_EQ(usage.filled_slots, twin_.filled_slots());
    for (const Pair& pair : live_) {
      EXPECT_EQ(pair.tables.num_tokens(), static_cast<int>(pair.twin.tokens.size()));
      int64_t num_blocks = 0;
      for (int group = 0; group < cache_->layout().num_groups(); ++group) {
        const auto table = pair.tables.table(group);
        EXPECT_TRUE(std::ranges::equal(table, pair.twin.entries[group]));
        num_blocks += std::ranges::count_if(table, [](BlockId id) { return id != kNoBlock; });
      }
      EXPECT_EQ(pair.tables.num_blocks(), num_blocks);
      pattern_.Check(pair.tables, RootNumber(pair), pair.twin.tokens);
    }
  }

  Load load_;
  std::mt19937 random_;
  std::unique_ptr<KvCache> cache_;
  KvTwin twin_;
  StoredPattern pattern_;
  std::vector<Digest> roots_;
  std::vector<Tokens> past_;
  std::list<Pair> live_;
  int num_refused_ = 0;
  int num_forgotten_ = 0;            // evictions
  std::array<int, 5> num_misses_{};  // by reason
};

class KvCacheRandomUse : public ::testing::TestWithParam<Load> {};

TEST_P(KvCacheRandomUse, DoesWhatTheTwinDoes) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  RecordProperty("seed", std::to_string(seed));
  RandomUse use(GetParam(), seed);
  use.Run();
  // It was worth something.
  const KvCounters& counters = use.counters();
  EXPECT_GT(counters.blocks_committed, 0);
  EXPECT_GT(counters.blocks_shared, 0);
  EXPECT_GT(counters.partial_hits, 0);
  EXPECT_GT(counters.blocks_copied, 0);
  EXPECT_GT(counters.blocks_evicted, 0);
  EXPECT_GT(use.num_refused(), 0);
  EXPECT_GT(use.num_misses(MissReason::kNone), 0);
  EXPECT_GT(use.num_misses(MissReason::kNeverSeen), 0);
  EXPECT_GT(use.num_misses(MissReason::kDiffers), 0);
  EXPECT_GT(use.num_misses(MissReason::kEvicted), 0);
  EXPECT_LT(use.num_forgotten(), use.num_misses(MissReason::kEvicted));
  const auto& windows = GetParam().windows;
  EXPECT_EQ(counters.window_releases > 0,
            std::ranges::any_of(windows, [](int window) { return window > 0; }));
}

INSTANTIATE_TEST_SUITE_P(
    Loads, KvCacheRandomUse,
    ::testing::Values(
        Load{.name = "OneGroup", .windows = {0, 0}, .num_blocks = 12, .num_operations = 30000},
        Load{.name = "TinyPool", .windows = {0}, .num_blocks = 3, .num_operations = 20000},
        Load{.name = "FullAndWindows",
             .windows = {0, 20, 5},
             .num_blocks = 24,
             .num_operations = 20000},
        Load{.name = "WindowsOnly", .windows = {40, 1}, .num_blocks = 16, .num_operations = 15000},
        Load{.name = "SixGroups",
             .windows = {32, 32, 32, 32, 32, 0},
             .num_blocks = 60,
             .num_operations = 15000}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace quire
