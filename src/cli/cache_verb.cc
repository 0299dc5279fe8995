// `quire cache`: the keys and values that a disk keeps.
#include <CLI/CLI.hpp>

#include "cli/cache/cache_verbs.h"
#include "cli/verbs.h"

namespace quire {

void AddCacheVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("cache", "List, check, carry and warm the prefixes that a disk keeps");
  verb->require_subcommand(1);
  AddCacheStatsVerb(*verb, exit_code);
  AddCacheListVerb(*verb, exit_code);
  AddCacheVerifyVerb(*verb, exit_code);
  AddCacheCollectVerb(*verb, exit_code);
  AddCacheRemoveVerb(*verb, exit_code);
  AddCacheExportVerb(*verb, exit_code);
  AddCacheImportVerb(*verb, exit_code);
  AddCacheWarmVerb(*verb, exit_code);
}

}  // namespace quire
