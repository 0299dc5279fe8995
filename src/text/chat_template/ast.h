// The syntax tree of a template.
//
// Plain data, built by the parser and read by the interpreter. depth bounds the recursion of every
// walk over an expression, destructors included; the parser refuses trees deeper than kMaxNesting.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_template/operators.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

inline constexpr int kMaxNesting = 200;

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  kLiteral,      // literal
  kName,         // name
  kTuple,        // args
  kList,         // args
  kDict,         // args: key, value, key, value, ...
  kAttribute,    // args[0].name
  kSubscript,    // args[0][args[1]]
  kSlice,        // args[0][args[1]:args[2]:args[3]], bounds may be null
  kCall,         // args[0](args[1..], named, *star, **star_star)
  kFilter,       // args[0] | name(args[1..], ...); args[0] is null in a filter or set block
  kTest,         // args[0] is name(args[1..], ...)
  kNot,          // args[0]
  kNegate,       // args[0]
  kPlus,         // args[0]
  kBinary,       // args[0] binary_op args[1]
  kAnd,          // args[0], args[1]
  kOr,           // args[0], args[1]
  kConcat,       // args joined as text
  kCompare,      // args[0] compare_ops[0] args[1] compare_ops[1] ...
  kConditional,  // args[1] if args[0] else args[2] (may be null)
};

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  BinaryOp binary_op = BinaryOp::kAdd;
  int line = 0;
  int depth = 1;
  std::string name;
  Value literal;
  std::vector<ExprPtr> args;
  std::vector<CompareOp> compare_ops;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;
  ExprPtr star_star;
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  // Which of these names the body reads: they decide what a call may pass beyond the parameters.
  bool reads_varargs = false;
  bool reads_kwargs = false;
  bool reads_caller = false;
  Block body;
};

enum class StmtKind : uint8_t {
  kText,         // literal
  kOutput,       // expr
  kIf,           // branches, else_body
  kFor,          // target, expr, filter, body, else_body, recursive
  kSet,          // target, expr
  kSetBlock,     // target, body, expr: a chain of filters or null
  kMacro,        // macro
  kCallBlock,    // expr: the call, macro: its caller
  kFilterBlock,  // expr: a chain of filters, body
  kWith,         // assignments, body
  kScope,        // body
  kBreak,
  kContinue,
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  bool recursive = false;
  int line = 0;
  Value literal;
  ExprPtr target;
  ExprPtr expr;
  ExprPtr filter;
  std::vector<std::pair<ExprPtr, Block>> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;
  Block body;
  Block else_body;
  std::unique_ptr<Macro> macro;
};

struct TemplateTree {
  Block body;
};

}  // namespace quire::jinja
