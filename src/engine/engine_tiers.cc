// The engine's tiers: made, measured, written to when there is time.
#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/engine.h"
#include "engine/pin_set.h"
#include "engine/request_state.h"

namespace quire {
namespace {

// What trying out the tiers may take at the start.
constexpr std::chrono::milliseconds kMeasureTime{500};
// Tokens of the prefill that is timed at the start.
constexpr int kCalibrationTokens = 64;
// Blocks offered at a time while idle: a request that comes meanwhile waits for these.
constexpr int kBlocksAtATime = 16;
constexpr double kSoonMs = 5;
constexpr std::chrono::milliseconds kRoomPause{2};
constexpr double kLaterMs = 1000;

}  // namespace

Status Engine::CreateTiers() {
  if (options_.tiers.factories.empty()) return {};
  if (options_.tiers.encrypts && options_.tiers.keys == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "stored keys and values can be encrypted only with a key (--kv-key-file)");
  }
  KvCache& cache = runner_->cache();
  StoredModel model{.fingerprint = runner_->fingerprint(),
                    .ingredients = runner_->ingredients(),
                    .type = cache.layout().type};
  for (const KvGroup& group : cache.layout().groups) model.group_bytes.push_back(group.bytes);
  QUIRE_RETURN_IF_ERROR(RecordCodec::CanStore(model));
  const auto codec = std::make_shared<const RecordCodec>(std::move(model), options_.tiers.keys,
                                                         options_.tiers.encrypts);
  std::vector<std::unique_ptr<Tier>> tiers;
  for (const TierFactory& factory : options_.tiers.factories) {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Tier> tier, factory(codec));
    tiers.push_back(std::move(tier));
  }
  tiers_ = TierSet::Create(codec, std::move(tiers), options_.tiers.set);
  tiers_->Measure(std::chrono::steady_clock::now() + kMeasureTime);
  cache.SetOffer([this](const StoredBlock& block, std::span<const std::byte> payload) {
    const OfferOutcome outcome = tiers_->Offer(block, payload);
    return outcome == OfferOutcome::kTaken || outcome == OfferOutcome::kHeld;
  });
  loads_ = std::make_unique<TierLoads>(*tiers_, cache,
                                       TierLoadOptions{.max_wait_ms = options_.tiers.max_wait_ms});
  batch_->SetLoads(loads_.get());
  return CalibratePrefill();
}

// What loads are weighed against, before the first prompt has told.
Status Engine::CalibratePrefill() {
  const int num_tokens = std::min(
      {kCalibrationTokens, options_.runner.max_batched_tokens, context_length(), vocab_size()});
  std::vector<int32_t> tokens(num_tokens);
  for (int i = 0; i < num_tokens; ++i) tokens[i] = i;
  std::vector<float> logits(vocab_size());
  double start = 0;
  // The first one faults pages in.
  for (int run = 0; run < 2; ++run) {
    start = NowMs();
    // A model that cannot compute these can compute others.
    if (!runner_->ComputeRows(tokens, 1, logits).ok()) return {};
  }
  StepPlan plan;
  plan.lines.push_back(
      {.action = PlanAction::kPrefill, .num_tokens = num_tokens, .sequence_tokens = num_tokens});
  plan.num_tokens = num_tokens;
  batch_->ObserveStep(plan, NowMs() - start);
  TellPrefillCost();
  return {};
}

void Engine::TellPrefillCost() const {
  if (options_.tiers.on_prefill_cost) options_.tiers.on_prefill_cost(batch_->prefill_cost());
}

std::optional<double> Engine::RunIdle() {
  if (!tiers_ || !requests_.empty()) return std::nullopt;
  KvCache& cache = runner_->cache();
  batch_->PumpLoads(NowMs(), std::chrono::steady_clock::now());
  if (!loads_->is_idle()) return kSoonMs;
  cache.SetPurpose({.reason = "idle"});
  if (cache.num_fresh() == 0 || !tiers_->MayStore()) return std::nullopt;
  if (!tiers_->HasStorer()) return kLaterMs;
  const double idle_ms = NowMs() - last_step_ms_;
  if (idle_ms < options_.tiers.idle_ms) return options_.tiers.idle_ms - idle_ms;
  for (int i = 0; i < kBlocksAtATime && tiers_->HasRoom(); ++i) {
    if (!cache.OfferFresh()) return cache.num_fresh() == 0 ? std::nullopt : std::optional(kLaterMs);
  }
  return kSoonMs;
}

int64_t Engine::FlushTiers() {
  if (!tiers_) return 0;
  KvCache& cache = runner_->cache();
  cache.SetPurpose({.reason = "flush"});
  using Clock = std::chrono::steady_clock;
  const auto flush_time = std::chrono::duration<double, std::milli>(options_.tiers.flush_ms);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(flush_time);
  while (cache.num_fresh() > 0 && Clock::now() < deadline && tiers_->HasStorer()) {
    if (!tiers_->HasRoom()) {
      std::this_thread::sleep_for(kRoomPause);
    } else if (!cache.OfferFresh()) {
      break;  // no tier takes it
    }
  }
  const Status flushed = tiers_->Flush(deadline);
  const int64_t left = tiers_->MayStore() ? cache.num_fresh() : 0;
  return flushed.ok() ? left : std::max<int64_t>(1, left);
}

std::vector<TierStatus> Engine::TierStatuses() const {
  return tiers_ ? tiers_->status() : std::vector<TierStatus>();
}

int Engine::StoredTokens(IdentityChain& chain, std::span<const int32_t> tokens) const {
  if (!tiers_) return 0;
  const int num_groups = cache().layout().num_groups();
  const int num_entries = (static_cast<int>(tokens.size()) - 1) / kBlockSlots;
  std::vector<BlockSource> sources(static_cast<size_t>(num_entries) * num_groups, kNowhere);
  std::vector<bool> has(num_groups);
  for (int entry = 0; entry < num_entries; ++entry) {
    cache().FindEntry(chain, tokens, entry, has);
    for (int group = 0; group < num_groups; ++group) {
      BlockSource& source = sources[static_cast<size_t>(entry) * num_groups + group];
      if (has[group]) source = kInMemory;
      const BlockKey key{.id = chain.ids()[entry], .group = group};
      for (int tier = 0; tier < tiers_->num_tiers() && source == kNowhere; ++tier) {
        if (tiers_->tier(tier).MayHold(key)) source = static_cast<BlockSource>(tier + 1);
      }
    }
  }
  return FindLoadable(cache().layout(), sources).num_entries * kBlockSlots;
}

EngineCounters Engine::counters() const {
  EngineCounters counters = counters_;
  if (loads_) {
    counters.tier_queries = loads_->counters().tokens_asked;
    counters.load_choices = loads_->counters().choices;
  }
  counters.tier_hits = batch_->counters().tier_tokens;
  counters.preempted_blocks_spilled = batch_->counters().blocks_spilled;
  return counters;
}

}  // namespace quire
