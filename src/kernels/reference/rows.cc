// Row-wise functions as docs/numerics.md writes them, one element at a time.
#include <cmath>

#include "base/exact_math.h"
#include "kernels/reference/kernels.h"

namespace quire::reference {
namespace {

constexpr int kLanes = 16;

// The tree over the 16 lanes of a row sum.
float SumOfLanes(float (&lanes)[kLanes]) {
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

float Sum(const float* x, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i % kLanes] = lanes[i % kLanes] + x[i];
  return SumOfLanes(lanes);
}

// The sum of (x - mean)^2.
float SumOfSquares(const float* x, float mean, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) {
    const float centered = x[i] - mean;
    lanes[i % kLanes] = std::fma(centered, centered, lanes[i % kLanes]);
  }
  return SumOfLanes(lanes);
}

float Silu(float x) { return x / (1.0f + exact::ExpF(-x)); }

float Gelu(float x) {
  const float u = x * (0.7978845608f * std::fma(0.044715f * x, x, 1.0f));
  return x / (1.0f + exact::ExpF(-2.0f * u));
}

}  // namespace

bool RmsNorm(const float* x, const float* weight, float epsilon, int n, float* out) {
  const float sum = SumOfSquares(x, 0.0f, n);
  if (!std::isfinite(sum)) return false;
  const float mean = sum / static_cast<float>(n);
  const float factor = 1.0f / std::sqrt(mean + epsilon);
  for (int i = 0; i < n; ++i) out[i] = (x[i] * factor) * weight[i];
  return true;
}

bool LayerNorm(const float* x, const float* weight, const float* bias, float epsilon, int n,
               float* out) {
  const float mean = Sum(x, n) / static_cast<float>(n);
  const float sum = SumOfSquares(x, mean, n);
  if (!std::isfinite(sum)) return false;
  const float variance = sum / static_cast<float>(n);
  const float factor = 1.0f / std::sqrt(variance + epsilon);
  for (int i = 0; i < n; ++i) out[i] = std::fma((x[i] - mean) * factor, weight[i], bias[i]);
  return true;
}

bool AllFinite(const float* x, int n) {
  for (int i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return false;
  }
  return true;
}

void Add(float* x, const float* y, int n) {
  for (int i = 0; i < n; ++i) x[i] = x[i] + y[i];
}

void Scale(float* x, float factor, int n) {
  for (int i = 0; i < n; ++i) x[i] = x[i] * factor;
}

void SiluMul(float* gate, const float* up, int n) {
  for (int i = 0; i < n; ++i) gate[i] = Silu(gate[i]) * up[i];
}

void GeluMul(float* gate, const float* up, int n) {
  for (int i = 0; i < n; ++i) gate[i] = Gelu(gate[i]) * up[i];
}

void Relu(float* x, int n) {
  for (int i = 0; i < n; ++i) x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

void Rope(float* x, int num_heads, int head_dim, int rotary_dim, RopeStyle style,
          const RopeRow& row) {
  const int num_pairs = rotary_dim / 2;
  const bool interleaved = style == RopeStyle::kInterleaved;
  for (int head_idx = 0; head_idx < num_heads; ++head_idx) {
    float* head = x + static_cast<size_t>(head_idx) * head_dim;
    for (int i = 0; i < num_pairs; ++i) {
      float& first = interleaved ? head[2 * i] : head[i];
      float& second = interleaved ? head[2 * i + 1] : head[i + num_pairs];
      const float a = first;
      const float b = second;
      first = std::fma(a, row.cos[i], -(b * row.sin[i]));
      second = std::fma(a, row.sin[i], b * row.cos[i]);
    }
  }
}

}  // namespace quire::reference
