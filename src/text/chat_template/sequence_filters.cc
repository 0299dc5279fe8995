// Filters over rows of values: lengths, order, grouping.
#include <algorithm>

#include "text/chat_template/attributes.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/unicode_text.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

using Args = const CallArgs&;
using Values = std::vector<Value>;

Result<Value> Length(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("length", args).Finish());
  if (input.IsString() && !state.Step(static_cast<int64_t>(input.Text().size() / 64))) {
    return state.CheckLimits().error();
  }
  if (const auto length = LengthOf(input)) return Value::MakeInt(*length);
  return Fault("a {} has no length", TypeName(input));
}

Result<Value> First(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("first", args).Finish());
  QUIRE_ASSIGN_OR_RETURN(Values items, Iterate(input, state));
  if (items.empty()) return Value::MakeUndefined("there is no first item, the sequence is empty");
  return std::move(items.front());
}

bool CanBeReversed(const Value& value) {
  return !value.IsSequence() || value.AsSequence().kind != SequenceKind::kGenerator;
}

Result<Value> Last(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("last", args).Finish());
  if (!CanBeReversed(input)) return Fault("last: a generator cannot be read from its end");
  QUIRE_ASSIGN_OR_RETURN(Values items, Iterate(input, state));
  if (items.empty()) return Value::MakeUndefined("there is no last item, the sequence is empty");
  return std::move(items.back());
}

// An attribute argument's value for an item; the item itself for none.
Result<Value> Keyed(const Value& item, const Value& attribute, RenderState& state) {
  if (attribute.IsNone()) return item;
  return LookUpPath(item, attribute, state);
}

Result<Value> Join(const Value& input, Args args, RenderState& state) {
  ArgReader reader("join", args);
  const Value separator = reader.Take("d", Value::MakeString(MarkedString()));
  const Value attribute = reader.Take("attribute", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString between, ToText(separator, state));
  MarkedString result;
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const Value item, Keyed(items[i], attribute, state));
    QUIRE_ASSIGN_OR_RETURN(const MarkedString text, ToText(item, state));
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size() + between.size()));
    if (i > 0) result.Append(between);
    result.Append(text);
  }
  return Value::MakeString(std::move(result));
}

Result<Value> List(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("list", args).Finish());
  QUIRE_ASSIGN_OR_RETURN(Values items, Iterate(input, state));
  return Value::MakeList(std::move(items)).SetTrusted(input.trusted());
}

Result<Value> Reverse(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("reverse", args).Finish());
  if (input.IsString()) {
    return Slice(input, Value::MakeNone(), Value::MakeNone(), Value::MakeInt(-1), state);
  }
  if (!CanBeReversed(input)) {
    QUIRE_ASSIGN_OR_RETURN(Values items, Iterate(input, state));
    std::reverse(items.begin(), items.end());
    return Value::MakeList(std::move(items));
  }
  QUIRE_ASSIGN_OR_RETURN(Values items, Iterate(input, state));
  std::reverse(items.begin(), items.end());
  return Value::MakeGenerator(std::move(items));
}

Result<Value> Items(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("items", args).Finish());
  if (input.IsUndefined()) return Value::MakeGenerator({});
  if (!input.IsDict()) return Fault("items needs a mapping, not {}", TypeName(input));
  QUIRE_RETURN_IF_ERROR(state.SpendItems(input.AsDict().size() * 4));
  Values pairs;
  for (const auto& entry : input.AsDict().entries()) {
    pairs.push_back(Value::MakeTuple({entry.first, entry.second}));
  }
  return Value::MakeGenerator(std::move(pairs));
}

// A value and what it is sorted by.
struct SortEntry {
  Value key;
  Value value;
};

// Stable. A merge sort of our own, since comparing may fail and std::sort must not see that.
Status MergeSort(std::vector<SortEntry>& entries, bool reverse, RenderState& state) {
  std::vector<SortEntry> merged(entries.size());
  for (size_t width = 1; width < entries.size(); width *= 2) {
    for (size_t begin = 0; begin < entries.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, entries.size());
      const size_t end = std::min(begin + 2 * width, entries.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t out = begin; out < end; ++out) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
          QUIRE_ASSIGN_OR_RETURN(const int order,
                                 Order(entries[right].key, entries[left].key, state));
          take_right = reverse ? order > 0 : order < 0;
        }
        merged[out] = std::move(entries[take_right ? right++ : left++]);
      }
    }
    std::swap(entries, merged);
  }
  return {};
}

Value IgnoreCase(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.IsString()) return value;
  return Value::MakeString(ToLower(value.Text()));
}

