// Norms, activations, sums and rope over rows that lie in the cache: a few operations for 4 to 12
// bytes of first- or second-level cache, so they run at cache bandwidth; the activations, at about
// 20 operations an element, and the norms' one chain of lanes at the latency of an FMA.
//
// Included inside the namespace of an instruction set, after exp-inl.h.
#pragma once

namespace {

// Calls body(i, load, store) for every 16 elements of n, load and store being those of the whole
// vector or of its first lanes.
template <typename Body>
QUIRE_FORCE_INLINE void ForEachVector(int n, const Body& body) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    body(
        i, [](const float* x) __attribute__((always_inline)) { return Load(x); },
        [](F32x16 a, float* x) __attribute__((always_inline)) { Store(a, x); });
  }
  if (i == n) return;
  const int rest = n - i;
  body(
      i, [rest](const float* x) __attribute__((always_inline)) { return LoadFirst(x, rest); },
      [rest](F32x16 a, float* x) __attribute__((always_inline)) { StoreFirst(a, x, rest); });
}

QUIRE_FORCE_INLINE bool IsFinite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }

// Lanes past the end add zeros, which leave a sum that started at +0 as it is.
QUIRE_FORCE_INLINE float Sum(const float* x, int n) {
  F32x16 lanes = Zero();
  ForEachVector(n, [&](int i, auto load, auto) { lanes = Add(lanes, load(x + i)); });
  return SumOfLanes(lanes);
}

// The sum of (x - mean)^2.
QUIRE_FORCE_INLINE float SumOfSquares(const float* x, float mean, int n) {
  F32x16 lanes = Zero();
  const F32x16 means = Set(mean);
  ForEachVector(n, [&](int i, auto load, auto) {
    const F32x16 centered = KeepLanes(Sub(load(x + i), means), 0, n - i, Zero());
    lanes = Fma(centered, centered, lanes);
  });
  return SumOfLanes(lanes);
}

QUIRE_FORCE_INLINE F32x16 Silu(F32x16 x) { return Div(x, Add(Set(1.0f), Exp(Negate(x)))); }

QUIRE_FORCE_INLINE F32x16 Gelu(F32x16 x) {
  const F32x16 inner = Fma(Mul(Set(0.044715f), x), x, Set(1.0f));
  const F32x16 u = Mul(x, Mul(Set(0.7978845608f), inner));
  return Div(x, Add(Set(1.0f), Exp(Mul(Set(-2.0f), u))));
}

struct RotatedPair {
  F32x16 first;
  F32x16 second;
};

QUIRE_FORCE_INLINE RotatedPair Rotate(F32x16 a, F32x16 b, F32x16 cosine, F32x16 sine) {
  return {FmaMinus(a, cosine, Mul(b, sine)), Fma(a, sine, Mul(b, cosine))};
}

QUIRE_FORCE_INLINE void RotateHalves(float* head, int num_pairs, const RopeRow& row) {
  ForEachVector(num_pairs, [&](int i, auto load, auto store) {
    const RotatedPair pair =
        Rotate(load(head + i), load(head + num_pairs + i), load(row.cos + i), load(row.sin + i));
    store(pair.first, head + i);
    store(pair.second, head + num_pairs + i);
  });
}

QUIRE_FORCE_INLINE void RotateInterleaved(float* head, int num_pairs, const RopeRow& row) {
  int i = 0;
  for (; i + 16 <= num_pairs; i += 16) {
    const Pairs pairs = LoadPairs(head + 2 * i);
    const RotatedPair rotated =
        Rotate(pairs.first, pairs.second, Load(row.cos + i), Load(row.sin + i));
    StorePairs(rotated.first, rotated.second, head + 2 * i);
  }
  for (; i < num_pairs; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = __builtin_fmaf(a, row.cos[i], -(b * row.sin[i]));
    head[2 * i + 1] = __builtin_fmaf(a, row.sin[i], b * row.cos[i]);
  }
}

}  // namespace

bool RmsNorm(const float* x, const float* weight, float epsilon, int n, float* out) {
  const float sum = SumOfSquares(x, 0.0f, n);
  if (!IsFinite(sum)) return false;
  const float mean = sum / static_cast<float>(n);
  const F32x16 factor = Set(1.0f / SquareRoot(mean + epsilon));
  ForEachVector(n, [&](int i, auto load, auto store) {
    store(Mul(Mul(load(x + i), factor), load(weight + i)), out + i);
  });
  return true;
}

// A product with zero is zero for numbers alone.
bool AllFinite(const float* x, int n) {
  F32x16 lanes = Zero();
  ForEachVector(n, [&](int i, auto load, auto) { lanes = Fma(load(x + i), Zero(), lanes); });
  return IsFinite(SumOfLanes(lanes));
}

bool LayerNorm(const float* x, const float* weight, const float* bias, float epsilon, int n,
               float* out) {
  const float mean = Sum(x, n) / static_cast<float>(n);
  const float sum = SumOfSquares(x, mean, n);
  if (!IsFinite(sum)) return false;
  const float variance = sum / static_cast<float>(n);
  const F32x16 means = Set(mean);
  const F32x16 factor = Set(1.0f / SquareRoot(variance + epsilon));
  ForEachVector(n, [&](int i, auto load, auto store) {
    const F32x16 normalised = Mul(Sub(load(x + i), means), factor);
    store(Fma(normalised, load(weight + i), load(bias + i)), out + i);
  });
  return true;
}

void Add(float* x, const float* y, int n) {
  ForEachVector(n,
                [&](int i, auto load, auto store) { store(Add(load(x + i), load(y + i)), x + i); });
}

void Scale(float* x, float factor, int n) {
  const F32x16 factors = Set(factor);
  ForEachVector(n, [&](int i, auto load, auto store) { store(Mul(load(x + i), factors), x + i); });
}

void SiluMul(float* gate, const float* up, int n) {
  ForEachVector(n, [&](int i, auto load, auto store) {
    store(Mul(Silu(load(gate + i)), load(up + i)), gate + i);
  });
}

void GeluMul(float* gate, const float* up, int n) {
  ForEachVector(n, [&](int i, auto load, auto store) {
    store(Mul(Gelu(load(gate + i)), load(up + i)), gate + i);
  });
}

// The second operand of a maximum is the one that stays where it is not a number.
void Relu(float* x, int n) {
  ForEachVector(n, [&](int i, auto load, auto store) { store(Max(Zero(), load(x + i)), x + i); });
}

void Rope(float* x, int num_heads, int head_dim, int rotary_dim, RopeStyle style,
          const RopeRow& row) {
  for (int head_idx = 0; head_idx < num_heads; ++head_idx) {
    float* head = x + static_cast<size_t>(head_idx) * head_dim;
    if (style == RopeStyle::kHalves) {
      RotateHalves(head, rotary_dim / 2, row);
    } else {
      RotateInterleaved(head, rotary_dim / 2, row);
    }
  }
}
