#include "kv/layout.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(KvLayout, ATokenCostsItsKeysAndValuesInAllLayers) {
  // Qwen2.5-1.5B: 28 layers of 2 key heads, 128 + 128 elements of 2 bytes.
  const std::vector<KvLayerShape> shapes(28, {2, 128, 128});
  const KvLayout layout = KvLayout::Make(shapes, KvType::kF16);
  EXPECT_EQ(layout.bytes_per_token, 28672u);
  EXPECT_EQ(layout.block_bytes, 28672u * kBlockSlots);
  EXPECT_EQ(KvLayout::Make(shapes, KvType::kF32).bytes_per_token, 2 * 28672u);
}

TEST(KvLayout, KeysAndValuesOfALayerNeitherOverlapNorLieUnaligned) {
  // Odd shapes: 3 * 5 * 16 * 2 = 480 bytes of keys are padded to 512.
  const KvLayout layout =
      KvLayout::Make(std::vector<KvLayerShape>{{3, 5, 7}, {1, 1, 33}}, KvType::kF16);
  ASSERT_EQ(layout.layers.size(), 2u);
  EXPECT_EQ(layout.layers[0].key_offset, 0u);
  EXPECT_EQ(layout.layers[0].value_offset, 512u);
  EXPECT_EQ(layout.layers[1].key_offset, 512u + 704u);
  EXPECT_EQ(layout.layers[1].value_offset, 512u + 704u + 64u);
  EXPECT_EQ(layout.block_bytes, 512u + 704u + 64u + 1088u);
  EXPECT_EQ(layout.bytes_per_token, 2u * (3 * 12 + 34));
}

}  // namespace
}  // namespace quire
