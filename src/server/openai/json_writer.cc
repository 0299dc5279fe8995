#include "server/openai/json_writer.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace quire {
namespace {

// What stands for a byte that cannot stand for itself: the letter after the backslash, 'u' for the
// long form; 0 = the byte itself.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> escapes{};
  for (size_t byte = 0; byte < 0x20; ++byte) escapes[byte] = 'u';
  escapes['\b'] = 'b';
  escapes['\f'] = 'f';
  escapes['\n'] = 'n';
  escapes['\r'] = 'r';
  escapes['\t'] = 't';
  escapes['"'] = '"';
  escapes['\\'] = '\\';
  return escapes;
}();

}  // namespace

void AppendEscaped(std::string_view text, std::string& out) {
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const char escape = kEscapes[byte];
    if (escape == 0) continue;
    out.append(text, begin, i - begin);
    begin = i + 1;
    out += '\\';
    out += escape;
    if (escape == 'u') {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += "00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  out.append(text, begin, text.size() - begin);
}

void JsonWriter::Separate() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

void JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  needs_comma_ = false;
}

void JsonWriter::Close(char bracket) {
  out_ += bracket;
  needs_comma_ = true;
}

void JsonWriter::Key(std::string_view name) {
  Separate();
  out_ += '"';
  AppendEscaped(name, out_);
  out_ += "\":";
  needs_comma_ = false;
}

void JsonWriter::String(std::string_view text) {
  Separate();
  out_ += '"';
  AppendEscaped(text, out_);
  out_ += '"';
}

void JsonWriter::Int(int64_t value) {
  Separate();
  const fmt::format_int digits(value);
  out_.append(digits.data(), digits.size());
}

template <typename Real>
void JsonWriter::WriteReal(Real value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  const size_t begin = out_.size();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  if (out_.find_first_of(".e", begin) == std::string::npos) out_ += ".0";
}

void JsonWriter::Number(double value) { WriteReal(value); }

void JsonWriter::Float(float value) { WriteReal(value); }

void JsonWriter::Ids(std::span<const int32_t> ids) {
  BeginArray();
  for (const int32_t id : ids) Int(id);
  EndArray();
}

void JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
}

}  // namespace quire
