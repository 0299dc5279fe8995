// The merge loop that both BPE families share.
//
// A word is a chain of symbols. Again and again the neighbours with the lowest priority merge, the
// leftmost of equals, until none can: Sennrich et al., "Neural Machine Translation of Rare Words
// with Subword Units" (2016). A heap over linked symbols makes it O(n log n) in the length of the
// word, in memory of about 52 bytes a symbol.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "text/pair_table.h"

namespace quire {

struct Symbol {
  uint32_t begin = 0, end = 0;  // bytes of the word
  TokenId id = -1;              // -1: not a token
  int32_t prev = -1, next = -1;
  PairMerge with_next{};  // what it becomes with its right neighbour
};

// Merges in place. What is left is the chain from symbols[0] along `next`: symbol 0 never goes,
// since a merge keeps its left side. `find` is (const Symbol&, const Symbol&) -> PairMerge.
// `heap` is room to work in, kept by the caller so that short words allocate nothing.
template <typename Find>
void MergeSymbols(std::vector<Symbol>& symbols, std::vector<uint64_t>& heap, const Find& find) {
  heap.clear();
  // Ordered by priority, then by place: leftmost first.
  const auto entry = [](uint32_t priority, int32_t idx) {
    return static_cast<uint64_t>(priority) << 32 | static_cast<uint32_t>(idx);
  };
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t idx = 0; idx < count; ++idx) {
    symbols[idx].prev = idx - 1;
    symbols[idx].next = idx + 1 < count ? idx + 1 : -1;
    symbols[idx].with_next = idx + 1 < count ? find(symbols[idx], symbols[idx + 1]) : PairMerge{};
    if (symbols[idx].with_next.id >= 0) {
      heap.push_back(entry(symbols[idx].with_next.priority, idx));
    }
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  const auto renew = [&](int32_t idx) {
    Symbol& symbol = symbols[idx];
    symbol.with_next = symbol.next >= 0 ? find(symbol, symbols[symbol.next]) : PairMerge{};
    if (symbol.with_next.id < 0) return;
    heap.push_back(entry(symbol.with_next.priority, idx));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto idx = static_cast<int32_t>(heap.back() & 0xFFFFFFFFu);
    const auto priority = static_cast<uint32_t>(heap.back() >> 32);
    heap.pop_back();
    Symbol& left = symbols[idx];
    // A merge nearby may have changed the pair since this entry was made; if so, its successor has
    // an entry of its own.
    if (left.with_next.id < 0 || left.with_next.priority != priority) continue;
    Symbol& right = symbols[left.next];
    left.id = left.with_next.id;
    left.end = right.end;
    left.next = right.next;
    right.with_next = PairMerge{};
    if (left.next >= 0) symbols[left.next].prev = idx;
    renew(idx);
    if (left.prev >= 0) renew(left.prev);
  }
}

}  // namespace quire
