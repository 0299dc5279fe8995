#include "server/live/measured_roofline.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/available_memory.h"
#include "kv/kv_cache.h"
#include "plan/explain_json.h"
#include "plan/kv_element.h"
#include "plan/time_floor.h"

namespace quire {
namespace {

// What of prefill is computed at once may take about so long, and what leads up to a deeper point.
constexpr double kPartMs = 100;
constexpr double kDepthMs = 1500;
// Beside what the server was planned to take: of the sets that are read, then of keys and values.
constexpr size_t kMostBytes = size_t{32} << 20;
// Of the weights: more than any cache has, and read within a part.
constexpr size_t kMostRead = size_t{256} << 20;
constexpr int kLeastPrefill = 16;
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

// What is measured at a depth goes on from a copy of what leads up to it.
int BlocksAt(const KvLayout& layout, int depth, int num_tokens) {
  return static_cast<int>(2 * layout.PeakBlocks(depth + num_tokens, depth + num_tokens));
}

// At growing depths, as far as time and memory go, in a cache that none of the requests feels.
// Empty where there is no room for any.
Result<std::vector<OperatorSample>> MeasurePhases(Engine& engine, const MachineLimits& limits,
                                                  const std::function<bool()>& go_on) {
  const LoadedModel& model = engine.model();
  const std::vector<int32_t> vocabulary = OrdinaryTokens(model.tokenizer());
  const double token_ms = std::max(TokenMs(engine, limits), 1e-3);
  const int most = std::min(kMostPrefill, std::max(engine.context_length() / 4, 1));
  const int prefill =
      std::clamp(static_cast<int>(kPartMs / token_ms), std::min(kLeastPrefill, most), most);
  const int decode = std::min(kDecodeSteps, most);
  const KvLayout& layout = engine.cache().layout();
  const uint64_t available = AvailableMemory();
  const uint64_t bytes =
      available == 0 ? kMostBytes : std::min<uint64_t>(kMostBytes, available / 4);
  const uint64_t room = bytes / layout.block_bytes;
  const auto fits = [&](int depth) {
    return static_cast<uint64_t>(BlocksAt(layout, depth, std::max(prefill, decode))) <= room;
  };
  if (vocabulary.empty() || !fits(0)) return std::vector<OperatorSample>();
  std::vector<int> depths = {0};
  if (kDepth * token_ms < kDepthMs && fits(kDepth)) depths.push_back(kDepth);
  QUIRE_ASSIGN_OR_RETURN(
      const std::unique_ptr<KvCache> cache,
      KvCache::Create(layout, BlocksAt(layout, depths.back(), std::max(prefill, decode))));
  return MeasureOperators({.config = model.config(),
                           .weights = model.weights(),
                           .kernels = engine.runner().kernels(),
                           .threads = engine.runner().threads(),
                           .cache = *cache,
                           .context_length = engine.context_length(),
                           .vocabulary = vocabulary},
                          {.depths = depths,
                           .prefill_tokens = prefill,
                           .decode_steps = decode,
                           .chunk_tokens = prefill,
                           .go_on = go_on});
}

}  // namespace

Result<std::string> MeasureRooflineBody(Engine& engine, const std::string& model_name,
                                        const std::function<bool()>& go_on) {
  Roofline roofline{.model = model_name,
                    .kv_type = std::string(KvElementOf(engine.cache().layout().type).name)};
  const std::span<const std::byte> weights = engine.model().packed_weights();
  QUIRE_ASSIGN_OR_RETURN(
      roofline.ceilings,
      MeasureCeilings(engine.runner().threads(), engine.runner().kernels().name,
                      weights.first(std::min(weights.size(), kMostRead)),
                      {.most_bytes = kMostBytes, .repetitions = 2, .go_on = go_on}));
  const auto samples = MeasurePhases(engine, roofline.ceilings.limits(), go_on);
  if (samples.ok()) {
    roofline.points = PointsOf(*samples);
  } else if (samples.error().code == ErrorCode::kInterrupted) {
    return samples.error();
  }  // otherwise there are ceilings alone
  return RooflineAsJson(roofline);
}

}  // namespace quire
