// Prefixes that are kept on purpose: their blocks are held, so that nothing evicts them.
//
// A pin belongs to a tenant, ends at a time and counts against the tenant's and the server's quota.
// Invariants:
//   1. The pool always has room for one whole context beside all pins: no request waits for ever
//      because of them.
//   2. A pin's blocks are held from when its prefix has been computed until it ends or is dropped.
//   3. Nobody learns of another tenant's pins.
// Used by the engine's thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

using PinId = int64_t;

struct PinSpec {
  std::vector<int32_t> tokens{};  // at least one
  std::string cache_salt{};       // as of the requests that are to find it
  std::string tenant{};
  std::string label{};     // the client's own name for it; may be empty
  double lifetime_ms = 0;  // from when it has been computed; above 0
  int64_t max_blocks = 0;  // that the tenant's pins may hold together; 0 = the server's quota alone
  int64_t tenant_max_blocks = 0;  // while it is computed: as of the tenant's requests
};

struct PinInfo {
  PinId id = 0;
  std::string tenant{};
  std::string label{};
  int num_tokens = 0;
  int64_t num_blocks = 0;
  uint64_t size_bytes = 0;
  double expires_in_ms = 0;
};

}  // namespace quire
