// Python's two ways to fill in a text: "%s" % values and "{}".format(values).
#pragma once

#include "base/result.h"
#include "text/chat_template/call_args.h"
#include "text/chat_template/marked_string.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

// values: a tuple, a dict for "%(name)s", or one value.
Result<Value> PercentFormat(const MarkedString& format, const Value& values, RenderState& state);
// "{}", "{0}", "{name}", each with an optional
// ":[[fill]align][sign][0][width][,][.precision][type]".
Result<Value> BraceFormat(const MarkedString& format, const CallArgs& args, RenderState& state);

}  // namespace quire::jinja
