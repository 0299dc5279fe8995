// Messages as clients send them, to messages as templates expect them.
#pragma once

#include "base/result.h"
#include "text/chat_template/value.h"

namespace quire {

// For messages in OpenAI's form, a list of dicts:
//   - `role` must be a string. The usual role names count as the template's own words, since
//     templates build control tokens such as <|user|> from them; any other name stays a request's.
//   - `content` that is a list of text parts becomes one string, the parts joined by a newline. A
//     part of another type is an error.
//   - `content` that is null or absent becomes "" beside tool calls, and is an error without them.
//   - `function.arguments` of a tool call, JSON in a string, becomes the object it describes.
//   - Other members that are null are dropped, as templates ask whether they are there.
// Errors are kInvalidArgument and name the message's position.
Result<jinja::Value> NormalizeMessages(const jinja::Value& messages);

}  // namespace quire
