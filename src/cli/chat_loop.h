// A chat on a terminal.
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/generation.h"

namespace quire {

// Reads messages and prints answers until /exit or the end of the input. Ctrl-C ends an answer, not
// the chat. `request`: how to answer, without a prompt; it outlives the chat. Fails at once where
// the model has no usable chat template.
Status RunChat(Engine& engine, const Request& request, const std::string& system);

}  // namespace quire
