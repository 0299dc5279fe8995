#include "text/chat_template/interpreter.h"

#include <algorithm>
#include <cstdlib>

#include "text/chat_template/globals.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {

Status Interpreter::Depth::Check() const {
  const TemplateLimits& limits = interpreter_.state_.limits();
  if (interpreter_.depth_ > limits.max_depth) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "more than {} calls, loops and expressions inside one another",
                     limits.max_depth);
  }
  // Frames differ between compilers and with sanitizers, so the stack is also measured.
  const auto used = std::abs(interpreter_.stack_base_ - StackPosition());
  if (static_cast<uint64_t>(used) > limits.max_stack_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "calls, loops and expressions inside one another take more than {} bytes of "
                     "stack",
                     limits.max_stack_bytes);
  }
  return {};
}

[[gnu::noinline]] const char* Interpreter::StackPosition() {
  return static_cast<const char*>(__builtin_frame_address(0));
}

Scope* Interpreter::NewScope(Scope* parent) {
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    scopes_.push_back(std::make_unique<Scope>());
    scope = scopes_.back().get();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Interpreter::EndScope(Scope* scope) {
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

void Interpreter::SetIn(Scope& scope, std::string_view name, Value value) {
  for (auto& [key, old] : scope.variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  scope.variables.emplace_back(name, std::move(value));
}

void Interpreter::SetVariable(std::string_view name, Value value) {
  if (scope_ == nullptr) scope_ = NewScope(nullptr);
  SetIn(*scope_, name, std::move(value));
}

const Value* Interpreter::Find(std::string_view name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

Result<MarkedString> Interpreter::Run() {
  // The template's own variables shadow the input's.
  const ScopeGuard guard(*this, scope_);
  QUIRE_ASSIGN_OR_RETURN(const Flow flow, RunBlock(tree_.body));
  (void)flow;
  QUIRE_RETURN_IF_ERROR(state_.CheckLimits());
  return std::move(output_);
}

Result<Interpreter::Flow> Interpreter::RunBlock(const Block& block) {
  for (const auto& stmt : block) {
    QUIRE_ASSIGN_OR_RETURN(const Flow flow, RunStatement(*stmt));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::RunStatement(const Stmt& stmt) {
  const Depth depth(*this);
  QUIRE_RETURN_IF_ERROR(depth.Check());
  line_ = stmt.line;
  if (!state_.Step()) return state_.CheckLimits().error();
  switch (stmt.kind) {
    case StmtKind::kText:
      QUIRE_RETURN_IF_ERROR(Write(stmt.literal));
      return Flow::kNext;
    case StmtKind::kOutput: {
      QUIRE_ASSIGN_OR_RETURN(const Value value, Evaluate(*stmt.expr));
      QUIRE_RETURN_IF_ERROR(Write(value));
      return Flow::kNext;
    }
    case StmtKind::kIf:
      return RunIf(stmt);
    case StmtKind::kFor:
      return RunFor(stmt);
    case StmtKind::kSet:
    case StmtKind::kSetBlock:
      QUIRE_RETURN_IF_ERROR(RunSet(stmt));
      return Flow::kNext;
    case StmtKind::kMacro:
      QUIRE_RETURN_IF_ERROR(state_.SpendBytes(sizeof(MacroObject) + sizeof(Scope)));
      SetIn(*scope_, stmt.macro->name, MakeMacro(*stmt.macro));
      return Flow::kNext;
    case StmtKind::kCallBlock:
      QUIRE_RETURN_IF_ERROR(RunCallBlock(stmt));
      return Flow::kNext;
    case StmtKind::kFilterBlock: {
      QUIRE_ASSIGN_OR_RETURN(const Value text, Capture(stmt.body));
      QUIRE_ASSIGN_OR_RETURN(const Value filtered, ApplyChain(*stmt.expr, text));
      QUIRE_RETURN_IF_ERROR(Write(filtered));
      return Flow::kNext;
    }
    case StmtKind::kWith:
      return RunWith(stmt);
    case StmtKind::kScope:
      return RunScope(stmt.body);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Interpreter::Write(const Value& value) {
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, ToText(value, state_));
  QUIRE_RETURN_IF_ERROR(state_.SpendBytes(text.size()));
  if (output_.size() + text.size() > state_.limits().max_output_bytes) {
    return MakeError(ErrorCode::kResourceExhausted, "the prompt is longer than {} bytes",
                     state_.limits().max_output_bytes);
  }
  output_.Append(text);
  return {};
}

Result<Value> Interpreter::Capture(const Block& body) {
  MarkedString outer = std::exchange(output_, MarkedString());
  const ScopeGuard guard(*this, scope_);
  QUIRE_ASSIGN_OR_RETURN(const Flow flow, RunBlock(body));
  (void)flow;
  return Value::MakeString(std::exchange(output_, std::move(outer)));
}

Result<Interpreter::Flow> Interpreter::RunIf(const Stmt& stmt) {
  for (const auto& [condition, body] : stmt.branches) {
    QUIRE_ASSIGN_OR_RETURN(const Value value, Evaluate(*condition));
    if (IsTrue(value)) return RunBlock(body);
  }
  return RunBlock(stmt.else_body);
}

Result<Interpreter::Flow> Interpreter::RunFor(const Stmt& stmt) {
  QUIRE_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*stmt.expr));
  QUIRE_RETURN_IF_ERROR(Loop(stmt, iterable, 0));
  return Flow::kNext;
}

// The items that the loop's own filter keeps. It sees the target, and no `loop`.
Result<std::vector<Value>> Interpreter::LoopItems(const Stmt& stmt, const Value& iterable) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(iterable, state_));
  if (stmt.filter == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopeGuard guard(*this, scope_);
    QUIRE_RETURN_IF_ERROR(Assign(*stmt.target, item));
    QUIRE_ASSIGN_OR_RETURN(const Value keeps, Evaluate(*stmt.filter));
    if (IsTrue(keeps)) kept.push_back(std::move(item));
  }
  return kept;
}

Status Interpreter::Loop(const Stmt& stmt, const Value& iterable, int depth) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<Value> items, LoopItems(stmt, iterable));
  if (items.empty()) {
    const ScopeGuard guard(*this, scope_);
    auto flow = RunBlock(stmt.else_body);
    return flow.ok() ? Status() : Status(flow.error());
  }
  QUIRE_RETURN_IF_ERROR(state_.SpendBytes(sizeof(LoopObject)));
  auto* loop = state_.Adopt(std::make_unique<LoopObject>());
  loop->stmt = &stmt;
  loop->items = std::move(items);
  loop->depth = depth;
  loop->scope = scope_;
  for (; loop->index < loop->items.size(); ++loop->index) {
    const ScopeGuard guard(*this, scope_);
    SetIn(*scope_, "loop", Value::MakeObject(loop));
    QUIRE_RETURN_IF_ERROR(Assign(*stmt.target, loop->items[loop->index]));
    auto flow = RunBlock(stmt.body);
    if (!flow.ok()) return flow.error();
    if (*flow == Flow::kBreak) break;
  }
  loop->ended = true;
  std::vector<Value>().swap(loop->items);
  return {};
}

Result<Value> Interpreter::CallLoop(const LoopObject& loop, const CallArgs& args) {
  if (!loop.stmt->recursive) {
    return Fault("the loop is called, but its for tag does not say 'recursive'");
  }
  ArgReader reader("loop", args);
  const Value iterable = reader.Need("iterable");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  if (loop.ended) return Fault("the loop is called after its end");
  MarkedString outer = std::exchange(output_, MarkedString());
  Scope* caller_scope = std::exchange(scope_, loop.scope);
  QUIRE_RETURN_IF_ERROR(Loop(*loop.stmt, iterable, loop.depth + 1));
  scope_ = caller_scope;
  return Value::MakeString(std::exchange(output_, std::move(outer)));
}

Status Interpreter::Assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) {
    SetIn(*scope_, target.name, value);
    return {};
  }
  if (target.kind == ExprKind::kAttribute) {
    const Value* owner = Find(target.args[0]->name);
    auto* space = owner == nullptr || owner->kind() != Kind::kObject
                      ? nullptr
                      : dynamic_cast<Namespace*>(owner->AsObject());
    if (space == nullptr) {
      return Fault("'{:.60}' is no namespace, its attributes cannot be set", target.args[0]->name);
    }
    if (target.name.starts_with("_")) {
      return Fault("a name in a namespace may not begin with an underscore: '{:.60}'", target.name);
    }
    QUIRE_RETURN_IF_ERROR(state_.SpendBytes(target.name.size()));
    space->Set(target.name, value);
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value, state_));
  if (items.size() != target.args.size()) {
    return Fault("{} values cannot be unpacked into {} names", items.size(), target.args.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(Assign(*target.args[i], items[i]));
  }
  return {};
}

