// Pins (engine/pins.h): a prefix is computed as a request is whose answer nobody asks for.
#include <cmath>

#include "engine/engine.h"
#include "engine/engine_trace.h"
#include "engine/pin_set.h"
#include "engine/request_state.h"

namespace quire {
namespace {

constexpr double kLongestLifeMs = 366.0 * 24 * 3600 * 1000;
constexpr size_t kLongestLabel = 256;

Status CheckPin(const PinSpec& spec, int context_length) {
  if (!(spec.lifetime_ms > 0 && spec.lifetime_ms <= kLongestLifeMs)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a pin's lifetime is {} ms; expected more than 0, and a year at most",
                     spec.lifetime_ms);
  }
  if (spec.label.size() > kLongestLabel) {
    return MakeError(ErrorCode::kInvalidArgument, "a pin's label has {} bytes; expected {} at most",
                     spec.label.size(), kLongestLabel);
  }
  if (spec.tokens.empty() || spec.tokens.size() >= static_cast<size_t>(context_length)) {
    return MakeError(spec.tokens.empty() ? ErrorCode::kInvalidArgument : ErrorCode::kContextLength,
                     "a pin's prefix has {} tokens; expected 1 to {}, which leaves room for more",
                     spec.tokens.size(), context_length - 1);
  }
  return {};
}

}  // namespace

Result<int64_t> Engine::MaxPinnedBlocks() const {
  const double fraction = options_.max_pinned_fraction;
  if (!(fraction >= 0 && fraction <= 1)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} of the KV cache for pins; expected a fraction, 0 to 1", fraction);
  }
  const int64_t total = cache().usage().total_blocks;
  const int64_t context =
      cache().layout().PeakBlocks(context_length(), options_.scheduler.max_batched_tokens);
  const auto share = static_cast<int64_t>(std::floor(fraction * static_cast<double>(total)));
  return std::max<int64_t>(0, std::min(share, total - context));
}

void Engine::Pin(PinSpec spec, std::function<void(Result<PinInfo>)> done) {
  runner_->cache().SetPurpose({.reason = "unpin"});
  pins_->Expire(NowMs());
  if (Status status = StartPin(spec, done); !status.ok()) done(status.error());
}

Status Engine::StartPin(const PinSpec& spec, const std::function<void(Result<PinInfo>)>& done) {
  QUIRE_RETURN_IF_ERROR(CheckPin(spec, context_length()));
  const auto num_tokens = static_cast<int>(spec.tokens.size());
  IdentityChain chain(RootOf(runner_->fingerprint(), spec.cache_salt));
  std::vector<BlockId> found;
  cache().Match(chain, spec.tokens, num_tokens, &found);
  QUIRE_ASSIGN_OR_RETURN(
      const PinId pin,
      pins_->Begin(spec, cache().layout().BlocksHeld(num_tokens, num_tokens), found));
  Request request{.prompt = spec.tokens,
                  .max_tokens = 1,
                  .cache_salt = spec.cache_salt,
                  .tenant = spec.tenant,
                  .tenant_max_blocks = spec.tenant_max_blocks};
  Result<RequestId> submitted = Enqueue(std::move(request), {});
  if (!submitted.ok()) {
    pins_->Cancel(pin);
    return submitted.error();
  }
  RequestState& state = *requests_.at(*submitted);
  state.pin = pin;
  state.on_pinned = done;
  if (trace_) trace_->RequestCame(state);
  return {};
}

void Engine::FinishPins(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    const auto owner = owners_.find(item.sequence);
    if (owner == owners_.end() || !item.reaches_end) continue;
    RequestState& request = *owner->second.first;
    if (!request.pin) continue;
    request.pinned = pins_->Complete(*request.pin, batch_->Keep(item.sequence), NowMs());
    Finish(request, FinishReason::kStop);
  }
}

// The pin of a request that ends: held by then, or given up.
void Engine::EndPin(RequestState& request, FinishReason reason) {
  if (request.pinned) return;
  pins_->Cancel(*request.pin);
  request.pinned =
      !request.result.status.ok()
          ? request.result.status.error()
          : MakeError(ErrorCode::kInterrupted, "the pin was given up before it was computed ({})",
                      NameOf(reason));
}

std::vector<PinInfo> Engine::Pins(std::string_view tenant) const {
  return pins_->List(tenant, NowMs());
}

bool Engine::DropPin(std::string_view tenant, PinId id) {
  runner_->cache().SetPurpose({.reason = "unpin"});
  pins_->Expire(NowMs());
  return pins_->Drop(tenant, id);
}

int64_t Engine::num_pinned_blocks() const { return pins_->num_blocks(); }

}  // namespace quire
