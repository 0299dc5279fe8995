// Where models live, and what a model argument means.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// QUIRE_CACHE, else XDG_CACHE_HOME/quire, else ~/.cache/quire. Need not exist yet. kNotFound when
// none of the variables is set.
Result<std::filesystem::path> CacheDirectory();

// CacheDirectory()/models.
Result<std::filesystem::path> ModelsDirectory();

// An existing path, or a catalogue entry or remote model that was pulled. Otherwise kNotFound,
// saying what to do: pull the model, or choose one of the known names.
Result<std::filesystem::path> ResolveModel(std::string_view argument);

// What answers call the model of such an argument: its name, or its file's name without the suffix.
std::string ModelName(std::string_view argument);

}  // namespace quire
