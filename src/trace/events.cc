#include "trace/events.h"

#include <array>

namespace quire {

std::string_view NameOf(BlockChange change) {
  static constexpr std::array<std::string_view, kNumBlockChanges> kNames = {
      "allocate", "share", "copy_on_write", "fill", "release", "evict", "offload", "restore"};
  return kNames[static_cast<size_t>(change)];
}

}  // namespace quire
