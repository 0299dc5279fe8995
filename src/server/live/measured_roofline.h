// The body of GET /quire/roofline: this machine's ceilings, and where the model that runs sits
// under them. Measured once, with the engine's own threads and weights.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace quire {

// On the engine's thread, between two steps: no step runs meanwhile. Takes about a second for the
// ceilings and about two for the model, of which it computes fewer tokens where it is slow; where
// the cache has no room for them there are ceilings alone. What of the cache nobody holds may give
// way.
struct RooflineBody {
  std::string json{};
  bool has_points = false;
};
Result<RooflineBody> MeasureRooflineBody(Engine& engine, const std::string& model_name);

}  // namespace quire