// Several attributes with commas between them make a list key.
Result<Value> SortKey(const Value& item, const Value& attribute, bool case_sensitive,
                      RenderState& state) {
  if (!attribute.IsString()) {
    QUIRE_ASSIGN_OR_RETURN(const Value key, Keyed(item, attribute, state));
    return IgnoreCase(key, case_sensitive);
  }
  Values keys;
  std::string_view rest = attribute.Text();
  for (;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    QUIRE_ASSIGN_OR_RETURN(const Value key,
                           LookUpPath(item, Value::MakeString(rest.substr(0, comma)), state));
    keys.push_back(IgnoreCase(key, case_sensitive));
    if (comma == rest.size()) break;
    rest = rest.substr(comma + 1);
  }
  return Value::MakeList(std::move(keys));
}

Values ValuesOf(std::vector<SortEntry> entries) {
  Values values;
  for (SortEntry& entry : entries) values.push_back(std::move(entry.value));
  return values;
}

Result<Value> Sort(const Value& input, Args args, RenderState& state) {
  ArgReader reader("sort", args);
  const bool reverse = IsTrue(reader.Take("reverse", Value::MakeBool(false)));
  const bool case_sensitive = IsTrue(reader.Take("case_sensitive", Value::MakeBool(false)));
  const Value attribute = reader.Take("attribute", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  QUIRE_RETURN_IF_ERROR(state.SpendItems(items.size() * 4));
  std::vector<SortEntry> entries;
  for (const Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(Value key, SortKey(item, attribute, case_sensitive, state));
    entries.push_back({std::move(key), item});
  }
  QUIRE_RETURN_IF_ERROR(MergeSort(entries, reverse, state));
  return Value::MakeList(ValuesOf(std::move(entries))).SetTrusted(input.trusted());
}

Result<Value> DictSort(const Value& input, Args args, RenderState& state) {
  ArgReader reader("dictsort", args);
  const bool case_sensitive = IsTrue(reader.Take("case_sensitive", Value::MakeBool(false)));
  const Value by = reader.Take("by", Value::MakeString("key"));
  const bool reverse = IsTrue(reader.Take("reverse", Value::MakeBool(false)));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  const bool by_value = by.IsString() && by.Text() == "value";
  if (!by_value && !(by.IsString() && by.Text() == "key")) {
    return Fault("dictsort: by must be 'key' or 'value'");
  }
  if (!input.IsDict()) return Fault("dictsort needs a dict, not {}", TypeName(input));
  QUIRE_RETURN_IF_ERROR(state.SpendItems(input.AsDict().size() * 8));
  std::vector<SortEntry> entries;
  for (const auto& [key, value] : input.AsDict().entries()) {
    entries.push_back(
        {IgnoreCase(by_value ? value : key, case_sensitive), Value::MakeTuple({key, value})});
  }
  QUIRE_RETURN_IF_ERROR(MergeSort(entries, reverse, state));
  return Value::MakeList(ValuesOf(std::move(entries)));
}

// The first of each run of equal keys, in the order of the input.
Result<Value> Unique(const Value& input, Args args, RenderState& state) {
  ArgReader reader("unique", args);
  const bool case_sensitive = IsTrue(reader.Take("case_sensitive", Value::MakeBool(false)));
  const Value attribute = reader.Take("attribute", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  QUIRE_RETURN_IF_ERROR(state.SpendItems(items.size() * 4));
  Dict seen;
  Values unique;
  for (const Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(const Value found, Keyed(item, attribute, state));
    const Value key = IgnoreCase(found, case_sensitive);
    if (!IsHashable(key)) return Fault("unique: a {} cannot be compared", TypeName(key));
    if (seen.Find(key) != nullptr) continue;
    seen.Set(key, Value::MakeNone());
    unique.push_back(item);
  }
  return Value::MakeGenerator(std::move(unique));
}

template <bool largest>
Result<Value> Extreme(const Value& input, Args args, RenderState& state) {
  ArgReader reader(largest ? "max" : "min", args);
  const bool case_sensitive = IsTrue(reader.Take("case_sensitive", Value::MakeBool(false)));
  const Value attribute = reader.Take("attribute", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  if (items.empty()) return Value::MakeUndefined("no item, the sequence is empty");
  Value best_key;
  Value best;
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const Value found, Keyed(items[i], attribute, state));
    const Value key = IgnoreCase(found, case_sensitive);
    if (i > 0) {
      QUIRE_ASSIGN_OR_RETURN(const int order, Order(key, best_key, state));
      if (largest ? order <= 0 : order >= 0) continue;
    }
    best_key = key;
    best = items[i];
  }
  return best;
}

Result<Value> Sum(const Value& input, Args args, RenderState& state) {
  ArgReader reader("sum", args);
  const Value attribute = reader.Take("attribute", Value::MakeNone());
  Value total = reader.Take("start", Value::MakeInt(0).SetTrusted(true));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  if (total.IsString()) return Fault("sum cannot add strings, use join");
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  for (const Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(const Value value, Keyed(item, attribute, state));
    QUIRE_ASSIGN_OR_RETURN(total, Apply(BinaryOp::kAdd, total, value, state));
  }
  return total;
}

Result<Value> Batch(const Value& input, Args args, RenderState& state) {
  ArgReader reader("batch", args);
  const Value size_value = reader.Need("linecount");
  const Value fill = reader.Take("fill_with", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const int64_t size, IntOf(size_value, "batch: linecount"));
  if (size < 1) return Fault("batch: linecount must be at least 1");
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  Values batches;
  Values batch;
  for (const Value& item : items) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(Value::MakeList(std::exchange(batch, {})));
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (!fill.IsNone()) {
      const auto missing = static_cast<uint64_t>(size) - batch.size();
      if (missing > state.limits().max_bytes / sizeof(Value)) {
        return state.SpendBytes(UINT64_MAX).error();
      }
      QUIRE_RETURN_IF_ERROR(state.SpendItems(missing));
      batch.resize(static_cast<size_t>(size), fill);
    }
    batches.push_back(Value::MakeList(std::move(batch)));
  }
  return Value::MakeGenerator(std::move(batches));
}

