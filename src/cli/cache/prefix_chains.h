// The prefixes of a store: records followed from the last block of each back to the first.
//
// Layers of a model may be parted into groups, and each block is stored once a group. Chains are
// followed in one group a model, the one with most records: their lengths are those of prefixes.
// Functions without state.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "kv/tiers/disk/disk_catalogue.h"

namespace quire {

// Records of one model and group, found by name.
struct RecordIndex {
  Digest fingerprint{};
  int group = 0;
  int num_groups = 0;  // that the model has records of
  std::map<RecordName, CataloguedRecord> records{};
};

// One a model, in the order of the models' fingerprints.
std::vector<RecordIndex> IndexRecords(std::span<const CataloguedRecord> records);

struct PrefixChain {
  // From the first block that is there to the last, at least one.
  std::vector<CataloguedRecord> path{};
  int num_groups = 0;

  const CataloguedRecord& last() const { return path.back(); }
  // The first block is there, too: otherwise none of it is of use.
  bool is_whole() const { return path.front().entry == 0; }
  int64_t num_tokens() const;
  // In all groups; what several prefixes begin with counts in each.
  uint64_t bytes() const;
};

// Of equals by name, so that the order is always the same.
bool LastUsedFirst(const PrefixChain& a, const PrefixChain& b);

// A chain for each record that no other one follows: the longest prefixes, of which all others are
// beginnings. Last used first.
std::vector<PrefixChain> PrefixChains(const RecordIndex& index);

}  // namespace quire
