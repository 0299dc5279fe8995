// Values as JSON, appended to a text: what a trace's writers are made of, quick enough for the
// engine's thread. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// In quotes; what is no UTF-8 is repaired.
void AppendJson(std::string_view value, std::string& text);
void AppendJson(int64_t value, std::string& text);
void AppendJson(uint64_t value, std::string& text);
// Finite; as short as its bits can be told.
void AppendJson(double value, std::string& text);
void AppendJson(float value, std::string& text);
// Milliseconds with three decimals at most: microseconds are enough, and short.
void AppendMs(double ms, std::string& text);

}  // namespace quire
