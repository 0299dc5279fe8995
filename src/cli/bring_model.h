// A model argument that may have to be fetched first.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace quire {

// The file of a model of the catalogue or of a remote one (cli/download/remote_model.h), fetched
// where it is not here, with progress on a terminal. `sha256`: that a remote file must have; empty
// = whatever comes. kNotFound for a name that is neither.
Result<std::filesystem::path> BringModel(const std::string& argument,
                                         const std::string& sha256 = {});

}  // namespace quire
