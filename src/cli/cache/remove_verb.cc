// `quire cache rm`: removes prefixes by id, model or age.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "cli/cache/block_reader.h"
#include "cli/cache/cache_verbs.h"
#include "cli/cache/store_flags.h"
#include "cli/verbs.h"
#include "formats/printable.h"

namespace quire {
namespace {

struct RemoveFlags {
  StoreFlags store;
  std::vector<std::string> ids;
  std::string older_than;
  bool all = false;
  bool yes = false;
};

double NowS() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

using Records = std::vector<CataloguedRecord>;

// The chains that begin with an id each; an id that names none or several is an error.
Result<std::set<size_t>> ChainsOf(const std::vector<PrefixChain>& chains,
                                  const std::vector<std::string>& ids) {
  constexpr size_t kLeastDigits = 4;
  std::set<size_t> chosen;
  for (const std::string& id : ids) {
    std::vector<size_t> found;
    for (size_t i = 0; i < chains.size(); ++i) {
      if (ToHex(chains[i].last().name.digest).starts_with(id)) found.push_back(i);
    }
    if (id.size() < kLeastDigits || found.size() != 1) {
      return MakeError(found.empty() ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
                       "{} prefixes begin with '{}'; expected one id, its first {} digits or "
                       "more, as `quire cache ls` lists them",
                       found.size(), Printable(id, 80), kLeastDigits);
    }
    chosen.insert(found[0]);
  }
  return chosen;
}

// The blocks of these prefixes that no other prefix begins with.
Result<Records> RecordsOfIds(DiskCatalogue& store, Records records, const StoredModelFilter& filter,
                             const RemoveFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto keys, KeysOf(flags.store.seal));
  LearnParents(store, keys, records);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PrefixChain> chains,
                         MatchingChains(store, records, filter, flags.store.model));
  QUIRE_ASSIGN_OR_RETURN(const std::set<size_t> chosen, ChainsOf(chains, flags.ids));
  std::set<std::pair<Digest, RecordName>> kept;
  for (size_t i = 0; i < chains.size(); ++i) {
    if (chosen.contains(i)) continue;
    for (const CataloguedRecord& record : chains[i].path) {
      kept.emplace(record.fingerprint, record.name);
    }
  }
  BlockReader reader(store, records, keys);
  std::map<std::pair<Digest, RecordName>, CataloguedRecord> removed;
  for (const size_t i : chosen) {
    PrefixChain own = chains[i];
    std::erase_if(own.path, [&](const CataloguedRecord& record) {
      return kept.contains({record.fingerprint, record.name});
    });
    QUIRE_ASSIGN_OR_RETURN(const Records all_groups, reader.InAllGroups(own));
    for (const CataloguedRecord& record : all_groups) {
      removed.emplace(std::pair(record.fingerprint, record.name), record);
    }
  }
  Records list;
  for (auto& [name, record] : removed) list.push_back(record);
  return list;
}

Result<Records> RecordsToRemove(DiskCatalogue& store, const RemoveFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const StoredModelFilter filter, FilterOf(flags.store.model));
  Records records = store.records();
  if (!flags.ids.empty()) return RecordsOfIds(store, std::move(records), filter, flags);
  QUIRE_ASSIGN_OR_RETURN(const auto models, MatchingModels(store, filter, flags.store.model));
  std::set<Digest> wanted;
  for (const CataloguedModel& model : models) wanted.insert(model.fingerprint);
  double before_s = HUGE_VAL;
  if (!flags.older_than.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const double age, ParseDuration(flags.older_than));
    before_s = NowS() - age;
  }
  std::erase_if(records, [&](const CataloguedRecord& record) {
    return !wanted.contains(record.fingerprint) || record.last_use_s > before_s;
  });
  return records;
}

// Whether a person on a terminal agrees; where none is there, the command line is the word.
bool Agreed(const Records& records, uint64_t bytes, const std::string& directory) {
  if (::isatty(STDIN_FILENO) == 0) return true;
  fmt::print(stderr, "remove {} records ({}) from {}? [y/N] ", records.size(), ShortBytes(bytes),
             directory);
  char answer[16] = {};
  return std::fgets(answer, sizeof(answer), stdin) != nullptr &&
         (answer[0] == 'y' || answer[0] == 'Y');
}

Status Remove(const RemoveFlags& flags) {
  if (flags.ids.empty() && flags.older_than.empty() && flags.store.model.empty() && !flags.all) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cache rm: expected an ID, --model, --older-than or --all");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path directory, StoreDirectory(flags.store));
  QUIRE_ASSIGN_OR_RETURN(const auto store, OpenStore(flags.store, CatalogueMode::kWrite));
  QUIRE_ASSIGN_OR_RETURN(const Records records, RecordsToRemove(*store, flags));
  uint64_t bytes = 0;
  for (const CataloguedRecord& record : records) bytes += record.bytes;
  if (!records.empty()) {
    if (!flags.yes && !Agreed(records, bytes, directory.string())) {
      return MakeError(ErrorCode::kInterrupted, "nothing was removed");
    }
    QUIRE_RETURN_IF_ERROR(store->Remove(records));
    // What is free goes back to the system, too.
    QUIRE_ASSIGN_OR_RETURN([[maybe_unused]] const uint64_t won, store->Collect(nullptr, 0));
  }
  if (flags.store.json) {
    const boost::json::object result = {
        {"removed", records.size()}, {"bytes_removed", bytes}, {"bytes", store->bytes()}};
    fmt::print("{}\n", boost::json::serialize(result));
  } else {
    fmt::print("{} records removed ({}); {} left\n", records.size(), ShortBytes(bytes),
               ShortBytes(store->bytes()));
  }
  return {};
}

}  // namespace

void AddCacheRemoveVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb = cache.add_subcommand("rm", "Remove prefixes; they are computed again when used");
  auto flags = std::make_shared<RemoveFlags>();
  AddDirectoryFlags(*verb, flags->store);
  AddModelFlag(*verb, flags->store);
  AddSealFlags(*verb, flags->store.seal);
  CLI::Option* ids = verb->add_option(
      "ID", flags->ids,
      "prefixes as `quire cache ls` lists them, by their first digits; what other prefixes begin "
      "with stays");
  verb->add_option("--older-than", flags->older_than,
                   "blocks that were last used so long ago, such as 12h or 30d (s, m, h, d, w)")
      ->excludes(ids);
  verb->add_flag("--all", flags->all, "everything")->excludes(ids);
  verb->add_flag("-y,--yes", flags->yes, "do not ask on a terminal");
  verb->callback([flags, &exit_code] { exit_code = Report(Remove(*flags)); });
}

}  // namespace quire
