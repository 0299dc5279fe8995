// Names of records that a server is known to hold: stored or seen lately.
//
// Bounded: in two generations, of which the older goes whole when the younger is full. A server
// evicts and expires without telling, so what was seen is believed for a while only.
// Thread-safe.
//
// Invariant: no more than max_names are kept.
#pragma once

#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "kv/tiers/record.h"

namespace quire {

class HeldNames {
 public:
  // max_age_ms: for how long what was seen is believed.
  HeldNames(size_t max_names, double max_age_ms) : max_names_(max_names), max_age_ms_(max_age_ms) {}

  void Add(const RecordName& name, const std::optional<TenantTag>& tenant, double now_ms);
  bool Holds(const RecordName& name, double now_ms) const;
  // Whose it is, where that is known.
  std::optional<TenantTag> TenantOf(const RecordName& name) const;
  void Forget(const RecordName& name);
  void Clear();
  size_t size() const;

 private:
  struct Entry {
    double seen_ms = 0;
    std::optional<TenantTag> tenant{};
  };
  struct NameHash {
    size_t operator()(const RecordName& name) const {
      size_t hash = 0;  // a name is a digest: any of its bytes do
      std::memcpy(&hash, name.digest.data(), sizeof(hash));
      return hash;
    }
  };
  using Names = std::unordered_map<RecordName, Entry, NameHash>;
  const Entry* Find(const RecordName& name) const;

  const size_t max_names_;
  const double max_age_ms_;
  mutable std::mutex mutex_;
  Names young_;
  Names old_;
};

}  // namespace quire
