// The blocks that a plan says a sequence takes are those that the cache really takes.
#include <algorithm>
#include <numeric>

#include "kv/kv_cache.h"
#include "plan/plan_fixture.h"

namespace quire {
namespace {

using namespace testing;

// The most blocks in use while one sequence of num_tokens is computed, chunk by chunk.
int64_t MostBlocksHeld(const KvCost& cost, int num_tokens, int chunk) {
  auto cache = KvCache::Create(cost.layout(), static_cast<int>(cost.Blocks(num_tokens, chunk)));
  QUIRE_CHECK(cache.ok(), "{}", cache.error().message);
  std::vector<int32_t> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  auto tables = (*cache)->Acquire(Digest{}, tokens, num_tokens);
  QUIRE_CHECK(tables.has_value(), "an empty cache takes a sequence");
  int64_t most = 0;
  for (int position = 0; position < num_tokens;) {
    const int end = std::min(position + chunk, num_tokens);
    // A pool of exactly the planned size is enough.
    QUIRE_CHECK((*cache)->Reserve(*tables, end), "no block for position {}", position);
    most = std::max(most, (*cache)->usage().used_blocks);
    (*cache)->Commit(*tables, std::span(tokens).first(end));
    position = end;
  }
  return most;
}

TEST(HeldBlocks, AreWhatIsPlannedForWindowsAndFullLayers) {
  const KvCost cost = Cost(Preset("gemma-3-1b"));
  // The last of these chunks sees its window at the worst alignment: 511 + 255 positions from
  // 35 * 255 - 766 = 8159 on, the last slot of a block.
  EXPECT_EQ(MostBlocksHeld(cost, 35 * 255, 255), cost.Blocks(35 * 255, 255));
  EXPECT_EQ(MostBlocksHeld(cost, 3'000, 1), cost.Blocks(3'000, 1));
  // Chunks of whole blocks never do: one block fewer in each of the 11 windowed groups.
  EXPECT_EQ(MostBlocksHeld(cost, 8'192, 256), cost.Blocks(8'192, 256) - 11);
}

TEST(HeldBlocks, AreWhatIsPlannedWithoutWindows) {
  const KvCost cost = Cost(Preset("smollm2-135m"));
  for (const int tokens : {1, 16, 17, 1000}) {
    EXPECT_EQ(MostBlocksHeld(cost, tokens, 100), (tokens + 15) / 16);
  }
}

}  // namespace
}  // namespace quire
