// Who may ask, and what each of them shares: the API keys.
//
// A key belongs to a tenant: its name (in logs and metrics), its salt (prefixes are shared among
// equal salts alone; keys of one sharing group have one salt) and its KV quota. Without any key
// there is one tenant, and everybody is it. Const after creation: any thread.
//
// The file is JSON: {"keys": [{"key": "sk-...", "name": "team-a", "group": "lab",
// "kv_quota": "2GiB", "admin": true}]}; docs/serving.md has the members.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct Tenant {
  std::string name{};
  std::string salt{};           // no two groups have the same, and none follows from a name
  uint64_t kv_quota_bytes = 0;  // 0 = no limit of its own
  bool is_admin = false;        // may see what is everybody's: plan, cache state, metrics
};

class Tenants {
 public:
  // The one tenant of a server without keys, an admin.
  Tenants();
  // kCorrupt, saying where, for a file that is not in the form; keys may not repeat.
  static Result<Tenants> FromFile(const std::filesystem::path& path);
  static Result<Tenants> FromJson(std::string_view text);
  // One key, an admin's. kInvalidArgument for what cannot be one, the empty key first of all.
  static Result<Tenants> FromKey(std::string_view key);

  bool asks_for_key() const { return !keys_.empty(); }
  // The tenant of an Authorization header's value ("Bearer KEY"; empty = absent); null where the
  // key is none of ours. Takes the same time whatever the key, as far as its length allows.
  const Tenant* Authorize(std::string_view authorization) const;

 private:
  struct Key {
    std::string digest{};  // SHA-256 of the key: the key itself is not kept
    Tenant tenant{};
  };

  Tenant everybody_;
  std::vector<Key> keys_;
};

}  // namespace quire
