// Answers of /v1/.../render: what a body's prompts are, nothing computed.
//
//   {"object": "prompt.render", "model": "...",
//    "data": [{"index": 0, "text": "...", "prompt_token_ids": [...], "num_tokens": 3}]}
//
// `text` is what the template wrote or the body said; null for a prompt of ids.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/openai/prompts.h"

namespace quire {

std::string RenderBody(std::span<const EngineRequest> prompts, std::string_view model);

}  // namespace quire
