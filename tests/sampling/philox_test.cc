#include "sampling/philox.h"

#include <gtest/gtest.h>

#include <set>

#include "sampling/seed.h"

namespace quire {
namespace {

using Words = std::array<uint32_t, 4>;

// The philox4x32 10 lines of kat_vectors, as published with Random123.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EverySeedChoiceAndPositionDrawsDifferently) {
  std::set<uint64_t> draws;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (uint32_t choice = 0; choice < 4; ++choice) {
      for (uint32_t position = 0; position < 16; ++position) {
        draws.insert(DrawBits(seed, choice, position));
      }
    }
  }
  EXPECT_EQ(draws.size(), 4u * 4u * 16u);
}

TEST(RandomSeed, DiffersFromCallToCall) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 20; ++i) seeds.insert(RandomSeed().value());
  EXPECT_EQ(seeds.size(), 20u);
}

}  // namespace
}  // namespace quire
