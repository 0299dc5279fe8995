// The methods of str that templates may call. Texts that come out keep the marks of those that go
// in.
#include <algorithm>
#include <utility>

#include "text/chat_template/attributes.h"
#include "text/chat_template/call_args.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/string_format.h"
#include "text/chat_template/text_algorithms.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {

Result<MarkedString> ReplaceText(const MarkedString& text, std::string_view from,
                                 const MarkedString& to, int64_t count, RenderState& state) {
  const std::string_view source = text.text();
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(source.size()));
  MarkedString result;
  size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    size_t found = at;
    size_t skip = 0;
    if (from.empty()) {
      // The first lands in front of the text, each later one behind one more code point.
      if (done > 0) {
        if (at >= source.size()) break;
        skip = CodePointAt(source, at).length;
      }
    } else {
      found = source.find(from, at);
      if (found == std::string_view::npos) break;
    }
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(to.size() + 1));
    result.AppendSlice(text, at, found + skip);
    result.Append(to);
    at = found + skip + from.size();
  }
  result.AppendSlice(text, at, source.size());
  return result;
}

ByteRange TrimCharacters(std::string_view text, std::string_view characters, bool left,
                         bool right) {
  const auto holds = [&](std::string_view unit) {
    for (size_t at = 0; at < characters.size();) {
      const size_t length = CodePointAt(characters, at).length;
      if (characters.substr(at, length) == unit) return true;
      at += length;
    }
    return false;
  };
  size_t begin = 0;
  while (left && begin < text.size()) {
    const size_t length = CodePointAt(text, begin).length;
    if (!holds(text.substr(begin, length))) break;
    begin += length;
  }
  size_t end = text.size();
  while (right && end > begin) {
    size_t start = end - 1;
    while (start > begin && end - start < 4 && (text[start] & 0xC0) == 0x80) --start;
    if (CodePointAt(text, start).length != end - start) start = end - 1;
    if (!holds(text.substr(start, end - start))) break;
    end = start;
  }
  return {begin, end};
}

std::vector<ByteRange> SplitLines(std::string_view text, bool keep_ends) {
  const auto ends_line = [](int32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
  };
  std::vector<ByteRange> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    size_t after = at + unit.length;
    if (ends_line(unit.value)) {
      if (unit.value == '\r' && after < text.size() && text[after] == '\n') ++after;
      lines.push_back({begin, keep_ends ? after : at});
      begin = after;
    }
    at = after;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

namespace {

using Args = const CallArgs&;

Value Piece(const MarkedString& text, size_t begin, size_t end) {
  return Value::MakeString(text.Slice(begin, end));
}

template <CaseChange change>
Result<Value> CaseMethod(const Value& self, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("a case method", args).Finish());
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(self.Text().size() * 3));
  return Value::MakeString(ChangeCase(self.AsString(), change));
}

