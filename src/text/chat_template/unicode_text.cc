#include "text/chat_template/unicode_text.h"

#include <utf8proc.h>

namespace quire::jinja {
namespace {

utf8proc_category_t CategoryOf(int32_t code_point) {
  return code_point < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(code_point);
}

// The one letter in common use whose upper case is two letters.
constexpr int32_t kSharpS = 0xDF;

void AppendUpper(std::string& out, int32_t code_point) {
  if (code_point == kSharpS) {
    out += "SS";
  } else {
    AppendUtf8(out, utf8proc_toupper(code_point));
  }
}

void AppendTitle(std::string& out, int32_t code_point) {
  if (code_point == kSharpS) {
    out += "Ss";
  } else {
    AppendUtf8(out, utf8proc_totitle(code_point));
  }
}

bool IsCased(int32_t code_point) { return IsUpper(code_point) || IsLower(code_point); }

}  // namespace

CodePoint CodePointAt(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  utf8proc_int32_t value = kInvalid;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto length =
      utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &value);
  if (length <= 0) return {kInvalid, 1};
  return {value, static_cast<size_t>(length)};
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += CodePointAt(text, at).length;
  return count;
}

std::vector<size_t> CodePointOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += CodePointAt(text, at).length) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

void AppendUtf8(std::string& out, int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(code_point, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool IsSpace(int32_t code_point) {
  if (code_point < 0x80) {
    return code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D) ||
           (code_point >= 0x1C && code_point <= 0x1F);
  }
  if (code_point == 0x85) return true;
  const auto category = CategoryOf(code_point);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool IsAlpha(int32_t code_point) {
  const auto category = CategoryOf(code_point);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(int32_t code_point) { return CategoryOf(code_point) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(int32_t code_point) {
  return IsDecimal(code_point) || code_point == 0xB2 || code_point == 0xB3 || code_point == 0xB9 ||
         (code_point >= 0x2070 && code_point <= 0x2079 && code_point != 0x2071) ||
         (code_point >= 0x2080 && code_point <= 0x2089);
}

bool IsUpper(int32_t code_point) {
  const auto category = CategoryOf(code_point);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}

bool IsLower(int32_t code_point) { return CategoryOf(code_point) == UTF8PROC_CATEGORY_LL; }

bool IsPrintable(int32_t code_point) {
  if (code_point == ' ') return true;
  const auto category = CategoryOf(code_point);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

MarkedString ChangeCase(const MarkedString& text, CaseChange change) {
  MarkedString result;
  const std::string& source = text.text();
  bool first = true;
  bool after_letter = false;
  size_t run = 0;
  std::string changed;
  for (size_t at = 0; at < source.size();) {
    while (text.runs()[run].end <= at) ++run;
    const CodePoint unit = CodePointAt(source, at);
    const bool cased = IsCased(unit.value);
    bool up = change == CaseChange::kUpper || (change == CaseChange::kSwap && IsLower(unit.value));
    const bool title = (change == CaseChange::kCapitalize && first) ||
                       (change == CaseChange::kTitle && !after_letter);
    changed.clear();
    if (unit.value == kInvalid) {
      changed.append(source, at, unit.length);
    } else if (up) {
      AppendUpper(changed, unit.value);
    } else if (title) {
      AppendTitle(changed, unit.value);
    } else {
      AppendUtf8(changed, utf8proc_tolower(unit.value));
    }
    result.Append(changed, text.runs()[run].trusted);
    first = false;
    after_letter = cased;
    at += unit.length;
  }
  return result;
}

std::string ToLower(std::string_view text) {
  std::string lower;
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    if (unit.value == kInvalid) {
      lower += text[at];
    } else {
      AppendUtf8(lower, utf8proc_tolower(unit.value));
    }
    at += unit.length;
  }
  return lower;
}

ByteRange TrimSpace(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  while (left && begin < text.size()) {
    const CodePoint unit = CodePointAt(text, begin);
    if (!IsSpace(unit.value)) break;
    begin += unit.length;
  }
  size_t end = text.size();
  while (right && end > begin) {
    size_t start = end - 1;
    while (start > begin && end - start < 4 && (text[start] & 0xC0) == 0x80) --start;
    if (!IsSpace(CodePointAt(text, start).value)) break;
    end = start;
  }
  return {begin, end};
}

}  // namespace quire::jinja
