#include "text/chat_template/attributes.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/globals.h"
#include "text/chat_template/interpreter.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/predicates.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {

Result<Value> Interpreter::Evaluate(const Expr& expr) {
  const Depth depth(*this);
  QUIRE_RETURN_IF_ERROR(depth.Check());
  line_ = expr.line;
  if (!state_.Step()) return state_.CheckLimits().error();
  auto result = EvaluateNode(expr);
  if (result.ok() && result->depth() > kMaxValueDepth) {
    return MakeError(ErrorCode::kResourceExhausted, "a value nested more than {} deep",
                     kMaxValueDepth);
  }
  return result;
}

Result<Value> Interpreter::EvaluateNode(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return expr.literal;
    case ExprKind::kName:
      return EvaluateName(expr);
    case ExprKind::kTuple:
      return EvaluateItems(expr, SequenceKind::kTuple);
    case ExprKind::kList:
      return EvaluateItems(expr, SequenceKind::kList);
    case ExprKind::kDict:
      return EvaluateDict(expr);
    case ExprKind::kAttribute:
      return EvaluateAttribute(expr);
    case ExprKind::kSubscript: {
      QUIRE_ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.args[0]));
      QUIRE_ASSIGN_OR_RETURN(const Value key, Evaluate(*expr.args[1]));
      if (object.kind() == Kind::kObject && key.IsString()) {
        return ObjectAttribute(object.AsObject(), key.Text());
      }
      return Subscript(object, key, state_);
    }
    case ExprKind::kSlice:
      return EvaluateSlice(expr);
    case ExprKind::kCall:
      return EvaluateCall(expr);
    case ExprKind::kFilter:
      return EvaluateFilter(expr, nullptr);
    case ExprKind::kTest:
      return EvaluateTest(expr);
    case ExprKind::kNot: {
      QUIRE_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.args[0]));
      return Value::MakeBool(!IsTrue(value)).SetTrusted(value.trusted());
    }
    case ExprKind::kNegate: {
      QUIRE_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.args[0]));
      return Negate(value);
    }
    case ExprKind::kPlus: {
      QUIRE_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.args[0]));
      if (!value.IsNumber()) return Fault("unary + needs a number, not {}", TypeName(value));
      if (value.IsFloat()) return value;
      return Value::MakeInt(value.NumberAsInt()).SetTrusted(value.trusted());
    }
    case ExprKind::kBinary: {
      QUIRE_ASSIGN_OR_RETURN(const Value left, Evaluate(*expr.args[0]));
      QUIRE_ASSIGN_OR_RETURN(const Value right, Evaluate(*expr.args[1]));
      return Apply(expr.binary_op, left, right, state_);
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      QUIRE_ASSIGN_OR_RETURN(Value left, Evaluate(*expr.args[0]));
      if (IsTrue(left) == (expr.kind == ExprKind::kOr)) return left;
      return Evaluate(*expr.args[1]);
    }
    case ExprKind::kConcat:
      return EvaluateConcat(expr);
    case ExprKind::kCompare:
      return EvaluateCompare(expr);
    case ExprKind::kConditional:
      return EvaluateConditional(expr);
  }
  return Value();
}

Result<Value> Interpreter::EvaluateName(const Expr& expr) {
  if (const Value* value = Find(expr.name)) return *value;
  if (auto global = FindGlobal(expr.name)) return std::move(*global);
  return Value::MakeUndefined(fmt::format("'{:.80}' is undefined", expr.name));
}

Result<Value> Interpreter::EvaluateItems(const Expr& expr, SequenceKind kind) {
  QUIRE_RETURN_IF_ERROR(state_.SpendItems(expr.args.size()));
  std::vector<Value> items;
  for (const ExprPtr& arg : expr.args) {
    QUIRE_ASSIGN_OR_RETURN(Value item, Evaluate(*arg));
    items.push_back(std::move(item));
  }
  return Value::MakeSequence(kind, std::move(items)).SetTrusted(true);
}

Result<Value> Interpreter::EvaluateDict(const Expr& expr) {
  QUIRE_RETURN_IF_ERROR(state_.SpendItems(expr.args.size() * 2));
  Dict dict;
  for (size_t i = 0; i < expr.args.size(); i += 2) {
    QUIRE_ASSIGN_OR_RETURN(Value key, Evaluate(*expr.args[i]));
    QUIRE_ASSIGN_OR_RETURN(Value value, Evaluate(*expr.args[i + 1]));
    if (!IsHashable(key)) return Fault("a {} cannot be a key", TypeName(key));
    dict.Set(std::move(key), std::move(value));
  }
  return Value::MakeDict(std::move(dict)).SetTrusted(true);
}

