// What the verbs of `quire cache` have in common: which directory, whose keys, which model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cache/prefix_chains.h"
#include "cli/tier_flags.h"
#include "kv/tiers/disk/disk_catalogue.h"
#include "text/tokenizer.h"

namespace quire {

struct StoreFlags {
  std::string directory{};  // empty = CacheDirectory()/kv
  std::string model{};      // empty = all
  TierFlags seal{};         // of which key_file and trust_remote are read
  bool json = false;
};

// Declares the directory and --json, the keys, and --model; `flags` outlives the parse.
void AddDirectoryFlags(CLI::App& verb, StoreFlags& flags);
// Declares the directory as an argument, too, of verbs that have no other.
void AddDirectoryArgument(CLI::App& verb, StoreFlags& flags);
void AddModelFlag(CLI::App& verb, StoreFlags& flags);

// --kv-disk, or where it stands when nobody says.
Result<std::filesystem::path> StoreDirectory(const StoreFlags& flags);
// kNotFound, naming the directory, where there is none.
Result<std::unique_ptr<DiskCatalogue>> OpenStore(const StoreFlags& flags, CatalogueMode mode);

// What --model means for a store: the models of a fingerprint's beginning, or those whose weights
// are a file's, of whatever KV type. Everything matches the empty one.
struct StoredModelFilter {
  std::string fingerprint{};  // hexadecimal, a beginning
  bool has_weights = false;
  Digest weights{};
  std::unique_ptr<Tokenizer> tokenizer{};  // of a file; null without one

  bool Matches(const CataloguedModel& model) const;
};
// `model`: a GGUF file, a name that `quire models` lists, or 4 hexadecimal digits or more. A file's
// weights are hashed.
Result<StoredModelFilter> FilterOf(const std::string& model);
// The models of the store that match; kNotFound where none does and --model was given.
Result<std::vector<CataloguedModel>> MatchingModels(const DiskCatalogue& store,
                                                    const StoredModelFilter& filter,
                                                    const std::string& model);
// Their prefixes, last used first. `records` are those of the store.
Result<std::vector<PrefixChain>> MatchingChains(const DiskCatalogue& store,
                                                const std::vector<CataloguedRecord>& records,
                                                const StoredModelFilter& filter,
                                                const std::string& model);

// "90s", "30m", "12h", "7d", "2w" in seconds. kInvalidArgument for anything else and beyond a
// hundred years.
Result<double> ParseDuration(std::string_view text);
// "2026-01-31 17:05:09" in UTC; "-" for 0.
std::string FormatTime(double unix_s);
// "1.5 GiB"
std::string ShortBytes(uint64_t bytes);
// The beginning of what a thing is called.
std::string ShortHex(const Digest& digest);

}  // namespace quire