template <bool left, bool right>
Result<Value> Strip(const Value& self, Args args, RenderState& state) {
  ArgReader reader("strip", args);
  const Value characters = reader.Take("chars", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  const MarkedString& text = self.AsString();
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
  ByteRange kept{};
  if (characters.IsNone()) {
    kept = TrimSpace(text.text(), left, right);
  } else {
    QUIRE_ASSIGN_OR_RETURN(const MarkedString set, StringOf(characters, "strip: the characters"));
    if (!state.Step(static_cast<int64_t>(text.size() * set.size() / 64))) {
      return state.CheckLimits().error();
    }
    kept = TrimCharacters(text.text(), set.text(), left, right);
  }
  return Piece(text, kept.begin, kept.end);
}

// Splits at runs of white space, `limit` times at most (any number when negative).
std::vector<Value> SplitAtSpace(const MarkedString& text, int64_t limit, bool from_right) {
  std::vector<Value> parts;
  const std::string_view source = text.text();
  // What is left when the limit is reached keeps the space at its far end.
  ByteRange rest = TrimSpace(source, !from_right, from_right);
  const size_t first = TrimSpace(source, true, false).begin;
  while (std::max(rest.begin, first) < rest.end) {
    const std::string_view view = source.substr(rest.begin, rest.end - rest.begin);
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(Piece(text, rest.begin, rest.end));
      break;
    }
    if (from_right) {
      size_t begin = view.size();
      while (begin > 0) {
        size_t start = begin - 1;
        while (start > 0 && begin - start < 4 && (view[start] & 0xC0) == 0x80) --start;
        if (IsSpace(CodePointAt(view, start).value)) break;
        begin = start;
      }
      parts.push_back(Piece(text, rest.begin + begin, rest.end));
      rest.end = rest.begin + TrimSpace(view.substr(0, begin), false, true).end;
    } else {
      size_t end = 0;
      while (end < view.size()) {
        const CodePoint unit = CodePointAt(view, end);
        if (IsSpace(unit.value)) break;
        end += unit.length;
      }
      parts.push_back(Piece(text, rest.begin, rest.begin + end));
      rest.begin += end + TrimSpace(view.substr(end), true, false).begin;
    }
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> SplitAt(const MarkedString& text, std::string_view separator, int64_t limit,
                           bool from_right) {
  std::vector<Value> parts;
  const std::string_view source = text.text();
  size_t begin = 0;
  size_t end = source.size();
  for (int64_t splits = 0; limit < 0 || splits < limit; ++splits) {
    const std::string_view view = source.substr(begin, end - begin);
    const size_t found = from_right ? view.rfind(separator) : view.find(separator);
    if (found == std::string_view::npos) break;
    if (from_right) {
      parts.push_back(Piece(text, begin + found + separator.size(), end));
      end = begin + found;
    } else {
      parts.push_back(Piece(text, begin, begin + found));
      begin += found + separator.size();
    }
  }
  parts.push_back(Piece(text, begin, end));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
Result<Value> Split(const Value& self, Args args, RenderState& state) {
  ArgReader reader("split", args);
  const Value separator = reader.Take("sep", Value::MakeNone());
  const Value limit_value = reader.Take("maxsplit", Value::MakeInt(-1));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const int64_t limit, IntOf(limit_value, "split: maxsplit"));
  const MarkedString& text = self.AsString();
  if (separator.IsNone()) {
    QUIRE_RETURN_IF_ERROR(state.SpendItems(text.size() * 2));
    return Value::MakeList(SplitAtSpace(text, limit, from_right));
  }
  QUIRE_ASSIGN_OR_RETURN(const MarkedString at, StringOf(separator, "split: the separator"));
  if (at.empty()) return Fault("split: the separator is empty");
  QUIRE_RETURN_IF_ERROR(state.SpendItems(4 * (1 + text.size() / at.size())));
  return Value::MakeList(SplitAt(text, at.text(), limit, from_right));
}

template <bool from_right>
Result<Value> Partition(const Value& self, Args args, RenderState& state) {
  ArgReader reader("partition", args);
  const Value separator = reader.Need("sep");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString at, StringOf(separator, "partition: the separator"));
  if (at.empty()) return Fault("partition: the separator is empty");
  const MarkedString& text = self.AsString();
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
  const std::string& source = text.text();
  const size_t found = from_right ? source.rfind(at.text()) : source.find(at.text());
  const Value empty = Value::MakeString(MarkedString());
  if (found == std::string::npos) {
    return from_right ? Value::MakeTuple({empty, empty, self})
                      : Value::MakeTuple({self, empty, empty});
  }
  const size_t after = found + at.size();
  return Value::MakeTuple(
      {Piece(text, 0, found), Piece(text, found, after), Piece(text, after, text.size())});
}

Result<Value> SplitLinesMethod(const Value& self, Args args, RenderState& state) {
  ArgReader reader("splitlines", args);
  const bool keep_ends = IsTrue(reader.Take("keepends", Value::MakeBool(false)));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  const MarkedString& text = self.AsString();
  QUIRE_RETURN_IF_ERROR(state.SpendItems(text.size() * 2));
  std::vector<Value> lines;
  for (const ByteRange line : SplitLines(text.text(), keep_ends)) {
    lines.push_back(Piece(text, line.begin, line.end));
  }
  return Value::MakeList(std::move(lines));
}

// The part that find, count and startswith look at, in code points.
Result<ByteRange> SearchRange(const MarkedString& text, const Value& start, const Value& stop,
                              RenderState& state) {
  if (start.IsNone() && stop.IsNone()) return ByteRange{0, text.size()};
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size() * 8));
  const auto offsets = CodePointOffsets(text.text());
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto resolve = [&](const Value& value, int64_t fallback) -> Result<int64_t> {
    if (value.IsNone()) return fallback;
    QUIRE_ASSIGN_OR_RETURN(int64_t at, IntOf(value, "a position"));
    if (at < 0) at = at < -size ? 0 : at + size;
    return std::min(at, size);
  };
  QUIRE_ASSIGN_OR_RETURN(const int64_t first, resolve(start, 0));
  QUIRE_ASSIGN_OR_RETURN(const int64_t last, resolve(stop, size));
  const size_t begin = offsets[static_cast<size_t>(first)];
  return ByteRange{begin, std::max(begin, offsets[static_cast<size_t>(last)])};
}

