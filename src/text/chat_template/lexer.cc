#include "text/chat_template/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/chat_template/unicode_text.h"

namespace quire::jinja {
namespace {

Error SyntaxError(int line, std::string_view message) {
  return MakeError(ErrorCode::kCorrupt, "chat template, line {}: {}", line, message);
}

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool IsDecimalDigit(char c) { return c >= '0' && c <= '9'; }

// Newlines become "\n", and one at the end goes.
std::string WithUnixNewlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

// 0..16; 16 for what is no digit.
int DigitValue(char c) {
  if (IsDecimalDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// The escapes of a Python string literal. Fails for a broken \x, \u or \U.
class StringLiteral {
 public:
  explicit StringLiteral(std::string_view body) : body_(body) {}

  std::optional<std::string> Decode() {
    while (at_ < body_.size()) {
      const char c = body_[at_++];
      if (c != '\\' || at_ == body_.size()) {
        out_ += c;
      } else if (!DecodeEscape(body_[at_++])) {
        return std::nullopt;
      }
    }
    return std::move(out_);
  }

 private:
  bool DecodeEscape(char c) {
    constexpr std::string_view kFrom = "abfnrtv\\'\"";
    constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    if (c == '\n') return true;
    if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      out_ += kTo[simple];
      return true;
    }
    if (c == 'x') return DecodeHex(2);
    if (c == 'u') return DecodeHex(4);
    if (c == 'U') return DecodeHex(8);
    if (c >= '0' && c <= '7') {
      int value = c - '0';
      for (int i = 0; i < 2 && at_ < body_.size() && body_[at_] >= '0' && body_[at_] <= '7'; ++i) {
        value = value * 8 + (body_[at_++] - '0');
      }
      AppendUtf8(out_, value);
      return true;
    }
    out_ += '\\';
    out_ += c;
    return true;
  }

  bool DecodeHex(size_t digits) {
    if (body_.size() - at_ < digits) return false;
    int64_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = DigitValue(body_[at_++]);
      if (digit == 16) return false;
      value = value * 16 + digit;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return false;
    AppendUtf8(out_, static_cast<int32_t>(value));
    return true;
  }

  std::string_view body_;
  size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = FindTag();
      if (tag == std::string_view::npos) {
        AddText(source_.substr(at_));
        at_ = source_.size();
        break;
      }
      QUIRE_RETURN_IF_ERROR(LexTag(tag));
    }
    Add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool StartsWith(size_t at, std::string_view text) const {
    return source_.substr(at, text.size()) == text;
  }

  void SkipSpace() { at_ = SpaceEnd(at_); }
  size_t SpaceEnd(size_t at) const { return at + TrimSpace(source_.substr(at), true, false).begin; }

  // Moves to `to`, counting lines.
  void MoveTo(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void Add(TokenType type, std::string text) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  void AddText(std::string_view text) {
    if (text.empty()) return;
    if (!tokens_.empty() && tokens_.back().type == TokenType::kText) {
      tokens_.back().text += text;
    } else {
      Add(TokenType::kText, std::string(text));
    }
  }

  size_t FindTag() const {
    for (size_t at = source_.find('{', at_); at != std::string_view::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 >= source_.size()) break;
      const char next = source_[at + 1];
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  // The text before a tag, as the tag's sign and lstrip_blocks leave it.
  std::string_view StripBeforeTag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return text.substr(0, TrimSpace(text, false, true).end);
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const std::string_view line = text.substr(line_begin);
    if (TrimSpace(line, true, false).begin < line.size()) return text;
    return text.substr(0, line_begin);
  }

  // After a tag that ends at `end`: remembers whether the next text begins a line.
  void FinishTag(size_t end) {
    MoveTo(end);
    line_starting_ = end > 0 && source_[end - 1] == '\n';
  }

  Status LexTag(size_t tag) {
    const char kind = source_[tag + 1];
    size_t inside = tag + 2;
    char sign = 0;
    if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) {
      // "{{+ x" is a unary plus; the other tags take both signs.
      if (kind != '{' || source_[inside] == '-') sign = source_[inside++];
    }
    AddText(StripBeforeTag(source_.substr(at_, tag - at_), sign, kind == '{'));
    MoveTo(inside);
    if (kind == '#') return LexComment();
    if (kind == '%') {
      if (const auto raw = RawBegin()) return LexRaw(*raw);
      Add(TokenType::kBlockBegin, "{%");
      return LexInside("%}", TokenType::kBlockEnd);
    }
    Add(TokenType::kVariableBegin, "{{");
    return LexInside("}}", TokenType::kVariableEnd);
  }

  // Past a closing tag whose delimiter begins at `at`, preceded by `sign` or nothing.
  size_t AfterClosing(size_t at, char sign) const {
    size_t end = at + 2;
    if (sign == '-') return SpaceEnd(end);
    if (sign == 0 && end < source_.size() && source_[end] == '\n') ++end;
    return end;
  }

  char SignBefore(size_t close, size_t begin) const {
    if (close <= begin) return 0;
    const char c = source_[close - 1];
    return c == '-' || c == '+' ? c : 0;
  }

  Status LexComment() {
    const size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos)
      return SyntaxError(line_, "a comment '{#' is never closed");
    FinishTag(AfterClosing(close, SignBefore(close, at_)));
    return {};
  }

