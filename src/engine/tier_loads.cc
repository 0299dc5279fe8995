#include "engine/tier_loads.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace quire {
namespace {

// An answer about what is there that takes longer is not waited for.
constexpr double kFindMs = 100;
// A tier is given so much to do at a time, and twice that is under way: little enough that pool
// blocks do not lie in the hands of a slow tier, and enough to keep a fast one busy.
constexpr double kBatchMs = 25;
constexpr size_t kMostBatchBlocks = 64;
constexpr size_t kFirstBatchBlocks = 8;  // while the speed is not known
// A tier that is too slow is tried again with one block after so long: it may have become faster.
constexpr double kTrialMs = 10'000;
// A load that has brought nothing for so long makes its sequence compute in small chunks no more.
constexpr double kNewsMs = 1000;
// A tier that let a sequence wait in vain is not asked for so long.
constexpr double kFirstRestMs = 1000;
constexpr double kLongestRestMs = 60'000;
constexpr double kLongestBatchMs = 2000;
// A batch may take so many times what is expected.
constexpr double kPatience = 4;

TierDeadline After(TierDeadline now, double ms) {
  return now + std::chrono::microseconds(static_cast<int64_t>(ms * 1000));
}

// The tier is in trouble, not the record alone.
bool IsOfTier(RecordFault fault) {
  return fault == RecordFault::kIo || fault == RecordFault::kTimeout || fault == RecordFault::kDown;
}

}  // namespace

TierLoads::Load::Load(const PrefixWanted& wanted)
    : sequence(wanted.sequence),
      root(wanted.root),
      salt(wanted.salt),
      // The last token is computed in any case.
      tokens(wanted.tokens.begin(),
             wanted.tokens.begin() + static_cast<std::ptrdiff_t>((wanted.tokens.size() - 1) /
                                                                 kBlockSlots * kBlockSlots)),
      chain(wanted.root),
      waited_ms(wanted.waited_ms) {}

TierLoads::TierLoads(TierSet& tiers, KvCache& cache, const TierLoadOptions& options)
    : tiers_(tiers), cache_(cache), options_(options), stalls_(tiers.num_tiers()) {}

TierLoads::~TierLoads() = default;

TierLoads::Load* TierLoads::Find(SequenceId sequence) {
  const auto found = loads_.find(sequence);
  return found == loads_.end() ? nullptr : &found->second;
}

const TierLoads::Load* TierLoads::Find(SequenceId sequence) const {
  return const_cast<TierLoads*>(this)->Find(sequence);
}

// --- Asking ---

void TierLoads::Begin(const PrefixWanted& wanted, const LoadMoment& moment) {
  if (IsKnown(wanted.sequence)) return;
  Load& load = loads_.emplace(wanted.sequence, Load(wanted)).first->second;
  const int num_groups = cache_.layout().num_groups();
  const int num_entries = static_cast<int>(load.tokens.size()) / kBlockSlots;
  load.sources.assign(static_cast<size_t>(num_entries) * num_groups, kNowhere);
  load.tier_of_entry.assign(num_entries, -1);
  std::vector<BlockKey> keys;
  std::vector<bool> has(num_groups);
  for (int entry = 0; entry < num_entries; ++entry) {
    cache_.FindEntry(load.chain, load.tokens, entry, has);
    for (int group = 0; group < num_groups; ++group) {
      if (has[group]) {
        load.sources[static_cast<size_t>(entry) * num_groups + group] = kInMemory;
      } else {
        load.asked.emplace_back(entry, group);
        keys.push_back({.id = load.chain.ids()[entry], .group = group});
      }
    }
  }
  if (keys.empty()) {
    Settle(load);
    return;
  }
  const int first = load.asked.front().first;
  counters_.tokens_asked += int64_t{num_entries - first} * kBlockSlots;
  load.found.resize(tiers_.num_tiers());
  load.find = tiers_.Find(std::move(keys), After(moment.now, kFindMs));
  asking_.emplace(load.find, load.sequence);
}

