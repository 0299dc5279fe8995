// The tests: {{ value is name(arguments) }}.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/chat_template/call_args.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

using Predicate = Result<bool> (*)(const Value& value, const CallArgs& args, RenderState& state);

// Null when there is none of that name.
Predicate FindPredicate(std::string_view name);

}  // namespace quire::jinja
