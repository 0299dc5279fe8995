// A set of token texts that finds the longest one at the beginning of a text.
//
// A sorted array, narrowed byte by byte: no nodes, and a first byte that begins no entry is
// dismissed by one look-up. A search takes time proportional to the longest common beginning with
// any entry times the logarithm of their number. Const after creation; owns its texts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace quire {

class PrefixTable {
 public:
  struct Match {
    TokenId id = -1;  // -1: none
    size_t num_bytes = 0;
  };

  // Empty texts are left out; of equal texts the smallest id is kept.
  explicit PrefixTable(std::vector<std::pair<std::string, TokenId>> entries);

  Match Longest(std::string_view text) const;
  bool MayBegin(char first) const {
    const Range& range = first_[static_cast<uint8_t>(first)];
    return range.begin != range.end;
  }

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };

  std::vector<std::pair<std::string, TokenId>> entries_;
  std::array<Range, 256> first_{};  // the entries that begin with a byte
};

}  // namespace quire
