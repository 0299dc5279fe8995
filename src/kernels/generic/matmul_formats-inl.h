// Where a matmul gets its weights from: packed row blocks, decoded on the fly.
//
// Templates over an instruction set (avx2/byte_vector.h, avx512/byte_vector.h), for the matmul
// files of avx2/ and avx512/ only. Everything here and in matmul_tile-inl.h and
// matmul_quantized-inl.h has internal linkage, and shared inline functions (std::min among them)
// are not called: a function that two files compile for two instruction sets must not be merged by
// the linker.
#pragma once

#include <cstdint>

#include "kernels/force_inline.h"
#include "kernels/matmul_scratch.h"
#include "tensor/packed_matrix.h"

namespace quire {
namespace {

inline constexpr int kVectorBytes = 64;  // of a row block: 16 rows of four columns

// A number for the compiler: a lambda that takes one knows it.
template <int kValue>
struct Index {};

// What a format asks of the arithmetic.
template <DType kType>
struct Format {
  static constexpr PackedUnit kUnit = PackedUnitOf(kType);
  static constexpr bool kKQuant =
      kType == DType::kQ4_K || kType == DType::kQ5_K || kType == DType::kQ6_K;
  static constexpr bool kFifthBit =
      kType == DType::kQ5_0 || kType == DType::kQ5_1 || kType == DType::kQ5_K;
  static constexpr bool kSixBits = kType == DType::kQ6_K;
  static constexpr bool kEightBits = kType == DType::kQ8_0;
  static constexpr bool kSixBitScales = kType == DType::kQ4_K || kType == DType::kQ5_K;
  // acc takes a minimum times the group's scaled sum; K-quants subtract it.
  static constexpr bool kMinimum = kType == DType::kQ4_1 || kType == DType::kQ5_1 || kSixBitScales;
  // Halves of 16 columns have integer scales of their own.
  static constexpr bool kHalves = kSixBits;
  // Codes stand for code - 2^kOffsetBits; -1: for themselves. The products take the codes, and the
  // integer sum starts from minus the offset times the sum of the activations.
  static constexpr int kOffsetBits = kType == DType::kQ4_0   ? 3
                                     : kType == DType::kQ5_0 ? 4
                                     : kType == DType::kQ6_K ? 5
                                     : kType == DType::kQ8_0 ? 7
                                                             : -1;
  // Rows of a tile from which on prefetching packed weights was faster than leaving it to the
  // processor: the longer a group takes, the fewer of them its window holds.
  static constexpr int kPrefetchRows = kSixBits ? 1 : kFifthBit ? 2 : 4;
  // Steps whose pair sums may be added in 16 bits: 2 * kChain * code * 127 < 2^15.
  static constexpr int kChain = kEightBits ? 1 : kSixBits ? 2 : kFifthBit ? 4 : 8;
};

// The vectors of one row block, front to back. Open is called for every group in order.
template <typename Isa, DType kType>
class PackedSource {
  using F = Format<kType>;
  using Bytes = typename Isa::Bytes;
  using Floats = typename Isa::Floats;

 public:
  QUIRE_FORCE_INLINE PackedSource(const uint8_t* row_block, int group, bool prefetches)
      : prefetches_(prefetches) {
    // A segment or strip starts with a unit.
    unit_ = row_block + static_cast<size_t>(group / F::kUnit.groups) * F::kUnit.bytes();
    next_ = unit_;
  }

  // Groups of one unit are opened with constant indexes, so that header addresses fold.
  QUIRE_FORCE_INLINE void OpenUnit() {
    unit_ = next_;
    next_ = unit_ + F::kUnit.bytes();
    if constexpr (F::kSixBitScales) ExpandSixBits();
    if constexpr (F::kSixBits) {
      // The groups come back to the header one by one; asking for all of it keeps the stream in
      // order.
      for (int line = 1; line < F::kUnit.header_bytes / kVectorBytes; ++line) {
        __builtin_prefetch(unit_ + line * kVectorBytes);
      }
    }
    if constexpr (F::kKQuant) {
      for (int u = 0; u < Isa::kParts; ++u) scale_[u] = Isa::FromF16(unit_ + 2 * u * Isa::kLanes);
    }
    if constexpr (F::kSixBitScales) {
      for (int u = 0; u < Isa::kParts; ++u) {
        minimum_[u] = Isa::FromF16(unit_ + 32 + 2 * u * Isa::kLanes);
      }
    }
  }
  QUIRE_FORCE_INLINE void OpenGroup(int group_in_unit) {
    group_ = group_in_unit;
    codes_ = unit_ + F::kUnit.header_bytes + group_in_unit * F::kUnit.group_bytes;
  }

