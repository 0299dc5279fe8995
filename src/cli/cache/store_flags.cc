#include "cli/cache/store_flags.h"

#include <fmt/chrono.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/thread_pool.h"
#include "cli/model_path.h"
#include "formats/gguf.h"
#include "formats/printable.h"
#include "models/config.h"
#include "models/pack.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLeastDigits = 4;
constexpr size_t kShownDigits = 16;
constexpr double kLongestDuration = 100 * 365.25 * 86'400;

bool IsHex(std::string_view text) {
  return text.size() >= kLeastDigits && text.size() <= 2 * sizeof(Digest) &&
         std::ranges::all_of(
             text, [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); });
}

}  // namespace

void AddDirectoryFlags(CLI::App& verb, StoreFlags& flags) {
  verb.add_option("--kv-disk", flags.directory,
                  "the directory of the store (default: kv in the cache directory, QUIRE_CACHE or "
                  "~/.cache/quire)");
  verb.add_flag("--json", flags.json, "one JSON object on standard output");
}

void AddDirectoryArgument(CLI::App& verb, StoreFlags& flags) {
  verb.add_option("DIR", flags.directory, "the same as --kv-disk")
      ->excludes(verb.get_option("--kv-disk"));
}

void AddModelFlag(CLI::App& verb, StoreFlags& flags) {
  verb.add_option("--model", flags.model,
                  "only blocks of this model: a GGUF file, a name that `quire models` lists, or "
                  "the beginning of a fingerprint that `quire cache stats` shows (default: all)");
}

Result<fs::path> StoreDirectory(const StoreFlags& flags) {
  if (!flags.directory.empty()) return fs::path(flags.directory);
  QUIRE_ASSIGN_OR_RETURN(const fs::path cache, CacheDirectory());
  return cache / "kv";
}

Result<std::unique_ptr<DiskCatalogue>> OpenStore(const StoreFlags& flags, CatalogueMode mode) {
  QUIRE_ASSIGN_OR_RETURN(const fs::path directory, StoreDirectory(flags));
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return MakeError(ErrorCode::kNotFound,
                     "{}: no such directory; --kv-disk DIR names the one that `quire serve`, `run` "
                     "or `batch` was given",
                     directory.string());
  }
  return DiskCatalogue::Open(directory, mode);
}

bool StoredModelFilter::Matches(const CataloguedModel& model) const {
  if (has_weights && model.ingredients.weights != weights) return false;
  return ToHex(model.fingerprint).starts_with(fingerprint);
}

Result<StoredModelFilter> FilterOf(const std::string& model) {
  StoredModelFilter filter;
  if (model.empty()) return filter;
  const Result<fs::path> path = ResolveModel(model);
  if (!path.ok()) {
    if (!IsHex(model)) return path.error();
    filter.fingerprint = model;
    return filter;
  }
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(*path));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  QUIRE_ASSIGN_OR_RETURN(const WeightPlan plan, PlanWeights(file, config));
  QUIRE_ASSIGN_OR_RETURN(filter.tokenizer, Tokenizer::FromGguf(file));
  ThreadPool pool(AvailableProcessors());
  filter.weights = DigestWeights(file, plan, pool);
  filter.has_weights = true;
  return filter;
}

Result<std::vector<CataloguedModel>> MatchingModels(const DiskCatalogue& store,
                                                    const StoredModelFilter& filter,
                                                    const std::string& model) {
  std::vector<CataloguedModel> models = store.models();
  std::erase_if(models, [&](const CataloguedModel& stored) { return !filter.Matches(stored); });
  if (models.empty() && !model.empty()) {
    return MakeError(ErrorCode::kNotFound,
                     "nothing is stored of model '{}'; `quire cache stats` lists what there is",
                     Printable(model, 200));
  }
  return models;
}

Result<std::vector<PrefixChain>> MatchingChains(const DiskCatalogue& store,
                                                const std::vector<CataloguedRecord>& records,
                                                const StoredModelFilter& filter,
                                                const std::string& model) {
  QUIRE_ASSIGN_OR_RETURN(const auto models, MatchingModels(store, filter, model));
  std::set<Digest> wanted;
  for (const CataloguedModel& stored : models) wanted.insert(stored.fingerprint);
  std::vector<PrefixChain> chains;
  for (const RecordIndex& index : IndexRecords(records)) {
    if (!wanted.contains(index.fingerprint)) continue;
    for (PrefixChain& chain : PrefixChains(index)) chains.push_back(std::move(chain));
  }
  std::ranges::sort(chains, LastUsedFirst);
  return chains;
}

Result<double> ParseDuration(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  constexpr std::string_view kUnits = "smhdw";
  constexpr double kSeconds[] = {1, 60, 3600, 86'400, 7 * 86'400};
  const size_t unit = end - rest == 1 ? kUnits.find(*rest) : std::string_view::npos;
  if (error != std::errc() || !(number >= 0) || unit == std::string_view::npos ||
      number * kSeconds[unit] > kLongestDuration) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "'{}' is no duration; expected a number and one of s, m, h, d, w (seconds to "
                     "weeks, a hundred years at most), as in 7d",
                     Printable(text, 64));
  }
  return number * kSeconds[unit];
}

std::string FormatTime(double unix_s) {
  if (!(unix_s > 0) || unix_s > 1e11) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(unix_s)));
}

std::string ShortBytes(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  size_t unit = 0;
  // What would round to 1024.0 is one of the next.
  for (; number >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) number /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", number, kUnits[unit]);
}

std::string ShortHex(const Digest& digest) { return ToHex(digest).substr(0, kShownDigits); }

}  // namespace quire
