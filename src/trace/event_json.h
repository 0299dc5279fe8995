// Events as JSON, one object a line (docs/trace-format.md): written quickly, read with suspicion.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trace/events.h"

namespace quire {

// Of a step with thousands of sequences, several times over.
inline constexpr size_t kMaxEventBytes = size_t{4} << 20;

// One line without its newline. Milliseconds have three decimals; what is zero, empty or false is
// left out but for `ms` and ids.
std::string EventAsJson(const TraceEvent& event);
// The same, appended.
void AppendEventJson(const TraceEvent& event, std::string& text);

// Fields that it does not know are passed over: a later program may have written them. kCorrupt,
// naming the field, for what is no event; kUnsupported for a run of a later version of the format.
Result<TraceEvent> EventFromJson(std::string_view line);

}  // namespace quire
