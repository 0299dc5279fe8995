#include "server/openai/body_reader.h"

#include <cmath>

#include "formats/printable.h"

namespace quire {

using jinja::Kind;
using jinja::Value;

std::string DescribeJson(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "null";
    case Kind::kBool:
      return value.AsBool() ? "true" : "false";
    case Kind::kInt:
      return fmt::to_string(value.AsInt());
    case Kind::kFloat:
      return fmt::to_string(value.AsFloat());
    case Kind::kString:
      return "'" + Printable(value.Text(), 40) + "'";
    case Kind::kSequence:
      return "an array";
    default:
      return "an object";
  }
}

std::optional<int64_t> WholeNumber(const Value& value) {
  if (value.IsInt()) return value.AsInt();
  if (!value.IsFloat()) return std::nullopt;
  const double number = value.AsFloat();
  // 2^63 has no int64_t; everything below it that is a double has.
  if (!(number >= -0x1p63 && number < 0x1p63) || number != std::trunc(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

void BodyReader::Fail(std::string_view param, std::string_view message, std::string_view code) {
  if (error_) return;
  error_ = ApiError{.message = fmt::format("{} {}", param, message),
                    .param = std::string(param),
                    .code = std::string(code)};
}

const Value* BodyReader::Find(std::string_view name) {
  known_.emplace(name);
  if (error_) return nullptr;
  const Value* value = body_->Find(name);
  return value == nullptr || value->IsNone() ? nullptr : value;
}

const Value* BodyReader::FindOf(std::string_view name, bool (Value::*is_kind)() const,
                                std::string_view expected) {
  const Value* value = Find(name);
  if (value == nullptr || (value->*is_kind)()) return value;
  Fail(name, fmt::format("must be {}, got {}", expected, DescribeJson(*value)), "invalid_type");
  return nullptr;
}

std::optional<bool> BodyReader::Bool(std::string_view name) {
  const Value* value = FindOf(name, &Value::IsBool, "true or false");
  if (value == nullptr) return std::nullopt;
  return value->AsBool();
}

std::optional<int64_t> BodyReader::Int(std::string_view name, int64_t lowest, int64_t highest) {
  const Value* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = WholeNumber(*value);
  if (number && *number >= lowest && *number <= highest) return number;
  const bool is_number = value->IsInt() || value->IsFloat();
  Fail(name,
       fmt::format("must be an integer from {} to {}, got {}", lowest, highest,
                   DescribeJson(*value)),
       is_number ? "invalid_value" : "invalid_type");
  return std::nullopt;
}

std::optional<double> BodyReader::Number(std::string_view name, double lowest, double highest) {
  const Value* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const bool is_number = value->IsInt() || value->IsFloat();
  const double number = is_number ? value->NumberAsFloat() : 0;
  // A comparison with NaN is false.
  if (is_number && number >= lowest && number <= highest) return number;
  Fail(name,
       fmt::format("must be a number from {} to {}, got {}", lowest, highest, DescribeJson(*value)),
       is_number ? "invalid_value" : "invalid_type");
  return std::nullopt;
}

std::optional<std::string> BodyReader::String(std::string_view name) {
  const Value* value = FindOf(name, &Value::IsString, "a string");
  if (value == nullptr) return std::nullopt;
  return value->Text();
}

const jinja::Dict* BodyReader::Object(std::string_view name) {
  const Value* value = FindOf(name, &Value::IsDict, "an object");
  return value == nullptr ? nullptr : &value->AsDict();
}

const std::vector<Value>* BodyReader::List(std::string_view name) {
  const Value* value = FindOf(name, &Value::IsList, "an array");
  return value == nullptr ? nullptr : &value->AsSequence().items;
}

std::vector<std::string> BodyReader::UnknownMembers() const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : body_->entries()) {
    if (unknown.size() == kMaxUnknown) break;
    if (!value.IsNone() && !known_.contains(key.Text())) {
      unknown.push_back(Printable(key.Text(), 64));
    }
  }
  return unknown;
}

}  // namespace quire
