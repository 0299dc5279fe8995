// A value of the template language: what Python would hold at the same place.
//
// Values are immutable and cheap to copy: strings, sequences, dicts and callables are shared. Only
// a namespace changes; it and the other objects of a render belong to its RenderState, and values
// that point to them live no longer than it. depth() bounds the recursion of everything that walks
// a value, its destructor included; the interpreter refuses values deeper than kMaxValueDepth.
// Thread rule: values without objects may be read by any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/chat_template/marked_string.h"

namespace quire::jinja {

class Dict;
class Object;
struct Callable;
struct Sequence;

inline constexpr int kMaxValueDepth = 200;

// In the order of Value's alternatives.
enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,
  kDict,
  kCallable,
  kObject,
};

// Python's types that hold a row of values. A generator has no length and is always true.
enum class SequenceKind : uint8_t { kList, kTuple, kRange, kGenerator, kKeys, kValues, kItems };

class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> reason;  // what an error says about it; may be null
  };
  struct None {};

  Value() = default;  // undefined
  static Value MakeUndefined(std::string reason);
  static Value MakeNone() { return Value(Data(None{})); }
  static Value MakeBool(bool value) { return Value(Data(value)); }
  static Value MakeInt(int64_t value) { return Value(Data(value)); }
  static Value MakeFloat(double value) { return Value(Data(value)); }
  static Value MakeString(MarkedString text);
  // A string that came from outside the template.
  static Value MakeString(std::string_view text);
  static Value MakeSequence(SequenceKind kind, std::vector<Value> items);
  static Value MakeList(std::vector<Value> items);
  static Value MakeTuple(std::vector<Value> items);
  static Value MakeGenerator(std::vector<Value> items);
  static Value MakeDict(Dict dict);
  static Value MakeCallable(Callable callable);
  static Value MakeObject(Object* object) { return Value(Data(object)); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool IsUndefined() const { return kind() == Kind::kUndefined; }
  bool IsNone() const { return kind() == Kind::kNone; }
  bool IsBool() const { return kind() == Kind::kBool; }
  bool IsInt() const { return kind() == Kind::kInt; }
  bool IsFloat() const { return kind() == Kind::kFloat; }
  bool IsString() const { return kind() == Kind::kString; }
  bool IsSequence() const { return kind() == Kind::kSequence; }
  bool IsDict() const { return kind() == Kind::kDict; }
  bool IsList() const;
  // bool, int or float: Python's bool is a number.
  bool IsNumber() const { return kind() >= Kind::kBool && kind() <= Kind::kFloat; }

  // Each needs a value of its kind.
  bool AsBool() const { return *std::get_if<bool>(&data_); }
  double AsFloat() const { return *std::get_if<double>(&data_); }
  int64_t AsInt() const { return *std::get_if<int64_t>(&data_); }
  const MarkedString& AsString() const { return **std::get_if<StringRef>(&data_); }
  const std::string& Text() const { return AsString().text(); }
  const Sequence& AsSequence() const { return **std::get_if<SequenceRef>(&data_); }
  const Dict& AsDict() const { return **std::get_if<DictRef>(&data_); }
  const Callable& AsCallable() const { return **std::get_if<CallableRef>(&data_); }
  Object* AsObject() const { return *std::get_if<Object*>(&data_); }
  // IsNumber().
  double NumberAsFloat() const;
  // A bool or an int.
  int64_t NumberAsInt() const { return IsBool() ? AsBool() : AsInt(); }

  std::string_view UndefinedReason() const;
  int depth() const;
  // Same shared content, or equal scalars without a look at content: Python's `is`, roughly.
  bool SameAs(const Value& other) const;

  // Whether the template wrote this value itself. Strings carry marks of their own; for a container
  // this says so of its brackets and commas, for a number of its digits.
  bool trusted() const { return trusted_; }
  Value&& SetTrusted(bool trusted) && {
    trusted_ = trusted;
    return std::move(*this);
  }

 private:
  using StringRef = std::shared_ptr<const MarkedString>;
  using SequenceRef = std::shared_ptr<const Sequence>;
  using DictRef = std::shared_ptr<const Dict>;
  using CallableRef = std::shared_ptr<const Callable>;
  using Data = std::variant<Undefined, None, bool, int64_t, double, StringRef, SequenceRef, DictRef,
                            CallableRef, Object*>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
  bool trusted_ = false;
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 1;
};

// Keys in the order in which they were first set. Keys are hashable (see IsHashable).
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // A key that is there keeps its place.
  void Set(Value key, Value value);
  void Set(std::string_view key, Value value) { Set(Value::MakeString(key), std::move(value)); }
  // Null when it is not there.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  template <typename Matches>
  const Entry* FindEntry(size_t hash, const Matches& matches) const;

  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, size_t> index_;  // hash to position in entries_
  int depth_ = 1;
};

// Strings, numbers, none, undefined, and tuples of those (tuples of tuples are refused as keys).
bool IsHashable(const Value& value);
// Python's truth of a value.
bool IsTrue(const Value& value);

// What lives as long as a render and is shared by reference: loops, macros, namespaces.
class Object {
 public:
  virtual ~Object() = default;
  // As printed, e.g. "<Namespace>".
  virtual std::string Describe() const = 0;
};

struct CallArgs;
class RenderState;

// A built-in function, or a method with the value it belongs to.
struct Callable {
  using Function = Result<Value> (*)(const Value& self, const CallArgs& args, RenderState& state);
  std::string name;
  Function function = nullptr;
  Value self;
};

}  // namespace quire::jinja
