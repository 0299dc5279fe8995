// What gave way lately, and when: so that a miss can say that it once was there.
//
// Two tables of sets of kWays entries; where a set is full its oldest entry gives way:
//
//   whole     by parent and all tokens of a filled block: what a long prompt misses
//   any       by parent and first token, with the tokens: what a prompt misses that ends inside a
//             block, or that went on from an unfilled one. Contents with one beginning share a set,
//             so that only the last of many are remembered here.
//
// The memory is bounded whatever comes, and a lookup touches a set of each.
// Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/identity.h"
#include "tensor/paged_kv_view.h"

namespace quire {

class EvictionRecord {
 public:
  // For a pool of so many blocks: some generations of them, up to 2 MiB in all.
  explicit EvictionRecord(int num_blocks);

  // 1 to kBlockSlots tokens that followed `parent` are not cached any more.
  void Add(const Digest& parent, std::span<const int32_t> tokens, double now_ms);
  // Just these are cached again.
  void Remove(const Digest& parent, std::span<const int32_t> tokens);

  // When a content that began with the first `num_common` of `tokens` (at least one, of at most
  // kBlockSlots) went; of several the last.
  std::optional<double> Find(const Digest& parent, std::span<const int32_t> tokens,
                             size_t num_common) const;

 private:
  static constexpr size_t kWays = 8;
  struct Whole {
    uint64_t content = 0;  // a hash; 0 = none
    double evicted_ms = 0;

    bool is_free() const { return content == 0; }
  };
  struct Any {
    uint64_t parent = 0;  // part of the digest
    double evicted_ms = 0;
    int32_t num_tokens = 0;  // 0 = none
    std::array<int32_t, kBlockSlots> token_ids{};

    bool is_free() const { return num_tokens == 0; }
    std::span<const int32_t> tokens() const {
      return std::span(token_ids).first(static_cast<size_t>(num_tokens));
    }
  };

  size_t num_sets_;           // a power of two
  std::vector<Whole> whole_;  // [num_sets][kWays]; both empty until the first is added
  std::vector<Any> any_;
};

}  // namespace quire