void TierLoads::TakeFound(const TierEvent& event, const LoadMoment& moment) {
  const auto asking = asking_.find(event.ticket);
  if (asking == asking_.end()) return;
  Load& load = *Find(asking->second);
  load.found[event.tier] = event.found;
  if (event.fault != RecordFault::kNone && load.fault == RecordFault::kNone) {
    load.fault = event.fault;
    load.fault_tier = event.tier;
  }
  if (!HasAnswers(load)) return;
  tiers_.Cancel(load.find);
  asking_.erase(asking);
  Decide(load, moment);
}

// Whether further answers would change nothing: all tiers have answered, or those that have, have
// it all.
bool TierLoads::HasAnswers(const Load& load) const {
  if (std::ranges::all_of(load.found, [](const auto& found) { return found.has_value(); })) {
    return true;
  }
  for (size_t i = 0; i < load.asked.size(); ++i) {
    if (std::ranges::none_of(load.found, [i](const auto& found) { return found && (*found)[i]; })) {
      return false;
    }
  }
  return true;
}

// --- Deciding ---

void TierLoads::Decide(Load& load, const LoadMoment& moment) {
  const int num_groups = cache_.layout().num_groups();
  for (size_t i = 0; i < load.asked.size(); ++i) {
    const auto [entry, group] = load.asked[i];
    for (size_t tier = 0; tier < load.found.size(); ++tier) {
      if (!load.found[tier] || !(*load.found[tier])[i]) continue;
      if (moment.now_ms < stalls_[tier].until_ms) {
        load.stalled_tier = static_cast<int>(tier);
        continue;
      }
      load.sources[static_cast<size_t>(entry) * num_groups + group] =
          static_cast<BlockSource>(tier + 1);
      break;
    }
  }
  const LoadablePrefix prefix = FindLoadable(cache_.layout(), load.sources);
  load.end_token = prefix.num_entries * kBlockSlots;
  if (prefix.missing.empty()) {
    Settle(load);
    return;
  }
  load.decision = Weigh(load, prefix, moment);
  ++counters_.choices[static_cast<size_t>(load.decision.choice)];
  if (load.decision.choice == LoadChoice::kRecompute) {
    load.is_trial = moment.now_ms - last_load_ms_ >= kTrialMs;
    if (!load.is_trial) {
      Settle(load);
      return;
    }
  }
  load.phase = Phase::kLoading;
  load.last_news_ms = moment.now_ms;
  if (!load.is_trial) HoldMemory(load, prefix);
  load.blocks_left = SpareBlocks(moment);
  MakeItems(load, prefix);
}

LoadDecision TierLoads::Weigh(const Load& load, const LoadablePrefix& prefix,
                              const LoadMoment& moment) const {
  LoadQuestion question{.first_token = prefix.missing.front().entry * kBlockSlots,
                        .end_token = load.end_token,
                        .prefill = moment.prefill};
  size_t num_bytes = 0;
  for (const LoadablePrefix::Missing& missing : prefix.missing) {
    num_bytes += cache_.layout().groups[missing.group].bytes;
  }
  for (const LoadablePrefix::Missing& missing : prefix.missing) {
    const TierSpeed speed = tiers_.speed(missing.tier);
    if (speed.Ms(num_bytes) >= question.speed.Ms(num_bytes)) question.speed = speed;
  }
  question.bytes_per_token =
      static_cast<double>(num_bytes) / std::max(1, question.end_token - question.first_token);
  for (const auto& [ticket, flight] : flights_) {
    const TierSpeed speed = tiers_.speed(flight.tier);
    if (speed.bytes_per_ms > 0) {
      question.queued_ms += static_cast<double>(flight.num_open) *
                            static_cast<double>(cache_.layout().block_bytes) / speed.bytes_per_ms;
    }
  }
  return DecideLoad(question);
}

StoredBlock TierLoads::BlockOf(const Load& load, int entry, int group) const {
  StoredBlock block{.id = load.chain.ids()[entry],
                    .parent = load.chain.parent(entry),
                    .root = load.root,
                    .group = group,
                    .entry = entry};
  std::copy_n(load.tokens.begin() + entry * kBlockSlots, kBlockSlots, block.tokens.begin());
  return block;
}

