#include "tensor/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire {
namespace {

// The value by definition, in double arithmetic that is exact here.
double ValueOf(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

bool IsFinite(uint16_t half) { return ((half >> 10) & 31) != 31; }

TEST(Float16, EveryFiniteHalfWidensToItsValue) {
  for (uint32_t half = 0; half < 65536; ++half) {
    if (!IsFinite(static_cast<uint16_t>(half))) continue;
    const float wide = F16ToF32(static_cast<uint16_t>(half));
    ASSERT_EQ(double{wide}, ValueOf(static_cast<uint16_t>(half))) << half;
    ASSERT_EQ(std::signbit(wide), half >= 0x8000u) << half;
  }
}

TEST(Float16, EveryHalfComesBackFromBinary32) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const float wide = F16ToF32(static_cast<uint16_t>(half));
    const uint16_t back = F32ToF16(wide);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(F16ToF32(back))) << half;
    } else {
      ASSERT_EQ(back, half);
    }
  }
}

TEST(Float16, RoundsHalfwayCasesToTheEvenNeighbour) {
  // Between every two neighbours of the positive halves, the middle is exact in binary32.
  for (uint32_t half = 0; half < 0x7bffu; ++half) {
    const float low = F16ToF32(static_cast<uint16_t>(half));
    const float high = F16ToF32(static_cast<uint16_t>(half + 1));
    const float middle = (low + high) / 2;
    ASSERT_EQ(F32ToF16(middle), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(F32ToF16(std::nextafter(middle, low)), half);
    ASSERT_EQ(F32ToF16(std::nextafter(middle, high)), half + 1);
    ASSERT_EQ(F32ToF16(-middle), F32ToF16(middle) | 0x8000u);
  }
}

TEST(Float16, BecomesInfinityFromTheMiddleBeyondTheLargest) {
  EXPECT_EQ(F32ToF16(65504.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-INFINITY), 0xfc00);
}

TEST(Float16, Bfloat16IsTheUpperHalfOfBinary32) {
  EXPECT_EQ(Bf16ToF32(0x3f80), 1.0f);
  EXPECT_EQ(Bf16ToF32(0xc2f7), -123.5f);
  EXPECT_EQ(Bf16ToF32(0x0001), std::ldexp(1.0f, -133));
}

}  // namespace
}  // namespace quire
