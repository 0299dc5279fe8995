#include "kv/tiers/redis/held_names.h"

#include <utility>

namespace quire {

const HeldNames::Entry* HeldNames::Find(const RecordName& name) const {
  if (const auto found = young_.find(name); found != young_.end()) return &found->second;
  if (const auto found = old_.find(name); found != old_.end()) return &found->second;
  return nullptr;
}

void HeldNames::Add(const RecordName& name, const std::optional<TenantTag>& tenant, double now_ms) {
  const std::lock_guard lock(mutex_);
  const Entry* known = Find(name);
  const Entry entry = {.seen_ms = now_ms,
                       .tenant = tenant || known == nullptr ? tenant : known->tenant};
  old_.erase(name);
  young_.insert_or_assign(name, entry);
  if (young_.size() >= max_names_ / 2) old_ = std::exchange(young_, {});
}

bool HeldNames::Holds(const RecordName& name, double now_ms) const {
  const std::lock_guard lock(mutex_);
  const Entry* known = Find(name);
  return known != nullptr && now_ms - known->seen_ms < max_age_ms_;
}

std::optional<TenantTag> HeldNames::TenantOf(const RecordName& name) const {
  const std::lock_guard lock(mutex_);
  const Entry* known = Find(name);
  return known == nullptr ? std::nullopt : known->tenant;
}

void HeldNames::Forget(const RecordName& name) {
  const std::lock_guard lock(mutex_);
  young_.erase(name);
  old_.erase(name);
}

void HeldNames::Clear() {
  const std::lock_guard lock(mutex_);
  young_.clear();
  old_.clear();
}

size_t HeldNames::size() const {
  const std::lock_guard lock(mutex_);
  return young_.size() + old_.size();
}

}  // namespace quire