// What memory has of the prefix is not to give way to the rest of it.
void TierLoads::HoldMemory(Load& load, const LoadablePrefix& prefix) {
  const KvLayout& layout = cache_.layout();
  for (int entry = 0; entry < prefix.num_entries; ++entry) {
    for (int group = 0; group < layout.num_groups(); ++group) {
      if (entry < layout.groups[group].FirstEntryRead(load.end_token)) continue;
      if (auto hold = cache_.Hold(BlockOf(load, entry, group))) {
        load.held.emplace_back(entry, std::move(*hold));
      }
    }
  }
}

// A load brings the first entries first: wherever it stops, what has come is of use. A split goes
// backwards, towards what is being computed.
void TierLoads::MakeItems(Load& load, const LoadablePrefix& prefix) {
  const bool is_split = load.decision.choice == LoadChoice::kSplit;
  for (const LoadablePrefix::Missing& missing : prefix.missing) {
    if (is_split && missing.entry * kBlockSlots < load.decision.first_loaded) continue;
    load.items.push_back(
        {.block = BlockOf(load, missing.entry, missing.group), .tier = missing.tier});
  }
  if (is_split) std::ranges::reverse(load.items);
  if (load.is_trial) load.items.resize(1);
}

// --- Loading ---

size_t TierLoads::BatchBlocks(int tier) const {
  const TierSpeed speed = tiers_.speed(tier);
  if (speed.bytes_per_ms <= 0) return kFirstBatchBlocks;
  const double blocks =
      kBatchMs * speed.bytes_per_ms / static_cast<double>(cache_.layout().block_bytes);
  return static_cast<size_t>(std::clamp(blocks, 1.0, static_cast<double>(kMostBatchBlocks)));
}

int64_t TierLoads::SpareBlocks(const LoadMoment& moment) const {
  return cache_.usage().available_blocks() - moment.reserved_blocks;
}

void TierLoads::Issue(Load& load, const LoadMoment& moment) {
  std::vector<bool> has(cache_.layout().num_groups());
  for (int tier = 0; tier < tiers_.num_tiers(); ++tier) {
    const size_t batch_blocks = BatchBlocks(tier);
    Flight flight{.sequence = load.sequence, .tier = tier};
    std::vector<BlockLoad> loads;
    for (size_t i = 0; i < load.items.size() && flight.pieces.size() < batch_blocks; ++i) {
      Item& item = load.items[i];
      if (item.tier != tier || item.state == ItemState::kSettled ||
          item.state == ItemState::kUnderWay) {
        continue;
      }
      if (static_cast<size_t>(load.num_under_way) + flight.pieces.size() >= 2 * batch_blocks) break;
      if (item.block.entry * kBlockSlots < load.num_computed) {
        item.state = ItemState::kSettled;
        continue;
      }
      cache_.FindEntry(load.chain, load.tokens, item.block.entry, has);
      if (has[item.block.group]) {
        item.state = ItemState::kSettled;
        continue;
      }
      if (under_way_.contains({item.block.id, item.block.group})) {
        item.state = ItemState::kElsewhere;
        continue;
      }
      if (load.blocks_left <= 0) {
        item.state = ItemState::kSettled;
        continue;
      }
      if (SpareBlocks(moment) <= 0) break;
      std::optional<BlockHold> hold = cache_.ReserveBlock();
      if (!hold) break;
      --load.blocks_left;
      item.state = ItemState::kUnderWay;
      loads.push_back({.block = item.block, .payload = cache_.Memory(*hold, item.block.group)});
      under_way_.emplace(item.block.id, item.block.group);
      flight.pieces.push_back({.block = item.block, .item = i, .hold = std::move(hold)});
    }
    if (loads.empty()) continue;
    last_load_ms_ = moment.now_ms;
    flight.num_open = static_cast<int>(loads.size());
    load.num_under_way += flight.num_open;
    const double expected_ms =
        tiers_.speed(tier).Ms(loads.size() * cache_.layout().block_bytes) * kPatience;
    const TierDeadline deadline =
        After(moment.now, std::clamp(expected_ms, options_.max_wait_ms,
                                     std::max(options_.max_wait_ms, kLongestBatchMs)));
    flights_.emplace(tiers_.Load(tier, std::move(loads), deadline), std::move(flight));
  }
}

