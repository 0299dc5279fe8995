// The merges of a BPE vocabulary: from two neighbouring tokens to the token they become.
//
// Open addressing over pairs of ids; at most half the slots are taken. Const after filling.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace quire {

// What two neighbours become, and how early: lower priorities merge first.
struct PairMerge {
  uint32_t priority = 0;
  TokenId id = -1;  // -1: the two do not merge
};

class PairTable {
 public:
  explicit PairTable(size_t max_pairs);

  // False, and no change, when the pair is there already.
  bool Insert(TokenId left, TokenId right, PairMerge merge);
  PairMerge Find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    uint64_t pair = 0;
    PairMerge merge;
  };

  size_t SlotOf(uint64_t pair) const;

  std::vector<Slot> slots_;
};

}  // namespace quire
