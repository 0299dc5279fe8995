// The flags that say where keys and values go when they leave memory, and the tiers they make.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace CLI {
class App;
}

namespace quire {

inline constexpr const char* kDefaultDiskBytes = "20GiB";

// As given; sizes are text with a unit.
struct TierFlags {
  std::string disk{};  // a directory; empty = none
  std::string disk_max = kDefaultDiskBytes;
  std::string disk_min_free = "1GiB";
  bool disk_read_only = false;
  std::optional<std::string> redis{};  // a URL; nothing = QUIRE_KV_REDIS, empty = none
  double redis_ttl_s = 7 * 86'400;     // 0 = none
  std::string key_file{};
  bool encrypts = false;  // needs key_file
  bool trust_remote = false;
  std::string tenant_max = "0";  // of one tenant in each tier; 0 = no quota
};

// Declares them; `flags` outlives the parse.
void AddTierFlags(CLI::App& app, TierFlags& flags);
// Declares those about keys alone: --kv-key-file and --kv-trust-remote.
void AddSealFlags(CLI::App& app, TierFlags& flags);

// What the flags and QUIRE_KV_REDIS ask for; no factories where they ask for no tier. Reads the key
// file, opens nothing else. Fails, naming the flag, for what is out of range and for what needs
// another flag.
Result<TierOptions> TierOptionsOf(const TierFlags& flags);

// The keys of --kv-key-file; null without it.
Result<std::shared_ptr<const KeyRing>> KeysOf(const TierFlags& flags);

}  // namespace quire
