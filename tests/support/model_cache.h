// Where `quire pull` puts models: tests on real files look there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace quire::testing {

// $QUIRE_CACHE/models/FILE, or ~/.cache/quire/models/FILE.
inline std::filesystem::path CachedModel(const std::string& file) {
  if (const char* cache = std::getenv("QUIRE_CACHE")) {
    return std::filesystem::path(cache) / "models" / file;
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) / ".cache/quire/models" / file;
}

}  // namespace quire::testing
