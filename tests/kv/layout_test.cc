#include "kv/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quire {
namespace {

std::vector<KvLayerShape> Repeat(int count, KvLayerShape shape) {
  return std::vector<KvLayerShape>(count, shape);
}

// Every `period`th layer sees everything, the others a window.
std::vector<KvLayerShape> Alternating(int num_layers, int period, KvLayerShape shape) {
  std::vector<KvLayerShape> shapes(num_layers, shape);
  for (int layer = period - 1; layer < num_layers; layer += period) shapes[layer].window = 0;
  return shapes;
}

KvLayout Make(const std::vector<KvLayerShape>& shapes, KvType type = KvType::kF16) {
  return KvLayout::Make(shapes, type).value();
}

constexpr KvLayerShape kGemma3Layer = {
    .num_kv_heads = 1, .key_dim = 256, .value_dim = 256, .window = 512};

TEST(KvLayout, ATokenCostsItsKeysAndValuesInAllLayers) {
  // Qwen2.5-1.5B: 28 layers of 2 key heads, 128 + 128 elements of 2 bytes.
  const auto shapes = Repeat(28, {2, 128, 128});
  const KvLayout layout = Make(shapes);
  EXPECT_EQ(layout.bytes_per_token, 28672u);
  EXPECT_EQ(layout.block_bytes, 28672u * kBlockSlots);
  EXPECT_EQ(layout.num_groups(), 1);
  EXPECT_EQ(Make(shapes, KvType::kBF16).bytes_per_token, 28672u);
  EXPECT_EQ(Make(shapes, KvType::kF32).bytes_per_token, 2 * 28672u);
  EXPECT_EQ(Make(shapes, KvType::kQ8_0).bytes_per_token, 28672u / 64 * 34);
}

TEST(KvLayout, KeysAndValuesOfALayerNeitherOverlapNorLieUnaligned) {
  // Odd shapes: 3 * 5 * 16 * 2 = 480 bytes of keys are padded to 512.
  const KvLayout layout = Make({{3, 5, 7}, {1, 1, 33}});
  ASSERT_EQ(layout.layers.size(), 2u);
  EXPECT_EQ(layout.layers[0].key_offset, 0u);
  EXPECT_EQ(layout.layers[0].value_offset, 512u);
  EXPECT_EQ(layout.layers[1].key_offset, 512u + 704u);
  EXPECT_EQ(layout.layers[1].value_offset, 512u + 704u + 64u);
  EXPECT_EQ(layout.block_bytes, 512u + 704u + 64u + 1088u);
  EXPECT_EQ(layout.bytes_per_token, 2u * (3 * 12 + 34));
}

TEST(KvLayout, Gemma3With270MHasSixGroupsOfThreeLayers) {
  const KvLayout layout = Make(Alternating(18, 6, kGemma3Layer));
  ASSERT_EQ(layout.num_groups(), 6);
  for (int group = 0; group < 6; ++group) {
    EXPECT_EQ(layout.groups[group].num_layers, 3);
    EXPECT_EQ(layout.groups[group].window, group == 0 ? 0 : 512) << "the full group comes first";
    EXPECT_EQ(layout.groups[group].bytes, layout.block_bytes) << "no group is padded";
  }
  EXPECT_EQ(layout.block_bytes, 3u * 16 * 1024);
  EXPECT_EQ(layout.bytes_per_token, 18432u);
  // Layers 5, 11 and 17 are full; windowed ones fill group after group.
  for (const int layer : {5, 11, 17}) EXPECT_EQ(layout.layers[layer].group, 0);
  for (const int layer : {0, 1, 2}) EXPECT_EQ(layout.layers[layer].group, 1);
  for (const int layer : {14, 15, 16}) EXPECT_EQ(layout.layers[layer].group, 5);
  EXPECT_EQ(layout.layers[11].key_offset, layout.block_bytes / 3);
}

TEST(KvLayout, WindowedLayersAreChargedTheirWindow) {
  // 26 layers, every 6th of them full: 4 full and 22 windowed, in groups of two.
  const KvLayout layout = Make(Alternating(26, 6, kGemma3Layer));
  EXPECT_EQ(layout.num_groups(), 13);
  EXPECT_EQ(layout.FormulaBytes(32768), 145752064u);
  EXPECT_EQ(layout.bytes_per_token * 32768, 832u << 20) << "as if none had a window";
  // A window of 512 lies in at most 33 blocks; two full groups keep all 2,048.
  EXPECT_EQ(layout.PeakBlocks(32768, 1), 2 * 2048 + 11 * 33);
  EXPECT_EQ(layout.PeakBlocks(32768, 512), 2 * 2048 + 11 * 65);
  EXPECT_EQ(layout.PeakBlocks(100, 512), 13 * 7) << "never more than the sequence has";
}

TEST(KvLayout, BlocksHeldNeverPassThePeakAtAnyAlignment) {
  const KvLayout layout = Make({{1, 4, 4, 0}, {1, 4, 4, 40}, {1, 4, 4, 1}});
  for (const int chunk : {1, 7, 16, 33}) {
    int64_t most = 0;
    for (int position = 0; position + chunk <= 400; ++position) {
      most = std::max(most, layout.BlocksHeld(position, position + chunk));
    }
    EXPECT_EQ(layout.PeakBlocks(400, chunk), most) << "chunk " << chunk;
  }
}

TEST(KvLayout, AWindowLeavesAnEntryWhenItsLastTokenIsOutOfSight) {
  const KvGroup group = {.window = 20};
  EXPECT_EQ(group.FirstEntryRead(34), 0);  // reads 15..34
  EXPECT_EQ(group.FirstEntryRead(35), 1);  // reads 16..35
  EXPECT_EQ(KvGroup{}.FirstEntryRead(1'000'000), 0);
}

TEST(KvLayout, ATypeThatCannotStoreTheHeadsIsAnErrorThatNamesTheLayer) {
  const Result<KvLayout> layout =
      KvLayout::Make(std::vector<KvLayerShape>{{1, 64, 64}, {1, 64, 80}}, KvType::kQ8_0);
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(layout.error().message.find("layer 1 has heads of 80"), std::string::npos)
      << layout.error().message;
}

TEST(KvLayout, TheDigestTellsLayoutsApart) {
  const std::vector<KvLayerShape> shapes = {{2, 64, 64}, {2, 64, 64, 32}};
  const Digest digest = Make(shapes).LayoutDigest();
  EXPECT_EQ(Make(shapes).LayoutDigest(), digest);
  EXPECT_NE(Make(shapes, KvType::kBF16).LayoutDigest(), digest) << "same bytes, another type";
  EXPECT_NE(Make({{4, 32, 64}, {2, 64, 64, 32}}).LayoutDigest(), digest) << "heads";
  EXPECT_NE(Make({{2, 64, 64}, {2, 64, 64, 48}}).LayoutDigest(), digest) << "window";
  EXPECT_NE(Make({{2, 64, 64, 32}, {2, 64, 64}}).LayoutDigest(), digest) << "order";
}

}  // namespace
}  // namespace quire
