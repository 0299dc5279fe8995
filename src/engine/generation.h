// One request to its end, on an engine that serves nobody else meanwhile.
#pragma once

#include <functional>
#include <string_view>

#include "engine/engine.h"

namespace quire {

// Called by the thread that generates. May be empty.
struct GenerationHooks {
  // Text that is part of the (first) answer for good, in whole characters.
  std::function<void(std::string_view text)> on_text{};
  // Asked before each step; true ends the answer (FinishReason::kAborted).
  std::function<bool()> interrupted{};
};

// Fails where Engine::Submit does, and with the request's own error where computing it failed.
Result<RequestResult> Generate(Engine& engine, Request request, const GenerationHooks& hooks = {});

}  // namespace quire
