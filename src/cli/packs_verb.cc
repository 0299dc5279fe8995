// `quire packs`: the packed weights that the cache keeps.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <memory>

#include "base/thread_pool.h"
#include "cli/model_path.h"
#include "cli/verbs.h"
#include "formats/gguf.h"
#include "models/config.h"
#include "models/pack_cache.h"

namespace quire {
namespace {

Result<PackCache> OpenCache() {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path cache, CacheDirectory());
  return PackCache(cache / "packs");
}

Status ListPacks(bool json) {
  QUIRE_ASSIGN_OR_RETURN(const PackCache cache, OpenCache());
  boost::json::array list;
  uint64_t total = 0;
  for (const PackCache::Entry& entry : cache.List()) {
    total += entry.bytes;
    const auto used = std::chrono::time_point_cast<std::chrono::seconds>(
        std::chrono::file_clock::to_sys(entry.last_used));
    if (json) {
      list.push_back({{"digest", entry.digest},
                      {"bytes", entry.bytes},
                      {"last_used", used.time_since_epoch().count()}});
    } else {
      fmt::print("{}  {:>10.1f} MiB  last used {:%Y-%m-%d %H:%M:%S} UTC\n",
                 entry.digest.substr(0, 16), static_cast<double>(entry.bytes) / (1 << 20),
                 fmt::gmtime(std::chrono::system_clock::to_time_t(used)));
    }
  }
  if (json) {
    const boost::json::object result = {{"directory", cache.directory().string()},
                                        {"max_bytes", PackCache::kDefaultMaxBytes},
                                        {"bytes", total},
                                        {"packs", list}};
    fmt::print("{}\n", boost::json::serialize(result));
  } else {
    fmt::print("{:.1f} of at most {} MiB in {}\n", static_cast<double>(total) / (1 << 20),
               PackCache::kDefaultMaxBytes >> 20, cache.directory().string());
  }
  return {};
}

// Reads the model file again and compares with the pack that would be used for it.
Status VerifyPack(const std::string& model) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(model));
  QUIRE_ASSIGN_OR_RETURN(const PackCache cache, OpenCache());
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  QUIRE_ASSIGN_OR_RETURN(const WeightPlan plan, PlanWeights(file, config));
  ThreadPool pool(AvailableProcessors());
  const auto stored = cache.Find(file, plan, pool);
  if (!stored) {
    return MakeError(ErrorCode::kNotFound, "{}: no pack is stored for this file", path.string());
  }
  QUIRE_ASSIGN_OR_RETURN(const Pack fresh, PackWeights(file, plan, pool, nullptr));
  if (fresh.digest != stored->digest ||
      !std::ranges::equal(fresh.memory.bytes(), stored->memory.bytes())) {
    QUIRE_RETURN_IF_ERROR(cache.Remove(ToHex(stored->digest)));
    return MakeError(ErrorCode::kCorrupt,
                     "{}: the stored pack {} was not the one this file makes; it is deleted and "
                     "will be made again",
                     path.string(), ToHex(stored->digest));
  }
  fmt::print("{}  is the pack of {}\n", ToHex(fresh.digest), path.string());
  return {};
}

Status RemovePacks(const std::string& digest, bool all) {
  QUIRE_ASSIGN_OR_RETURN(const PackCache cache, OpenCache());
  if (all) return cache.RemoveAll();
  if (digest.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "packs rm: expected the beginning of a digest, or --all");
  }
  return cache.Remove(digest);
}

}  // namespace

void AddPacksVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("packs", "List, verify or delete packed weights");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "for programs");
  auto ran = std::make_shared<bool>(false);

  CLI::App* verify = verb->add_subcommand(
      "verify", "Pack a model file again and compare with what is stored for it");
  auto model = std::make_shared<std::string>();
  verify->add_option("MODEL", *model, "a GGUF file, or a name that `quire models` lists")
      ->required();
  verify->callback([model, ran, &exit_code] {
    *ran = true;
    exit_code = Report(VerifyPack(*model));
  });

  CLI::App* remove = verb->add_subcommand("rm", "Delete packs; they are made again when needed");
  auto digest = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  remove->add_option("DIGEST", *digest, "the beginning of a pack's digest");
  remove->add_flag("--all", *all, "every pack");
  remove->callback([digest, all, ran, &exit_code] {
    *ran = true;
    exit_code = Report(RemovePacks(*digest, *all));
  });
  // The callback of a verb runs after those of its own verbs.
  verb->final_callback([json, ran, &exit_code] {
    if (!*ran) exit_code = Report(ListPacks(*json));
  });
}

}  // namespace quire
