// How the engine speculates (docs/speculation.md): rows behind a decode whose tokens may come next.
#include <algorithm>

#include "engine/engine.h"
#include "engine/request_state.h"

namespace quire {

// What draws from the cache's entries and from one row at a time: no beams, which weigh rows
// against each other; no pins and embeddings, which draw nothing; nothing before the first token,
// which belongs to the prompt.
bool Engine::MayDraft(const RequestState& request) const {
  return request.has_forked && !request.beams && !request.embedding && !request.pin &&
         request.request.use_kv_cache && request.request.max_drafts.value_or(1) > 0;
}

Drafter& Engine::DrafterOf(RequestState& request, int member) {
  if (request.drafters.size() < request.members.size()) {
    request.drafters.resize(request.members.size());
  }
  std::unique_ptr<Drafter>& drafter = request.drafters[member];
  if (!drafter) {
    drafter =
        std::make_unique<Drafter>(batch_->tokens(request.members[member]), draft_policy_.rates());
  }
  return *drafter;
}

void Engine::AddDrafts(StepPlan& plan) {
  const SpeculationOptions& options = options_.speculation;
  if (options.type == SpeculationType::kNone || !plan.only_decodes()) return;
  if (plan.num_tokens >= StepTimes::kMostRows && !options.drafts_always) return;
  std::vector<SequenceDrafts> drafts;  // [decodes of the step]
  std::vector<std::vector<double>> chances;
  for (const PlanLine& line : plan.lines) {
    if (line.num_tokens == 0) continue;
    drafts.push_back({.sequence = line.sequence, .tokens = {}});
    std::vector<double>& chance = chances.emplace_back();
    const auto& [request, member] = owners_.at(line.sequence);
    if (!MayDraft(*request)) continue;
    // The step draws one token more than it accepts drafts.
    const int most =
        std::min({options.max_drafts, request->request.max_drafts.value_or(options.max_drafts),
                  request->answers[member].tokens_left() - 1});
    if (most <= 0) continue;
    Drafter& drafter = DrafterOf(*request, member);
    if (options.type == SpeculationType::kNgramCache && drafter.WantsContinuation()) {
      drafter.SetContinuation(batch_->Continuation(line.sequence, options.max_drafts));
    }
    chance = options.drafts_always ? std::vector<double>(most, 1.0) : drafter.Chances(most);
  }
  std::vector<int> counts;
  if (options.drafts_always) {
    for (const std::vector<double>& chance : chances) {
      counts.push_back(static_cast<int>(chance.size()));
    }
  } else {
    const SchedulerOptions& scheduler = options_.scheduler;
    counts = draft_policy_.Choose(chances, scheduler.max_batched_tokens - plan.num_tokens,
                                  scheduler.target_step_ms);
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    if (counts[i] == 0) continue;
    const auto& [request, member] = owners_.at(drafts[i].sequence);
    drafts[i].tokens =
        request->drafters[member]->Draft(batch_->tokens(drafts[i].sequence), counts[i]);
  }
  std::erase_if(drafts, [](const SequenceDrafts& draft) { return draft.tokens.empty(); });
  if (!drafts.empty()) batch_->AddDrafts(plan, drafts);
}

// Takes the drafts out of a step; false where there are none.
bool Engine::StripDrafts(std::span<StepItem> items) {
  bool has_any = false;
  for (StepItem& item : items) {
    has_any |= item.num_drafts > 0;
    item.num_tokens -= item.num_drafts;
    item.tokens = item.tokens.first(item.num_tokens);
    item.num_drafts = 0;
  }
  return has_any;
}

bool Engine::TakesDraft(const RowUse& use, int32_t token) {
  RequestState& request = *use.request;
  DraftCounters& counters = counters_.drafts;
  if (use.num_drafts > 0 && use.draft_idx == 0) {
    ++counters.drafts;
    counters.draft_tokens += use.num_drafts;
    request.result.draft_tokens += use.num_drafts;
  }
  if (use.next_draft < 0 || token != use.next_draft) return false;
  ++counters.accepted;
  ++counters.accepted_at[use.draft_idx];
  ++request.result.accepted_draft_tokens;
  const SequenceId sequence = request.has_ended ? 0 : request.members[use.member];
  if (sequence == 0) return false;  // it was the answer's last token
  batch_->AcceptDraft(sequence);
  return true;
}

// What the policy learns from: steps that decode alone, from the forward pass to the last draw.
void Engine::NoteStepTime(const StepPlan& plan, int num_rows, double duration_ms) {
  if (options_.speculation.type == SpeculationType::kNone || !plan.only_decodes()) return;
  if (num_rows != plan.num_tokens + plan.num_drafts) return;
  draft_policy_.Observe(plan.num_tokens, num_rows, duration_ms);
}

// What the step with its drafts takes over the same without; 0 = not known.
double Engine::DraftsFactor(const StepPlan& plan, int num_rows) const {
  if (plan.num_drafts == 0) return 1;
  if (num_rows != plan.num_tokens + plan.num_drafts) return 0;
  return draft_policy_.MeasuredRatio(plan.num_tokens, num_rows);
}

}  // namespace quire