  QUIRE_FORCE_INLINE Floats Scale(int u) const {
    if constexpr (F::kSixBitScales) {
      return Isa::Mul(scale_[u], Isa::FromU8(six_bits_ + group_ * kPackRows + u * Isa::kLanes));
    } else if constexpr (F::kSixBits) {
      return scale_[u];
    } else if constexpr (F::kMinimum) {
      return Isa::FromF16(unit_ + 2 * u * Isa::kLanes);
    } else {
      return Isa::FromF16(unit_ + 2 * (group_ * kPackRows + u * Isa::kLanes));
    }
  }
  QUIRE_FORCE_INLINE Floats Minimum(int u) const {
    if constexpr (F::kSixBitScales) {
      return Isa::Mul(minimum_[u],
                      Isa::FromU8(six_bits_ + 128 + group_ * kPackRows + u * Isa::kLanes));
    } else {
      return Isa::FromF16(unit_ + 2 * (kPackRows + u * Isa::kLanes));
    }
  }
  QUIRE_FORCE_INLINE Floats HalfScale(int half, int u) const {
    return Isa::FromS8(unit_ + 64 + (2 * group_ + half) * kPackRows + u * Isa::kLanes);
  }

  // The same as 16 bits, twice for each row.
  QUIRE_FORCE_INLINE Bytes HalfScalePairs(int half, int u) const {
    return Isa::PairsFromS8(unit_ + 64 + (2 * group_ + half) * kPackRows + u * Isa::kLanes);
  }

  // Steps 2 * kPair and 2 * kPair + 1 of vector u.
  template <int kPair>
  QUIRE_FORCE_INLINE void LoadPair(int u, Bytes* first, Bytes* second) const {
    const uint8_t* codes = codes_ + u * Isa::kLanes * 4;
    if constexpr (F::kEightBits) {
      *first = LoadEightBits(codes + 2 * kPair * kVectorBytes);
      *second = LoadEightBits(codes + (2 * kPair + 1) * kVectorBytes);
    } else {
      const Bytes low = Isa::SetBytes(15);
      const Bytes nibbles = Isa::LoadBytes(codes + kPair * kVectorBytes);
      *first = Isa::And(nibbles, low);
      *second = Isa::And(Isa::template ShiftRight<4>(nibbles), low);
    }
    if constexpr (F::kFifthBit) {
      const Bytes bit = Isa::SetBytes(16);
      const Bytes high = Isa::LoadBytes(codes + 4 * kVectorBytes);
      *first = Isa::OrAnd(*first, Isa::template ShiftRight<2 * kPair - 4>(high), bit);
      *second = Isa::OrAnd(*second, Isa::template ShiftRight<2 * kPair - 3>(high), bit);
    }
    if constexpr (F::kSixBits) {
      const Bytes bits = Isa::SetBytes(48);
      const Bytes high = Isa::LoadBytes(codes + (4 + kPair / 2) * kVectorBytes);
      constexpr int kShift = 4 * (kPair % 2) - 4;
      *first = Isa::OrAnd(*first, Isa::template ShiftRight<kShift>(high), bits);
      *second = Isa::OrAnd(*second, Isa::template ShiftRight<kShift + 2>(high), bits);
    }
  }
  template <int kPair>
  QUIRE_FORCE_INLINE void Prefetch() const {
    if (!prefetches_) return;
    constexpr int kAhead = 2048;
    constexpr int kLines = F::kUnit.group_bytes / kVectorBytes;
    for (int line = kPair * kLines / 4; line < (kPair + 1) * kLines / 4; ++line) {
      __builtin_prefetch(codes_ + line * kVectorBytes + kAhead);
    }
  }

 private:
  // Without VNNI, 8-bit codes would saturate: they are taken as the signed values they stand for.
  QUIRE_FORCE_INLINE Bytes LoadEightBits(const uint8_t* codes) const {
    const Bytes bytes = Isa::LoadBytes(codes);
    if constexpr (Isa::kPairs) return Isa::Xor(bytes, Isa::SetBytes(0x80));
    return bytes;
  }

  QUIRE_FORCE_INLINE void ExpandSixBits() {
    const Bytes mask = Isa::SetBytes(63);
    for (int u = 0; u < Isa::kParts; ++u) {
      const int at = u * Isa::kLanes * 4;
      const Bytes a = Isa::LoadBytes(unit_ + 64 + at);
      const Bytes b = Isa::LoadBytes(unit_ + 128 + at);
      const Bytes c = Isa::LoadBytes(unit_ + 192 + at);
      Isa::StoreBytes(six_bits_ + at, Isa::And(a, mask));
      Isa::StoreBytes(six_bits_ + 64 + at, Isa::And(b, mask));
      Isa::StoreBytes(six_bits_ + 128 + at, Isa::And(c, mask));
      Bytes top = Isa::And(Isa::template ShiftRight<6>(a), Isa::SetBytes(3));
      top = Isa::OrAnd(top, Isa::template ShiftRight<4>(b), Isa::SetBytes(12));
      top = Isa::OrAnd(top, Isa::template ShiftRight<2>(c), Isa::SetBytes(48));
      Isa::StoreBytes(six_bits_ + 192 + at, top);
    }
  }

  const bool prefetches_;
  const uint8_t* unit_;
  const uint8_t* next_;
  const uint8_t* codes_ = nullptr;
  int group_ = 0;
  Floats scale_[Isa::kParts];
  Floats minimum_[Isa::kParts];
  alignas(64) uint8_t six_bits_[F::kSixBitScales ? 256 : 1];
};

}  // namespace
}  // namespace quire
