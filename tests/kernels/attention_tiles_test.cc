#include "kernels/attention_tiles.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

// Sequences of one layer with a single key head.
class Step {
 public:
  explicit Step(int num_heads, int window = 0)
      : layer_{.num_kv_heads = 1, .key_dim = 32, .value_dim = 32},
        num_heads_(num_heads),
        window_(window) {}

  // Blocks first, first + 1, ... up to the last position.
  void Add(int num_rows, int first_position, int32_t first_block) {
    std::vector<int32_t> table((first_position + num_rows + kBlockSlots - 1) / kBlockSlots);
    std::iota(table.begin(), table.end(), first_block);
    tables_.push_back(std::move(table));
    const int first_row =
        sequences_.empty() ? 0 : sequences_.back().first_row + sequences_.back().num_rows;
    sequences_.push_back({first_row, num_rows, first_position, {}});
  }
  std::vector<int32_t>& table(int sequence) { return tables_[sequence]; }

  // "sequences, pairs, spans" of each tile; units are between bars.
  std::string Cut(size_t num_threads = 1) {
    spans_.assign(tables_.begin(), tables_.end());
    for (size_t i = 0; i < sequences_.size(); ++i) sequences_[i].block_tables = {&spans_[i], 1};
    kv_.layers = {&layer_, 1};
    tiles_.Cut({.num_heads = num_heads_, .kv = &kv_, .window = window_, .sequences = sequences_},
               num_threads);
    std::string text;
    for (const AttentionUnit& unit : tiles_.units()) {
      text += "|";
      for (size_t t = unit.first_tile; t < unit.end_tile; ++t) {
        const AttentionTile& tile = tiles_.tiles()[t];
        text += fmt::format(" [{}] {}+{}: {}..{}", fmt::join(tile.sequences, ","), tile.first_pair,
                            tile.num_pairs, tile.first_span, tile.end_span);
      }
      text += " ";
    }
    return text + "|";
  }

  const AttentionTiles& tiles() const { return tiles_; }

 private:
  KvLayer layer_;
  int num_heads_;
  int window_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::span<const int32_t>> spans_;
  std::vector<KvSequence> sequences_;
  PagedKvView kv_;
  AttentionTiles tiles_;
};

TEST(AttentionTiles, PairsOfASequenceAreCutEvenly) {
  Step step(7);
  step.Add(2, 127, 0);  // 14 pairs; the second row reads a second span
  EXPECT_EQ(step.Cut(), "| [0] 0+5: 0..1 | [0] 5+5: 0..2 | [0] 10+4: 0..2 |");
  EXPECT_EQ(step.tiles().num_tasks(), 5u);
}

TEST(AttentionTiles, DecodesOfOnePrefixReadItTogether) {
  Step step(2);
  step.Add(1, 300, 0);
  step.Add(1, 400, 500);  // of its own
  step.Add(1, 700, 0);
  step.table(2)[40] = 600;  // shares 18 blocks with 0 and 40 with 3: two spans, and five
  step.Add(1, 700, 0);
  EXPECT_EQ(step.Cut(),
            "| [0,2,3] 0+6: 0..2 [0] 0+2: 2..3 [2] 0+2: 2..6 [3] 0+2: 2..6 | [1] 0+2: 0..4 |");
}

TEST(AttentionTiles, ManySharersAreCutEvenly) {
  Step step(1);
  for (int i = 0; i < 8; ++i) step.Add(1, 128, 0);
  for (int i = 0; i < 8; ++i) step.table(i)[8] = 100 + i;
  const std::string text = step.Cut();
  EXPECT_THAT(text, ::testing::StartsWith("| [0,1,2,3] 0+4: 0..1 [0] 0+1: 1..2 "));
  EXPECT_THAT(text, ::testing::HasSubstr("| [4,5,6,7] 0+4: 0..1 [4] 0+1: 1..2 "));
}

TEST(AttentionTiles, AForkThatSharesAllOfItsSpansLeavesNothingBehind) {
  Step step(3);
  step.Add(1, 255, 0);
  step.Add(1, 255, 0);
  EXPECT_EQ(step.Cut(), "| [0,1] 0+6: 0..2 [0] 0+3: 2..2 [1] 0+3: 2..2 |");
  EXPECT_EQ(step.tiles().num_tasks(), 2u);
  EXPECT_EQ(step.tiles().TileOf(1), 0u);
}

TEST(AttentionTiles, SharersWithFullTilesBecomeNeighbours) {
  Step step(6);
  step.Add(1, 200, 0);
  step.Add(1, 200, 50);
  step.Add(1, 200, 0);
  EXPECT_EQ(step.Cut(), "| [0] 0+6: 0..2 | [2] 0+6: 0..2 | [1] 0+6: 0..2 |");
}

TEST(AttentionTiles, HolesBeforeAWindowAreNotShared) {
  Step step(1, 100);
  step.Add(1, 500, 0);
  step.Add(1, 500, 0);
  for (int sequence : {0, 1}) std::fill_n(step.table(sequence).begin(), 25, kNoBlock);
  // Positions 401..500 are blocks 25..31, the rest of a span and not a whole one.
  EXPECT_EQ(step.Cut(), "| [0,1] 0+2: 3..4 [0] 0+1: 4..4 [1] 0+1: 4..4 |");
}

TEST(AttentionTiles, TheLongestGroupComesFirst) {
  Step step(6);
  step.Add(1, 100, 0);
  step.Add(1, 1000, 50);
  step.Add(1, 500, 150);
  step.Cut();
  std::vector<int64_t> spans;
  for (const AttentionGroup& group : step.tiles().groups()) spans.push_back(group.num_spans);
  EXPECT_THAT(spans, ElementsAre(8, 4, 1));
}

}  // namespace
}  // namespace quire
