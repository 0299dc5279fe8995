// Members of a JSON object: a name and its value at once.
#pragma once

#include <cstdint>
#include <string_view>

#include "server/openai/json_writer.h"

namespace quire {

void IntMember(std::string_view name, int64_t value, JsonWriter& json);
// What an int64_t cannot hold is its largest value.
void BytesMember(std::string_view name, uint64_t value, JsonWriter& json);
void NumberMember(std::string_view name, double value, JsonWriter& json);
void BoolMember(std::string_view name, bool value, JsonWriter& json);
// Any bytes: what is no UTF-8 is repaired.
void TextMember(std::string_view name, std::string_view text, JsonWriter& json);

}  // namespace quire