template <bool at_end>
Result<Value> HasAffix(const Value& self, Args args, RenderState& state) {
  ArgReader reader(at_end ? "endswith" : "startswith", args);
  const Value affix = reader.Need("affix");
  const Value start = reader.Take("start", Value::MakeNone());
  const Value stop = reader.Take("end", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const ByteRange range, SearchRange(self.AsString(), start, stop, state));
  const std::string_view text =
      std::string_view(self.Text()).substr(range.begin, range.end - range.begin);
  const bool is_tuple = affix.IsSequence() && affix.AsSequence().kind == SequenceKind::kTuple;
  const std::vector<Value> choices = is_tuple ? affix.AsSequence().items : std::vector{affix};
  for (const Value& choice : choices) {
    if (!choice.IsString()) {
      return Fault("startswith and endswith need a string or a tuple of strings, not {}",
                   TypeName(choice));
    }
    if (at_end ? text.ends_with(choice.Text()) : text.starts_with(choice.Text())) {
      return Value::MakeBool(true);
    }
  }
  return Value::MakeBool(false);
}

template <bool from_right, bool must_exist>
Result<Value> Find(const Value& self, Args args, RenderState& state) {
  ArgReader reader("find", args);
  const Value part_value = reader.Need("sub");
  const Value start = reader.Take("start", Value::MakeNone());
  const Value stop = reader.Take("end", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString part, StringOf(part_value, "find: the part"));
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(self.Text().size()));
  QUIRE_ASSIGN_OR_RETURN(const ByteRange range, SearchRange(self.AsString(), start, stop, state));
  const std::string_view text = std::string_view(self.Text()).substr(0, range.end);
  size_t found = from_right ? text.rfind(part.text()) : text.find(part.text(), range.begin);
  if (found != std::string_view::npos && found < range.begin) found = std::string_view::npos;
  if (found == std::string_view::npos) {
    if (must_exist) return Fault("the part is not in the string");
    return Value::MakeInt(-1);
  }
  return Value::MakeInt(static_cast<int64_t>(CountCodePoints(text.substr(0, found))));
}

Result<Value> Count(const Value& self, Args args, RenderState& state) {
  ArgReader reader("count", args);
  const Value part_value = reader.Need("sub");
  const Value start = reader.Take("start", Value::MakeNone());
  const Value stop = reader.Take("end", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString part, StringOf(part_value, "count: the part"));
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(self.Text().size()));
  QUIRE_ASSIGN_OR_RETURN(const ByteRange range, SearchRange(self.AsString(), start, stop, state));
  const std::string_view text =
      std::string_view(self.Text()).substr(range.begin, range.end - range.begin);
  if (part.empty()) return Value::MakeInt(static_cast<int64_t>(CountCodePoints(text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(part.text()); at != std::string_view::npos;
       at = text.find(part.text(), at + part.size())) {
    ++count;
  }
  return Value::MakeInt(count);
}

Result<Value> Replace(const Value& self, Args args, RenderState& state) {
  ArgReader reader("replace", args);
  const Value from = reader.Need("old");
  const Value to = reader.Need("new");
  const Value count_value = reader.Take("count", Value::MakeInt(-1));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const int64_t count, IntOf(count_value, "replace: count"));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString old_text, StringOf(from, "replace: the old text"));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString new_text, StringOf(to, "replace: the new text"));
  QUIRE_ASSIGN_OR_RETURN(MarkedString result,
                         ReplaceText(self.AsString(), old_text.text(), new_text, count, state));
  return Value::MakeString(std::move(result));
}

Result<Value> Join(const Value& self, Args args, RenderState& state) {
  ArgReader reader("join", args);
  const Value parts_value = reader.Need("iterable");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> parts, Iterate(parts_value, state));
  MarkedString result;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].IsString()) return Fault("join needs strings, not {}", TypeName(parts[i]));
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(parts[i].Text().size() + self.Text().size()));
    if (i > 0) result.Append(self.AsString());
    result.Append(parts[i].AsString());
  }
  return Value::MakeString(std::move(result));
}

template <bool at_end>
Result<Value> RemoveAffix(const Value& self, Args args, RenderState& state) {
  ArgReader reader(at_end ? "removesuffix" : "removeprefix", args);
  const Value affix_value = reader.Need("affix");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString affix, StringOf(affix_value, "the part to remove"));
  const MarkedString& text = self.AsString();
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
  if (at_end) {
    if (!text.text().ends_with(affix.text())) return self;
    return Piece(text, 0, text.size() - affix.size());
  }
  if (!text.text().starts_with(affix.text())) return self;
  return Piece(text, affix.size(), text.size());
}

