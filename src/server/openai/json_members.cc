#include "server/openai/json_members.h"

#include <algorithm>

#include "base/utf8.h"

namespace quire {

void IntMember(std::string_view name, int64_t value, JsonWriter& json) {
  json.Key(name);
  json.Int(value);
}

void BytesMember(std::string_view name, uint64_t value, JsonWriter& json) {
  IntMember(name, static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)), json);
}

void NumberMember(std::string_view name, double value, JsonWriter& json) {
  json.Key(name);
  json.Number(value);
}

void BoolMember(std::string_view name, bool value, JsonWriter& json) {
  json.Key(name);
  json.Bool(value);
}

void TextMember(std::string_view name, std::string_view text, JsonWriter& json) {
  json.Key(name);
  json.String(RepairUtf8(text));
}

}  // namespace quire
