// Attributes, subscripts and slices, and the methods of strings, lists and dicts.
//
// As in the sandbox: a name that begins with an underscore or would change its object gives an
// undefined value, which fails once it is used.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

// object.name: a method first, then a key.
Result<Value> Attribute(const Value& object, std::string_view name);
// object[key]: a key or position first, then a method.
Result<Value> Subscript(const Value& object, const Value& key, RenderState& state);
// Bounds are ints or none.
Result<Value> Slice(const Value& object, const Value& start, const Value& stop, const Value& step,
                    RenderState& state);

// A dotted path, numbers in it as positions: what map(attribute="a.0.b") looks up.
Result<Value> LookUpPath(const Value& object, const Value& path, RenderState& state);

// Null when strings have no such method.
Callable::Function FindStringMethod(std::string_view name);  // string_methods.cc

}  // namespace quire::jinja
