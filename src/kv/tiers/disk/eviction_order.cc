#include "kv/tiers/disk/eviction_order.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace quire {
namespace {

// A block that was used again outlives one that was not by this part of the time in which the
// whole store is filled anew; uses beyond kMaxUses add nothing. Measured: docs/kv-directory.md.
constexpr double kLifeAUse = 0.5;
constexpr uint32_t kMaxUses = 3;

}  // namespace

size_t NameHash::operator()(const RecordName& name) const {
  size_t hash = 0;
  std::memcpy(&hash, name.digest.data(), sizeof(hash));
  return hash;
}

size_t TagHash::operator()(const TenantTag& tag) const {
  size_t hash = 0;
  std::memcpy(&hash, tag.data(), sizeof(hash));
  return hash;
}

double WorthOf(uint64_t clock, uint32_t uses, double cost, int64_t num_slots) {
  const double extra = kLifeAUse * static_cast<double>(std::min(uses, kMaxUses) - 1) * cost;
  return static_cast<double>(clock) + extra * static_cast<double>(num_slots);
}

void EvictionOrder::Add(const Place& place, const TenantTag& tenant) {
  QUIRE_CHECK(all_.insert(place).second, "slot {} twice", place.slot);
  if (by_tenant_) of_tenant_[tenant].insert(place);
}

void EvictionOrder::Remove(const Place& place, const TenantTag& tenant) {
  QUIRE_CHECK(all_.erase(place) == 1, "slot {} is not there", place.slot);
  if (!by_tenant_) return;
  const auto places = of_tenant_.find(tenant);
  places->second.erase(place);
  if (places->second.empty()) of_tenant_.erase(places);
}

void EvictionOrder::Clear() {
  all_.clear();
  of_tenant_.clear();
}

std::optional<EvictionOrder::Place> EvictionOrder::First(
    const TenantTag* tenant, const std::function<bool(const Place&)>& may) const {
  if (tenant == nullptr) return FirstOf(all_, may);
  QUIRE_CHECK(by_tenant_, "tenants are not told apart");
  const auto places = of_tenant_.find(*tenant);
  return places == of_tenant_.end() ? std::nullopt : FirstOf(places->second, may);
}

std::optional<EvictionOrder::Place> EvictionOrder::FirstOf(
    const Places& places, const std::function<bool(const Place&)>& may) {
  const auto place = std::find_if(places.begin(), places.end(), may);
  return place == places.end() ? std::nullopt : std::optional(*place);
}

}  // namespace quire
