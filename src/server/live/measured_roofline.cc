#include "server/live/measured_roofline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/explain_json.h"
#include "plan/kv_element.h"
#include "plan/time_floor.h"

namespace quire {
namespace {

// What is computed at one depth may take about so long, and what leads up to a deeper one.
constexpr double kMeasuredMs = 400;
constexpr double kDepthMs = 1500;
// For the sets that are read, beside what the server was planned to take.
constexpr size_t kMostSetBytes = size_t{32} << 20;
constexpr int kMostPrefill = 128;
constexpr int kDepth = 512;
constexpr int kDecodeSteps = 8;

// Of prefill: measured where it was, otherwise twice what the machine needs at least.
double TokenMs(const Engine& engine, const MachineLimits& limits) {
  const PrefillCost known = engine.prefill_cost();
  if (known.is_known()) return known.token_ms;
  const FloorModel model{.config = &engine.model().config(),
                         .weights = &engine.model().weights(),
                         .kv_type = engine.cache().layout().type};
  return 2 * TtftFloor(model, limits, /*depth=*/0, kMostPrefill).ms / kMostPrefill;
}

std::vector<int32_t> OrdinaryTokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (int32_t id = 0; id < tokenizer.num_tokens(); ++id) {
    if (tokenizer.Kind(id) == TokenKind::kNormal) tokens.push_back(id);
  }
  return tokens;
}

// At growing depths, as far as the time goes.
std::vector<OperatorSample> MeasurePhases(Engine& engine, const MachineLimits& limits) {
  const LoadedModel& model = engine.model();
  const std::vector<int32_t> vocabulary = OrdinaryTokens(model.tokenizer());
  if (vocabulary.empty()) return {};
  const double token_ms = std::max(TokenMs(engine, limits), 1e-3);
  const int most = std::min(kMostPrefill, std::max(engine.context_length() / 4, 1));
  const int prefill =
      std::clamp(static_cast<int>(kMeasuredMs / token_ms), std::min(16, most), most);
  std::vector<int> depths = {0};
  if (kDepth * token_ms < kDepthMs) depths.push_back(kDepth);
  const OperatorRunInput input{.config = model.config(),
                               .weights = model.weights(),
                               .kernels = engine.runner().kernels(),
                               .threads = engine.runner().threads(),
                               .cache = engine.runner().cache(),
                               .context_length = engine.context_length(),
                               .vocabulary = vocabulary};
  engine.runner().cache().SetPurpose({.reason = "measure"});
  auto samples = MeasureOperators(
      input, {.depths = depths, .prefill_tokens = prefill, .decode_steps = kDecodeSteps});
  // A cache that is full of what runs has no room for it: the ceilings are true all the same.
  return samples.ok() ? std::move(samples).value() : std::vector<OperatorSample>();
}

}  // namespace

Result<RooflineBody> MeasureRooflineBody(Engine& engine, const std::string& model_name) {
  Roofline roofline{.model = model_name,
                    .kv_type = std::string(KvElementOf(engine.cache().layout().type).name)};
  QUIRE_ASSIGN_OR_RETURN(roofline.ceilings,
                         MeasureCeilings(engine.runner().threads(), engine.runner().kernels().name,
                                         engine.model().packed_weights(),
                                         {.most_bytes = kMostSetBytes, .repetitions = 2}));
  roofline.points = PointsOf(MeasurePhases(engine, roofline.ceilings.limits()));
  return RooflineBody{.json = RooflineAsJson(roofline), .has_points = !roofline.points.empty()};
}

}  // namespace quire
