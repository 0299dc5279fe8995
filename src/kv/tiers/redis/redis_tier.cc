#include "kv/tiers/redis/redis_tier.h"

#include <utility>
#include <vector>

#include "kv/tiers/redis/record_reads.h"
#include "kv/tiers/redis/record_writes.h"
#include "kv/tiers/redis/redis_space.h"

namespace quire {
namespace {

constexpr std::string_view kHidden = "***";

class RedisTier final : public Tier {
 public:
  RedisTier(std::shared_ptr<const RecordCodec> codec, RedisUrl url, const RedisTierOptions& options)
      : space_(std::move(codec), std::move(url), options), reads_(&space_), writes_(&space_) {}

  // Looks whether the server answers at all; where it does not, it is left alone at once.
  void Try();

  TierKind kind() const override { return TierKind::kRemote; }
  TierStatus status() const override;
  TierState state() const override;

  bool MayHold(const BlockKey& key) const override {
    return space_.held().Holds(space_.codec().NameOf(key), space_.now_ms());
  }
  bool KnowsAll() const override { return false; }

  Status Find(std::span<const BlockKey> keys, TierDeadline deadline,
              std::vector<bool>& found) override {
    return reads_.Find(keys, deadline, found);
  }
  void Load(std::span<const BlockLoad> loads, TierDeadline deadline,
            const std::function<bool()>& cancelled,
            const std::function<void(size_t idx, RecordFault fault)>& done) override {
    if (loads.empty()) return;
    std::vector<RecordName> loaded;
    reads_.Load(loads, deadline, cancelled, done, &loaded);
    writes_.Touch(loaded);
  }
  StoreOutcome Store(const StoredBlock& block, std::span<const std::byte> payload,
                     TierDeadline deadline) override {
    return writes_.Store(block, payload, deadline);
  }
  void Touch(std::span<const BlockKey> keys) override {
    std::vector<RecordName> names;
    for (const BlockKey& key : keys) names.push_back(space_.codec().NameOf(key));
    writes_.Touch(names);
  }
  Status Flush(TierDeadline deadline) override { return writes_.Flush(deadline); }
  std::optional<TierSpeed> Measure(TierDeadline deadline) override {
    return reads_.Measure(deadline);
  }
  std::optional<std::string_view> OtherModel(std::string_view,
                                             std::span<const int32_t>) const override {
    return std::nullopt;  // a server cannot be asked without waiting
  }

 private:
  RedisSpace space_;
  RecordReads reads_;
  RecordWrites writes_;
};

void RedisTier::Try() {
  auto exchange = space_.link().Begin(Sooner(TierDeadline::max(), space_.options().connect_ms));
  if (exchange.fault() == RecordFault::kNone) {
    exchange.Send({"PING"});
    RespReply reply;
    if (exchange.Receive(&reply) == RecordFault::kNone && reply.text != "PONG") {
      exchange.Refuse(fmt::format("PING was answered with: {}", Printable(reply.text)));
    }
  }
  if (exchange.fault() == RecordFault::kNone) return;
  space_.Count(exchange.fault());
  space_.link().Trip();
}

TierState RedisTier::state() const {
  TierState state = space_.state();
  if (state.reason.empty()) state.reason = writes_.refusal();
  // Whatever a server repeats of what it was told.
  const std::string& password = space_.link().url().password;
  for (size_t at = 0; !password.empty(); at += kHidden.size()) {
    at = state.reason.find(password, at);
    if (at == std::string::npos) break;
    state.reason.replace(at, password.size(), kHidden);
  }
  return state;
}

TierStatus RedisTier::status() const {
  return {.kind = kind(),
          .place = space_.link().url().shown,
          .state = state(),
          .counters = space_.counters()};
}

}  // namespace

Result<std::unique_ptr<Tier>> OpenRedisTier(std::shared_ptr<const RecordCodec> codec,
                                            const RedisTierOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(RedisUrl url, ParseRedisUrl(options.url));
  if (!codec->has_key() && !options.trust_remote) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: whoever can write there could forge what is taken for computed; give a "
                     "key (--kv-key-file), or say --kv-trust-remote",
                     url.shown);
  }
  auto tier = std::make_unique<RedisTier>(std::move(codec), std::move(url), options);
  tier->Try();
  return std::unique_ptr<Tier>(std::move(tier));
}

}  // namespace quire
