#include "engine/pin_set.h"

#include <algorithm>
#include <set>
#include <utility>

namespace quire {
namespace {

void AddBlocks(const BlockTables& tables, std::set<BlockId>& blocks) {
  for (size_t group = 0; group < tables.views().size(); ++group) {
    for (const BlockId block : tables.table(static_cast<int>(group))) {
      if (block != kNoBlock) blocks.insert(block);
    }
  }
}

}  // namespace

int64_t PinSet::Sum(const std::string* tenant, std::span<const BlockId> also) const {
  std::set<BlockId> blocks(also.begin(), also.end());
  int64_t num_expected = 0;
  for (const auto& [id, pin] : pins_) {
    if (tenant != nullptr && pin.info.tenant != *tenant) continue;
    num_expected += pin.num_expected;
    if (pin.tables) AddBlocks(*pin.tables, blocks);
  }
  return static_cast<int64_t>(blocks.size()) + num_expected;
}

// With the pin's own expectation, where it is not among the pins yet.
Status PinSet::CheckQuotas(const Pin& pin, std::span<const BlockId> also) const {
  const auto check = [&](std::string_view whose, const std::string* tenant,
                         int64_t max_blocks) -> Status {
    const int64_t held = Sum(tenant, {});
    const int64_t added = Sum(tenant, also) - held + pin.num_expected;
    if (held + added <= max_blocks) return {};
    if (pin.num_expected > max_blocks && held == 0) {
      return MakeError(ErrorCode::kContextLength,
                       "the prefix of {} tokens takes {} blocks ({} bytes); {} pins may hold {} "
                       "blocks ({} bytes) at most",
                       pin.info.num_tokens, pin.num_expected, pin.num_expected * block_bytes_,
                       whose, max_blocks, max_blocks * block_bytes_);
    }
    return MakeError(ErrorCode::kResourceExhausted,
                     "the prefix of {} tokens takes {} blocks ({} bytes) more; pins hold {} of the "
                     "{} blocks ({} bytes) that {} may: drop some, or wait until they end",
                     pin.info.num_tokens, added, added * block_bytes_, held, max_blocks,
                     max_blocks * block_bytes_, whose);
  };
  if (pin.tenant_max_blocks > 0) {
    QUIRE_RETURN_IF_ERROR(check("yours", &pin.info.tenant, pin.tenant_max_blocks));
  }
  return check("the server's", nullptr, max_blocks_);
}

Result<PinId> PinSet::Begin(const PinSpec& spec, int64_t num_blocks,
                            std::span<const BlockId> found) {
  const auto num_pins = std::ranges::count_if(
      pins_, [&](const auto& entry) { return entry.second.info.tenant == spec.tenant; });
  if (num_pins >= kMostPins) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{} pins, as many as one may have: drop some, or wait until they end",
                     num_pins);
  }
  Pin pin{.info = {.id = next_id_,
                   .tenant = spec.tenant,
                   .label = spec.label,
                   .num_tokens = static_cast<int>(spec.tokens.size())},
          .lifetime_ms = spec.lifetime_ms,
          .tenant_max_blocks = spec.max_blocks,
          .num_expected = num_blocks};
  // What other pins hold is not taken again: of one sum, or of both.
  const int64_t shared = std::ssize(found) - (Sum(nullptr, found) - Sum(nullptr, {}));
  const int64_t tenant_shared =
      std::ssize(found) - (Sum(&spec.tenant, found) - Sum(&spec.tenant, {}));
  pin.num_expected = num_blocks - (spec.max_blocks > 0 ? std::min(shared, tenant_shared) : shared);
  QUIRE_RETURN_IF_ERROR(CheckQuotas(pin, {}));
  pins_.emplace(next_id_, std::move(pin));
  return next_id_++;
}

Result<PinInfo> PinSet::Complete(PinId id, BlockTables tables, double now_ms) {
  Pin& pin = pins_.at(id);
  pin.num_expected = 0;
  std::set<BlockId> blocks;
  AddBlocks(tables, blocks);
  const std::vector<BlockId> held(blocks.begin(), blocks.end());
  if (Status status = CheckQuotas(pin, held); !status.ok()) {
    pins_.erase(id);
    return status.error();
  }
  pin.info.num_blocks = std::ssize(held);
  pin.info.size_bytes = held.size() * block_bytes_;
  pin.info.expires_in_ms = pin.lifetime_ms;
  pin.expires_at_ms = now_ms + pin.lifetime_ms;
  pin.tables = std::move(tables);
  return pin.info;
}

void PinSet::Expire(double now_ms) {
  std::erase_if(pins_, [&](const auto& entry) {
    return entry.second.tables && entry.second.expires_at_ms <= now_ms;
  });
}

bool PinSet::Drop(std::string_view tenant, PinId id) {
  const auto found = pins_.find(id);
  if (found == pins_.end() || found->second.info.tenant != tenant || !found->second.tables) {
    return false;
  }
  pins_.erase(found);
  return true;
}

std::vector<PinInfo> PinSet::List(std::string_view tenant, double now_ms) const {
  std::vector<PinInfo> infos;
  for (const auto& [id, pin] : pins_) {
    if (pin.info.tenant != tenant || !pin.tables || pin.expires_at_ms <= now_ms) continue;
    infos.push_back(pin.info);
    infos.back().expires_in_ms = pin.expires_at_ms - now_ms;
  }
  return infos;
}

int64_t PinSet::num_blocks() const {
  std::set<BlockId> blocks;
  for (const auto& [id, pin] : pins_) {
    if (pin.tables) AddBlocks(*pin.tables, blocks);
  }
  return static_cast<int64_t>(blocks.size());
}

std::vector<const BlockTables*> PinSet::tables() const {
  std::vector<const BlockTables*> tables;
  for (const auto& [id, pin] : pins_) {
    if (pin.tables) tables.push_back(&*pin.tables);
  }
  return tables;
}

}  // namespace quire
