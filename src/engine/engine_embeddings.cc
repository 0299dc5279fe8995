// How the engine answers requests for a prompt's embedding (engine/prompt_embedding.h).
#include <algorithm>

#include "engine/engine.h"
#include "engine/request_state.h"

namespace quire {

std::vector<RequestState*> Engine::WantedStates(std::span<const StepItem> items,
                                                std::vector<int>& wanted) const {
  std::vector<RequestState*> owners;
  int first_row = 0;
  for (const StepItem& item : items) {
    RequestState* request = owners_.at(item.sequence).first;
    if (request->embedding) {
      const int end = item.first_position + item.num_tokens;
      const int next = std::max(request->embedding->next_position(), item.first_position);
      for (int position = next; position < end; ++position) {
        wanted.push_back(first_row + position - item.first_position);
        owners.push_back(request);
      }
    }
    first_row += item.num_tokens;
  }
  return owners;
}

void Engine::AddStates(std::span<RequestState* const> owners, std::span<const float> states) {
  const auto width = static_cast<size_t>(runner_->hidden_width());
  for (size_t i = 0; i < owners.size(); ++i) {
    owners[i]->embedding->Add(states.subspan(i * width, width));
  }
}

void Engine::FinishEmbeddings(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    const auto owner = owners_.find(item.sequence);
    if (owner == owners_.end()) continue;
    RequestState& request = *owner->second.first;
    if (!request.embedding || !item.reaches_end) continue;
    NoteAdmission(request);
    request.has_forked = true;
    CountPrompt(request);
    auto embedding = request.embedding->Finish();
    if (embedding.ok()) {
      request.result.embedding = std::move(*embedding);
      Finish(request, FinishReason::kStop);
    } else {
      Finish(request, FinishReason::kError, embedding.error());
    }
  }
}

}  // namespace quire
