// What is inside the records of a store: token ids, texts, and the same block in other groups.
// Reads each record at most once. The store and the keys outlive it; used by one thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cache/prefix_chains.h"
#include "kv/tiers/disk/disk_catalogue.h"
#include "text/tokenizer.h"

namespace quire {

// Fills in what comes before the records of which the store does not say it (they came sealed from
// elsewhere), as far as they can be opened.
void LearnParents(DiskCatalogue& store, const std::shared_ptr<const KeyRing>& keys,
                  std::vector<CataloguedRecord>& records);

class BlockReader {
 public:
  BlockReader(DiskCatalogue& store, const std::vector<CataloguedRecord>& records,
              std::shared_ptr<const KeyRing> keys);

  // kCorrupt, with the fault's name, for a record that does not prove itself.
  Result<StoredBlock> Open(const CataloguedRecord& record);

  // The first and the last characters of a prefix, at most so many each, fit for printing; equal to
  // the whole text where that is short.
  struct Ends {
    std::string begin{};
    std::string end{};
  };
  Result<Ends> TextEnds(const PrefixChain& chain, const Tokenizer& tokenizer, size_t max_chars);
  // Whether the prefix's text begins with `text`.
  Result<bool> BeginsWith(const PrefixChain& chain, const Tokenizer& tokenizer,
                          std::string_view text);

  // The chain's blocks in all groups that are stored of them.
  Result<std::vector<CataloguedRecord>> InAllGroups(const PrefixChain& chain);

 private:
  // As proven.
  struct Opened {
    RecordHead head{};
    StoredBlock block{};
  };
  Result<Opened> OpenWhole(const CataloguedRecord& record);
  // Of the chain's blocks [first, first + count).
  Result<std::vector<int32_t>> Tokens(const PrefixChain& chain, size_t first, size_t count);

  DiskCatalogue& store_;
  std::shared_ptr<const KeyRing> keys_;
  // Records of all groups, a model.
  std::map<Digest, std::map<RecordName, CataloguedRecord>> records_;
  std::map<Digest, std::set<int>> groups_;
  std::map<std::pair<Digest, RecordName>, Opened> opened_;
};

}  // namespace quire
