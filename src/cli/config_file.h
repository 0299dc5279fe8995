// A configuration file: lines of KEY = VALUE in TOML's form, where a key is a flag's long name.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace CLI {
class App;
}

namespace quire {

// Gives the parsed `app` what its command line left out. Lists are [a, b]; a flag without a value
// is true or false. kNotFound for a file that is not there, kInvalidArgument, naming file and key,
// for a key that is no flag, one that comes twice, and a value that the flag refuses.
Status ApplyConfigFile(CLI::App& app, const std::filesystem::path& path);

}  // namespace quire
