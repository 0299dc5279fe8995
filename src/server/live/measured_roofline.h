// The body of GET /quire/roofline: this machine's ceilings, and where the model that runs sits
// under them. Measured with the engine's own threads and weights, and a small KV cache of its own.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace quire {

// On the engine's thread, between two steps; takes seconds, and at most 32 MiB and a workspace of
// 128 rows beside what the server has. `go_on` is called between parts of about a tenth of a
// second, or as long as prefill of 16 tokens takes, and may step the engine meanwhile; false ends
// it: kInterrupted. Without memory for a part it is left out; kResourceExhausted where nothing is
// left.
Result<std::string> MeasureRooflineBody(Engine& engine, const std::string& model_name,
                                        const std::function<bool()>& go_on);

}  // namespace quire
