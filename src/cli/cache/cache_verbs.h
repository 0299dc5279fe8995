// The verbs of `quire cache`, a file each. Every function declares one below `cache`; parsing it
// runs it and sets the process's exit code.
#pragma once

namespace CLI {
class App;
}

namespace quire {

void AddCacheStatsVerb(CLI::App& cache, int& exit_code);
void AddCacheListVerb(CLI::App& cache, int& exit_code);
void AddCacheVerifyVerb(CLI::App& cache, int& exit_code);
void AddCacheCollectVerb(CLI::App& cache, int& exit_code);
void AddCacheRemoveVerb(CLI::App& cache, int& exit_code);
void AddCacheExportVerb(CLI::App& cache, int& exit_code);
void AddCacheImportVerb(CLI::App& cache, int& exit_code);
void AddCacheWarmVerb(CLI::App& cache, int& exit_code);

}  // namespace quire