void TierLoads::TakeLoaded(const TierEvent& event) {
  const auto found = flights_.find(event.ticket);
  QUIRE_CHECK(found != flights_.end(), "no load {}", event.ticket);
  Flight& flight = found->second;
  Flight::Piece& piece = flight.pieces[event.idx];
  QUIRE_CHECK(piece.hold.has_value(), "block {} of load {} came twice", event.idx, event.ticket);
  under_way_.erase({piece.block.id, piece.block.group});
  Load* load = Find(flight.sequence);
  if (event.fault == RecordFault::kNone) {
    cache_.Publish(*piece.hold, piece.block);
    flight.has_brought = true;
    stalls_[flight.tier] = {};
    if (load != nullptr) load->last_news_ms = now_ms_;
  }
  // The tier gives, only not as fast as was thought: the block is asked for again.
  const bool is_late = event.fault == RecordFault::kTimeout && flight.has_brought;
  if (load != nullptr) {
    --load->num_under_way;
    load->items[piece.item].state = is_late ? ItemState::kToDo : ItemState::kSettled;
    if (event.fault == RecordFault::kNone) {
      load->tier_of_entry[piece.block.entry] = static_cast<int8_t>(flight.tier);
      load->held.emplace_back(piece.block.entry, std::move(*piece.hold));
    } else if (event.fault != RecordFault::kCancelled && !is_late) {
      if (load->fault == RecordFault::kNone) {
        load->fault = event.fault;
        load->fault_tier = flight.tier;
      }
      if (IsOfTier(event.fault)) GiveUp(*load, flight.tier);
    }
  }
  piece.hold.reset();
  if (--flight.num_open == 0) flights_.erase(found);
}

// Nothing more is asked of that tier for this sequence.
void TierLoads::GiveUp(Load& load, int tier) {
  for (Item& item : load.items) {
    if (item.tier != tier || item.state == ItemState::kSettled ||
        item.state == ItemState::kUnderWay) {
      continue;
    }
    item.state = ItemState::kSettled;
  }
  for (const auto& [ticket, flight] : flights_) {
    if (flight.sequence == load.sequence && flight.tier == tier) tiers_.Cancel(ticket);
  }
}

void TierLoads::Settle(Load& load) {
  load.phase = Phase::kDone;
  ReleaseHeld(load);
}

void TierLoads::ReleaseHeld(Load& load) {
  // What is given back first is evicted first: the tail.
  std::ranges::stable_sort(load.held, std::ranges::greater{},
                           [](const auto& held) { return held.first; });
  for (auto& [entry, hold] : load.held) {
    const BlockHold released = std::move(hold);
  }
  load.held.clear();
}

// A tier that has brought nothing for as long as anybody may wait is left alone for a while.
void TierLoads::CountWait(Load& load, double now_ms) {
  last_held_ms_ = std::max(0.0, now_ms - load.held_since_ms);
  load.waited_ms += last_held_ms_;
  load.held_since_ms = -1;
  if (load.phase != Phase::kLoading || Awaits(load.sequence)) return;
  if (now_ms - load.last_news_ms < options_.max_wait_ms / 2) return;
  for (const auto& [ticket, flight] : flights_) {
    if (flight.sequence != load.sequence) continue;
    Stall& stall = stalls_[flight.tier];
    if (stall.rest_ms == 0) stall.since_ms = now_ms;
    stall.rest_ms = std::clamp(2 * stall.rest_ms, kFirstRestMs, kLongestRestMs);
    stall.until_ms = now_ms + stall.rest_ms;
  }
}

