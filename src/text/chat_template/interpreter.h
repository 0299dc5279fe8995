// Walks the syntax tree and writes the prompt.
//
// Scopes are those of Jinja2: a loop's body, a macro, a with block and a generation block have
// their own, an if block has none; what is set inside a loop is gone with the iteration. Macros see
// the scope they stand in. One Interpreter renders once.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_template/ast.h"
#include "text/chat_template/call_args.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

class LoopObject;
class MacroObject;

// Variables by name. A scope that a macro captured lives until the render ends.
struct Scope {
  Scope* parent = nullptr;
  bool captured = false;
  std::vector<std::pair<std::string_view, Value>> variables;  // names live in the tree or the input
};

class Interpreter {
 public:
  Interpreter(const TemplateTree& tree, RenderState& state) : tree_(tree), state_(state) {}

  // The name must outlive the interpreter.
  void SetVariable(std::string_view name, Value value);
  // The error names no line: line() tells where it happened.
  Result<MarkedString> Run();
  int line() const { return line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Depth;
  class ScopeGuard;

  // interpreter.cc
  Result<Flow> RunBlock(const Block& block);
  Result<Flow> RunStatement(const Stmt& stmt);
  Result<Flow> RunIf(const Stmt& stmt);
  Result<Flow> RunFor(const Stmt& stmt);
  Status Loop(const Stmt& stmt, const Value& iterable, int depth);
  Result<std::vector<Value>> LoopItems(const Stmt& stmt, const Value& iterable);
  Status RunSet(const Stmt& stmt);
  Status RunCallBlock(const Stmt& stmt);
  Result<Flow> RunWith(const Stmt& stmt);
  Result<Flow> RunScope(const Block& body);
  Status Write(const Value& value);
  // The text that the block writes.
  Result<Value> Capture(const Block& body);
  Status Assign(const Expr& target, const Value& value);
  Value MakeMacro(const Macro& macro);
  Result<Value> CallMacro(const MacroObject& macro, CallArgs args);
  Status BindArguments(const MacroObject& macro, CallArgs& args);
  Result<Value> CallLoop(const LoopObject& loop, const CallArgs& args);

  // expressions.cc
  Result<Value> Evaluate(const Expr& expr);
  Result<Value> EvaluateNode(const Expr& expr);
  Result<Value> EvaluateName(const Expr& expr);
  Result<Value> EvaluateDict(const Expr& expr);
  Result<Value> EvaluateItems(const Expr& expr, SequenceKind kind);
  Result<Value> EvaluateAttribute(const Expr& expr);
  Result<Value> EvaluateSlice(const Expr& expr);
  Result<Value> EvaluateCall(const Expr& expr);
  Result<Value> EvaluateFilter(const Expr& expr, const Value* piped);
  Result<Value> EvaluateTest(const Expr& expr);
  Result<Value> EvaluateConcat(const Expr& expr);
  Result<Value> EvaluateCompare(const Expr& expr);
  Result<Value> EvaluateConditional(const Expr& expr);
  Result<CallArgs> EvaluateArguments(const Expr& expr);
  Result<Value> Call(const Value& callee, CallArgs args);
  Result<Value> ObjectAttribute(Object* object, std::string_view name);
  // A filter chain whose innermost input is `piped`.
  Result<Value> ApplyChain(const Expr& chain, const Value& piped);

  // Where the calling thread's stack has come to. Not inlined: a frame of its own.
  static const char* StackPosition();

  const Value* Find(std::string_view name) const;
  void SetIn(Scope& scope, std::string_view name, Value value);
  Scope* NewScope(Scope* parent);
  void EndScope(Scope* scope);

  const TemplateTree& tree_;
  RenderState& state_;
  std::deque<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  MarkedString output_;
  int depth_ = 0;
  int line_ = 1;
  const char* stack_base_ = StackPosition();
};

// Counts what is inside one another; the render ends when it is too deep for the stack.
class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) { ++interpreter_.depth_; }
  ~Depth() { --interpreter_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  Status Check() const;

 private:
  Interpreter& interpreter_;
};

// A new innermost scope until the guard goes.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter), outer_(interpreter.scope_), own_(interpreter.NewScope(parent)) {
    interpreter_.scope_ = own_;
  }
  ~ScopeGuard() {
    interpreter_.EndScope(own_);
    interpreter_.scope_ = outer_;
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* outer_;
  Scope* own_;
};

// The variable "loop".
class LoopObject : public Object {
 public:
  std::string Describe() const override {
    return fmt::format("<LoopContext {}/{}>", index + 1, items.size());
  }

  const Stmt* stmt = nullptr;
  std::vector<Value> items;
  size_t index = 0;
  int depth = 0;
  bool ended = false;
  Value changed;  // what loop.changed saw last: a tuple
  Scope* scope = nullptr;
};

class MacroObject : public Object {
 public:
  MacroObject(const Macro& macro, Scope* scope) : macro_(macro), scope_(scope) {}
  std::string Describe() const override { return fmt::format("<Macro '{}'>", macro_.name); }
  const Macro& macro() const { return macro_; }
  Scope* scope() const { return scope_; }

 private:
  const Macro& macro_;
  Scope* scope_;
};

// loop.cycle and loop.changed.
class LoopMethod : public Object {
 public:
  enum class Kind { kCycle, kChanged };
  LoopMethod(LoopObject* loop, Kind kind) : loop_(loop), kind_(kind) {}
  std::string Describe() const override { return "<method of loop>"; }
  LoopObject* loop() const { return loop_; }
  Kind kind() const { return kind_; }

 private:
  LoopObject* loop_;
  Kind kind_;
};

}  // namespace quire::jinja
