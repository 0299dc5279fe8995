// How the queue is served (engine/scheduler.h).
#include <algorithm>
#include <tuple>

#include "engine/step_planner.h"

namespace quire {

void StepPlanner::Admit() {
  std::vector<const SequenceState*> queue;
  for (const SequenceState& waiting : state_.queue) {
    if (waiting.deadline_ms && *waiting.deadline_ms <= state_.now_ms) {
      expiries_.push_back(LineOf(waiting, PlanAction::kExpire, PlanReason::kDeadline));
    } else if (static_cast<int>(waiting.tokens.size()) > waiting.num_computed) {
      queue.push_back(&waiting);
    }
  }
  std::ranges::sort(queue, {}, [](const SequenceState* waiting) {
    return std::tuple(waiting->priority, waiting->arrival_ms, waiting->id);
  });
  SequenceId behind = preempted_for_blocks_;
  for (const SequenceState* waiting : queue) {
    if (behind != 0) {
      Wait(*waiting, PlanReason::kBehind, behind);
    } else if (!AdmitOne(*waiting)) {
      behind = waiting->id;
    }
  }
}

// False when nobody behind it may pass.
bool StepPlanner::AdmitOne(const SequenceState& waiting) {
  const bool has_place = NumRunning() < options_.max_sequences;
  if (!has_place && std::ranges::none_of(running_, [&](const Runner& runner) {
        return GivesWay(runner, waiting);
      })) {
    Wait(waiting, PlanReason::kNoSlot);
    return false;
  }
  int common_tokens = 0;
  if (const SequenceState* sharer = SharerOf(waiting, &common_tokens)) {
    Wait(waiting, PlanReason::kSharedPrefix, sharer->id);
    waits_.back().common_tokens = common_tokens;
    return true;
  }
  if (std::min(prefill_left_, tokens_left_) == 0) {
    Wait(waiting, prefill_limit_);
    return false;
  }
  if (!MakeRoom(waiting)) {
    Wait(waiting, has_place ? PlanReason::kNoBlocks : PlanReason::kNoSlot);
    waits_.back().blocks_needed = AdmissionBlocks(waiting) + Reserve();
    waits_.back().blocks_available = AdmissionRoom();
    return false;
  }
  const int cached = waiting.match.num_tokens;
  const int gap = static_cast<int>(waiting.tokens.size()) - cached;
  const auto [num_tokens, reason] = ChunkOf(waiting, gap);

  Admission admission{.state = &waiting, .line = LineOf(waiting, PlanAction::kPrefill, reason)};
  PlanLine& line = admission.line;
  line.is_admission = true;
  line.cached_tokens = cached;
  line.first_position = cached;
  line.num_tokens = num_tokens;
  line.blocks_needed =
      std::max<int64_t>(0, layout_.BlocksHeld(cached, cached + num_tokens) - SharedBlocks(waiting));
  line.blocks_available = blocks_available_;
  admission.blocks_to_come = std::max<int64_t>(0, AdmissionBlocks(waiting) - line.blocks_needed);
  blocks_available_ -= line.blocks_needed;
  tokens_left_ -= num_tokens;
  prefill_left_ -= num_tokens;
  admissions_.push_back(admission);
  return true;
}

// The one that computes the longest common beginning, where at least a block of it is neither found
// nor computed yet. The last token is computed in any case.
const SequenceState* StepPlanner::SharerOf(const SequenceState& waiting, int* common_tokens) const {
  if (waiting.sharing_group < 0) return nullptr;
  const SequenceState* sharer = nullptr;
  const auto consider = [&](const SequenceState& other, int num_computed) {
    if (other.sharing_group != waiting.sharing_group) return;
    const size_t least = std::max(waiting.match.num_tokens, num_computed) + kBlockSlots;
    const size_t most = std::min(waiting.tokens.size() - 1, other.tokens.size());
    if (most < least || waiting.tokens[least - 1] != other.tokens[least - 1]) return;
    const auto ours = waiting.tokens.first(most);
    const auto common =
        static_cast<size_t>(std::ranges::mismatch(ours, other.tokens).in1 - ours.begin());
    if (common < least || static_cast<int>(common) <= *common_tokens) return;
    sharer = &other;
    *common_tokens = static_cast<int>(common);
  };
  for (const Runner& runner : running_) {
    if (runner.takes_part() && runner.gap() > 0) {
      consider(*runner.state, runner.state->num_computed);
    }
  }
  for (const Admission& admission : admissions_) {
    consider(*admission.state, admission.line.cached_tokens);
  }
  return sharer;
}

// Who is less urgent gives way, and where nothing computes, so do those that wait for a fellow: the
// fellow may be the one that waits here.
bool StepPlanner::GivesWay(const Runner& runner, const SequenceState& waiting) const {
  if (!runner.takes_part()) return false;
  const int priority = runner.state->priority;
  return priority > waiting.priority ||
         (priority == waiting.priority && runner.gap() == 0 && !Computes());
}

// A place, and blocks for all its tokens beside the reserve. Nobody is preempted unless that makes
// enough room.
bool StepPlanner::MakeRoom(const SequenceState& waiting) {
  // Those that would go, and the blocks that they would leave, less those that it shares with them.
  std::vector<Runner*> leaving;
  int64_t extra = 0;
  const auto fits = [&] {
    return NumRunning() < options_.max_sequences &&
           AdmissionBlocks(waiting) + Reserve() <= AdmissionRoom() + extra;
  };
  bool has_room = false;
  while (!(has_room = fits())) {
    Runner* victim = Victim(&waiting);
    if (victim == nullptr) {
      // Blocks that only those leaving share are not in the count. With everybody gone the pool is
      // its own, and what does not fit alone is never asked for.
      has_room = !leaving.empty() && NumRunning() == 0;
      break;
    }
    if (leaving.empty()) extra -= SharedBlocks(waiting);
    extra += victim->blocks_left();
    victim->is_preempted = true;  // for the count; undone below
    leaving.push_back(victim);
  }
  for (Runner* runner : leaving) runner->is_preempted = false;
  if (!has_room) return false;
  const bool lacks_place = NumRunning() >= options_.max_sequences;
  for (Runner* runner : leaving) {
    const bool is_urgent = runner->state->priority > waiting.priority;
    const PlanReason reason = is_urgent     ? PlanReason::kPriority
                              : lacks_place ? PlanReason::kNoSlot
                                            : PlanReason::kNoBlocks;
    Preempt(*runner, reason, waiting, AdmissionBlocks(waiting));
  }
  return true;
}

// What those that run will still take for the tokens they have.
int64_t StepPlanner::BlocksToCome(const Runner& runner) const {
  if (!runner.takes_part() || runner.gap() <= runner.line.num_tokens) return 0;
  const SequenceState& sequence = *runner.state;
  const int64_t all =
      layout_.PeakBlocks(static_cast<int>(sequence.tokens.size()), MaxChunk(sequence));
  return std::max<int64_t>(
      0, all + sequence.shared_tail_copies - sequence.blocks_held - runner.blocks_taken());
}

int64_t StepPlanner::AdmissionRoom() const {
  int64_t room = blocks_available_;
  for (const Runner& runner : running_) room -= BlocksToCome(runner);
  for (const Admission& admission : admissions_) room -= admission.blocks_to_come;
  return room;
}

int64_t StepPlanner::Reserve() const {
  const int num_running = NumRunning();
  if (num_running == 0) return 0;
  return options_.admission_reserve >= 0 ? options_.admission_reserve
                                         : int64_t{layout_.num_groups()} * num_running;
}

// What others hold of its prefix is there already, unless this plan takes it from its holders.
int64_t StepPlanner::SharedBlocks(const SequenceState& waiting) const {
  return preempts_.empty() ? waiting.match.blocks_used : 0;
}

// Blocks for all the tokens it has, out of those available; the copy of a partly shared one is
// among them.
int64_t StepPlanner::AdmissionBlocks(const SequenceState& waiting) const {
  const int64_t all =
      layout_.PeakBlocks(static_cast<int>(waiting.tokens.size()), MaxChunk(waiting));
  return std::max<int64_t>(0, all - SharedBlocks(waiting));
}

}  // namespace quire
