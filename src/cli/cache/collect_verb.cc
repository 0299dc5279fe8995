// `quire cache gc`: gives back what is of no more use.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>
#include <optional>

#include "cli/cache/cache_verbs.h"
#include "cli/cache/store_flags.h"
#include "cli/verbs.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

struct CollectFlags {
  StoreFlags store;
  std::string max;
  std::string keep;
};

// Of the one model that `keep` names: everything else goes, so a doubt is an error.
Result<Digest> ModelToKeep(const DiskCatalogue& store, const std::string& keep) {
  QUIRE_ASSIGN_OR_RETURN(const StoredModelFilter filter, FilterOf(keep));
  QUIRE_ASSIGN_OR_RETURN(const auto models, MatchingModels(store, filter, keep));
  if (models.size() == 1) return models[0].fingerprint;
  std::string list;
  for (const CataloguedModel& model : models) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", ShortHex(model.fingerprint),
                        NameOf(model.type));
  }
  return MakeError(ErrorCode::kInvalidArgument, "--keep {}: {} are that; name one by fingerprint",
                   keep, list);
}

Status Collect(const CollectFlags& flags) {
  uint64_t max_bytes = 0;
  if (!flags.max.empty()) {
    QUIRE_ASSIGN_OR_RETURN(max_bytes, ParseByteSize(flags.max));
    if (max_bytes == 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--max {}: expected 1B or more; `quire cache rm --all` empties the store",
                       flags.max);
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const auto store, OpenStore(flags.store, CatalogueMode::kWrite));
  std::optional<Digest> keep;
  if (!flags.keep.empty()) {
    QUIRE_ASSIGN_OR_RETURN(keep, ModelToKeep(*store, flags.keep));
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t won, store->Collect(keep ? &*keep : nullptr, max_bytes));
  const auto num_records = store->records().size();
  if (flags.store.json) {
    const boost::json::object result = {
        {"bytes_freed", won}, {"bytes", store->bytes()}, {"records", num_records}};
    fmt::print("{}\n", boost::json::serialize(result));
  } else {
    fmt::print("{} freed; {} records, {} left\n", ShortBytes(won), num_records,
               ShortBytes(store->bytes()));
  }
  return {};
}

}  // namespace

void AddCacheCollectVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb = cache.add_subcommand(
      "gc", "Remove bad records and leftovers, and give what is free back to the system");
  auto flags = std::make_shared<CollectFlags>();
  AddDirectoryFlags(*verb, flags->store);
  AddDirectoryArgument(*verb, flags->store);
  verb->add_option("--max", flags->max,
                   "bytes that may stay, such as 5GiB; what is worth least goes first (default: "
                   "no limit)");
  verb->add_option("--keep", flags->keep,
                   "the one model whose blocks stay: a GGUF file, a name that `quire models` "
                   "lists, or the beginning of a fingerprint (default: those of all)");
  verb->callback([flags, &exit_code] { exit_code = Report(Collect(*flags)); });
}

}  // namespace quire
