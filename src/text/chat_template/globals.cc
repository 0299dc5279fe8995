#include "text/chat_template/globals.h"

#include "text/chat_template/call_args.h"
#include "text/chat_template/clock.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [key, value] : attributes_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::Set(std::string_view name, Value value) {
  for (auto& [key, old] : attributes_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes_.emplace_back(name, std::move(value));
}

namespace {

Result<Value> Range(const Value&, const CallArgs& args, RenderState& state) {
  const auto& given = args.positional;
  if (!args.named.empty() || given.empty() || given.size() > 3) {
    return Fault("range takes one to three positional arguments");
  }
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(bounds[given.size() == 1 ? 1 : i], IntOf(given[i], "range"));
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) return Fault("range: the step cannot be 0");
  uint64_t span = 0;
  if (step > 0 && start < stop) span = static_cast<uint64_t>(stop) - static_cast<uint64_t>(start);
  if (step < 0 && start > stop) span = static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
  const uint64_t count = span == 0 ? 0 : (span - 1) / stride + 1;
  if (count > static_cast<uint64_t>(state.limits().max_range)) {
    return MakeError(ErrorCode::kResourceExhausted, "a range of {} numbers, the limit is {}", count,
                     state.limits().max_range);
  }
  QUIRE_RETURN_IF_ERROR(state.SpendItems(count));
  std::vector<Value> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    numbers.push_back(Value::MakeInt(start + static_cast<int64_t>(i) * step));
  }
  return Value::MakeSequence(SequenceKind::kRange, std::move(numbers));
}

// What dict(...) and namespace(...) are given: a dict or a row of pairs, then names.
Result<Dict> DictOf(const CallArgs& args, RenderState& state) {
  Dict dict;
  if (args.positional.size() > 1) return Fault("dict takes at most one positional argument");
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.IsDict()) {
      QUIRE_RETURN_IF_ERROR(state.SpendItems(source.AsDict().size() * 4));
      dict = source.AsDict();
    } else {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Iterate(source, state));
      for (const Value& pair : pairs) {
        QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> both, Iterate(pair, state));
        if (both.size() != 2) return Fault("dict needs pairs, got a row of {}", both.size());
        if (!IsHashable(both[0])) return Fault("a {} cannot be a key", TypeName(both[0]));
        dict.Set(both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) {
    dict.Set(Value::MakeString(MarkedString(name, true)), value);
  }
  return dict;
}

Result<Value> MakeDict(const Value&, const CallArgs& args, RenderState& state) {
  QUIRE_ASSIGN_OR_RETURN(Dict dict, DictOf(args, state));
  return Value::MakeDict(std::move(dict)).SetTrusted(true);
}

Result<Value> MakeNamespace(const Value&, const CallArgs& args, RenderState& state) {
  QUIRE_ASSIGN_OR_RETURN(const Dict dict, DictOf(args, state));
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(128 + dict.size() * 128));
  auto* result = state.Adopt(std::make_unique<Namespace>());
  for (const auto& [key, value] : dict.entries()) {
    if (!key.IsString()) return Fault("the names in a namespace are strings");
    if (key.Text().starts_with("_")) {
      return Fault("a name in a namespace may not begin with an underscore: '{:.60}'", key.Text());
    }
    result->Set(key.Text(), value);
  }
  return Value::MakeObject(result);
}

Result<Value> RaiseException(const Value&, const CallArgs& args, RenderState& state) {
  ArgReader reader("raise_exception", args);
  const Value message = reader.Need("message");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, ToText(message, state));
  return Error{ErrorCode::kInvalidArgument, text.text()};
}

Result<Value> StrftimeNow(const Value&, const CallArgs& args, RenderState& state) {
  ArgReader reader("strftime_now", args);
  const Value format = reader.Need("format");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, StringOf(format, "strftime_now: the format"));
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size() * 32));
  return Value::MakeString(MarkedString(FormatTime(state.now(), text.text()), text.AllTrusted()));
}

}  // namespace

std::optional<Value> FindGlobal(std::string_view name) {
  constexpr std::pair<std::string_view, Callable::Function> kFunctions[] = {
      {"dict", MakeDict}, {"namespace", MakeNamespace},  {"raise_exception", RaiseException},
      {"range", Range},   {"strftime_now", StrftimeNow},
  };
  for (const auto& [key, function] : kFunctions) {
    if (key == name) return Value::MakeCallable({std::string(key), function, Value()});
  }
  return std::nullopt;
}

}  // namespace quire::jinja
