// The pins of an engine (engine/pins.h): those being computed, for which room is set aside, and
// those that hold their blocks.
//
//   Begin -> in the making -> Complete -> held -> Expire, Drop
//                          -> Cancel
//
// Blocks that several pins hold count once, in the tenant's sum and in all. Reads no clock. Used by
// one thread at a time; the cache outlives it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/pins.h"
#include "kv/kv_cache.h"

namespace quire {

class PinSet {
 public:
  static constexpr int kMostPins = 256;  // of a tenant, however few blocks they hold

  // max_blocks: that all pins may hold together.
  PinSet(int64_t max_blocks, size_t block_bytes)
      : max_blocks_(max_blocks), block_bytes_(block_bytes) {}

  // Sets aside what a pin will hold: num_blocks, of which the cache has `found` already. Fails with
  // kResourceExhausted beyond a quota, naming it, what it is full of and what is needed.
  Result<PinId> Begin(const PinSpec& spec, int64_t num_blocks, std::span<const BlockId> found);
  // It is computed. Fails as Begin does, and it is gone, where what it shared with other pins has
  // left them meanwhile.
  Result<PinInfo> Complete(PinId id, BlockTables tables, double now_ms);
  void Cancel(PinId id) { pins_.erase(id); }

  void Expire(double now_ms);
  bool Drop(std::string_view tenant, PinId id);

  // Those of the tenant that are held, oldest first.
  std::vector<PinInfo> List(std::string_view tenant, double now_ms) const;
  int64_t max_blocks() const { return max_blocks_; }
  // That the pins hold.
  int64_t num_blocks() const;
  std::vector<const BlockTables*> tables() const;

 private:
  struct Pin {
    PinInfo info{};
    double lifetime_ms = 0;
    int64_t tenant_max_blocks = 0;
    int64_t num_expected = 0;  // in the making: blocks set aside
    double expires_at_ms = 0;
    std::optional<BlockTables> tables{};  // held
  };

  // Blocks that the pins hold or will, of one tenant or of all; beside these, which are held too.
  int64_t Sum(const std::string* tenant, std::span<const BlockId> also) const;
  Status CheckQuotas(const Pin& pin, std::span<const BlockId> also) const;

  int64_t max_blocks_;
  size_t block_bytes_;
  std::map<PinId, Pin> pins_;
  PinId next_id_ = 1;
};

}  // namespace quire