  // Where the text of a raw block begins, if "{%" opens one.
  std::optional<size_t> RawBegin() const {
    size_t at = SpaceEnd(at_);
    if (!StartsWith(at, "raw")) return std::nullopt;
    at = SpaceEnd(at + 3);
    if (StartsWith(at, "-%}")) return SpaceEnd(at + 3);
    if (StartsWith(at, "%}")) return at + 2;
    return std::nullopt;
  }

  Status LexRaw(size_t begin) {
    const int line = line_;
    FinishTag(begin);
    for (size_t open = source_.find("{%", at_); open != std::string_view::npos;
         open = source_.find("{%", open + 1)) {
      size_t inside = open + 2;
      char sign = 0;
      if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) {
        sign = source_[inside++];
      }
      size_t close = SpaceEnd(inside);
      if (!StartsWith(close, "endraw")) continue;
      close = SpaceEnd(close + 6);
      char close_sign = 0;
      if (close < source_.size() && (source_[close] == '-' || source_[close] == '+')) {
        close_sign = source_[close++];
      }
      if (!StartsWith(close, "%}")) continue;
      AddText(StripBeforeTag(source_.substr(at_, open - at_), sign, false));
      FinishTag(AfterClosing(close, close_sign));
      return {};
    }
    return SyntaxError(line, "a raw block is never closed");
  }

  // Whether the tag ends here; moves past its end if so.
  bool TakeClosing(std::string_view closing, TokenType type) {
    char sign = 0;
    size_t at = at_;
    if (source_[at] == '-' || (source_[at] == '+' && closing == "%}")) sign = source_[at++];
    if (!StartsWith(at, closing)) return false;
    Add(type, std::string(closing));
    // No newline is trimmed after a variable.
    const bool trims = sign != 0 || type == TokenType::kBlockEnd;
    FinishTag(trims ? AfterClosing(at, sign) : at + closing.size());
    return true;
  }

  Status LexInside(std::string_view closing, TokenType closing_type) {
    const int line = line_;
    std::string open;  // brackets that wait for their end
    for (;;) {
      MoveTo(SpaceEnd(at_));
      if (at_ >= source_.size()) {
        return SyntaxError(line,
                           fmt::format("'{}' is never closed", closing == "%}" ? "{%" : "{{"));
      }
      if (open.empty() && TakeClosing(closing, closing_type)) return {};
      const char c = source_[at_];
      if (IsNameStart(c)) {
        LexName();
      } else if (IsDecimalDigit(c)) {
        QUIRE_RETURN_IF_ERROR(LexNumber());
      } else if (c == '\'' || c == '"') {
        QUIRE_RETURN_IF_ERROR(LexString());
      } else {
        QUIRE_RETURN_IF_ERROR(LexOperator(open));
      }
    }
  }

  void LexName() {
    size_t end = at_;
    while (end < source_.size() && (IsNameStart(source_[end]) || IsDecimalDigit(source_[end]))) {
      ++end;
    }
    Add(TokenType::kName, std::string(source_.substr(at_, end - at_)));
    at_ = end;
  }