Result<Value> Interpreter::EvaluateAttribute(const Expr& expr) {
  QUIRE_ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.args[0]));
  if (object.kind() == Kind::kObject) return ObjectAttribute(object.AsObject(), expr.name);
  return Attribute(object, expr.name);
}

Result<Value> Interpreter::ObjectAttribute(Object* object, std::string_view name) {
  if (auto* space = dynamic_cast<Namespace*>(object)) {
    if (const Value* value = space->Find(name)) return *value;
    return Value::MakeUndefined(fmt::format("the namespace has no attribute '{:.80}'", name));
  }
  if (auto* macro = dynamic_cast<MacroObject*>(object); macro != nullptr && name == "name") {
    return Value::MakeString(MarkedString(macro->macro().name, true));
  }
  auto* loop = dynamic_cast<LoopObject*>(object);
  if (loop == nullptr) return Value::MakeUndefined(fmt::format("no attribute '{:.80}'", name));
  if (loop->ended) return Value::MakeUndefined("the loop has ended");
  const auto index = static_cast<int64_t>(loop->index);
  const auto length = static_cast<int64_t>(loop->items.size());
  if (name == "index") return Value::MakeInt(index + 1);
  if (name == "index0") return Value::MakeInt(index);
  if (name == "revindex") return Value::MakeInt(length - index);
  if (name == "revindex0") return Value::MakeInt(length - index - 1);
  if (name == "first") return Value::MakeBool(index == 0);
  if (name == "last") return Value::MakeBool(index + 1 == length);
  if (name == "length") return Value::MakeInt(length);
  if (name == "depth") return Value::MakeInt(loop->depth + 1);
  if (name == "depth0") return Value::MakeInt(loop->depth);
  if (name == "previtem") {
    return index == 0 ? Value::MakeUndefined("there is no previous item")
                      : loop->items[static_cast<size_t>(index - 1)];
  }
  if (name == "nextitem") {
    return index + 1 >= length ? Value::MakeUndefined("there is no next item")
                               : loop->items[static_cast<size_t>(index + 1)];
  }
  if (name == "cycle" || name == "changed") {
    QUIRE_RETURN_IF_ERROR(state_.SpendBytes(sizeof(LoopMethod)));
    const auto kind = name == "cycle" ? LoopMethod::Kind::kCycle : LoopMethod::Kind::kChanged;
    return Value::MakeObject(state_.Adopt(std::make_unique<LoopMethod>(loop, kind)));
  }
  return Value::MakeUndefined(fmt::format("loop has no attribute '{:.80}'", name));
}

Result<Value> Interpreter::EvaluateSlice(const Expr& expr) {
  QUIRE_ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.args[0]));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    bounds[i] = Value::MakeNone();
    if (expr.args[i + 1] != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(bounds[i], Evaluate(*expr.args[i + 1]));
    }
  }
  return Slice(object, bounds[0], bounds[1], bounds[2], state_);
}

Result<CallArgs> Interpreter::EvaluateArguments(const Expr& expr) {
  CallArgs args;
  for (size_t i = 1; i < expr.args.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(Value value, Evaluate(*expr.args[i]));
    args.positional.push_back(std::move(value));
  }
  for (const auto& [name, arg] : expr.named) {
    QUIRE_ASSIGN_OR_RETURN(Value value, Evaluate(*arg));
    args.named.emplace_back(name, std::move(value));
  }
  if (expr.star != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const Value rest, Evaluate(*expr.star));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(rest, state_));
    args.positional.insert(args.positional.end(), items.begin(), items.end());
  }
  if (expr.star_star != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const Value rest, Evaluate(*expr.star_star));
    if (!rest.IsDict()) return Fault("the argument after ** must be a dict");
    // Names are compared one by one where they are read.
    if (rest.AsDict().size() > 1000) return Fault("more than 1000 arguments after **");
    for (const auto& [key, value] : rest.AsDict().entries()) {
      if (!key.IsString()) return Fault("the keys of the argument after ** must be strings");
      args.named.emplace_back(key.Text(), value);
    }
  }
  return args;
}

