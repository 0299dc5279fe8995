#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "base/exact_math.h"
#include "kernels/kernel_set.h"
#include "tensor/float16.h"

namespace quire {
namespace {

const KernelSet& Reference() { return *AvailableKernels().front(); }

std::vector<float> Normal(int n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Any finite float: denormals, both zeros and the largest ones included.
std::vector<float> Wild(int n, uint32_t seed) {
  std::mt19937 random(seed);
  const float special[] = {0.0f,   -0.0f, 1e-45f, -1e-45f, 1e-38f,
                           -3e38f, 3e38f, 88.0f,  -87.0f,  1.0f};
  std::vector<float> values(n);
  for (float& value : values) {
    value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value) || random() % 4 == 0) value = special[random() % std::size(special)];
  }
  return values;
}

// Lengths that end in every lane of a vector, and some as long as real rows.
std::vector<int> Lengths() {
  std::vector<int> lengths;
  for (int n = 1; n <= 70; ++n) lengths.push_back(n);
  for (const int n : {576, 1535, 4097}) lengths.push_back(n);
  return lengths;
}

// Equal bits; one NaN counts as another, since processors differ in which of two they hand on.
::testing::AssertionResult SameBits(const std::vector<float>& expected,
                                    const std::vector<float>& got) {
  if (expected.size() != got.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
    if (std::bit_cast<uint32_t>(expected[i]) != std::bit_cast<uint32_t>(got[i])) {
      return ::testing::AssertionFailure() << "element " << i << " of " << expected.size() << ": "
                                           << expected[i] << " and " << got[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Runs `operation(kernels, x)` with every set on the same inputs and compares x, which has a guard
// behind its n elements.
template <typename Operation>
void ExpectEqualSets(const Operation& operation) {
  for (const int n : Lengths()) {
    for (const bool wild : {false, true}) {
      std::vector<float> input = wild ? Wild(n, n) : Normal(n, n, 3.0f);
      input.push_back(12345.0f);
      std::vector<float> expected = input;
      operation(Reference(), expected.data(), n);
      ASSERT_EQ(expected.back(), 12345.0f);
      for (const KernelSet* kernels : AvailableKernels()) {
        SCOPED_TRACE(std::string(kernels->name) + (wild ? ", wild" : ""));
        std::vector<float> got = input;
        operation(*kernels, got.data(), n);
        ASSERT_TRUE(SameBits(expected, got));
      }
    }
  }
}

TEST(Rows, AddIsTheSameInEverySet) {
  ExpectEqualSets(
      [](const KernelSet& kernels, float* x, int n) { kernels.add(x, Wild(n, n + 1).data(), n); });
}

TEST(Rows, ScaleIsTheSameInEverySet) {
  ExpectEqualSets([](const KernelSet& kernels, float* x, int n) { kernels.scale(x, 0.3f, n); });
}

TEST(Rows, SiluMulIsTheSameInEverySet) {
  ExpectEqualSets([](const KernelSet& kernels, float* x, int n) {
    kernels.silu_mul(x, Normal(n, n + 1).data(), n);
  });
}

TEST(Rows, GeluMulIsTheSameInEverySet) {
  ExpectEqualSets([](const KernelSet& kernels, float* x, int n) {
    kernels.gelu_mul(x, Normal(n, n + 1).data(), n);
  });
}

TEST(Rows, ReluIsTheSameInEverySet) {
  ExpectEqualSets([](const KernelSet& kernels, float* x, int n) { kernels.relu(x, n); });
}

TEST(Rows, RmsNormIsTheSameInEverySet) {
  ExpectEqualSets([](const KernelSet& kernels, float* x, int n) {
    const bool finite = kernels.rms_norm(x, Normal(n, n + 1).data(), 1e-6f, n, x);
    if (!finite) x[0] = -1.0f;
  });
}

TEST(Rows, LayerNormIsTheSameInEverySet) {
  ExpectEqualSets([](const KernelSet& kernels, float* x, int n) {
    const bool finite =
        kernels.layer_norm(x, Normal(n, n + 1).data(), Normal(n, n + 2).data(), 1e-5f, n, x);
    if (!finite) x[0] = -1.0f;
  });
}

TEST(Rows, RopeIsTheSameInEverySet) {
  for (const RopeStyle style : {RopeStyle::kHalves, RopeStyle::kInterleaved}) {
    for (int rotary_dim = 2; rotary_dim <= 140; rotary_dim += 2) {
      const int head_dim = rotary_dim + rotary_dim % 3;
      const std::vector<float> input = Wild(3 * head_dim, rotary_dim);
      const std::vector<float> cosine = Normal(rotary_dim / 2, 1);
      const std::vector<float> sine = Normal(rotary_dim / 2, 2);
      const RopeRow row{cosine.data(), sine.data()};
      std::vector<float> expected = input;
      Reference().rope(expected.data(), 3, head_dim, rotary_dim, style, row);
      for (const KernelSet* kernels : AvailableKernels()) {
        SCOPED_TRACE(std::string(kernels->name));
        std::vector<float> got = input;
        kernels->rope(got.data(), 3, head_dim, rotary_dim, style, row);
        ASSERT_TRUE(SameBits(expected, got)) << rotary_dim;
      }
    }
  }
}

// ExpF lane by lane, seen through merge_span, which scales a value of 1 by exp(maximum - merged).
TEST(Rows, ExponentialsEqualExpFInEverySet) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-90.0f, 0.0f);
  const float zero = 0.0f;
  for (int i = 0; i < 20000; ++i) {
    const float x = i < 200 ? -87.0f + static_cast<float>(i - 100) * 1e-4f : uniform(random);
    for (const KernelSet* kernels : AvailableKernels()) {
      float maximum = x;
      float sum = 1.0f;
      float value = 1.0f;
      float* values = &value;
      kernels->merge_span({.num_queries = 1,
                           .value_dim = 1,
                           .span_maxima = &zero,
                           .span_sums = &zero,
                           .span_values = &zero,
                           .maxima = &maximum,
                           .sums = &sum,
                           .values = &values});
      ASSERT_EQ(value, exact::ExpF(x)) << x << " " << kernels->name;
      ASSERT_EQ(sum, value);
      ASSERT_EQ(maximum, 0.0f);
    }
  }
}

TEST(Rows, RmsNormIsCloseToDoublePrecision) {
  const int n = 1536;
  const std::vector<float> x = Normal(n, 1, 4.0f);
  const std::vector<float> weight = Normal(n, 2);
  double squares = 0;
  for (const float value : x) squares += double{value} * value;
  const double factor = 1.0 / std::sqrt(squares / n + 1e-6);
  for (const KernelSet* kernels : AvailableKernels()) {
    std::vector<float> out(n);
    ASSERT_TRUE(kernels->rms_norm(x.data(), weight.data(), 1e-6f, n, out.data()));
    for (int i = 0; i < n; ++i) {
      const double expected = x[i] * factor * weight[i];
      ASSERT_NEAR(out[i], expected, 1e-6 * std::abs(expected) + 1e-30);
    }
  }
}

TEST(Rows, LayerNormIsCloseToDoublePrecision) {
  const int n = 769;
  std::vector<float> x = Normal(n, 1, 2.0f);
  for (float& value : x) value += 3.0f;
  const std::vector<float> weight = Normal(n, 2);
  const std::vector<float> bias = Normal(n, 3);
  double mean = 0;
  for (const float value : x) mean += value;
  mean /= n;
  double variance = 0;
  for (const float value : x) variance += (value - mean) * (value - mean);
  const double factor = 1.0 / std::sqrt(variance / n + 1e-5);
  for (const KernelSet* kernels : AvailableKernels()) {
    std::vector<float> out(n);
    ASSERT_TRUE(kernels->layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, n, out.data()));
    for (int i = 0; i < n; ++i) {
      ASSERT_NEAR(out[i], (x[i] - mean) * factor * weight[i] + bias[i], 5e-6);
    }
  }
}

TEST(Rows, NormsOfARowThatReadsByEye) {
  // mean of squares (9 + 16 + 9 + 16 + 0 ...) / 8 = 6.25: factor 0.4.
  const float x[8] = {3, -4, 3, -4, 0, 0, 0, 0};
  const float weight[8] = {1, 1, 2, 2, 1, 1, 1, 1};
  for (const KernelSet* kernels : AvailableKernels()) {
    float out[8];
    ASSERT_TRUE(kernels->rms_norm(x, weight, 0.0f, 8, out));
    EXPECT_FLOAT_EQ(out[0], 1.2f);
    EXPECT_FLOAT_EQ(out[1], -1.6f);
    EXPECT_FLOAT_EQ(out[3], -3.2f);
    EXPECT_EQ(out[7], 0.0f);
  }
}

TEST(Rows, NormsRefuseValuesThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity(), 1e30f}) {
    for (const int position : {0, 15, 16, 36}) {
      std::vector<float> x = Normal(37, 1);
      x[position] = bad;
      const std::vector<float> ones(37, 1.0f);
      for (const KernelSet* kernels : AvailableKernels()) {
        std::vector<float> out(37);
        EXPECT_FALSE(kernels->rms_norm(x.data(), ones.data(), 1e-6f, 37, out.data()));
        EXPECT_FALSE(
            kernels->layer_norm(x.data(), ones.data(), ones.data(), 1e-6f, 37, out.data()));
      }
    }
  }
}

