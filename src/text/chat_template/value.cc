#include "text/chat_template/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/chat_template/operators.h"

namespace quire::jinja {
namespace {

// Equal keys have equal hashes: 1, 1.0 and true are one key.
size_t HashOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
    case Kind::kInt:
      return std::hash<int64_t>()(value.NumberAsInt());
    case Kind::kFloat: {
      const double number = value.AsFloat();
      if (std::abs(number) < 0x1p62 && number == std::floor(number)) {
        return std::hash<int64_t>()(static_cast<int64_t>(number));
      }
      return std::hash<double>()(number);
    }
    case Kind::kString:
      return std::hash<std::string_view>()(value.Text());
    case Kind::kSequence: {
      size_t hash = 0x5EED;
      for (const Value& item : value.AsSequence().items) hash = hash * 1000003 ^ HashOf(item);
      return hash;
    }
    default:
      return 0;
  }
}

}  // namespace

Value Value::MakeUndefined(std::string reason) {
  return Value(Data(Undefined{std::make_shared<const std::string>(std::move(reason))}));
}

Value Value::MakeString(MarkedString text) {
  const bool trusted = text.AllTrusted();
  Value value(Data(std::make_shared<const MarkedString>(std::move(text))));
  value.trusted_ = trusted;
  return value;
}

Value Value::MakeString(std::string_view text) {
  return Value(Data(std::make_shared<const MarkedString>(std::string(text), false)));
}

Value Value::MakeSequence(SequenceKind kind, std::vector<Value> items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return Value(Data(std::make_shared<const Sequence>(Sequence{kind, std::move(items), depth + 1})));
}

Value Value::MakeList(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kList, std::move(items));
}
Value Value::MakeTuple(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kTuple, std::move(items));
}
Value Value::MakeGenerator(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kGenerator, std::move(items));
}
Value Value::MakeDict(Dict dict) {
  return Value(Data(std::make_shared<const Dict>(std::move(dict))));
}
Value Value::MakeCallable(Callable callable) {
  return Value(Data(std::make_shared<const Callable>(std::move(callable))));
}

bool Value::IsList() const { return IsSequence() && AsSequence().kind == SequenceKind::kList; }

double Value::NumberAsFloat() const {
  return IsFloat() ? AsFloat() : static_cast<double>(NumberAsInt());
}

std::string_view Value::UndefinedReason() const {
  const auto* undefined = std::get_if<Undefined>(&data_);
  if (undefined == nullptr || undefined->reason == nullptr) return "the value is undefined";
  return *undefined->reason;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kSequence:
      return AsSequence().depth;
    case Kind::kDict:
      return AsDict().depth();
    case Kind::kCallable:
      return AsCallable().self.depth() + 1;
    default:
      return 0;
  }
}

bool Value::SameAs(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return AsBool() == other.AsBool();
    case Kind::kInt:
      return AsInt() == other.AsInt();
    case Kind::kFloat:
      return AsFloat() == other.AsFloat();
    case Kind::kString:
      return Text() == other.Text();
    case Kind::kSequence:
      return &AsSequence() == &other.AsSequence();
    case Kind::kDict:
      return &AsDict() == &other.AsDict();
    case Kind::kCallable:
      return &AsCallable() == &other.AsCallable();
    case Kind::kObject:
      return AsObject() == other.AsObject();
  }
  return false;
}

template <typename Matches>
const Dict::Entry* Dict::FindEntry(size_t hash, const Matches& matches) const {
  const auto [first, last] = index_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Entry& entry = entries_[at->second];
    if (matches(entry.first)) return &entry;
  }
  return nullptr;
}

void Dict::Set(Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  const size_t hash = HashOf(key);
  const Entry* found = FindEntry(hash, [&](const Value& entry) { return KeysEqual(entry, key); });
  if (found != nullptr) {
    entries_[static_cast<size_t>(found - entries_.data())].second = std::move(value);
    return;
  }
  index_.emplace(hash, entries_.size());
  entries_.emplace_back(std::move(key), std::move(value));
}

const Value* Dict::Find(const Value& key) const {
  const Entry* found =
      FindEntry(HashOf(key), [&](const Value& entry) { return KeysEqual(entry, key); });
  return found == nullptr ? nullptr : &found->second;
}

const Value* Dict::Find(std::string_view key) const {
  const Entry* found = FindEntry(std::hash<std::string_view>()(key), [&](const Value& entry) {
    return entry.IsString() && entry.Text() == key;
  });
  return found == nullptr ? nullptr : &found->second;
}

bool IsHashable(const Value& value) {
  if (value.IsSequence()) {
    const Sequence& sequence = value.AsSequence();
    return sequence.kind == SequenceKind::kTuple &&
           std::all_of(sequence.items.begin(), sequence.items.end(),
                       [](const Value& item) { return item.kind() <= Kind::kString; });
  }
  return value.kind() <= Kind::kString;
}

bool IsTrue(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.AsBool();
    case Kind::kInt:
      return value.AsInt() != 0;
    case Kind::kFloat:
      return value.AsFloat() != 0;
    case Kind::kString:
      return !value.AsString().empty();
    case Kind::kSequence:
      return value.AsSequence().kind == SequenceKind::kGenerator ||
             !value.AsSequence().items.empty();
    case Kind::kDict:
      return value.AsDict().size() != 0;
    case Kind::kCallable:
    case Kind::kObject:
      return true;
  }
  return true;
}

}  // namespace quire::jinja
