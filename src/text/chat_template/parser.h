// Tokens to the syntax tree: Jinja2's grammar, its precedences included (a power binds to the left,
// a filter and a test bind tighter than any binary operator).
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template/ast.h"
#include "text/chat_template/lexer.h"

namespace quire::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Result<std::unique_ptr<TemplateTree>> ParseTemplate();

 private:
  // Leaves one level of nesting when it goes.
  class Nesting;

  // tokens_[at_] is never past kEnd.
  const Token& Peek(size_t ahead = 0) const;
  Token Next();
  bool SkipOperator(std::string_view symbol);
  bool SkipName(std::string_view name);
  Status ExpectOperator(std::string_view symbol);
  Status ExpectName(std::string_view name);
  Status ExpectBlockEnd();
  template <typename... Args>
  Error ErrorHere(fmt::format_string<Args...> format, Args&&... args) const;
  Error Located(ErrorCode code, std::string_view message) const;
  Status TooDeep() const;

  // statement_parser.cc
  Result<Block> ParseBlock(std::initializer_list<std::string_view> end_names);
  Result<std::unique_ptr<Stmt>> ParseStatement();
  Result<std::unique_ptr<Stmt>> ParseFor();
  Result<std::unique_ptr<Stmt>> ParseIf();
  Result<std::unique_ptr<Stmt>> ParseSet();
  Result<std::unique_ptr<Stmt>> ParseMacro();
  Result<std::unique_ptr<Stmt>> ParseCallBlock();
  Result<std::unique_ptr<Stmt>> ParseFilterBlock();
  Result<std::unique_ptr<Stmt>> ParseWith();
  Result<std::unique_ptr<Stmt>> ParsePrint();
  Result<std::unique_ptr<Stmt>> ParseScope(std::string_view end_name);
  Result<std::unique_ptr<Stmt>> ParseJump(StmtKind kind);
  Status ParseSignature(Macro& macro);
  Status ParseMacroBody(Macro& macro, std::string_view end_name);
  Result<ExprPtr> ParseTarget(bool with_namespace);
  Result<ExprPtr> ParseTargetName(bool with_namespace);
  Result<ExprPtr> ParseFilterChain(bool first_without_pipe);
  std::unique_ptr<Stmt> NewStmt(StmtKind kind) const;

  // expression_parser.cc
  Result<ExprPtr> ParseExpression();
  // One expression, or a tuple of several without brackets. Fails when there is none.
  Result<ExprPtr> ParseTuple(bool with_condition);
  Result<ExprPtr> ParseOr();
  Result<ExprPtr> ParseAnd();
  Result<ExprPtr> ParseNot();
  Result<ExprPtr> ParseCompare();
  Result<ExprPtr> ParseAdditive();
  Result<ExprPtr> ParseConcat();
  Result<ExprPtr> ParseMultiplicative();
  Result<ExprPtr> ParsePower();
  Result<ExprPtr> ParseUnary(bool with_filter);
  Result<ExprPtr> ParsePrimary();
  Result<ExprPtr> ParseBracketed();
  Result<ExprPtr> ParseDict();
  Result<ExprPtr> ParsePostfix(ExprPtr expr);
  Result<ExprPtr> ParseFilters(ExprPtr expr);
  Result<ExprPtr> ParseFilter(ExprPtr input);
  Result<ExprPtr> ParseTest(ExprPtr input);
  Result<ExprPtr> ParseSubscript(ExprPtr object);
  Result<ExprPtr> ParseCall(ExprPtr callee);
  Status ParseArguments(Expr& call);
  Result<std::string> ParseDottedName();
  void NoteName(std::string_view name);
  ExprPtr NewExpr(ExprKind kind) const;
  // Counts the depth of a node whose children are in place.
  Result<ExprPtr> Finish(ExprPtr expr) const;
  Result<ExprPtr> FinishBinary(ExprKind kind, ExprPtr left, ExprPtr right) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;         // open in the present macro
  int conditionals_ = 0;  // an unknown filter below one of them fails only when it is reached
  std::vector<Macro*> macros_;
};

class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : parser_(parser) { ++parser_.nesting_; }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  bool too_deep() const { return parser_.nesting_ > kMaxNesting; }

 private:
  Parser& parser_;
};

template <typename... Args>
Error Parser::ErrorHere(fmt::format_string<Args...> format, Args&&... args) const {
  return Located(ErrorCode::kCorrupt, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace quire::jinja
