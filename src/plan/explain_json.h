// What `quire explain` and the server tell of a model, as JSON texts (docs/explain.md). Bytes,
// operations and tokens are numbers; shapes are arrays, outermost dimension first.
// Pure functions, any thread.
#pragma once

#include <string>

#include "plan/kv_growth.h"
#include "plan/model_graph.h"
#include "plan/roofline.h"

namespace quire {

std::string ModelGraphAsJson(const ModelGraph& graph);
std::string RooflineAsJson(const Roofline& roofline);
std::string KvGrowthAsJson(const KvGrowth& growth);

// {"view": view, view: json}: what a saved page shows. `json` is one of the above; `view` is a
// plain word.
std::string PageData(const std::string& view, const std::string& json);

}  // namespace quire
