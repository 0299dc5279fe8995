// Which tokens a sequence holds: what the penalties look at.
//
// Thread-compatible. Memory is proportional to the distinct tokens seen.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

namespace quire {

class TokenCounts {
 public:
  struct Count {
    bool in_prompt = false;
    uint32_t in_output = 0;
  };

  void AddPrompt(std::span<const int32_t> tokens);
  void AddOutput(int32_t token);

  // One entry for each distinct token, in no particular order.
  const std::unordered_map<int32_t, Count>& counts() const { return counts_; }

 private:
  std::unordered_map<int32_t, Count> counts_;
};

}  // namespace quire
