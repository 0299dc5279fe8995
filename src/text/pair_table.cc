#include "text/pair_table.h"

#include <bit>

namespace quire {
namespace {

uint64_t PairOf(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

PairTable::PairTable(size_t max_pairs) : slots_(std::bit_ceil(max_pairs * 2 + 1)) {}

bool PairTable::Insert(TokenId left, TokenId right, PairMerge merge) {
  const uint64_t pair = PairOf(left, right);
  Slot& slot = slots_[SlotOf(pair)];
  if (slot.merge.id >= 0) return false;
  slot = {pair, merge};
  return true;
}

PairMerge PairTable::Find(TokenId left, TokenId right) const {
  return slots_[SlotOf(PairOf(left, right))].merge;
}

size_t PairTable::SlotOf(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  // Multiplication by a large odd number spreads the low bits upwards; the shift brings them back.
  const uint64_t mixed = pair * 0x9E3779B97F4A7C15u;
  size_t slot = (mixed ^ mixed >> 32) & mask;
  while (slots_[slot].merge.id >= 0 && slots_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

}  // namespace quire