void TierLoads::Pump(const LoadMoment& moment) {
  now_ms_ = moment.now_ms;
  for (auto& [sequence, load] : loads_) {
    if (load.held_since_ms >= 0) CountWait(load, moment.now_ms);
  }
  for (const TierEvent& event : tiers_.TakeEvents()) {
    if (event.kind == TierEvent::Kind::kFound) {
      TakeFound(event, moment);
    } else {
      TakeLoaded(event);
    }
  }
  int num_loading = 0;
  for (auto& [sequence, load] : loads_) {
    if (load.phase != Phase::kLoading) continue;
    // Who runs goes first: what has come stays findable, as long as nobody needs the memory.
    if (SpareBlocks(moment) < 0) ReleaseHeld(load);
    if (++num_loading <= options_.max_loads) Issue(load, moment);
    const bool is_over =
        load.num_under_way == 0 && std::ranges::all_of(load.items, [](const Item& item) {
          return item.state == ItemState::kSettled;
        });
    if (is_over) Settle(load);
  }
  // Loads that hold all there is, and wait for each other.
  if (SpareBlocks(moment) <= 0 && flights_.empty()) {
    for (auto& [sequence, load] : loads_) {
      if (load.phase != Phase::kLoading) continue;
      for (int tier = 0; tier < tiers_.num_tiers(); ++tier) GiveUp(load, tier);
      Settle(load);
    }
  }
}

// --- The sequence ---

void TierLoads::HoldBack(SequenceId sequence, double now_ms) {
  if (Load* load = Find(sequence)) load->held_since_ms = now_ms;
}

bool TierLoads::Awaits(SequenceId sequence) const {
  const Load* load = Find(sequence);
  if (load == nullptr || load->phase == Phase::kDone) return false;
  if (load->phase == Phase::kLoading && load->decision.choice != LoadChoice::kLoad) return false;
  return load->waited_ms + last_held_ms_ <= options_.max_wait_ms;
}

double TierLoads::WaitedMs(SequenceId sequence) const {
  const Load* load = Find(sequence);
  return load == nullptr ? 0 : load->waited_ms;
}

void TierLoads::Advance(SequenceId sequence, int num_computed) {
  if (Load* load = Find(sequence)) load->num_computed = num_computed;
}

void TierLoads::End(SequenceId sequence) {
  const auto found = loads_.find(sequence);
  if (found == loads_.end()) return;
  Load& load = found->second;
  if (load.phase == Phase::kAsking) {
    tiers_.Cancel(load.find);
    asking_.erase(load.find);
  }
  for (auto& [ticket, flight] : flights_) {
    if (flight.sequence != sequence) continue;
    flight.sequence = 0;
    tiers_.Cancel(ticket);
  }
  Settle(load);
  loads_.erase(found);
}

bool TierLoads::IsLoading(SequenceId sequence, int num_tokens) const {
  const Load* load = Find(sequence);
  if (load == nullptr || load->is_trial) return false;
  if (load->phase == Phase::kLoading && now_ms_ - load->last_news_ms < kNewsMs) return true;
  // Behind a block that did not come.
  for (size_t entry = num_tokens / kBlockSlots + 1; entry < load->tier_of_entry.size(); ++entry) {
    if (load->tier_of_entry[entry] >= 0) return true;
  }
  return false;
}

int TierLoads::EndToken(SequenceId sequence) const {
  const Load* load = Find(sequence);
  return load == nullptr ? 0 : load->end_token;
}

std::optional<TierKind> TierLoads::SourceOf(SequenceId sequence, int entry) const {
  const Load* load = Find(sequence);
  if (load == nullptr || entry >= static_cast<int>(load->tier_of_entry.size()) ||
      load->tier_of_entry[entry] < 0) {
    return std::nullopt;
  }
  return tiers_.tier(load->tier_of_entry[entry]).kind();
}

bool TierLoads::BeatsComputing(int num_tokens, const PrefillCost& prefill) const {
  for (int tier = 0; tier < tiers_.num_tiers(); ++tier) {
    if (!tiers_.tier(tier).state().is_up) continue;
    const double bytes = static_cast<double>(cache_.layout().bytes_per_token);
    const LoadDecision decision = DecideLoad({.end_token = num_tokens,
                                              .bytes_per_token = bytes,
                                              .speed = tiers_.speed(tier),
                                              .prefill = prefill});
    if (decision.choice != LoadChoice::kRecompute) return true;
  }
  return false;
}

