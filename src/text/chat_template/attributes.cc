#include "text/chat_template/attributes.h"

#include <algorithm>
#include <charconv>

#include "text/chat_template/call_args.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/unicode_text.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

Result<Value> DictGet(const Value& self, const CallArgs& args, RenderState&) {
  ArgReader reader("get", args);
  const Value key = reader.Need("key");
  const Value fallback = reader.Take("default", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  if (!IsHashable(key)) return Fault("a {} cannot be a key", TypeName(key));
  const Value* found = self.AsDict().Find(key);
  return found == nullptr ? fallback : *found;
}

Result<Value> DictKeys(const Value& self, const CallArgs& args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("keys", args).Finish());
  QUIRE_RETURN_IF_ERROR(state.SpendItems(self.AsDict().size()));
  std::vector<Value> keys;
  for (const auto& entry : self.AsDict().entries()) keys.push_back(entry.first);
  return Value::MakeSequence(SequenceKind::kKeys, std::move(keys));
}

Result<Value> DictValues(const Value& self, const CallArgs& args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("values", args).Finish());
  QUIRE_RETURN_IF_ERROR(state.SpendItems(self.AsDict().size()));
  std::vector<Value> values;
  for (const auto& entry : self.AsDict().entries()) values.push_back(entry.second);
  return Value::MakeSequence(SequenceKind::kValues, std::move(values));
}

Result<Value> DictItems(const Value& self, const CallArgs& args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("items", args).Finish());
  QUIRE_RETURN_IF_ERROR(state.SpendItems(self.AsDict().size() * 4));
  std::vector<Value> items;
  for (const auto& entry : self.AsDict().entries()) {
    items.push_back(Value::MakeTuple({entry.first, entry.second}));
  }
  return Value::MakeSequence(SequenceKind::kItems, std::move(items));
}

Result<Value> CopySelf(const Value& self, const CallArgs& args, RenderState&) {
  QUIRE_RETURN_IF_ERROR(ArgReader("copy", args).Finish());
  return self;
}

Result<Value> ListIndex(const Value& self, const CallArgs& args, RenderState& state) {
  ArgReader reader("index", args);
  const Value item = reader.Need("value");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  const auto& items = self.AsSequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (Equal(items[i], item, state)) return Value::MakeInt(static_cast<int64_t>(i));
  }
  return Fault("the value is not in the list");
}

Result<Value> ListCount(const Value& self, const CallArgs& args, RenderState& state) {
  ArgReader reader("count", args);
  const Value item = reader.Need("value");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  const auto& items = self.AsSequence().items;
  return Value::MakeInt(std::count_if(
      items.begin(), items.end(), [&](const Value& entry) { return Equal(entry, item, state); }));
}

Callable::Function FindDictMethod(std::string_view name) {
  if (name == "get") return DictGet;
  if (name == "items") return DictItems;
  if (name == "keys") return DictKeys;
  if (name == "values") return DictValues;
  if (name == "copy") return CopySelf;
  return nullptr;
}

Callable::Function FindListMethod(const Sequence& list, std::string_view name) {
  const bool is_list = list.kind == SequenceKind::kList;
  if (!is_list && list.kind != SequenceKind::kTuple && list.kind != SequenceKind::kRange) {
    return nullptr;
  }
  if (name == "index") return ListIndex;
  if (name == "count") return ListCount;
  if (name == "copy" && is_list) return CopySelf;
  return nullptr;
}

