// A step's rows of logits: which are wanted and for what, and what is drawn from them.
#include <algorithm>

#include "engine/engine.h"
#include "engine/engine_trace.h"
#include "engine/request_state.h"

namespace quire {

// What one row of logits gave.
struct Engine::Draw {
  RequestState* request = nullptr;
  int member = 0;
  size_t row = 0;
  SampledToken sampled{};
  std::vector<TokenLogProb> proposals{};   // with beams
  std::vector<TokenLogProb> candidates{};  // where a trace asks for them
  Status status{};
};

std::vector<Engine::RowUse> Engine::WantedRows(std::span<const StepItem> items,
                                               std::vector<int>& wanted) const {
  std::vector<RowUse> uses;
  int first_row = 0;
  for (const StepItem& item : items) {
    const auto& [request, member] = owners_.at(item.sequence);
    const int end = item.first_position + item.num_tokens;
    const auto want = [&](int position, bool is_prompt) {
      wanted.push_back(first_row + position - item.first_position);
      uses.push_back({.request = request,
                      .member = member,
                      .position = position,
                      .num_tokens = end,
                      .is_prompt = is_prompt});
    };
    if (request->request.prompt_logprobs && member == 0) {
      const auto& known = request->result.prompt_log_probs;
      const int last = std::min(end, request->result.prompt_tokens - 1);
      for (int position = item.first_position; position < last; ++position) {
        if (!known[position + 1]) want(position, /*is_prompt=*/true);
      }
    }
    if (item.reaches_end && !request->embedding && !request->pin) {
      for (int i = 0; i <= item.num_drafts; ++i) {
        want(end - 1 - item.num_drafts + i, /*is_prompt=*/false);
        RowUse& use = uses.back();
        use.num_tokens = use.position + 1;
        use.num_drafts = item.num_drafts;
        use.draft_idx = i;
        if (i < item.num_drafts) {
          use.next_draft = item.tokens[item.num_tokens - item.num_drafts + i];
        }
      }
    }
    first_row += item.num_tokens;
  }
  return uses;
}

Status Engine::ComputeRows(std::span<const StepItem> items, std::vector<RowUse>& uses) {
  const size_t vocab = static_cast<size_t>(vocab_size());
  std::vector<int> wanted;
  const std::vector<RowUse> added = WantedRows(items, wanted);
  const size_t num_rows = uses.size() + added.size();
  if (logits_.size() < num_rows * vocab) {
    // Address space for a row a sequence at once: growing row by row leaves holes in the heap.
    logits_.reserve(static_cast<size_t>(options_.runner.num_sequences) * vocab);
    logits_.resize(num_rows * vocab);
  }
  std::vector<int> wanted_states;
  const std::vector<RequestState*> state_owners = WantedStates(items, wanted_states);
  states_.resize(state_owners.size() * static_cast<size_t>(runner_->hidden_width()));
  QUIRE_RETURN_IF_ERROR(runner_->Forward(
      items, wanted, std::span(logits_).subspan(uses.size() * vocab, added.size() * vocab),
      wanted_states, states_, trace_ ? trace_->TimesOfPass() : nullptr));
  AddStates(state_owners, states_);
  uses.insert(uses.end(), added.begin(), added.end());
  return {};
}

std::vector<Engine::RowUse> Engine::Compute(std::vector<StepItem>& items) {
  std::vector<RowUse> uses;
  Status status = ComputeRows(items, uses);
  if (!status.ok() && StripDrafts(items)) {
    // What nobody may come to say is no reason to fail.
    ++counters_.drafts.stripped_steps;
    status = ComputeRows(items, uses);
  }
  if (status.ok()) return uses;
  // One of them cannot be computed: each alone gives the same bits, and shows which.
  std::vector<StepItem> computed;
  for (const StepItem& item : items) {
    const auto owner = owners_.find(item.sequence);
    if (owner == owners_.end()) continue;  // went with another of its request
    if (items.size() > 1) status = ComputeRows({&item, 1}, uses);
    if (status.ok()) {
      computed.push_back(item);
    } else {
      Finish(*owner->second.first, FinishReason::kError, status);
    }
  }
  std::erase_if(computed, [&](const StepItem& item) { return !owners_.contains(item.sequence); });
  items = std::move(computed);
  return uses;
}

std::span<const float> Engine::LogitsOf(size_t row) const {
  const size_t vocab = static_cast<size_t>(vocab_size());
  return std::span(logits_).subspan(row * vocab, vocab);
}

void Engine::UseRows(std::span<const RowUse> uses) {
  std::vector<Draw> draws;
  for (size_t row = 0; row < uses.size(); ++row) {
    const RowUse& use = uses[row];
    if (use.request->has_ended || use.draft_idx > 0) continue;
    if (use.is_prompt) {
      TellPromptLogProbs(use, LogitsOf(row));
      continue;
    }
    // The prompt's last row is what every answer begins with.
    const bool is_first = !use.request->has_forked && !use.request->beams;
    const int num_draws = is_first ? use.request->request.num_choices : 1;
    for (int i = 0; i < num_draws; ++i) {
      draws.push_back({.request = use.request, .member = use.member + i, .row = row});
    }
  }
  // Row by row of those with drafts: each draw sees all that came before it, as without drafts.
  while (!draws.empty()) {
    SampleDraws(draws, uses);
    std::vector<Draw> next;
    for (Draw& draw : draws) {
      RequestState& request = *draw.request;
      if (request.has_ended) continue;
      if (!draw.status.ok()) {
        Finish(request, FinishReason::kError, draw.status);
      } else if (request.beams) {
        TakeProposals(request, draw.member, std::move(draw.proposals));
      } else {
        const int32_t token = draw.sampled.token;
        const RowUse& use = uses[draw.row];
        if (trace_) {
          trace_->TokenDrawn(request, draw.member, use.num_tokens, token, token == use.next_draft,
                             draw.candidates);
        }
        TakeDraw(request, draw.member, std::move(draw.sampled));
        if (TakesDraft(use, token)) {
          next.push_back({.request = &request, .member = draw.member, .row = draw.row + 1});
        }
      }
    }
    draws = std::move(next);
    std::erase_if(draws, [](const Draw& draw) { return draw.request->has_ended; });
  }
}

void Engine::SampleDraws(std::span<Draw> draws, std::span<const RowUse> uses) {
  const int num_candidates = trace_ ? trace_->detail().candidates : 0;
  runner_->threads().ParallelFor(draws.size(), 1, [&](size_t begin, size_t end, int thread_idx) {
    for (size_t i = begin; i < end; ++i) {
      Draw& draw = draws[i];
      const std::span<const float> logits = LogitsOf(draw.row);
      if (draw.request->beams) {
        const RowUse& use = uses[draw.row];
        const int length = use.num_tokens - draw.request->result.prompt_tokens;
        std::span<const int32_t> banned;
        if (length < draw.request->request.min_tokens) banned = draw.request->beam_enders;
        auto best = ComputeBestLogProbs(logits, draw.request->beams->num_candidates(), banned);
        if (best.ok()) {
          draw.proposals = std::move(*best);
        } else {
          draw.status = best.error();
        }
        continue;
      }
      const Answer& answer = draw.request->answers[draw.member];
      auto sampled =
          Sample(answer.NextDraw(logits, uses[draw.row].num_tokens), &scratch_[thread_idx]);
      if (sampled.ok()) {
        draw.sampled = std::move(*sampled);
        if (num_candidates > 0) {
          auto best = ComputeBestLogProbs(logits, num_candidates, {});
          if (best.ok()) draw.candidates = std::move(*best);
        }
      } else {
        draw.status = sampled.error();
      }
    }
  });
}

void Engine::TellPromptLogProbs(const RowUse& use, std::span<const float> logits) {
  RequestState& request = *use.request;
  auto log_probs = ComputeLogProbs(logits, *request.request.prompt_logprobs,
                                   request.request.prompt[use.position + 1]);
  if (!log_probs.ok()) {
    Finish(request, FinishReason::kError, log_probs.error());
    return;
  }
  request.result.prompt_log_probs[use.position + 1] = std::move(*log_probs);
}

}  // namespace quire
