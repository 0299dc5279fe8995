// map, select, reject and their forms by attribute: filters that apply a filter or a test to items.
#include "text/chat_template/attributes.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/predicates.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

using Args = const CallArgs&;

// The arguments from `first` on, for the filter or test that is applied.
CallArgs Rest(Args args, size_t first) {
  CallArgs rest;
  if (first < args.positional.size()) {
    rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(first),
                           args.positional.end());
  }
  rest.named = args.named;
  return rest;
}

Result<Value> MapAttribute(const std::vector<Value>& items, Args args, RenderState& state) {
  ArgReader reader("map", args);
  const Value attribute = reader.Need("attribute");
  const Value fallback = reader.Take("default", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  std::vector<Value> mapped;
  for (const Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(Value value, LookUpPath(item, attribute, state));
    if (value.IsUndefined() && !fallback.IsNone()) value = fallback;
    mapped.push_back(std::move(value));
  }
  return Value::MakeGenerator(std::move(mapped));
}

Result<Value> Map(const Value& input, Args args, RenderState& state) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input, state));
  if (args.positional.empty()) return MapAttribute(items, args, state);
  if (!args.positional[0].IsString()) return Fault("map needs the name of a filter");
  const std::string& name = args.positional[0].Text();
  const Filter filter = FindFilter(name);
  if (filter == nullptr) return Fault("map: there is no filter named '{:.60}'", name);
  // map('map', ...) would nest one call for each name without nesting in the source.
  if (filter == Map) return Fault("map cannot apply map");
  const CallArgs rest = Rest(args, 1);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    if (!state.Step()) return state.CheckLimits().error();
    QUIRE_ASSIGN_OR_RETURN(Value value, filter(item, rest, state));
    mapped.push_back(std::move(value));
  }
  return Value::MakeGenerator(std::move(mapped));
}

template <bool by_attribute, bool keep>
Result<Value> Pick(const Value& input, Args args, RenderState& state) {
  const size_t own = by_attribute ? 1 : 0;
  if (args.positional.size() < own) return Fault("selectattr and rejectattr need an attribute");
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(input, state));
  Predicate predicate = nullptr;
  CallArgs rest;
  if (args.positional.size() > own) {
    const Value& name = args.positional[own];
    if (name.IsString()) predicate = FindPredicate(name.Text());
    if (predicate == nullptr) {
      return Fault("there is no test named '{:.60}'", name.IsString() ? name.Text() : "?");
    }
    rest = Rest(args, own + 1);
  }
  std::vector<Value> picked;
  for (const Value& item : items) {
    if (!state.Step()) return state.CheckLimits().error();
    Value subject = item;
    if (by_attribute) {
      QUIRE_ASSIGN_OR_RETURN(subject, LookUpPath(item, args.positional[0], state));
    }
    bool holds = IsTrue(subject);
    if (predicate != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(holds, predicate(subject, rest, state));
    }
    if (holds == keep) picked.push_back(item);
  }
  return Value::MakeGenerator(std::move(picked));
}

constexpr FilterEntry kFilters[] = {
    {"map", Map},
    {"reject", Pick<false, false>},
    {"rejectattr", Pick<true, false>},
    {"select", Pick<false, true>},
    {"selectattr", Pick<true, true>},
};

}  // namespace

Filter FindSelectionFilter(std::string_view name) { return FindIn(kFilters, name); }

}  // namespace quire::jinja
