// Published model shapes by name, so that a machine can be sized without a file. Weights are the
// published parameters at 16 bits.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "plan/model_shape.h"

namespace quire {

// Nothing for a name that is not there.
std::optional<ModelShape> FindPreset(std::string_view name);

std::vector<std::string_view> PresetNames();

}  // namespace quire
