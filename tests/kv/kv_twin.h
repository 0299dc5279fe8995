// The slow obvious twin of block pool, prefix index and eviction: something that always tells the
// truth about what KvCache should do.
//
// No hashes, no lists, no walks: a block remembers all tokens before it, every search looks at
// every block, and the longest match is found by trying all lengths. It chooses blocks by the same
// rules, so that even the block numbers in the tables must be equal.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "kv/kv_cache.h"

namespace quire {

class KvTwin {
 public:
  using Tokens = std::vector<int32_t>;

  struct Block {
    int references = 0;
    int filled = 0;
    bool is_named = false;  // findable, by what follows
    int group = 0;
    int root = 0;
    Tokens prefix{};  // all tokens before the block
    Tokens tokens{};
  };

  struct Table {
    bool is_findable = true;
    int root = 0;
    Tokens tokens{};
    std::vector<std::vector<BlockId>> entries{};  // [num_groups][...]
  };

  KvTwin(const KvLayout& layout, int num_blocks) : layout_(layout), num_blocks_(num_blocks) {}

  PrefixMatch Match(int root, const Tokens& tokens, int max_tokens) const {
    PrefixMatch match;
    match.num_tokens = LongestPrefix(root, tokens, max_tokens);
    match.copied_tokens = match.num_tokens % kBlockSlots;
    for (const BlockId block : SharedBlocks(root, tokens, match.num_tokens)) {
      ++(blocks_[block].references > 0 ? match.blocks_used : match.blocks_cached);
    }
    return match;
  }

  // As KvCache::Explain says it, without times; with all that was ever evicted in mind, or
  // nothing.
  PrefixMiss Explain(int root, const Tokens& tokens, int num_found, bool remembers = true) const {
    PrefixMiss miss{.position = num_found};
    if (num_found + 1 >= static_cast<int>(tokens.size())) return miss;
    const auto goes_on = [&](const Tokens& text) {
      return static_cast<int>(text.size()) > num_found &&
             std::equal(text.begin(), text.begin() + num_found, tokens.begin());
    };
    const int entry = num_found / kBlockSlots;
    const auto is_here = [&](const Block& block) {
      return block.root == root && static_cast<int>(block.prefix.size()) == entry * kBlockSlots &&
             goes_on(TextOf(block));
    };
    const auto is_ours = [&](const Block& block) {
      return is_here(block) && TextOf(block)[num_found] == tokens[num_found];
    };
    miss.reason = MissReason::kNeverSeen;
    for (const Block& block : blocks_) {
      if (!block.is_named || !is_here(block)) continue;
      miss.reason = is_ours(block) ? MissReason::kEvicted : MissReason::kDiffers;
      if (is_ours(block)) return miss;
    }
    if (remembers && std::ranges::any_of(evicted_, is_ours)) miss.reason = MissReason::kEvicted;
    return miss;
  }
  // Whether cached text goes on from position num_found with these tokens.
  bool HoldsThere(int root, const Tokens& tokens, int num_found, const Tokens& there) const {
    Tokens whole = Slice(tokens, 0, num_found);
    whole.insert(whole.end(), there.begin(), there.end());
    const int begin = num_found / kBlockSlots * kBlockSlots;
    return !there.empty() && std::ranges::any_of(blocks_, [&](const Block& block) {
      const Tokens text = TextOf(block);
      return block.is_named && block.root == root &&
             static_cast<int>(block.prefix.size()) >= begin && text.size() >= whole.size() &&
             std::equal(whole.begin(), whole.end(), text.begin());
    });
  }

  std::optional<Table> Acquire(int root, const Tokens& tokens, int max_tokens) {
    const PrefixMatch match = Match(root, tokens, max_tokens);
    const int num_groups = layout_.num_groups();
    if (match.copied_tokens > 0 && num_available() - match.blocks_cached < num_groups) {
      return std::nullopt;
    }
    const int num_whole = match.num_tokens / kBlockSlots;
    Table table{.root = root, .tokens = Tokens(tokens.begin(), tokens.begin() + match.num_tokens)};
    table.entries.assign(num_groups, std::vector<BlockId>(num_whole, kNoBlock));
    for (int group = 0; group < num_groups; ++group) {
      for (int entry = First(group, match.num_tokens); entry < num_whole; ++entry) {
        table.entries[group][entry] = *FindWhole(root, tokens, entry, group);
        Share(table.entries[group][entry]);
      }
    }
    if (match.copied_tokens == 0) return table;

    std::vector<BlockId> sources;
    for (int group = 0; group < num_groups; ++group) {
      sources.push_back(BestBeginning(root, tokens, max_tokens, num_whole, group));
      Share(sources.back());
    }
    int num_taken_over = std::max(0, num_groups - num_available());
    for (int group = 0; group < num_groups; ++group) {
      BlockId block = sources[group];
      if (num_taken_over > 0 && blocks_[block].references == 1) {
        --num_taken_over;
        evicted_.push_back(blocks_[block]);
        blocks_[block].is_named = false;
      } else {
        block = Take();
        GiveBack(sources[group]);
      }
      blocks_[block].filled = match.copied_tokens;
      table.entries[group].push_back(block);
    }
    return table;
  }