Result<Value> Interpreter::EvaluateCall(const Expr& expr) {
  QUIRE_ASSIGN_OR_RETURN(const Value callee, Evaluate(*expr.args[0]));
  QUIRE_ASSIGN_OR_RETURN(CallArgs args, EvaluateArguments(expr));
  line_ = expr.line;
  return Call(callee, std::move(args));
}

Result<Value> Interpreter::Call(const Value& callee, CallArgs args) {
  if (callee.IsUndefined()) return Fault("{}", callee.UndefinedReason());
  if (callee.kind() == Kind::kCallable) {
    const Callable& callable = callee.AsCallable();
    return callable.function(callable.self, args, state_);
  }
  if (callee.kind() == Kind::kObject) {
    Object* object = callee.AsObject();
    if (auto* macro = dynamic_cast<MacroObject*>(object)) return CallMacro(*macro, std::move(args));
    if (auto* loop = dynamic_cast<LoopObject*>(object)) return CallLoop(*loop, args);
    if (auto* method = dynamic_cast<LoopMethod*>(object)) {
      LoopObject& loop = *method->loop();
      if (!args.named.empty()) return Fault("loop.cycle and loop.changed take no names");
      if (method->kind() == LoopMethod::Kind::kCycle) {
        if (args.positional.empty()) return Fault("loop.cycle needs values");
        return args.positional[loop.index % args.positional.size()];
      }
      const Value seen = Value::MakeTuple(std::move(args.positional));
      const bool changed = loop.changed.IsUndefined() || !Equal(seen, loop.changed, state_);
      loop.changed = seen;
      return Value::MakeBool(changed);
    }
  }
  return Fault("a {} cannot be called", TypeName(callee));
}

Result<Value> Interpreter::EvaluateFilter(const Expr& expr, const Value* piped) {
  Value input;
  if (expr.args[0] == nullptr) {
    if (piped != nullptr) input = *piped;
  } else if (piped != nullptr && expr.args[0]->kind == ExprKind::kFilter) {
    QUIRE_ASSIGN_OR_RETURN(input, EvaluateFilter(*expr.args[0], piped));
  } else {
    QUIRE_ASSIGN_OR_RETURN(input, Evaluate(*expr.args[0]));
  }
  const Filter filter = FindFilter(expr.name);
  if (filter == nullptr) {
    return MakeError(ErrorCode::kUnsupported, "there is no filter named '{:.60}'", expr.name);
  }
  QUIRE_ASSIGN_OR_RETURN(const CallArgs args, EvaluateArguments(expr));
  return filter(input, args, state_);
}

Result<Value> Interpreter::ApplyChain(const Expr& chain, const Value& piped) {
  return EvaluateFilter(chain, &piped);
}

Result<Value> Interpreter::EvaluateTest(const Expr& expr) {
  QUIRE_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.args[0]));
  const Predicate predicate = FindPredicate(expr.name);
  if (predicate == nullptr) {
    return MakeError(ErrorCode::kUnsupported, "there is no test named '{:.60}'", expr.name);
  }
  QUIRE_ASSIGN_OR_RETURN(const CallArgs args, EvaluateArguments(expr));
  QUIRE_ASSIGN_OR_RETURN(const bool holds, predicate(value, args, state_));
  return Value::MakeBool(holds);
}

Result<Value> Interpreter::EvaluateConcat(const Expr& expr) {
  std::vector<Value> parts;
  for (const ExprPtr& arg : expr.args) {
    QUIRE_ASSIGN_OR_RETURN(Value part, Evaluate(*arg));
    parts.push_back(std::move(part));
  }
  return Concatenate(parts, state_);
}

Result<Value> Interpreter::EvaluateCompare(const Expr& expr) {
  QUIRE_ASSIGN_OR_RETURN(Value left, Evaluate(*expr.args[0]));
  for (size_t i = 0; i < expr.compare_ops.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(Value right, Evaluate(*expr.args[i + 1]));
    QUIRE_ASSIGN_OR_RETURN(const bool holds, Compare(expr.compare_ops[i], left, right, state_));
    if (!holds) return Value::MakeBool(false);
    left = std::move(right);
  }
  return Value::MakeBool(true);
}

Result<Value> Interpreter::EvaluateConditional(const Expr& expr) {
  QUIRE_ASSIGN_OR_RETURN(const Value condition, Evaluate(*expr.args[0]));
  if (IsTrue(condition)) return Evaluate(*expr.args[1]);
  if (expr.args[2] != nullptr) return Evaluate(*expr.args[2]);
  return Value::MakeUndefined("the inline if was false and has no else");
}

}  // namespace quire::jinja