template <typename Names>
bool Holds(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool ChangesItsObject(const Value& object, std::string_view name) {
  constexpr std::string_view kOfList[] = {"append", "clear", "pop",    "reverse",
                                          "insert", "sort",  "extend", "remove"};
  constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  return (object.IsList() && Holds(kOfList, name)) || (object.IsDict() && Holds(kOfDict, name));
}

// A method of the value, or the undefined value that stands for a forbidden one.
std::optional<Value> FindMethod(const Value& object, std::string_view name) {
  if (ChangesItsObject(object, name)) {
    return Value::MakeUndefined(fmt::format("'{}' would change a {}, which a chat template may not",
                                            name, TypeName(object)));
  }
  Callable::Function function = nullptr;
  if (object.IsString()) function = FindStringMethod(name);
  if (object.IsDict()) function = FindDictMethod(name);
  if (object.IsSequence()) function = FindListMethod(object.AsSequence(), name);
  if (function == nullptr) return std::nullopt;
  return Value::MakeCallable({std::string(name), function, object});
}

Value Missing(const Value& object, std::string_view name) {
  return Value::MakeUndefined(
      fmt::format("a {} has no attribute '{:.80}'", TypeName(object), name));
}

std::optional<size_t> Position(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

bool CanBeIndexed(const Sequence& sequence) {
  return sequence.kind == SequenceKind::kList || sequence.kind == SequenceKind::kTuple ||
         sequence.kind == SequenceKind::kRange;
}

Result<Value> CharacterAt(const Value& object, int64_t index, RenderState& state) {
  const MarkedString& text = object.AsString();
  if (!state.Step(static_cast<int64_t>(text.size() / 64))) return state.CheckLimits().error();
  const auto position = Position(index, CountCodePoints(text.text()));
  if (!position) return Value::MakeUndefined(fmt::format("a str has no character {}", index));
  size_t at = 0;
  for (size_t i = 0; i < *position; ++i) at += CodePointAt(text.text(), at).length;
  return Value::MakeString(text.Slice(at, at + CodePointAt(text.text(), at).length));
}

struct SliceRange {
  int64_t start;
  int64_t step;
  int64_t count;
};

// Python's rules for slice bounds over `size` items.
Result<SliceRange> ResolveSlice(const Value& start, const Value& stop, const Value& step,
                                int64_t size) {
  const auto bound = [](const Value& value, int64_t fallback) -> Result<int64_t> {
    if (value.IsNone()) return fallback;
    return IntOf(value, "a slice bound");
  };
  QUIRE_ASSIGN_OR_RETURN(const int64_t stride, bound(step, 1));
  if (stride == 0) return Fault("a slice step cannot be 0");
  const int64_t lowest = stride < 0 ? -1 : 0;
  const int64_t highest = stride < 0 ? size - 1 : size;
  const auto clamp = [&](int64_t at) {
    if (at < 0) at = at < -size ? lowest : std::max(at + size, lowest);
    return std::min(at, highest);
  };
  QUIRE_ASSIGN_OR_RETURN(int64_t first, bound(start, stride < 0 ? highest : 0));
  QUIRE_ASSIGN_OR_RETURN(int64_t last, bound(stop, stride < 0 ? INT64_MIN : size));
  first = clamp(first);
  last = clamp(last);
  int64_t count = 0;
  if (stride > 0 && first < last) count = (last - first - 1) / stride + 1;
  // -(stride + 1) + 1 would overflow for INT64_MIN; one item is all such a stride reaches.
  if (stride < 0 && first > last) {
    count = stride == INT64_MIN ? 1 : (first - last - 1) / -stride + 1;
  }
  return SliceRange{first, stride, count};
}

}  // namespace

Result<Value> Attribute(const Value& object, std::string_view name) {
  if (object.IsUndefined()) return Fault("{}", object.UndefinedReason());
  if (!name.empty() && name[0] == '_' && !object.IsDict()) {
    return Value::MakeUndefined(fmt::format("access to '{:.80}' is not allowed", name));
  }
  if (auto method = FindMethod(object, name)) return std::move(*method);
  if (object.IsDict()) {
    if (const Value* found = object.AsDict().Find(name)) return *found;
  }
  return Missing(object, name);
}

Result<Value> Subscript(const Value& object, const Value& key, RenderState& state) {
  if (object.IsUndefined()) return Fault("{}", object.UndefinedReason());
  if (object.IsDict() && IsHashable(key)) {
    if (const Value* found = object.AsDict().Find(key)) return *found;
  }
  const bool integral = key.IsInt() || key.IsBool();
  if (integral && object.IsString()) return CharacterAt(object, key.NumberAsInt(), state);
  if (integral && object.IsSequence() && CanBeIndexed(object.AsSequence())) {
    const auto& items = object.AsSequence().items;
    if (const auto position = Position(key.NumberAsInt(), items.size())) return items[*position];
    return Value::MakeUndefined(
        fmt::format("a {} has no item {}", TypeName(object), key.NumberAsInt()));
  }
  if (key.IsString()) {
    if (auto method = FindMethod(object, key.Text())) return std::move(*method);
    return Missing(object, key.Text());
  }
  return Value::MakeUndefined(
      fmt::format("a {} has no item under a {}", TypeName(object), TypeName(key)));
}

Result<Value> Slice(const Value& object, const Value& start, const Value& stop, const Value& step,
                    RenderState& state) {
  if (object.IsUndefined()) return Fault("{}", object.UndefinedReason());
  if (object.IsString()) {
    const MarkedString& text = object.AsString();
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
    const auto offsets = CodePointOffsets(text.text());
    QUIRE_ASSIGN_OR_RETURN(
        const SliceRange range,
        ResolveSlice(start, stop, step, static_cast<int64_t>(offsets.size()) - 1));
    if (range.count == 0) return Value::MakeString(MarkedString());
    if (range.step == 1) {
      return Value::MakeString(text.Slice(offsets[static_cast<size_t>(range.start)],
                                          offsets[static_cast<size_t>(range.start + range.count)]));
    }
    MarkedString result;
    for (int64_t i = 0; i < range.count; ++i) {
      const auto at = static_cast<size_t>(range.start + i * range.step);
      result.AppendSlice(text, offsets[at], offsets[at + 1]);
    }
    return Value::MakeString(std::move(result));
  }
  if (object.IsSequence() && CanBeIndexed(object.AsSequence())) {
    const Sequence& sequence = object.AsSequence();
    QUIRE_ASSIGN_OR_RETURN(
        const SliceRange range,
        ResolveSlice(start, stop, step, static_cast<int64_t>(sequence.items.size())));
    QUIRE_RETURN_IF_ERROR(state.SpendItems(static_cast<uint64_t>(range.count)));
    std::vector<Value> items;
    for (int64_t i = 0; i < range.count; ++i) {
      items.push_back(sequence.items[static_cast<size_t>(range.start + i * range.step)]);
    }
    return Value::MakeSequence(sequence.kind, std::move(items)).SetTrusted(object.trusted());
  }
  return Fault("a {} has no slices", TypeName(object));
}

Result<Value> LookUpPath(const Value& object, const Value& path, RenderState& state) {
  if (!path.IsString()) return Subscript(object, path, state);
  Value value = object;
  std::string_view rest = path.Text();
  for (;;) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && part[0] != '-' && parsed.ec == std::errc() &&
                          parsed.ptr == part.data() + part.size();
    QUIRE_ASSIGN_OR_RETURN(
        value, Subscript(value, is_index ? Value::MakeInt(index) : Value::MakeString(part), state));
    if (dot == rest.size()) return value;
    rest = rest.substr(dot + 1);
  }
}

}  // namespace quire::jinja
