// The body of GET /quire/tree: what is findable, as a tree of texts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kv/prefix_tree.h"
#include "text/tokenizer.h"

namespace quire {

class TierSet;

// The text of the first tokens, in at most max_characters characters.
std::string BeginningOf(std::span<const int32_t> tokens, const Tokenizer& tokenizer,
                        int max_characters);

// At most max_nodes nodes. tiers: null without; asked only for what they know without waiting.
std::string TreeBody(std::span<const PrefixEntry> entries, size_t max_nodes,
                     const Tokenizer& tokenizer, const TierSet* tiers);

}  // namespace quire
