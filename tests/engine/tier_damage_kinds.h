// The kinds of damage: what is done to a store, when, and what must come of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/tier_damage_places.h"
#include "engine/tier_damage_store.h"

namespace quire::testing {

enum class DamageMoment : uint8_t {
  kBefore,  // an engine opens the store
  kOpen,    // after an engine has opened it, before the first request
  kBusy,    // while requests are under way
};

enum class DamageOutcome : uint8_t {
  kAny,       // a fault or a miss, as it falls
  kNoticed,   // where all of the store is harmed, a fault is counted
  kHarmless,  // everything is found all the same
};

// What a kind harms, beside the pieces of its store.
struct DamageScene {
  const DamageStore& store;
  DamageDisk& disk;
  DamageRemote* remote = nullptr;  // null where there is no redis-server
  DamageRandom& random;
  bool harms_all = false;  // of the store; otherwise some of it
};

struct DamageKind {
  std::string_view name{};
  DamageMoment moment = DamageMoment::kBefore;
  DamageOutcome outcome = DamageOutcome::kAny;
  std::function<void(const DamageScene&)> harm{};
  bool needs_key = false;
  bool needs_empty = false;  // what is harmed is storing
  bool is_slow = false;      // a case takes as long as some hundred others
  bool may_refuse = false;   // an engine may refuse to open the store
};

std::span<const DamageKind> DiskDamageKinds();
std::span<const DamageKind> RemoteDamageKinds();

// The pieces to harm: all, or one to three.
std::vector<size_t> PiecesToHarm(const DamageScene& scene);

}  // namespace quire::testing