  Table AcquirePrivate() const {
    Table table{.is_findable = false};
    table.entries.resize(layout_.num_groups());
    return table;
  }

  int BlocksToReserve(const Table& table, int end) const {
    int needed = 0;
    const int num_tokens = static_cast<int>(table.tokens.size());
    for (const auto& entries : table.entries) {
      needed += std::max(0, BlocksFor(end) - static_cast<int>(entries.size()));
      if (num_tokens % kBlockSlots == 0 || end <= num_tokens) continue;
      needed += blocks_[entries[num_tokens / kBlockSlots]].references > 1 ? 1 : 0;
    }
    return needed;
  }

  bool Reserve(Table& table, int end) {
    if (BlocksToReserve(table, end) > num_available()) return false;
    const int num_tokens = static_cast<int>(table.tokens.size());
    for (auto& entries : table.entries) {
      if (num_tokens % kBlockSlots != 0 && end > num_tokens) {
        BlockId& tail = entries[num_tokens / kBlockSlots];
        if (blocks_[tail].references > 1) {
          const BlockId copy = Take();
          blocks_[copy].filled = blocks_[tail].filled;
          GiveBack(tail);
          tail = copy;
        }
      }
      while (static_cast<int>(entries.size()) < BlocksFor(end)) entries.push_back(Take());
    }
    return true;
  }

  void Commit(Table& table, const Tokens& tokens) {
    const int begin = static_cast<int>(table.tokens.size());
    const int end = static_cast<int>(tokens.size());
    if (begin == end) return;
    table.tokens = tokens;
    for (int entry = begin / kBlockSlots; entry < BlocksFor(end); ++entry) {
      const int filled = std::min(kBlockSlots, end - entry * kBlockSlots);
      for (auto& entries : table.entries) blocks_[entries[entry]].filled = filled;
      if (filled == kBlockSlots || end - begin > 1) NameEntry(table, entry);
    }
    for (int entry = 0; entry < BlocksFor(end); ++entry) {
      for (int group = 0; group < layout_.num_groups(); ++group) {
        BlockId& block = table.entries[group][entry];
        if (block == kNoBlock || entry >= First(group, end)) continue;
        GiveBack(block);
        block = kNoBlock;
      }
    }
  }

  Table Fork(const Table& table) {
    Table fork = table;
    for (auto& entries : fork.entries) {
      entries.resize(BlocksFor(static_cast<int>(table.tokens.size())));
      for (const BlockId block : entries) {
        if (block != kNoBlock) Share(block);
      }
    }
    return fork;
  }

  void Release(Table& table) {
    const int num_tokens = static_cast<int>(table.tokens.size());
    if (num_tokens % kBlockSlots != 0) NameEntry(table, num_tokens / kBlockSlots);
    for (int entry = static_cast<int>(table.entries[0].size()) - 1; entry >= 0; --entry) {
      for (const auto& entries : table.entries) {
        if (entries[entry] != kNoBlock) GiveBack(entries[entry]);
      }
    }
  }

  void DropCached() {
    while (!cached_.empty()) {
      evicted_.push_back(blocks_[cached_.back()]);
      blocks_[cached_.back()] = {};
      free_.push_back(cached_.back());
      cached_.pop_back();
    }
  }

  int num_used() const { return static_cast<int>(blocks_.size() - free_.size() - cached_.size()); }
  int num_cached() const { return static_cast<int>(cached_.size()); }
  int num_available() const { return num_blocks_ - num_used(); }
  int filled_slots() const {
    int filled = 0;
    for (const Block& block : blocks_) filled += block.references > 0 ? block.filled : 0;
    return filled;
  }

 private:
  int First(int group, int position) const {
    return layout_.groups[group].FirstEntryRead(position);
  }

  // Tokens of `tokens` that a named block of the group holds from position 16 * entry on.
  bool Follows(const Block& block, int root, const Tokens& tokens, int entry, int group) const {
    return block.is_named && block.group == group && block.root == root &&
           static_cast<int>(block.prefix.size()) == entry * kBlockSlots &&
           std::equal(block.prefix.begin(), block.prefix.end(), tokens.begin());
  }
  static int Common(const Block& block, const Tokens& wanted) {
    size_t common = 0;
    while (common < wanted.size() && common < block.tokens.size() &&
           wanted[common] == block.tokens[common]) {
      ++common;
    }
    return static_cast<int>(common);
  }
  static Tokens Slice(const Tokens& tokens, int begin, int end) {
    return Tokens(tokens.begin() + begin, tokens.begin() + end);
  }

  std::optional<BlockId> FindWhole(int root, const Tokens& tokens, int entry, int group) const {
    const Tokens wanted = Slice(tokens, entry * kBlockSlots, (entry + 1) * kBlockSlots);
    for (size_t block = 0; block < blocks_.size(); ++block) {
      if (Follows(blocks_[block], root, tokens, entry, group) && blocks_[block].tokens == wanted) {
        return static_cast<BlockId>(block);
      }
    }
    return std::nullopt;
  }

