#include "text/chat_template/messages.h"

#include <algorithm>
#include <iterator>

#include "text/chat_template/json_text.h"
#include "text/chat_template/value_text.h"

namespace quire {
namespace {

using jinja::Dict;
using jinja::MarkedString;
using jinja::TypeName;
using jinja::Value;

template <typename... Args>
Error Refuse(size_t position, fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kInvalidArgument, "messages[{}]{}", position,
                   fmt::format(format, std::forward<Args>(args)...));
}

Result<Value> NormalizeRole(const Value* role, size_t position) {
  if (role == nullptr) return Refuse(position, " has no role");
  if (!role->IsString()) {
    return Refuse(position, ".role must be a string, not {}", TypeName(*role));
  }
  constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                         "tool",   "function",  "ipython", "model"};
  const bool usual =
      std::find(std::begin(kRoles), std::end(kRoles), role->Text()) != std::end(kRoles);
  return Value::MakeString(MarkedString(role->Text(), usual));
}

Result<Value> JoinParts(const std::vector<Value>& parts, size_t position) {
  MarkedString text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].IsDict()) {
      return Refuse(position, ".content[{}] must be an object, not {}", i, TypeName(parts[i]));
    }
    const Value* type = parts[i].AsDict().Find("type");
    if (type == nullptr || !type->IsString()) {
      return Refuse(position, ".content[{}] has no type", i);
    }
    if (type->Text() != "text") {
      return Refuse(position, ".content[{}] is of type '{:.60}'; only 'text' is supported", i,
                    type->Text());
    }
    const Value* part = parts[i].AsDict().Find("text");
    if (part == nullptr || !part->IsString()) {
      return Refuse(position, ".content[{}].text must be a string", i);
    }
    if (i > 0) text.Append("\n", false);
    text.Append(part->AsString());
  }
  return Value::MakeString(std::move(text));
}

Result<Value> NormalizeContent(const Value* content, bool has_calls, size_t position) {
  if (content == nullptr || content->IsNone()) {
    if (has_calls) return Value::MakeString(MarkedString());
    return Refuse(position, " has neither content nor tool calls");
  }
  if (content->IsString()) return *content;
  if (content->IsList()) return JoinParts(content->AsSequence().items, position);
  return Refuse(position, ".content must be a string or a list of parts, not {}",
                TypeName(*content));
}

Result<Value> NormalizeCall(const Value& call, size_t position, size_t index) {
  if (!call.IsDict()) {
    return Refuse(position, ".tool_calls[{}] must be an object, not {}", index, TypeName(call));
  }
  const Value* function = call.AsDict().Find("function");
  if (function == nullptr || !function->IsDict()) {
    return Refuse(position, ".tool_calls[{}] has no function", index);
  }
  const Value* name = function->AsDict().Find("name");
  if (name == nullptr || !name->IsString()) {
    return Refuse(position, ".tool_calls[{}].function has no name", index);
  }
  const Value* arguments = function->AsDict().Find("arguments");
  if (arguments == nullptr || !arguments->IsString()) return call;
  // Some clients send nothing where a function takes no arguments.
  const std::string& text = arguments->Text();
  auto parsed = jinja::ValueFromJson(text.empty() ? "{}" : text);
  if (!parsed.ok()) {
    return Refuse(position, ".tool_calls[{}].function.arguments: {}", index,
                  parsed.error().message);
  }
  if (!parsed->IsDict()) {
    return Refuse(position, ".tool_calls[{}].function.arguments must be a JSON object, not {}",
                  index, TypeName(*parsed));
  }
  Dict new_function = function->AsDict();
  new_function.Set("arguments", std::move(parsed).value());
  Dict new_call = call.AsDict();
  new_call.Set("function", Value::MakeDict(std::move(new_function)));
  return Value::MakeDict(std::move(new_call));
}

Result<Value> NormalizeCalls(const Value& calls, size_t position) {
  if (!calls.IsList()) {
    return Refuse(position, ".tool_calls must be a list, not {}", TypeName(calls));
  }
  std::vector<Value> result;
  for (const Value& call : calls.AsSequence().items) {
    QUIRE_ASSIGN_OR_RETURN(Value normalized, NormalizeCall(call, position, result.size()));
    result.push_back(std::move(normalized));
  }
  return Value::MakeList(std::move(result));
}

Result<Value> NormalizeMessage(const Value& message, size_t position) {
  if (!message.IsDict()) return Refuse(position, " must be an object, not {}", TypeName(message));
  const Dict& source = message.AsDict();
  const Value* calls = source.Find("tool_calls");
  const bool has_calls = calls != nullptr && jinja::IsTrue(*calls);
  QUIRE_ASSIGN_OR_RETURN(Value role, NormalizeRole(source.Find("role"), position));
  QUIRE_ASSIGN_OR_RETURN(Value content,
                         NormalizeContent(source.Find("content"), has_calls, position));
  Dict result;
  result.Set("role", std::move(role));
  result.Set("content", std::move(content));
  for (const auto& [key, value] : source.entries()) {
    const std::string& name = key.Text();
    if (name == "role" || name == "content" || value.IsNone()) continue;
    if (name == "tool_calls") {
      QUIRE_ASSIGN_OR_RETURN(Value normalized, NormalizeCalls(value, position));
      result.Set(key, std::move(normalized));
    } else {
      result.Set(key, value);
    }
  }
  return Value::MakeDict(std::move(result));
}

}  // namespace

Result<Value> NormalizeMessages(const Value& messages) {
  if (!messages.IsList()) {
    return MakeError(ErrorCode::kInvalidArgument, "messages must be a list, not {}",
                     TypeName(messages));
  }
  std::vector<Value> result;
  for (const Value& message : messages.AsSequence().items) {
    QUIRE_ASSIGN_OR_RETURN(Value normalized, NormalizeMessage(message, result.size()));
    result.push_back(std::move(normalized));
  }
  return Value::MakeList(std::move(result));
}

}  // namespace quire
