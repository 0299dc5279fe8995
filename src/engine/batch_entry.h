// A sequence of the batch. Inside the batch (engine/batch.h) only.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "engine/batch.h"

namespace quire {

struct Batch::Entry {
  explicit Entry(SequenceSpec s) : spec(std::move(s)), chain(spec.root) {}

  SequenceSpec spec;
  IdentityChain chain;                  // for Match, while it waits
  std::optional<BlockTables> tables{};  // while it runs
  int tenant = 0;
  int cached_tokens = 0;
  CachedTokens cached_by_tier{};
  double tier_wait_ms = 0;
  PrefixMiss miss{};
  int num_preemptions = 0;
  double admitted_ms = -1;
  // All its tokens have been computed since the last came: beams then wait for their fellows. Where
  // it is preempted meanwhile, it returns with its next token.
  bool awaits_token = false;
  // Of the last step, where it had drafts: the tokens fed, from position fed_position on.
  std::vector<int32_t> fed{};
  int fed_position = 0;

  int num_computed() const { return tables ? tables->num_tokens() : 0; }
  int num_tokens() const { return static_cast<int>(spec.tokens.size()); }
  int gap() const { return num_tokens() - num_computed(); }
  bool reads_cache() const { return spec.reads_cache && spec.keeps_cache; }
};

}  // namespace quire