Status Interpreter::RunSet(const Stmt& stmt) {
  if (stmt.kind == StmtKind::kSet) {
    QUIRE_ASSIGN_OR_RETURN(const Value value, Evaluate(*stmt.expr));
    return Assign(*stmt.target, value);
  }
  QUIRE_ASSIGN_OR_RETURN(Value text, Capture(stmt.body));
  if (stmt.expr != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(text, ApplyChain(*stmt.expr, text));
  }
  return Assign(*stmt.target, text);
}

Result<Interpreter::Flow> Interpreter::RunWith(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.assignments) {
    QUIRE_ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    values.push_back(std::move(value));
  }
  const ScopeGuard guard(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(Assign(*stmt.assignments[i].first, values[i]));
  }
  return RunBlock(stmt.body);
}

Result<Interpreter::Flow> Interpreter::RunScope(const Block& body) {
  const ScopeGuard guard(*this, scope_);
  return RunBlock(body);
}

Value Interpreter::MakeMacro(const Macro& macro) {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) {
    scope->captured = true;
  }
  return Value::MakeObject(state_.Adopt(std::make_unique<MacroObject>(macro, scope_)));
}

Status Interpreter::RunCallBlock(const Stmt& stmt) {
  const Expr& call = *stmt.expr;
  QUIRE_ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.args[0]));
  QUIRE_ASSIGN_OR_RETURN(CallArgs args, EvaluateArguments(call));
  QUIRE_RETURN_IF_ERROR(state_.SpendBytes(sizeof(MacroObject) + sizeof(Scope)));
  args.named.emplace_back("caller", MakeMacro(*stmt.macro));
  QUIRE_ASSIGN_OR_RETURN(const Value text, Call(callee, std::move(args)));
  return Write(text);
}

