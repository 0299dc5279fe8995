// Storing a key or value: reads 4 bytes an element once and writes what the type takes, once for a
// token; a key goes to a column of its block, so that it touches one line for each dimension (four
// dimensions in q8_0).
//
// Included inside the namespace of an instruction set, after its vector.h.
#pragma once

namespace {

// From here on values round to infinity.
constexpr float kF16Limit = 65520.0f;
constexpr float kBf16Limit = 0x1.ffp127f;
constexpr float kF32Limit = __builtin_inff();

// key [key_dim] into the slot's column of [key_dim][16]; false where a value is not below limit.
template <typename T>
bool StoreKeyOf(const float* key, int key_dim, float limit, int slot, std::byte* block_keys) {
  T* keys = reinterpret_cast<T*>(block_keys);
  bool fits = true;
  for (int d = 0; d < key_dim; d += 16) {
    const int rest = key_dim - d < 16 ? key_dim - d : 16;
    const F32x16 elements = rest == 16 ? Load(key + d) : LoadFirst(key + d, rest);
    fits &= AllBelow(elements, limit);
    T column[16];
    Store(elements, column);
    for (int i = 0; i < rest; ++i)
      keys[static_cast<size_t>(d + i) * kBlockSlots + slot] = column[i];
  }
  return fits;
}

template <typename T>
bool StoreValueOf(const float* value, int value_dim, float limit, int slot,
                  std::byte* block_values) {
  bool fits = true;
  T* row = reinterpret_cast<T*>(block_values) + static_cast<size_t>(slot) * value_dim;
  int d = 0;
  for (; d + 16 <= value_dim; d += 16) {
    const F32x16 elements = Load(value + d);
    fits &= AllBelow(elements, limit);
    Store(elements, row + d);
  }
  if (d < value_dim) {
    const F32x16 elements = LoadFirst(value + d, value_dim - d);
    fits &= AllBelow(elements, limit);
    StoreFirst(elements, row + d, value_dim - d);
  }
  return fits;
}

// A group of q8_0: docs/numerics.md, "Stored keys and values".
struct KvGroupBytes {
  int8_t quants[kKvScaleGroup];
  uint16_t scale;
  bool fits;
};

QUIRE_FORCE_INLINE KvGroupBytes QuantizeKvGroup(const float* x) {
  static_assert(kKvScaleGroup == 32);
  KvGroupBytes group = {};
  const F32x16 low = Load(x);
  const F32x16 high = Load(x + 16);
  if (!AllBelow(low, kF32Limit) || !AllBelow(high, kF32Limit)) return group;
  const float absmax = MaxOfLanes(Max(Abs(low), Abs(high)));
  const float exact_scale = absmax / 127.0f;
  if (!(exact_scale < kF16Limit)) return group;
  group.fits = true;
  uint16_t halves[16];
  Store(Set(exact_scale), halves);
  if (halves[0] == 0) return group;
  group.scale = halves[0];
  const F32x16 inverse = Set(1.0f / FirstLane(Load(halves)));
  const F32x16 most = Set(127.0f);
  const F32x16 least = Set(-127.0f);
  Store(Max(Min(RoundToEven(Mul(low, inverse)), most), least), group.quants);
  Store(Max(Min(RoundToEven(Mul(high, inverse)), most), least), group.quants + 16);
  return group;
}

// key into the slot's columns of int8 [key_dim / 4][16][4] and f16 [key_dim / 32][16].
bool StoreQuantizedKey(const float* key, int key_dim, int slot, std::byte* block_keys) {
  bool fits = true;
  std::byte* scales = block_keys + static_cast<size_t>(key_dim) * kBlockSlots;
  for (int d = 0; d < key_dim; d += kKvScaleGroup) {
    const KvGroupBytes group = QuantizeKvGroup(key + d);
    fits &= group.fits;
    std::byte* column = block_keys + static_cast<size_t>(d) * kBlockSlots + 4 * slot;
    for (int i = 0; i < kKvScaleGroup; i += 4) {
      __builtin_memcpy(column + i * kBlockSlots, group.quants + i, 4);
    }
    __builtin_memcpy(scales + (d / kKvScaleGroup * kBlockSlots + slot) * sizeof(group.scale),
                     &group.scale, sizeof(group.scale));
  }
  return fits;
}

// value into the slot's bytes of int8 [value_dim / 32][4][32][4] and f16 [value_dim / 32][16]: a
// byte at a time, for the bytes between may be another thread's.
bool StoreQuantizedValue(const float* value, int value_dim, int slot, std::byte* block_values) {
  bool fits = true;
  std::byte* scales = block_values + static_cast<size_t>(value_dim) * kBlockSlots;
  for (int d = 0; d < value_dim; d += kKvScaleGroup) {
    const KvGroupBytes group = QuantizeKvGroup(value + d);
    fits &= group.fits;
    std::byte* column = block_values + static_cast<size_t>(d) * kBlockSlots +
                        slot / 4 * (4 * kKvScaleGroup) + slot % 4;
    for (int i = 0; i < kKvScaleGroup; ++i) column[4 * i] = std::byte(group.quants[i]);
    __builtin_memcpy(scales + (d / kKvScaleGroup * kBlockSlots + slot) * sizeof(group.scale),
                     &group.scale, sizeof(group.scale));
  }
  return fits;
}

}  // namespace

bool StoreKey(const float* key, int key_dim, KvType type, int slot, std::byte* block_keys) {
  switch (type) {
    case KvType::kF16:
      return StoreKeyOf<uint16_t>(key, key_dim, kF16Limit, slot, block_keys);
    case KvType::kF32:
      return StoreKeyOf<float>(key, key_dim, kF32Limit, slot, block_keys);
    case KvType::kBF16:
      return StoreKeyOf<Bf16>(key, key_dim, kBf16Limit, slot, block_keys);
    case KvType::kQ8_0:
      return StoreQuantizedKey(key, key_dim, slot, block_keys);
  }
  return false;
}

bool StoreValue(const float* value, int value_dim, KvType type, int slot, std::byte* block_values) {
  switch (type) {
    case KvType::kF16:
      return StoreValueOf<uint16_t>(value, value_dim, kF16Limit, slot, block_values);
    case KvType::kF32:
      return StoreValueOf<float>(value, value_dim, kF32Limit, slot, block_values);
    case KvType::kBF16:
      return StoreValueOf<Bf16>(value, value_dim, kBf16Limit, slot, block_values);
    case KvType::kQ8_0:
      return StoreQuantizedValue(value, value_dim, slot, block_values);
  }
  return false;
}
