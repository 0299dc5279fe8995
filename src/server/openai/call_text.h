// The JSON of tool calls as models write it. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai/tool_calls.h"

namespace quire {

// The call that an object describes: {"name": ..., "arguments" or "parameters": {...}}. Nothing for
// any other text. Arguments that are an object in a string are that object; none are {}.
std::optional<ToolDelta> CallOf(std::string_view text);

// The calls that a whole answer in the json form consists of, all of them to `names`; empty for any
// other answer.
std::vector<ToolDelta> CallsOfWhole(std::string_view text, std::span<const std::string> names);

enum class Prospect : uint8_t { kYes, kNo, kOpen };
// Whether a text that begins so may be an answer in the json form. kYes: its first call names a
// tool or has its arguments first. Looks at no more than its beginning.
Prospect MayBeCalls(std::string_view beginning, std::span<const std::string> names);

}  // namespace quire
