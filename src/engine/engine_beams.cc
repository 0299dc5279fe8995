// How the engine answers requests with beams (engine/beam_search.h): a sequence a beam.
#include <algorithm>

#include "engine/engine.h"
#include "engine/engine_trace.h"
#include "engine/request_state.h"
#include "text/stream_decoder.h"

namespace quire {
namespace {

// The ids of a beam's answer as a choice with its text.
Choice ChoiceOf(BeamAnswer found, int index, const Tokenizer& tokenizer, const Request& request) {
  Choice choice{.index = index,
                .finish_reason = found.finish_reason,
                .cumulative_log_prob = found.cumulative_log_prob,
                .score = found.score};
  std::span<const int32_t> shown = found.tokens;
  if (found.finish_reason == FinishReason::kStop) {
    choice.matched_stop_token = shown.back();
    if (!request.include_stop) shown = shown.first(shown.size() - 1);
  }
  StreamDecoder decoder(tokenizer, request.show_control_tokens);
  for (const int32_t token : shown) choice.text += decoder.Push(token);
  choice.text += decoder.Finish();
  choice.tokens = std::move(found.tokens);
  return choice;
}

}  // namespace

void Engine::TakeProposals(RequestState& request, int member, std::vector<TokenLogProb> proposals) {
  if (!request.has_forked) {
    NoteFirstToken(request);
  }
  request.proposals.resize(request.members.size());
  request.proposals[member] = std::move(proposals);
  if (std::ranges::all_of(request.proposals, [](const auto& some) { return some.has_value(); })) {
    AdvanceBeams(request);
  }
}

void Engine::AdvanceBeams(RequestState& request) {
  request.last_token_at_ms = NowMs();
  std::vector<std::vector<TokenLogProb>> candidates;
  for (auto& proposals : request.proposals) candidates.push_back(std::move(*proposals));
  request.proposals.clear();
  const std::vector<BeamExtension> next = request.beams->Advance(candidates);
  counters_.generated_tokens += static_cast<int64_t>(next.size());
  // The first child of a beam goes on in its sequence, the others fork from it before it grows.
  std::vector<SequenceId> members;
  std::vector<bool> is_taken(request.members.size(), false);
  for (const BeamExtension& extension : next) {
    SequenceId sequence = request.members[extension.parent];
    if (is_taken[extension.parent]) sequence = batch_->Fork(sequence);
    is_taken[extension.parent] = true;
    members.push_back(sequence);
  }
  for (size_t i = 0; i < next.size(); ++i) {
    batch_->Append(members[i], next[i].token);
    if (!trace_) continue;
    const auto length = static_cast<int>(batch_->tokens(members[i]).size());
    trace_->TokenDrawn(request, static_cast<int>(i), length - 1, next[i].token,
                       /*was_drafted=*/false, {});
  }
  for (size_t i = 0; i < request.members.size(); ++i) {
    if (!is_taken[i]) RemoveMember(request, static_cast<int>(i));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    owners_[members[i]] = {&request, static_cast<int>(i)};
  }
  request.members = std::move(members);
  if (request.beams->is_over() || next.empty()) Finish(request, FinishReason::kLength);
}

void Engine::FinishBeams(RequestState& request, FinishReason reason) {
  std::vector<Choice>& choices = request.result.choices;
  for (BeamAnswer& found : request.beams->Finish(request.request.num_choices, reason)) {
    choices.push_back(ChoiceOf(std::move(found), static_cast<int>(choices.size()),
                               model().tokenizer(), request.request));
    Remember(request, choices.back());
  }
}

}  // namespace quire
