// `quire cache stats`: what is stored, model by model.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <map>
#include <memory>

#include "cli/cache/cache_verbs.h"
#include "cli/cache/prefix_chains.h"
#include "cli/cache/store_flags.h"
#include "cli/verbs.h"

namespace quire {
namespace {

struct ModelFigures {
  int64_t num_tokens = 0;
  int64_t hits = 0;
};

std::map<Digest, ModelFigures> FiguresOf(const std::vector<CataloguedRecord>& records) {
  std::map<Digest, ModelFigures> figures;
  for (const RecordIndex& index : IndexRecords(records)) {
    figures[index.fingerprint].num_tokens =
        static_cast<int64_t>(index.records.size()) * kBlockSlots;
  }
  for (const CataloguedRecord& record : records) figures[record.fingerprint].hits += record.hits;
  return figures;
}

void PrintText(const std::vector<CataloguedModel>& models,
               const std::map<Digest, ModelFigures>& figures, uint64_t bytes,
               const std::string& directory) {
  if (!models.empty()) {
    fmt::print("{:<16}  {:<5}  {:>9}  {:>9}  {:>10}  {:>7}  {}\n", "MODEL", "KV", "RECORDS",
               "TOKENS", "SIZE", "HITS", "LAST USE (UTC)");
  }
  int64_t num_records = 0;
  for (const CataloguedModel& model : models) {
    const auto found = figures.find(model.fingerprint);
    const ModelFigures of = found == figures.end() ? ModelFigures() : found->second;
    num_records += model.num_records;
    fmt::print("{:<16}  {:<5}  {:>9}  {:>9}  {:>10}  {:>7}  {}\n", ShortHex(model.fingerprint),
               NameOf(model.type), model.num_records, of.num_tokens, ShortBytes(model.bytes),
               of.hits, FormatTime(model.last_use_s));
  }
  fmt::print("{} records of {} models, {} in {}\n", num_records, models.size(), ShortBytes(bytes),
             directory);
}

void PrintJson(const std::vector<CataloguedModel>& models,
               const std::map<Digest, ModelFigures>& figures, uint64_t bytes,
               const std::string& directory) {
  boost::json::array list;
  for (const CataloguedModel& model : models) {
    const auto found = figures.find(model.fingerprint);
    const ModelFigures of = found == figures.end() ? ModelFigures() : found->second;
    list.push_back({{"fingerprint", ToHex(model.fingerprint)},
                    {"weights", ToHex(model.ingredients.weights)},
                    {"architecture", ToHex(model.ingredients.architecture)},
                    {"layout", ToHex(model.ingredients.layout)},
                    {"numerics_version", model.ingredients.numerics_version},
                    {"kv_type", NameOf(model.type)},
                    {"records", model.num_records},
                    {"slots", model.num_slots},
                    {"tokens", of.num_tokens},
                    {"bytes", model.bytes},
                    {"hits", of.hits},
                    {"last_use", model.last_use_s}});
  }
  const boost::json::object result = {
      {"directory", directory}, {"bytes", bytes}, {"models", std::move(list)}};
  fmt::print("{}\n", boost::json::serialize(result));
}

Status ShowStats(const StoreFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto store, OpenStore(flags, CatalogueMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const StoredModelFilter filter, FilterOf(flags.model));
  QUIRE_ASSIGN_OR_RETURN(std::vector<CataloguedModel> models,
                         MatchingModels(*store, filter, flags.model));
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path directory, StoreDirectory(flags));
  std::ranges::sort(models, std::ranges::greater{}, &CataloguedModel::last_use_s);
  const auto figures = FiguresOf(store->records());
  if (flags.json) {
    PrintJson(models, figures, store->bytes(), directory.string());
  } else {
    PrintText(models, figures, store->bytes(), directory.string());
  }
  return {};
}

}  // namespace

void AddCacheStatsVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb = cache.add_subcommand("stats", "Records, tokens and bytes of each model");
  auto flags = std::make_shared<StoreFlags>();
  AddDirectoryFlags(*verb, *flags);
  AddDirectoryArgument(*verb, *flags);
  AddModelFlag(*verb, *flags);
  verb->callback([flags, &exit_code] { exit_code = Report(ShowStats(*flags)); });
}

}  // namespace quire
