#include "kv/tiers/tier.h"

namespace quire {

std::string_view NameOf(TierKind kind) { return kind == TierKind::kDisk ? "disk" : "remote"; }

}  // namespace quire