// Parameters in the present scope, the macro's own.
Status Interpreter::BindArguments(const MacroObject& object, CallArgs& args) {
  const Macro& macro = object.macro();
  const size_t count = macro.parameters.size();
  const size_t first_default = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    if (i < args.positional.size()) {
      SetIn(*scope_, name, args.positional[i]);
      continue;
    }
    const auto named = std::find_if(args.named.begin(), args.named.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (named != args.named.end()) {
      SetIn(*scope_, name, std::move(named->second));
      args.named.erase(named);
    } else if (i >= first_default) {
      QUIRE_ASSIGN_OR_RETURN(Value value, Evaluate(*macro.defaults[i - first_default]));
      SetIn(*scope_, name, std::move(value));
    } else {
      SetIn(*scope_, name,
            Value::MakeUndefined(fmt::format("parameter '{:.60}' was not provided", name)));
    }
  }
  const auto caller = std::find_if(args.named.begin(), args.named.end(),
                                   [](const auto& entry) { return entry.first == "caller"; });
  if (macro.reads_caller) {
    Value value = Value::MakeUndefined("no caller is defined");
    if (caller != args.named.end()) {
      value = std::move(caller->second);
      args.named.erase(caller);
    }
    SetIn(*scope_, "caller", std::move(value));
  }
  if (macro.reads_kwargs) {
    Dict rest;
    for (auto& [name, value] : args.named) {
      rest.Set(Value::MakeString(MarkedString(name, true)), std::move(value));
    }
    args.named.clear();
    SetIn(*scope_, "kwargs", Value::MakeDict(std::move(rest)));
  }
  if (!args.named.empty()) {
    return Fault("macro '{:.60}' takes no argument '{:.60}'", macro.name, args.named[0].first);
  }
  if (macro.reads_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    SetIn(*scope_, "varargs", Value::MakeTuple(std::move(rest)));
  } else if (args.positional.size() > count) {
    return Fault("macro '{:.60}' takes at most {} arguments, got {}", macro.name, count,
                 args.positional.size());
  }
  return {};
}

Result<Value> Interpreter::CallMacro(const MacroObject& macro, CallArgs args) {
  MarkedString outer = std::exchange(output_, MarkedString());
  const ScopeGuard guard(*this, macro.scope());
  QUIRE_RETURN_IF_ERROR(BindArguments(macro, args));
  QUIRE_ASSIGN_OR_RETURN(const Flow flow, RunBlock(macro.macro().body));
  (void)flow;
  return Value::MakeString(std::exchange(output_, std::move(outer)));
}

}  // namespace quire::jinja