  // Whether a prefix of just this length can be taken over.
  bool Holds(int root, const Tokens& tokens, int length) const {
    const int num_whole = length / kBlockSlots;
    const Tokens rest = Slice(tokens, num_whole * kBlockSlots, length);
    for (int group = 0; group < layout_.num_groups(); ++group) {
      for (int entry = First(group, length); entry < num_whole; ++entry) {
        if (!FindWhole(root, tokens, entry, group)) return false;
      }
      if (!rest.empty() && std::ranges::none_of(blocks_, [&](const Block& block) {
            return Follows(block, root, tokens, num_whole, group) &&
                   Common(block, rest) == static_cast<int>(rest.size());
          })) {
        return false;
      }
    }
    return true;
  }

  int LongestPrefix(int root, const Tokens& tokens, int max_tokens) const {
    int length = std::min(max_tokens, static_cast<int>(tokens.size()));
    while (!Holds(root, tokens, length)) --length;
    return length;
  }

  std::vector<BlockId> SharedBlocks(int root, const Tokens& tokens, int length) const {
    std::vector<BlockId> shared;
    for (int group = 0; group < layout_.num_groups(); ++group) {
      for (int entry = First(group, length); entry < length / kBlockSlots; ++entry) {
        shared.push_back(*FindWhole(root, tokens, entry, group));
      }
    }
    return shared;
  }

  // Most in common; of equals the first in the dictionary after `wanted`, or else the last before.
  BlockId BestBeginning(int root, const Tokens& tokens, int max_tokens, int entry,
                        int group) const {
    const int begin = entry * kBlockSlots;
    const int end =
        std::min({begin + kBlockSlots - 1, max_tokens, static_cast<int>(tokens.size())});
    const Tokens wanted = Slice(tokens, begin, end);
    const auto is_better = [&](const Block& a, const Block& b) {
      if (Common(a, wanted) != Common(b, wanted)) return Common(a, wanted) > Common(b, wanted);
      const bool a_after = a.tokens >= wanted;
      const bool b_after = b.tokens >= wanted;
      if (a_after != b_after) return a_after;
      return a_after ? a.tokens < b.tokens : a.tokens > b.tokens;
    };
    BlockId best = kNoBlock;
    for (size_t block = 0; block < blocks_.size(); ++block) {
      if (!Follows(blocks_[block], root, tokens, entry, group)) continue;
      if (best == kNoBlock || is_better(blocks_[block], blocks_[best])) {
        best = static_cast<BlockId>(block);
      }
    }
    return best;
  }

  BlockId Take() {
    BlockId block = static_cast<BlockId>(blocks_.size());
    if (!free_.empty()) {
      block = free_.back();
      free_.pop_back();
    } else if (static_cast<int>(blocks_.size()) < num_blocks_) {
      blocks_.emplace_back();
    } else {
      block = cached_.front();
      cached_.erase(cached_.begin());
      evicted_.push_back(blocks_[block]);
    }
    blocks_[block] = {.references = 1};
    return block;
  }

  void Share(BlockId block) {
    if (blocks_[block].references++ == 0) std::erase(cached_, block);
  }

  void GiveBack(BlockId block) {
    if (--blocks_[block].references > 0) return;
    (blocks_[block].is_named ? cached_ : free_).push_back(block);
    if (!blocks_[block].is_named) blocks_[block] = {};
  }

  void NameEntry(const Table& table, int entry) {
    if (!table.is_findable) return;
    const int begin = entry * kBlockSlots;
    const int end = std::min(begin + kBlockSlots, static_cast<int>(table.tokens.size()));
    for (int group = 0; group < layout_.num_groups(); ++group) {
      const BlockId id = table.entries[group][entry];
      if (id == kNoBlock) continue;
      Block& block = blocks_[id];
      const Tokens prefix = Slice(table.tokens, 0, begin);
      const Tokens tokens = Slice(table.tokens, begin, end);
      block.is_named = false;
      const bool is_taken = std::ranges::any_of(blocks_, [&](const Block& other) {
        return other.is_named && other.group == group && other.root == table.root &&
               other.prefix == prefix && other.tokens == tokens;
      });
      block.is_named = !is_taken;
      block.group = group;
      block.root = table.root;
      block.prefix = prefix;
      block.tokens = tokens;
      if (is_taken) continue;
      std::erase_if(evicted_, [&](const Block& gone) {
        return gone.root == block.root && gone.prefix == prefix && gone.tokens == tokens;
      });
    }
  }

  static Tokens TextOf(const Block& block) {
    Tokens text = block.prefix;
    text.insert(text.end(), block.tokens.begin(), block.tokens.end());
    return text;
  }

  KvLayout layout_;
  int num_blocks_;
  std::vector<Block> blocks_;    // taken at least once
  std::vector<BlockId> free_;    // the next to be taken last
  std::vector<BlockId> cached_;  // the next to be evicted first
  std::vector<Block> evicted_;   // and not named again since
};

}  // namespace quire
