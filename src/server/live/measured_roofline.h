// The body of GET /quire/roofline: this machine's ceilings, and where the model that runs sits
// under them. Measured with the engine's own threads and weights, and a small KV cache of its own.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace quire {

// On the engine's thread, between two steps; takes seconds. `go_on` is called between parts of at
// most about a tenth of a second (a fifth where 16 tokens take longer than that), and may step the
// engine meanwhile; false ends it: kInterrupted. kResourceExhausted without memory.
Result<std::string> MeasureRooflineBody(Engine& engine, const std::string& model_name,
                                        const std::function<bool()>& go_on);

}  // namespace quire