  Status LexString() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return SyntaxError(line_, "a string is never closed");
    auto text = StringLiteral(source_.substr(at_ + 1, end - at_ - 1)).Decode();
    if (!text) return SyntaxError(line_, "a string holds a broken \\x, \\u or \\U escape");
    Add(TokenType::kString, std::move(*text));
    MoveTo(end + 1);
    return {};
  }

  // Digits of `base` with single underscores between them, without the underscores.
  std::string TakeDigits(int base) {
    std::string digits;
    while (at_ < source_.size()) {
      const bool underscore = source_[at_] == '_' && at_ + 1 < source_.size();
      const char c = source_[at_ + (underscore ? 1 : 0)];
      if (DigitValue(c) >= base) break;
      digits += c;
      at_ += underscore ? 2 : 1;
    }
    return digits;
  }

  bool DigitAt(size_t at) const { return at < source_.size() && IsDecimalDigit(source_[at]); }

  Status LexNumber() {
    if (source_[at_] == '0' && at_ + 2 < source_.size()) {
      const char mark = source_[at_ + 1];
      const int base = mark == 'x' || mark == 'X'   ? 16
                       : mark == 'o' || mark == 'O' ? 8
                       : mark == 'b' || mark == 'B' ? 2
                                                    : 0;
      if (base != 0 && DigitValue(source_[at_ + 2]) < base) {
        at_ += 2;
        return AddInteger(TakeDigits(base), base);
      }
    }
    std::string digits = TakeDigits(10);
    const bool after_dot = !tokens_.empty() && tokens_.back().IsOperator(".");
    bool is_float = false;
    if (!after_dot && at_ < source_.size() && source_[at_] == '.' && DigitAt(at_ + 1)) {
      ++at_;
      digits += '.' + TakeDigits(10);
      is_float = true;
    }
    if (!after_dot && at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      const size_t sign = at_ + 1;
      const bool has_sign = sign < source_.size() && (source_[sign] == '+' || source_[sign] == '-');
      if (DigitAt(sign + (has_sign ? 1 : 0))) {
        digits += 'e';
        if (has_sign) digits += source_[sign];
        at_ = sign + (has_sign ? 1 : 0);
        digits += TakeDigits(10);
        is_float = true;
      }
    }
    if (!is_float) return AddInteger(digits, 10);
    Add(TokenType::kFloat, digits);
    double value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec != std::errc()) {
      return SyntaxError(line_, fmt::format("the number {:.40} is out of range", digits));
    }
    tokens_.back().float_value = value;
    return {};
  }

  Status AddInteger(const std::string& digits, int base) {
    int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (parsed.ec != std::errc()) {
      return SyntaxError(line_, fmt::format("the integer {:.40} does not fit in 64 bits", digits));
    }
    Add(TokenType::kInt, digits);
    tokens_.back().int_value = value;
    return {};
  }

  Status LexOperator(std::string& open) {
    for (const std::string_view symbol : {"//", "**", "==", "!=", ">=", "<="}) {
      if (StartsWith(at_, symbol)) {
        Add(TokenType::kOperator, std::string(symbol));
        at_ += symbol.size();
        return {};
      }
    }
    const char c = source_[at_];
    constexpr std::string_view kSymbols = "+-/*%~[](){}><=.:|,;";
    if (kSymbols.find(c) == std::string_view::npos) {
      return SyntaxError(
          line_, fmt::format("unexpected character {}", static_cast<unsigned char>(c) >= 0x20
                                                            ? fmt::format("'{}'", c)
                                                            : fmt::format("0x{:02x}", c)));
    }
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) return SyntaxError(line_, fmt::format("'{}' closes nothing", c));
      if (open.back() != c) {
        return SyntaxError(line_, fmt::format("'{}' where '{}' was expected", c, open.back()));
      }
      open.pop_back();
    }
    Add(TokenType::kOperator, std::string(1, c));
    ++at_;
    return {};
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  const std::string text = WithUnixNewlines(source);
  return Lexer(text).Run();
}

std::string Describe(const Token& token) {
  switch (token.type) {
    case TokenType::kText:
      return "text";
    case TokenType::kName:
      return fmt::format("name '{:.60}'", token.text);
    case TokenType::kString:
      return "a string";
    case TokenType::kInt:
    case TokenType::kFloat:
      return fmt::format("number {:.60}", token.text);
    case TokenType::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace quire::jinja
