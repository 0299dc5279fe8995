// Which stored block gives way first: the one worth least, of those that no other builds on.
//
//   worth = when it was used last + extra life for being used again and for being dear to compute
//
// on a clock that counts stores and uses, so that a store nobody uses for a week keeps its blocks.
// A block is of use only behind its predecessor; so a block with a successor here is not offered,
// and of a chain the tail goes first. Against plain LRU, SLRU (Karedla et al. 1994) and GDSF
// (Cherkasova 1998): docs/kv-directory.md. A step takes O(log n).
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include "kv/tiers/record.h"

namespace quire {

// Names and tags are digests: any of their bytes are as good a hash as others.
struct NameHash {
  size_t operator()(const RecordName& name) const;
};
struct TagHash {
  size_t operator()(const TenantTag& tag) const;
};

// uses: 1 for a block that was only stored. cost: of computing it, relative to the first block.
double WorthOf(uint64_t clock, uint32_t uses, double cost, int64_t num_slots);

class EvictionOrder {
 public:
  // Least worth first; of equals the one further back in its prompt.
  struct Place {
    double worth = 0;
    int entry = 0;
    int64_t slot = 0;

    bool operator<(const Place& other) const {
      if (worth != other.worth) return worth < other.worth;
      if (entry != other.entry) return entry > other.entry;
      return slot < other.slot;
    }
  };

  // Tenants are told apart only where there are quotas: it costs a second order.
  explicit EvictionOrder(bool by_tenant) : by_tenant_(by_tenant) {}

  void Add(const Place& place, const TenantTag& tenant);
  void Remove(const Place& place, const TenantTag& tenant);
  void Clear();

  // The first for which `may` is true; of the tenant's alone where it is given.
  std::optional<Place> First(const TenantTag* tenant,
                             const std::function<bool(const Place&)>& may) const;
  size_t size() const { return all_.size(); }

 private:
  using Places = std::set<Place>;
  static std::optional<Place> FirstOf(const Places& places,
                                      const std::function<bool(const Place&)>& may);

  bool by_tenant_;
  Places all_;
  std::unordered_map<TenantTag, Places, TagHash> of_tenant_;
};

}  // namespace quire