// ljust, rjust, center and zfill.
template <char align>
Result<Value> Justify(const Value& self, Args args, RenderState& state) {
  ArgReader reader("a justifying method", args);
  const Value width_value = reader.Need("width");
  const Value fill_value =
      reader.Take("fillchar", Value::MakeString(MarkedString(align == '0' ? "0" : " ", true)));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const int64_t width, IntOf(width_value, "the width"));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString fill, StringOf(fill_value, "the fill character"));
  if (CountCodePoints(fill.text()) != 1) return Fault("the fill must be one character");
  const MarkedString& text = self.AsString();
  const int64_t length = static_cast<int64_t>(CountCodePoints(text.text()));
  if (width <= length) return self;
  const int64_t missing = width - length;
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(static_cast<uint64_t>(missing)));
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(static_cast<uint64_t>(missing) * 3 + text.size()));
  int64_t left = 0;
  if (align == 'r' || align == '0') left = missing;
  // str.center puts the odd one to the left where the width is odd.
  if (align == 'c') left = missing / 2 + (missing & width & 1);
  const bool has_sign =
      align == '0' && !text.empty() && (text.text()[0] == '-' || text.text()[0] == '+');
  MarkedString result = text.Slice(0, has_sign ? 1 : 0);
  for (int64_t i = 0; i < left; ++i) result.Append(fill);
  result.AppendSlice(text, has_sign ? 1 : 0, text.size());
  for (int64_t i = left; i < missing; ++i) result.Append(fill);
  return Value::MakeString(std::move(result));
}

template <bool (*holds)(int32_t)>
Result<Value> AllAre(const Value& self, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("a character test", args).Finish());
  const std::string& text = self.Text();
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    if (!holds(unit.value)) return Value::MakeBool(false);
    at += unit.length;
  }
  return Value::MakeBool(!text.empty());
}

bool IsAlnum(int32_t c) { return IsAlpha(c) || IsDigit(c); }

bool IsAsciiText(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

Result<Value> IsAsciiMethod(const Value& self, Args args, RenderState&) {
  QUIRE_RETURN_IF_ERROR(ArgReader("isascii", args).Finish());
  return Value::MakeBool(IsAsciiText(self.Text()));
}

template <bool upper>
Result<Value> AllCase(const Value& self, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("a case test", args).Finish());
  const std::string& text = self.Text();
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
  bool seen = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    if (upper ? IsLower(unit.value) : IsUpper(unit.value)) return Value::MakeBool(false);
    seen = seen || IsUpper(unit.value) || IsLower(unit.value);
    at += unit.length;
  }
  return Value::MakeBool(seen);
}

Result<Value> IsTitleMethod(const Value& self, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("istitle", args).Finish());
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(self.Text().size()));
  const std::string& text = self.Text();
  bool seen = false;
  bool after_letter = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    const bool upper = IsUpper(unit.value);
    const bool lower = IsLower(unit.value);
    if ((upper && after_letter) || (lower && !after_letter)) return Value::MakeBool(false);
    after_letter = upper || lower;
    seen = seen || after_letter;
    at += unit.length;
  }
  return Value::MakeBool(seen);
}

Result<Value> Format(const Value& self, Args args, RenderState& state) {
  return BraceFormat(self.AsString(), args, state);
}

constexpr std::pair<std::string_view, Callable::Function> kMethods[] = {
    {"capitalize", CaseMethod<CaseChange::kCapitalize>},
    {"casefold", CaseMethod<CaseChange::kLower>},
    {"center", Justify<'c'>},
    {"count", Count},
    {"endswith", HasAffix<true>},
    {"find", Find<false, false>},
    {"format", Format},
    {"index", Find<false, true>},
    {"isalnum", AllAre<IsAlnum>},
    {"isalpha", AllAre<IsAlpha>},
    {"isascii", IsAsciiMethod},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDigit>},
    {"islower", AllCase<false>},
    {"isnumeric", AllAre<IsDigit>},
    {"isspace", AllAre<IsSpace>},
    {"istitle", IsTitleMethod},
    {"isupper", AllCase<true>},
    {"join", Join},
    {"ljust", Justify<'l'>},
    {"lower", CaseMethod<CaseChange::kLower>},
    {"lstrip", Strip<true, false>},
    {"partition", Partition<false>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", Replace},
    {"rfind", Find<true, false>},
    {"rindex", Find<true, true>},
    {"rjust", Justify<'r'>},
    {"rpartition", Partition<true>},
    {"rsplit", Split<true>},
    {"rstrip", Strip<false, true>},
    {"split", Split<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", HasAffix<false>},
    {"strip", Strip<true, true>},
    {"swapcase", CaseMethod<CaseChange::kSwap>},
    {"title", CaseMethod<CaseChange::kTitle>},
    {"upper", CaseMethod<CaseChange::kUpper>},
    {"zfill", Justify<'0'>},
};

}  // namespace

Callable::Function FindStringMethod(std::string_view name) {
  for (const auto& [key, function] : kMethods) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace quire::jinja
