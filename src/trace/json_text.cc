#include "trace/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace quire {
namespace {

template <typename Number>
void AppendNumber(Number value, std::string& text) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  text.append(digits, end);
}

void AppendEscaped(std::string_view value, std::string& text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20) {
      text += "\\u00";
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    } else {
      text += c;
    }
  }
}

}  // namespace

void AppendJson(std::string_view value, std::string& text) {
  text += '"';
  if (AsciiPrefix(value) == value.size() || IsWellFormedUtf8(value)) {
    AppendEscaped(value, text);
  } else {
    AppendEscaped(RepairUtf8(value), text);
  }
  text += '"';
}

void AppendJson(int64_t value, std::string& text) { AppendNumber(value, text); }
void AppendJson(uint64_t value, std::string& text) { AppendNumber(value, text); }
void AppendJson(double value, std::string& text) { AppendNumber(value, text); }
void AppendJson(float value, std::string& text) { AppendNumber(value, text); }

void AppendMs(double ms, std::string& text) {
  constexpr double kMost = 1e15;
  const double bounded = std::isfinite(ms) ? std::clamp(ms, -kMost, kMost) : 0;
  const int64_t micros = std::llround(bounded * 1000);
  if (micros < 0) text += '-';
  const uint64_t size = static_cast<uint64_t>(micros < 0 ? -micros : micros);
  AppendNumber(size / 1000, text);
  const auto rest = static_cast<int>(size % 1000);
  if (rest == 0) return;
  text += '.';
  text += static_cast<char>('0' + rest / 100);
  if (rest % 100 == 0) return;
  text += static_cast<char>('0' + rest / 10 % 10);
  if (rest % 10 != 0) text += static_cast<char>('0' + rest % 10);
}

}  // namespace quire
