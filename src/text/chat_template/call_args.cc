#include "text/chat_template/call_args.h"

#include "text/chat_template/render_state.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {

Value ArgReader::Take(std::string_view name, Value fallback) {
  if (next_positional_ < args_.positional.size()) return args_.positional[next_positional_++];
  for (const auto& [key, value] : args_.named) {
    if (key == name) {
      ++named_taken_;
      return value;
    }
  }
  return fallback;
}

Value ArgReader::Need(std::string_view name) {
  const size_t before = next_positional_ + named_taken_;
  Value value = Take(name, Value());
  if (next_positional_ + named_taken_ == before && missing_.empty()) missing_ = name;
  return value;
}

Status ArgReader::Finish() const {
  if (!missing_.empty()) return Fault("{}: argument '{}' is missing", callee_, missing_);
  if (next_positional_ < args_.positional.size()) {
    return Fault("{} takes at most {} arguments, got {}", callee_, next_positional_ + named_taken_,
                 args_.positional.size());
  }
  if (named_taken_ < args_.named.size()) {
    std::string names;
    for (const auto& [key, value] : args_.named) names += (names.empty() ? "" : ", ") + key;
    return Fault("{}: an unknown or repeated argument among: {}", callee_, names);
  }
  return {};
}

Result<int64_t> IntOf(const Value& value, std::string_view what) {
  if (value.IsInt() || value.IsBool()) return value.NumberAsInt();
  return Fault("{} must be an integer, not {}", what, TypeName(value));
}

Result<MarkedString> StringOf(const Value& value, std::string_view what) {
  if (value.IsString()) return value.AsString();
  return Fault("{} must be a string, not {}", what, TypeName(value));
}

}  // namespace quire::jinja