Result<Value> SliceFilter(const Value& input, Args args, RenderState& state) {
  ArgReader reader("slice", args);
  const Value slices_value = reader.Need("slices");
  const Value fill = reader.Take("fill_with", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const int64_t slices, IntOf(slices_value, "slice: slices"));
  if (slices < 1 || slices > state.limits().max_range) {
    return Fault("slice: slices must lie between 1 and {}", state.limits().max_range);
  }
  QUIRE_RETURN_IF_ERROR(state.SpendItems(static_cast<uint64_t>(slices) * 3));
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  const auto length = static_cast<int64_t>(items.size());
  const int64_t per_slice = length / slices;
  const int64_t longer = length % slices;
  Values result;
  auto at = items.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t count = per_slice + (i < longer ? 1 : 0);
    Values part(at, at + count);
    at += count;
    if (!fill.IsNone() && i >= longer) part.push_back(fill);
    result.push_back(Value::MakeList(std::move(part)));
  }
  return Value::MakeGenerator(std::move(result));
}

Result<Value> GroupBy(const Value& input, Args args, RenderState& state) {
  ArgReader reader("groupby", args);
  const Value attribute = reader.Need("attribute");
  const Value fallback = reader.Take("default", Value::MakeNone());
  const bool case_sensitive = IsTrue(reader.Take("case_sensitive", Value::MakeBool(false)));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const Values items, Iterate(input, state));
  QUIRE_RETURN_IF_ERROR(state.SpendItems(items.size() * 8));
  std::vector<SortEntry> entries;
  for (const Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(Value key, Keyed(item, attribute, state));
    if (key.IsUndefined() && !fallback.IsNone()) key = fallback;
    entries.push_back({IgnoreCase(key, case_sensitive), item});
  }
  QUIRE_RETURN_IF_ERROR(MergeSort(entries, false, state));
  Values groups;
  for (size_t begin = 0; begin < entries.size();) {
    Values members;
    size_t end = begin;
    while (end < entries.size() && Equal(entries[begin].key, entries[end].key, state)) {
      members.push_back(entries[end++].value);
    }
    if (state.exhausted()) return state.CheckLimits().error();
    // A key that differs from itself (nan) is a group of its own.
    if (end == begin) members.push_back(entries[end++].value);
    QUIRE_ASSIGN_OR_RETURN(Value name, Keyed(members.front(), attribute, state));
    if (name.IsUndefined() && !fallback.IsNone()) name = fallback;
    groups.push_back(Value::MakeTuple({name, Value::MakeList(std::move(members))}));
    begin = end;
  }
  return Value::MakeList(std::move(groups));
}

Result<Value> Default(const Value& input, Args args, RenderState&) {
  ArgReader reader("default", args);
  const Value fallback = reader.Take("default_value", Value::MakeString(MarkedString()));
  const bool also_false = IsTrue(reader.Take("boolean", Value::MakeBool(false)));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  return input.IsUndefined() || (also_false && !IsTrue(input)) ? fallback : input;
}

constexpr FilterEntry kFilters[] = {
    {"batch", Batch},       {"count", Length},       {"d", Default},
    {"default", Default},   {"dictsort", DictSort},  {"first", First},
    {"groupby", GroupBy},   {"items", Items},        {"join", Join},
    {"last", Last},         {"length", Length},      {"list", List},
    {"max", Extreme<true>}, {"min", Extreme<false>}, {"reverse", Reverse},
    {"slice", SliceFilter}, {"sort", Sort},          {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

Filter FindSequenceFilter(std::string_view name) { return FindIn(kFilters, name); }

}  // namespace quire::jinja
