// A request under way: its sequences, the answers that grow on them, and what it will return.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer.h"
#include "engine/beam_search.h"
#include "engine/pins.h"
#include "engine/prompt_embedding.h"
#include "engine/request.h"
#include "engine/step_plan.h"
#include "kv/identity.h"
#include "speculation/drafter.h"

namespace quire {

class RequestState {
 public:
  RequestId id = 0;
  Request request{};  // the answers point into it: a state does not move
  RequestHooks hooks{};
  Digest root{};
  double submitted_ms = 0;
  bool was_admitted = false;  // a step has computed something of it; as of the last note of that
  double first_token_at_ms = -1;
  double last_token_at_ms = -1;
  RequestResult result{};

  // Members are the request's sequences: its answers by index, or its live beams. While the prompt
  // is computed there is one.
  std::vector<SequenceId> members{};  // 0 = ended
  bool has_forked = false;            // the prompt is computed, and every answer has its sequence
  std::vector<Answer> answers{};      // [num_choices]; none with beams

  // [members] of those that decode; null where nothing is drafted, or was not yet.
  std::vector<std::unique_ptr<Drafter>> drafters{};

  std::optional<BeamSearch> beams{};
  std::vector<int32_t> beam_enders{};  // tokens that end a beam's answer
  std::vector<std::optional<std::vector<TokenLogProb>>> proposals{};  // [members] of this step

  std::optional<PromptEmbedding> embedding{};  // then there are neither answers nor beams

  // Of a pin in the making: there is a prompt to be computed, and nothing to be sampled.
  std::optional<PinId> pin{};
  std::function<void(Result<PinInfo>)> on_pinned{};
  std::optional<Result<PinInfo>> pinned{};  // how it ended

  bool has_ended = false;

  RequestState() = default;
  RequestState(const RequestState&) = delete;
  RequestState& operator=(const RequestState&) = delete;
};

}  // namespace quire
