#include "server/live/measured_roofline.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kv/kv_cache.h"
#include "plan/explain_json.h"
#include "plan/kv_element.h"
#include "plan/time_floor.h"

namespace quire {
namespace {

// What of prefill is computed at once may take about so long, and what leads up to a deeper point.
constexpr double kPartMs = 100;
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

// At growing depths, as far as the time goes, in a cache that none of the requests feels.
Result<std::vector<OperatorSample>> MeasurePhases(Engine& engine, const MachineLimits& limits,
                                                  const std::function<bool()>& go_on) {
  const LoadedModel& model = engine.model();
  const std::vector<int32_t> vocabulary = OrdinaryTokens(model.tokenizer());
  if (vocabulary.empty()) return std::vector<OperatorSample>();
  const double token_ms = std::max(TokenMs(engine, limits), 1e-3);
  const int most = std::min(kMostPrefill, std::max(engine.context_length() / 4, 1));
  const int prefill = std::clamp(static_cast<int>(kPartMs / token_ms), std::min(16, most), most);
  std::vector<int> depths = {0};
  if (kDepth * token_ms < kDepthMs) depths.push_back(kDepth);
  const int longest = std::min(engine.context_length(), depths.back() + most + kDecodeSteps);
  const KvLayout& layout = engine.cache().layout();
  // Twice: what is measured at a depth goes on from a copy of what leads up to it.
  QUIRE_ASSIGN_OR_RETURN(
      const std::unique_ptr<KvCache> cache,
      KvCache::Create(layout, static_cast<int>(2 * layout.PeakBlocks(longest, longest))));
  return MeasureOperators({.config = model.config(),
                           .weights = model.weights(),
                           .kernels = engine.runner().kernels(),
                           .threads = engine.runner().threads(),
                           .cache = *cache,
                           .context_length = engine.context_length(),
                           .vocabulary = vocabulary},
                          {.depths = depths,
                           .prefill_tokens = prefill,
                           .decode_steps = kDecodeSteps,
                           .chunk_tokens = prefill,
                           .go_on = go_on});
}

}  // namespace

Result<std::string> MeasureRooflineBody(Engine& engine, const std::string& model_name,
                                        const std::function<bool()>& go_on) {
  Roofline roofline{.model = model_name,
                    .kv_type = std::string(KvElementOf(engine.cache().layout().type).name)};
  QUIRE_ASSIGN_OR_RETURN(
      roofline.ceilings,
      MeasureCeilings(engine.runner().threads(), engine.runner().kernels().name,
                      engine.model().packed_weights(),
                      {.most_bytes = kMostSetBytes, .repetitions = 2, .go_on = go_on}));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<OperatorSample> samples,
                         MeasurePhases(engine, roofline.ceilings.limits(), go_on));
  roofline.points = PointsOf(samples);
  return RooflineAsJson(roofline);
}

}  // namespace quire