TEST(Rows, ActivationsAreCloseToTheirDefinitions) {
  for (const KernelSet* kernels : AvailableKernels()) {
    for (float x = -30.0f; x <= 30.0f; x += 0.37f) {
      const float two = 2.0f;
      float silu = x;
      kernels->silu_mul(&silu, &two, 1);
      EXPECT_NEAR(silu, 2.0 * x / (1.0 + std::exp(-double{x})), 1e-6 * (1.0 + std::abs(x)));
      float gelu = x;
      kernels->gelu_mul(&gelu, &two, 1);
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      EXPECT_NEAR(gelu, x * (1.0 + std::tanh(inner)), 1e-6 * (1.0 + std::abs(x)));
    }
  }
}

TEST(Rows, ReluKeepsPositiveValuesAndWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelSet* kernels : AvailableKernels()) {
    std::vector<float> x = {-1.0f, -0.0f, 0.0f, 2.5f, nan};
    kernels->relu(x.data(), 5);
    EXPECT_TRUE(SameBits({0.0f, -0.0f, 0.0f, 2.5f, nan}, x));
  }
}

TEST(Rows, OneValueThatIsNotFiniteIsFoundAnywhere) {
  for (const KernelSet* kernels : AvailableKernels()) {
    for (const int n : {1, 15, 16, 17, 37}) {
      std::vector<float> x(n, std::numeric_limits<float>::max());
      EXPECT_TRUE(kernels->all_finite(x.data(), n));
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
            -std::numeric_limits<float>::infinity()}) {
        for (const int position : {0, n / 2, n - 1}) {
          std::vector<float> damaged = x;
          damaged[position] = bad;
          EXPECT_FALSE(kernels->all_finite(damaged.data(), n)) << n << " " << position;
        }
      }
    }
  }
}

