// What keys and values cost, for any number of tokens and any element type.
//
// Two figures stand side by side everywhere:
//   formula  sum over layers of min(tokens, window) * kv_heads * (key_dim + value_dim) * element
//            bytes: what papers and calculators say
//   blocks   what the cache reserves: whole blocks of 16 slots in each group of layers, a window
//            spread over one block more than it fills, and the chunk being computed beside it
// Sizes come from kv/layout.h, the one the engine runs with. Types that the engine does not store
// are scaled from f16: the blocks are the same, their bytes are not.
// The cost is not linear in tokens, so what fits is searched for, never divided out.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kv/layout.h"
#include "models/config.h"
#include "plan/kv_element.h"

namespace quire {

enum class KvBasis : uint8_t { kFormula, kBlocks };

class KvCost {
 public:
  // kUnsupported where the type cannot store the heads, kCorrupt where a token costs absurdly much
  // (over 2^28 elements), so that nothing below overflows.
  static Result<KvCost> Make(const ModelConfig& config, const KvElement& element);

  const KvLayout& layout() const { return layout_; }
  const KvElement& element() const { return element_; }

  uint64_t BytesPerToken() const { return Scaled(layout_.bytes_per_token); }
  uint64_t BytesPerBlock() const { return Scaled(layout_.block_bytes); }

  // Of one sequence of num_tokens entries.
  uint64_t FormulaBytes(int64_t num_tokens) const;
  int64_t Blocks(int num_tokens, int chunk) const { return layout_.PeakBlocks(num_tokens, chunk); }
  uint64_t BlockBytes(int num_tokens, int chunk) const;
  uint64_t Bytes(KvBasis basis, int num_tokens, int chunk) const;

  // Of one layer by the formula.
  uint64_t LayerBytes(int layer, int64_t num_tokens) const;

  // Whole blocks of a prefix that any number of sequences hold once: those of layers without a
  // window. A window moves on, so the blocks in it belong to one sequence.
  int64_t SharedBlocks(int prefix_tokens) const;

  // The longest sequences of which num_sequences fit into so many bytes; 0 = not even one token.
  // 1 <= num_sequences.
  int LargestContext(KvBasis basis, uint64_t bytes, int num_sequences, int chunk) const;

 private:
  KvCost(KvLayout layout, const KvElement& element)
      : layout_(std::move(layout)), element_(element) {}

  // Bytes of the layout's type as bytes of the element.
  uint64_t Scaled(uint64_t bytes) const;

  KvLayout layout_;
  KvElement element_;
};

// The largest value of 0..max that `fits`, which holds up to some value and not beyond. 0 fits.
template <typename Fits>
int LargestThat(int max, const Fits& fits) {
  int low = 0;
  int high = max;
  while (low < high) {
    const int middle = high - (high - low) / 2;  // above low, so that each turn narrows
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace quire
