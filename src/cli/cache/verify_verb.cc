// `quire cache verify`: every record, read and proven.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/cache/cache_verbs.h"
#include "cli/cache/store_flags.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/verbs.h"

namespace quire {
namespace {

// More are counted and not listed: a damaged disk may have them by the million.
constexpr size_t kShownFaults = 1000;

void PrintText(const std::vector<CatalogueFault>& faults, int64_t num_records) {
  for (size_t i = 0; i < std::min(faults.size(), kShownFaults); ++i) {
    const CataloguedRecord& record = faults[i].record;
    fmt::print("{}  {}  model {}  slot {}\n", ShortHex(record.name.digest), NameOf(faults[i].fault),
               ShortHex(record.fingerprint), record.slot);
  }
  fmt::print("{} records read, {} bad\n", num_records, faults.size());
}

void PrintJson(const std::vector<CatalogueFault>& faults, int64_t num_records) {
  boost::json::array list;
  for (size_t i = 0; i < std::min(faults.size(), kShownFaults); ++i) {
    const CataloguedRecord& record = faults[i].record;
    list.push_back({{"id", ToHex(record.name.digest)},
                    {"fingerprint", ToHex(record.fingerprint)},
                    {"slot", record.slot},
                    {"fault", NameOf(faults[i].fault)}});
  }
  const boost::json::object result = {
      {"records", num_records}, {"bad", faults.size()}, {"faults", std::move(list)}};
  fmt::print("{}\n", boost::json::serialize(result));
}

Status Verify(const StoreFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto keys, KeysOf(flags.seal));
  QUIRE_ASSIGN_OR_RETURN(const auto store, OpenStore(flags, CatalogueMode::kRead));
  int64_t num_records = 0;
  std::vector<CatalogueFault> faults;
  {
    ProgressLine progress;
    const auto show = [&](int64_t done, int64_t total) {
      num_records = done;
      progress.Show(fmt::format("{} of {} records", done, total));
      return !Interrupted();
    };
    QUIRE_ASSIGN_OR_RETURN(faults, store->Verify(keys.get(), show));
  }
  if (flags.json) {
    PrintJson(faults, num_records);
  } else {
    PrintText(faults, num_records);
  }
  if (Interrupted()) return MakeError(ErrorCode::kInterrupted, "interrupted");
  if (faults.empty()) return {};
  return MakeError(ErrorCode::kCorrupt,
                   "{} bad records; none of them is ever used, and `quire cache gc` removes those "
                   "that are damaged, "
                   "`quire cache rm` any",
                   faults.size());
}

}  // namespace

void AddCacheVerifyVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb = cache.add_subcommand(
      "verify",
      "Read every record and check its sums, and with --kv-key-file its seal; exit "
      "status 3 where one is bad");
  auto flags = std::make_shared<StoreFlags>();
  AddDirectoryFlags(*verb, *flags);
  AddDirectoryArgument(*verb, *flags);
  AddSealFlags(*verb, flags->seal);
  verb->callback([flags, &exit_code] { exit_code = Report(Verify(*flags)); });
}

}  // namespace quire
