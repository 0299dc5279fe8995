// What happens to blocks, told as it happens: plain data, for who records a run.
//
// The cache tells what changes (KvCache::SetWatch); who uses the cache says for whom and why
// (KvCache::SetPurpose), since the cache knows tables and no sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "kv/block_pool.h"

namespace quire {

enum class BlockVerb : uint8_t {
  kAllocate,     // taken, empty
  kShare,        // one more holder of a block with content
  kCopyOnWrite,  // taken, and filled with the beginning of `other`
  kFill,         // all slots hold tokens, and it is findable
  kRelease,      // a holder less
  kEvict,        // its content is lost
  kOffload,      // a tier has taken a copy
  kRestore,      // a tier has filled it, and it is findable
};

// Whom changes are made for, until the next purpose is set.
struct BlockPurpose {
  int64_t sequence = 0;       // 0 = none
  std::string_view reason{};  // of static storage
};

struct BlockNote {
  BlockVerb verb = BlockVerb::kAllocate;
  BlockId block = kNoBlock;
  BlockId other = kNoBlock;
  int group = -1;            // -1 = not known
  int references = 0;        // after the change
  bool is_findable = false;  // after the change
  BlockPurpose purpose{};
};

// Called by the thread that uses the cache, in the middle of its verbs: it changes nothing there.
using BlockWatch = std::function<void(const BlockNote& note)>;

}  // namespace quire
