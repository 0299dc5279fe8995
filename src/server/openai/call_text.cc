#include "server/openai/call_text.h"

#include <algorithm>

#include "text/chat_template/json_text.h"

namespace quire {
namespace {

using jinja::Value;

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kFence = "```";
constexpr std::string_view kFenceWord = "json";
// Beyond this and the longest name nothing is waited for.
constexpr size_t kMaxBeginning = 256;

size_t SkipSpace(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

// Behind the quotation mark that ends the string that begins at `at`, or npos.
size_t StringEnd(std::string_view text, size_t at) {
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// Behind the value that begins at `at`, or npos. Whether it is JSON is not looked at beyond
// brackets and strings.
size_t ValueEnd(std::string_view text, size_t at) {
  int depth = 0;
  size_t i = at;
  while (i < text.size()) {
    const char byte = text[i];
    if (byte == '"') {
      i = StringEnd(text, i);
      if (i == std::string_view::npos) return i;
      if (depth == 0) return i;
      continue;
    }
    if (byte == '{' || byte == '[') ++depth;
    if (byte == '}' || byte == ']') {
      // The end of what a number or a word stands in.
      if (depth == 0) return i;
      if (--depth == 0) return i + 1;
    }
    if (depth == 0 && (byte == ',' || byte == ';' || kSpace.find(byte) != kSpace.npos)) return i;
    ++i;
  }
  return depth == 0 ? text.size() : std::string_view::npos;
}

// The text of the last member of this name in an object that is well-formed JSON.
std::string_view MemberText(std::string_view object, std::string_view name) {
  std::string_view found;
  size_t at = SkipSpace(object, 1);
  while (at < object.size() && object[at] == '"') {
    const size_t key_end = StringEnd(object, at);
    const std::string_view key = object.substr(at + 1, key_end - at - 2);
    const size_t begin = SkipSpace(object, object.find(':', key_end) + 1);
    const size_t end = ValueEnd(object, begin);
    if (key == name) found = object.substr(begin, end - begin);
    at = SkipSpace(object, end);
    if (at < object.size() && object[at] == ',') at = SkipSpace(object, at + 1);
  }
  return found;
}

bool IsOffered(std::string_view name, std::span<const std::string> names) {
  return std::ranges::find(names, name) != names.end();
}

// Objects in a row or in an array, to the end of the text.
std::vector<ToolDelta> ReadCalls(std::string_view text, std::span<const std::string> names) {
  std::vector<ToolDelta> calls;
  size_t at = SkipSpace(text, 0);
  const bool is_array = at < text.size() && text[at] == '[';
  if (is_array) at = SkipSpace(text, at + 1);
  bool is_closed = !is_array;
  while (at < text.size()) {
    if (is_array && text[at] == ']') {
      is_closed = true;
      at = SkipSpace(text, at + 1);
      break;
    }
    const size_t end = text[at] == '{' ? ValueEnd(text, at) : std::string_view::npos;
    if (end == std::string_view::npos) return {};
    auto call = CallOf(text.substr(at, end - at));
    if (!call || !IsOffered(call->name, names)) return {};
    calls.push_back(*std::move(call));
    at = SkipSpace(text, end);
    if (at < text.size() && text[at] == (is_array ? ',' : ';')) at = SkipSpace(text, at + 1);
  }
  if (!is_closed || at < text.size()) return {};
  return calls;
}

// Reads one thing after another at the beginning of a text.
struct Beginning {
  std::string_view text;
  size_t at = 0;
  Prospect prospect = Prospect::kYes;  // so far

  bool Stop(Prospect answer) {
    prospect = answer;
    return false;
  }
  // True: more of the text is there, behind space.
  bool Space() {
    at = SkipSpace(text, at);
    return at < text.size() || Stop(Prospect::kOpen);
  }
  // Takes `word` where it stands; false where the text ends inside it.
  bool MayTake(std::string_view word) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(word)) {
      at += word.size();
    } else if (word.starts_with(rest)) {
      return Stop(Prospect::kOpen);
    }
    return true;
  }
  bool Take(char byte) {
    if (!Space()) return false;
    if (text[at] != byte) return Stop(Prospect::kNo);
    ++at;
    return true;
  }
  // A string without escapes, or the part of it that is there.
  bool String(std::string_view& word) {
    if (!Take('"')) return false;
    const size_t end = text.find('"', at);
    word = text.substr(at, end == text.npos ? text.npos : end - at);
    if (end == text.npos) return Stop(Prospect::kOpen);
    at = end + 1;
    return true;
  }
};

}  // namespace

std::optional<ToolDelta> CallOf(std::string_view text) {
  const size_t begin = SkipSpace(text, 0);
  const size_t last = text.find_last_not_of(kSpace);
  if (begin >= text.size() || text[begin] != '{') return std::nullopt;
  text = text.substr(begin, last + 1 - begin);
  const auto value = jinja::ValueFromJson(text);
  if (!value.ok() || !value->IsDict()) return std::nullopt;
  const Value* name = value->AsDict().Find("name");
  if (name == nullptr || !name->IsString() || name->Text().empty()) return std::nullopt;
  ToolDelta call{.kind = ToolDelta::Kind::kCall, .name = name->Text(), .arguments = "{}"};
  for (const std::string_view member : {"arguments", "parameters"}) {
    const Value* arguments = value->AsDict().Find(member);
    if (arguments == nullptr || arguments->IsNone()) continue;
    if (arguments->IsDict()) {
      call.arguments = MemberText(text, member);
      // A name that was written with escapes.
      return call.arguments.empty() ? std::nullopt : std::optional(std::move(call));
    }
    if (!arguments->IsString()) return std::nullopt;
    const auto inner = jinja::ValueFromJson(arguments->Text());
    if (!inner.ok() || !inner->IsDict()) return std::nullopt;
    call.arguments = arguments->Text();
    return call;
  }
  return call;
}

std::vector<ToolDelta> CallsOfWhole(std::string_view text, std::span<const std::string> names) {
  text.remove_prefix(SkipSpace(text, 0));
  if (text.starts_with(kPythonTag)) text.remove_prefix(kPythonTag.size());
  text.remove_prefix(SkipSpace(text, 0));
  if (text.starts_with(kFence)) {
    text.remove_prefix(kFence.size());
    if (text.starts_with(kFenceWord)) text.remove_prefix(kFenceWord.size());
    text = text.substr(0, text.find_last_not_of(kSpace) + 1);
    // An answer that stopped before the fence was closed is whole all the same.
    if (text.ends_with(kFence)) text.remove_suffix(kFence.size());
  }
  return ReadCalls(text, names);
}

Prospect MayBeCalls(std::string_view beginning, std::span<const std::string> names) {
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  const bool is_all = beginning.size() < kMaxBeginning + longest;
  Beginning read{.text = beginning.substr(0, kMaxBeginning + longest)};
  const auto look = [&] {
    if (!read.Space() || !read.MayTake(kPythonTag) || !read.Space()) return;
    const size_t unfenced = read.at;
    if (!read.MayTake(kFence)) return;
    if (read.at > unfenced && !read.MayTake(kFenceWord)) return;
    if (!read.Space() || !read.MayTake("[")) return;
    std::string_view key;
    if (!read.Take('{') || !read.String(key)) return;
    if (key != "name") {
      read.Stop(key == "arguments" || key == "parameters" || key == "type" ? Prospect::kYes
                                                                           : Prospect::kNo);
      return;
    }
    std::string_view name;
    if (!read.Take(':') || !read.String(name)) return;
    // A name in escapes is one that nobody offers.
    read.Stop(IsOffered(name, names) ? Prospect::kYes : Prospect::kNo);
  };
  look();
  if (read.prospect == Prospect::kOpen && !is_all) return Prospect::kNo;
  return read.prospect;
}

}  // namespace quire
