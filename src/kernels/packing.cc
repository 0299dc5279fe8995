// Packing reads a file once and writes as many bytes; it is bound by the storage as long as a
// thread turns more than some hundred MB/s, so eight columns travel together in a 64-bit word and
// nothing here needs more than the baseline instruction set.
#include "kernels/packing.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "kernels/packed_group.h"

namespace quire {
namespace {

constexpr int kVectorBytes = 64;
constexpr uint64_t kLowNibbles = 0x0f0f0f0f0f0f0f0full;

uint64_t Load64(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

void Store32(uint8_t* bytes, uint32_t word) { std::memcpy(bytes, &word, sizeof(word)); }

// Bit i of `bits` (0..255) as bit 4 of byte i.
uint64_t SpreadToBit4(uint64_t bits) {
  // Byte i keeps its own bit; adding 127 carries any kept bit into bit 7.
  const uint64_t kept = (bits * 0x0101010101010101ull) & 0x8040201008040201ull;
  return ((kept + 0x7f7f7f7f7f7f7f7full) & 0x8080808080808080ull) >> 3;
}

// The unsigned codes of a group's 32 columns, eight to a word, lowest column in the lowest byte.
struct GroupCodes {
  uint64_t words[4];
};

GroupCodes SplitNibbles(const uint8_t* bytes) {
  const uint64_t first = Load64(bytes);
  const uint64_t second = Load64(bytes + 8);
  return {{first & kLowNibbles, second & kLowNibbles, (first >> 4) & kLowNibbles,
           (second >> 4) & kLowNibbles}};
}

GroupCodes AddFifthBits(GroupCodes codes, const uint8_t* bits) {
  for (int i = 0; i < 4; ++i) codes.words[i] |= SpreadToBit4(bits[i]);
  return codes;
}

// The file's blocks, by format: where the header's parts are and how codes are found. `block` is
// the block that holds the group, `group` its index inside the block.
struct BlockQ4_0 {
  static constexpr DType kDType = DType::kQ4_0;
  static GroupCodes Codes(const uint8_t* block, int) { return SplitNibbles(block + 2); }
};

struct BlockQ4_1 {
  static constexpr DType kDType = DType::kQ4_1;
  static GroupCodes Codes(const uint8_t* block, int) { return SplitNibbles(block + 4); }
};

struct BlockQ5_0 {
  static constexpr DType kDType = DType::kQ5_0;
  static GroupCodes Codes(const uint8_t* block, int) {
    return AddFifthBits(SplitNibbles(block + 6), block + 2);
  }
};

struct BlockQ5_1 {
  static constexpr DType kDType = DType::kQ5_1;
  static GroupCodes Codes(const uint8_t* block, int) {
    return AddFifthBits(SplitNibbles(block + 8), block + 4);
  }
};

struct BlockQ8_0 {
  static constexpr DType kDType = DType::kQ8_0;
  static GroupCodes Codes(const uint8_t* block, int) {
    GroupCodes codes;
    for (int i = 0; i < 4; ++i) codes.words[i] = Load64(block + 2 + 8 * i) ^ 0x8080808080808080ull;
    return codes;
  }
};

// K-quants keep groups 2p and 2p + 1 in the low and high nibbles of the same 32 bytes.
GroupCodes NibblesOfKQuant(const uint8_t* quants, int group) {
  GroupCodes codes;
  for (int i = 0; i < 4; ++i) {
    codes.words[i] = (Load64(quants + group / 2 * 32 + 8 * i) >> (group % 2 * 4)) & kLowNibbles;
  }
  return codes;
}

struct BlockQ4_K {
  static constexpr DType kDType = DType::kQ4_K;
  static GroupCodes Codes(const uint8_t* block, int group) {
    return NibblesOfKQuant(block + 16, group);
  }
};

struct BlockQ5_K {
  static constexpr DType kDType = DType::kQ5_K;
  static GroupCodes Codes(const uint8_t* block, int group) {
    GroupCodes codes = NibblesOfKQuant(block + 48, group);
    for (int i = 0; i < 4; ++i) {
      // Bit `group` of a column's byte is its fifth bit.
      codes.words[i] |= (Load64(block + 16 + 8 * i) >> group & 0x0101010101010101ull) << 4;
    }
    return codes;
  }
};

// Each half of 128 columns: 64 bytes of low nibbles (groups 0, 1 low, 2, 3 high) and 32 bytes of
// two high bits a group.
struct BlockQ6_K {
  static constexpr DType kDType = DType::kQ6_K;
  static GroupCodes Codes(const uint8_t* block, int group) {
    const uint8_t* low = block + group / 4 * 64 + group % 2 * 32;
    const uint8_t* high = block + 128 + group / 4 * 32;
    const int in_half = group % 4;
    GroupCodes codes;
    for (int i = 0; i < 4; ++i) {
      const uint64_t nibbles = (Load64(low + 8 * i) >> (in_half / 2 * 4)) & kLowNibbles;
      const uint64_t bits = (Load64(high + 8 * i) >> (2 * in_half)) & 0x0303030303030303ull;
      codes.words[i] = nibbles | bits << 4;
    }
    return codes;
  }
};

// Four bytes a step go to byte 4 * row of the step's vector; out is the group's start plus 4 * row.
template <typename Block>
void StoreCodes(const GroupCodes& codes, uint8_t* out) {
  constexpr DType kDType = Block::kDType;
  if constexpr (kDType == DType::kQ8_0) {
    for (int i = 0; i < 4; ++i) {
      Store32(out + (2 * i) * kVectorBytes, static_cast<uint32_t>(codes.words[i]));
      Store32(out + (2 * i + 1) * kVectorBytes, static_cast<uint32_t>(codes.words[i] >> 32));
    }
    return;
  }
  for (int i = 0; i < 4; ++i) {
    const uint64_t nibbles = codes.words[i] & kLowNibbles;
    Store32(out + i * kVectorBytes, static_cast<uint32_t>(nibbles | nibbles >> 28));
  }
  uint8_t* high = out + 4 * kVectorBytes;
  if constexpr (kDType == DType::kQ5_0 || kDType == DType::kQ5_1 || kDType == DType::kQ5_K) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) {
      const uint64_t fifth = codes.words[i] >> 4 & 0x0101010101010101ull;
      bits |= static_cast<uint32_t>(fifth | fifth >> 31) << (2 * i);
    }
    Store32(high, bits);
  }
  if constexpr (kDType == DType::kQ6_K) {
    for (int half = 0; half < 2; ++half) {
      uint32_t bits = 0;
      for (int i = 0; i < 2; ++i) {
        const uint64_t pair = codes.words[2 * half + i] >> 4 & 0x0303030303030303ull;
        bits |= static_cast<uint32_t>(pair | pair >> 30) << (4 * i);
      }
      Store32(high + half * kVectorBytes, bits);
    }
  }
}

// The 12 bytes of eight 6-bit scales and eight 6-bit minimums of a Q4_K or Q5_K block, each list
// as eight bytes of a word.
struct SixBitLists {
  uint64_t scales;
  uint64_t minimums;
};

SixBitLists ReadSixBitLists(const uint8_t* bytes) {
  uint32_t a, b, c;
  std::memcpy(&a, bytes, 4);
  std::memcpy(&b, bytes + 4, 4);
  std::memcpy(&c, bytes + 8, 4);
  // Groups 0..3 are the low six bits of a and b; groups 4..7 have four bits in c, two on top.
  const uint32_t scales_high = (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
  const uint32_t minimums_high = (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
  return {(a & 0x3f3f3f3fu) | static_cast<uint64_t>(scales_high) << 32,
          (b & 0x3f3f3f3fu) | static_cast<uint64_t>(minimums_high) << 32};
}

// The header's part of one row. `block` is the file's block of the unit's `group`.
template <typename Block>
void StoreHeader(const uint8_t* block, int group, int row, uint8_t* header) {
  constexpr DType kDType = Block::kDType;
  if constexpr (kDType == DType::kQ6_K) {
    std::memcpy(header + 2 * row, block + 208, 2);
    for (int i = 0; i < 16; ++i) header[64 + i * kPackRows + row] = block[192 + i];
  } else if constexpr (kDType == DType::kQ4_K || kDType == DType::kQ5_K) {
    std::memcpy(header + 2 * row, block, 2);
    std::memcpy(header + 32 + 2 * row, block + 2, 2);
    const SixBitLists lists = ReadSixBitLists(block + 4);
    uint8_t* low = header + 64;
    for (int g = 0; g < 8; ++g) low[g * kPackRows + row] = lists.scales >> (8 * g) & 63;
    for (int g = 0; g < 4; ++g) {
      // Minimums of groups 4..7 are the indexes from 192 on: two bits on top of each of three
      // bytes.
      const uint32_t spread = lists.minimums >> (8 * (g + 4)) & 63;
      const int i = g * kPackRows + row;
      low[i] |= spread << 6 & 0xc0;
      low[64 + i] |= spread << 4 & 0xc0;
      low[128 + i] = (lists.minimums >> (8 * g) & 63) | (spread << 2 & 0xc0);
    }
  } else if constexpr (kDType == DType::kQ4_1 || kDType == DType::kQ5_1) {
    std::memcpy(header + 2 * row, block, 2);
    std::memcpy(header + 32 + 2 * row, block + 2, 2);
  } else {
    std::memcpy(header + group * 2 * kPackRows + 2 * row, block, 2);
  }
}

template <typename Block>
void PackQuantized(const uint8_t* rows, size_t row_bytes, int num_rows, int num_cols,
                   uint8_t* out) {
  constexpr PackedUnit kUnit = PackedUnitOf(Block::kDType);
  const DTypeInfo& info = InfoOf(Block::kDType);
  const int groups_per_block = static_cast<int>(info.block_elements) / kGroupColumns;
  const int num_groups = num_cols / kGroupColumns;
  for (int first = 0; first < num_groups; first += kUnit.groups, out += kUnit.bytes()) {
    const int groups = num_groups - first < kUnit.groups ? num_groups - first : kUnit.groups;
    const bool whole = num_rows == kPackRows && groups == kUnit.groups;
    std::memset(out, 0, whole ? kUnit.header_bytes : kUnit.bytes());
    for (int row = 0; row < num_rows; ++row) {
      const uint8_t* block =
          rows + row * row_bytes + static_cast<size_t>(first / groups_per_block) * info.block_bytes;
      uint8_t* codes = out + kUnit.header_bytes + 4 * row;
      for (int g = 0; g < groups; ++g) {
        if (g % groups_per_block == 0) StoreHeader<Block>(block, g, row, out);
        StoreCodes<Block>(Block::Codes(block, g % groups_per_block), codes + g * kUnit.group_bytes);
        if ((g + 1) % groups_per_block == 0) block += info.block_bytes;
      }
    }
  }
}

template <typename Element>
void PackFloats(const uint8_t* rows, size_t row_bytes, int num_rows, int num_cols, uint8_t* out) {
  // Eight columns at a time keep both the sixteen input lines and the output lines in the cache.
  constexpr int kStrip = 8;
  for (int first = 0; first < num_cols; first += kStrip) {
    const int strip = num_cols - first < kStrip ? num_cols - first : kStrip;
    for (int row = 0; row < num_rows; ++row) {
      for (int c = 0; c < strip; ++c) {
        std::memcpy(out + (static_cast<size_t>(first + c) * kPackRows + row) * sizeof(Element),
                    rows + row * row_bytes + static_cast<size_t>(first + c) * sizeof(Element),
                    sizeof(Element));
      }
    }
  }
}

}  // namespace

void PackRowBlock(DType dtype, const std::byte* rows, size_t row_bytes, int num_rows, int num_cols,
                  std::byte* out) {
  QUIRE_CHECK(num_rows >= 1 && num_rows <= kPackRows, "{} rows", num_rows);
  QUIRE_CHECK(num_cols % InfoOf(dtype).block_elements == 0, "{} columns of {}", num_cols,
              InfoOf(dtype).name);
  const auto* source = reinterpret_cast<const uint8_t*>(rows);
  auto* target = reinterpret_cast<uint8_t*>(out);
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      std::memset(out, 0, PackedRowBlockBytes(dtype, num_cols));
      if (dtype == DType::kF32) {
        return PackFloats<uint32_t>(source, row_bytes, num_rows, num_cols, target);
      }
      return PackFloats<uint16_t>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ4_0:
      return PackQuantized<BlockQ4_0>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ4_1:
      return PackQuantized<BlockQ4_1>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ5_0:
      return PackQuantized<BlockQ5_0>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ5_1:
      return PackQuantized<BlockQ5_1>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ8_0:
      return PackQuantized<BlockQ8_0>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ4_K:
      return PackQuantized<BlockQ4_K>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ5_K:
      return PackQuantized<BlockQ5_K>(source, row_bytes, num_rows, num_cols, target);
    case DType::kQ6_K:
      return PackQuantized<BlockQ6_K>(source, row_bytes, num_rows, num_cols, target);
  }
}

void UnpackRow(const PackedMatrix& matrix, int row, float* out) {
  if (!IsQuantized(matrix.dtype)) {
    for (int k = 0; k < matrix.num_cols; ++k) out[k] = ReadPackedFloat(matrix, row, k);
    return;
  }
  for (int g = 0; g < matrix.num_cols / kGroupColumns; ++g) {
    const PackedGroup group = ReadPackedGroup(matrix, row, g);
    for (int k = 0; k < kGroupColumns; ++k) {
      const int value = group.values[k] * group.half_scales[k / 16];
      out[g * kGroupColumns + k] = group.scale * static_cast<float>(value) + group.minimum;
    }
  }
}

}  // namespace quire