void TierLoads::Explain(SequenceId sequence, PrefixMiss& miss) const {
  const Load* load = Find(sequence);
  // Tiers keep whole blocks: where they had them all, all was found that may be.
  if (load != nullptr && !load->tier_of_entry.empty() && load->tier_of_entry.back() >= 0 &&
      miss.position >= static_cast<int>(load->tokens.size())) {
    miss.reason = MissReason::kNone;
    return;
  }
  if (load != nullptr && load->stalled_tier >= 0 && miss.reason != MissReason::kNone) {
    miss.reason = MissReason::kTierDown;
    miss.tier = NameOf(tiers_.tier(load->stalled_tier).kind());
    miss.detail = "it lets loads wait in vain";
    miss.down_for_ms = now_ms_ - stalls_[load->stalled_tier].since_ms;
    return;
  }
  if (load == nullptr || miss.reason == MissReason::kNone || miss.position >= load->end_token) {
    if (load == nullptr) return;
  } else if (load->fault != RecordFault::kNone && load->fault != RecordFault::kDown) {
    miss.reason = MissReason::kTierFault;
    miss.tier = NameOf(tiers_.tier(load->fault_tier).kind());
    miss.detail = NameOf(load->fault);
    return;
  } else if (load->decision.choice == LoadChoice::kRecompute) {
    miss.reason = MissReason::kCheaperToCompute;
    miss.load_ms = load->decision.load_ms;
    miss.compute_ms = load->decision.compute_ms;
    for (const BlockSource source : load->sources) {
      if (source > kInMemory) miss.tier = NameOf(tiers_.tier(source - 1).kind());
    }
    return;
  }
  if (miss.reason != MissReason::kNeverSeen && miss.reason != MissReason::kEvicted) return;
  for (int idx = 0; idx < tiers_.num_tiers(); ++idx) {
    const Tier& tier = tiers_.tier(idx);
    if (const TierState state = tier.state(); !state.is_up) {
      miss.reason = MissReason::kTierDown;
      miss.tier = NameOf(tier.kind());
      miss.detail = state.reason;
      miss.down_for_ms = state.down_for_ms;
      return;
    }
  }
  const size_t next = miss.position / kBlockSlots * kBlockSlots + kBlockSlots;
  if (miss.reason != MissReason::kNeverSeen || next > load->tokens.size()) return;
  for (int idx = 0; idx < tiers_.num_tiers(); ++idx) {
    const Tier& tier = tiers_.tier(idx);
    const auto differs =
        tier.OtherModel(load->salt, std::span<const int32_t>(load->tokens).first(next));
    if (!differs) continue;
    miss.reason = MissReason::kOtherModel;
    miss.tier = NameOf(tier.kind());
    miss.detail = *differs;
    return;
  }
}

void TierLoads::CheckInvariants() const {
  std::set<Key> open;
  std::map<SequenceId, int> num_under_way;
  for (const auto& [ticket, flight] : flights_) {
    int num_open = 0;
    for (const Flight::Piece& piece : flight.pieces) {
      if (!piece.hold) continue;
      ++num_open;
      const bool is_first = open.emplace(piece.block.id, piece.block.group).second;
      QUIRE_CHECK(is_first, "a block is loaded twice at a time");
    }
    QUIRE_CHECK(num_open == flight.num_open && num_open > 0, "load {}: {} open, {} counted", ticket,
                num_open, flight.num_open);
    num_under_way[flight.sequence] += num_open;
  }
  QUIRE_CHECK(open == under_way_, "{} blocks are under way, {} known", open.size(),
              under_way_.size());
  for (const auto& [sequence, load] : loads_) {
    QUIRE_CHECK(load.num_under_way == num_under_way[sequence], "sequence {}: {} under way",
                sequence, load.num_under_way);
    QUIRE_CHECK((load.phase == Phase::kAsking) == asking_.contains(load.find), "sequence {} asks",
                sequence);
    QUIRE_CHECK(load.phase != Phase::kDone || load.held.empty(), "sequence {} holds blocks",
                sequence);
  }
}

}  // namespace quire