TEST(Rows, RopeTurnsPairsAndKeepsTheirLength) {
  constexpr int kDim = 64;
  constexpr int kPosition = 1234;
  float cosine[kDim / 2];
  float sine[kDim / 2];
  for (int i = 0; i < kDim / 2; ++i) {
    const auto turn = exact::SinCosOf(kPosition * exact::Pow(10000.0, -2.0 * i / kDim));
    cosine[i] = static_cast<float>(turn.cos);
    sine[i] = static_cast<float>(turn.sin);
  }
  const std::vector<float> input = Normal(kDim, 7);
  for (const KernelSet* kernels : AvailableKernels()) {
    for (const RopeStyle style : {RopeStyle::kHalves, RopeStyle::kInterleaved}) {
      std::vector<float> x = input;
      kernels->rope(x.data(), 1, kDim, kDim, style, {cosine, sine});
      for (int i = 0; i < kDim / 2; ++i) {
        const int first = style == RopeStyle::kHalves ? i : 2 * i;
        const int second = style == RopeStyle::kHalves ? i + kDim / 2 : 2 * i + 1;
        const double angle = kPosition * std::pow(10000.0, -2.0 * i / kDim);
        const double a = input[first];
        const double b = input[second];
        EXPECT_NEAR(x[first], a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(x[second], a * std::sin(angle) + b * std::cos(angle), 1e-6);
        EXPECT_NEAR(std::hypot(x[first], x[second]), std::hypot(a, b), 1e-6);
      }
    }
  }
}

TEST(Rows, RopeLeavesTheRestOfAHeadAlone) {
  const float cosine[1] = {0.0f};
  const float sine[1] = {1.0f};
  for (const KernelSet* kernels : AvailableKernels()) {
    std::vector<float> x = {1, 2, 3, 4, 5, 6};  // two heads of three; a quarter turn of a pair
    kernels->rope(x.data(), 2, 3, 2, RopeStyle::kHalves, {cosine, sine});
    EXPECT_EQ(x, (std::vector<float>{-2, 1, 3, -5, 4, 6}));
  }
}

}  // namespace
}  // namespace quire
