#include <algorithm>

#include "text/chat_template/parser.h"

namespace quire::jinja {

const Token& Parser::Peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Parser::Next() {
  Token token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::SkipOperator(std::string_view symbol) {
  if (!Peek().IsOperator(symbol)) return false;
  Next();
  return true;
}

bool Parser::SkipName(std::string_view name) {
  if (!Peek().IsName(name)) return false;
  Next();
  return true;
}

Status Parser::ExpectOperator(std::string_view symbol) {
  if (SkipOperator(symbol)) return {};
  return ErrorHere("expected '{}', got {}", symbol, Describe(Peek()));
}

Status Parser::ExpectName(std::string_view name) {
  if (SkipName(name)) return {};
  return ErrorHere("expected '{}', got {}", name, Describe(Peek()));
}

Status Parser::ExpectBlockEnd() {
  if (Peek().type != TokenType::kBlockEnd) {
    return ErrorHere("expected the end of the tag, got {}", Describe(Peek()));
  }
  Next();
  return {};
}

Error Parser::Located(ErrorCode code, std::string_view message) const {
  return MakeError(code, "chat template, line {}: {}", Peek().line, message);
}

Status Parser::TooDeep() const {
  return Located(ErrorCode::kResourceExhausted,
                 fmt::format("more than {} levels of nesting", kMaxNesting));
}

std::unique_ptr<Stmt> Parser::NewStmt(StmtKind kind) const {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = Peek().line;
  return stmt;
}

Result<std::unique_ptr<TemplateTree>> Parser::ParseTemplate() {
  auto tree = std::make_unique<TemplateTree>();
  QUIRE_ASSIGN_OR_RETURN(tree->body, ParseBlock({}));
  return tree;
}

// Stops behind "{%" in front of one of the end names, or at the end where there are none.
Result<Block> Parser::ParseBlock(std::initializer_list<std::string_view> end_names) {
  const Nesting nesting(*this);
  if (nesting.too_deep()) return TooDeep().error();
  Block block;
  for (;;) {
    switch (Peek().type) {
      case TokenType::kEnd: {
        if (end_names.size() == 0) return block;
        return ErrorHere("'{}' is missing", *(end_names.end() - 1));
      }
      case TokenType::kText: {
        auto text = NewStmt(StmtKind::kText);
        text->literal = Value::MakeString(MarkedString(Next().text, true));
        block.push_back(std::move(text));
        break;
      }
      case TokenType::kVariableBegin: {
        auto output = NewStmt(StmtKind::kOutput);
        Next();
        QUIRE_ASSIGN_OR_RETURN(output->expr, ParseTuple(true));
        if (Peek().type != TokenType::kVariableEnd) {
          return ErrorHere("expected '}}}}', got {}", Describe(Peek()));
        }
        Next();
        block.push_back(std::move(output));
        break;
      }
      default: {
        Next();
        const bool ends = std::any_of(end_names.begin(), end_names.end(),
                                      [&](std::string_view name) { return Peek().IsName(name); });
        if (ends) return block;
        QUIRE_ASSIGN_OR_RETURN(auto stmt, ParseStatement());
        block.push_back(std::move(stmt));
      }
    }
  }
}

Result<std::unique_ptr<Stmt>> Parser::ParseStatement() {
  if (Peek().type != TokenType::kName) {
    return ErrorHere("expected the name of a tag, got {}", Describe(Peek()));
  }
  const std::string& name = Peek().text;
  if (name == "for") return ParseFor();
  if (name == "if") return ParseIf();
  if (name == "set") return ParseSet();
  if (name == "macro") return ParseMacro();
  if (name == "call") return ParseCallBlock();
  if (name == "filter") return ParseFilterBlock();
  if (name == "with") return ParseWith();
  if (name == "print") return ParsePrint();
  if (name == "generation") return ParseScope("endgeneration");
  if (name == "break") return ParseJump(StmtKind::kBreak);
  if (name == "continue") return ParseJump(StmtKind::kContinue);
  for (const std::string_view other : {"include", "import", "from", "extends", "block"}) {
    if (name == other) {
      return Located(ErrorCode::kUnsupported,
                     fmt::format("'{}' is not supported: a chat template is one file", name));
    }
  }
  return Located(ErrorCode::kUnsupported, fmt::format("unknown tag '{:.60}'", name));
}

Result<ExprPtr> Parser::ParseTargetName(bool with_namespace) {
  if (SkipOperator("(")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr inner, ParseTarget(with_namespace));
    QUIRE_RETURN_IF_ERROR(ExpectOperator(")"));
    return inner;
  }
  if (Peek().type != TokenType::kName) {
    return ErrorHere("expected a name to assign to, got {}", Describe(Peek()));
  }
  ExprPtr target = NewExpr(ExprKind::kName);
  target->name = Next().text;
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (target->name == constant) return ErrorHere("'{}' cannot be assigned to", constant);
  }
  if (!with_namespace || !SkipOperator(".")) return target;
  if (Peek().type != TokenType::kName) {
    return ErrorHere("expected a name after '.', got {}", Describe(Peek()));
  }
  ExprPtr attribute = NewExpr(ExprKind::kAttribute);
  attribute->name = Next().text;
  attribute->args.push_back(std::move(target));
  return Finish(std::move(attribute));
}

Result<ExprPtr> Parser::ParseTarget(bool with_namespace) {
  const Nesting nesting(*this);
  if (nesting.too_deep()) return TooDeep().error();
  ExprPtr tuple = NewExpr(ExprKind::kTuple);
  QUIRE_ASSIGN_OR_RETURN(ExprPtr first, ParseTargetName(with_namespace));
  if (!Peek().IsOperator(",")) return first;
  tuple->args.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (Peek().type != TokenType::kName && !Peek().IsOperator("(")) break;
    if (Peek().IsName("in")) break;
    QUIRE_ASSIGN_OR_RETURN(ExprPtr next, ParseTargetName(with_namespace));
    tuple->args.push_back(std::move(next));
  }
  return Finish(std::move(tuple));
}

Result<std::unique_ptr<Stmt>> Parser::ParseFor() {
  auto stmt = NewStmt(StmtKind::kFor);
  Next();
  QUIRE_ASSIGN_OR_RETURN(stmt->target, ParseTarget(false));
  QUIRE_RETURN_IF_ERROR(ExpectName("in"));
  QUIRE_ASSIGN_OR_RETURN(stmt->expr, ParseTuple(false));
  if (SkipName("if")) {
    QUIRE_ASSIGN_OR_RETURN(stmt->filter, ParseExpression());
  }
  stmt->recursive = SkipName("recursive");
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  ++loops_;
  QUIRE_ASSIGN_OR_RETURN(stmt->body, ParseBlock({"else", "endfor"}));
  --loops_;
  if (SkipName("else")) {
    QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
    QUIRE_ASSIGN_OR_RETURN(stmt->else_body, ParseBlock({"endfor"}));
  }
  QUIRE_RETURN_IF_ERROR(ExpectName("endfor"));
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

Result<std::unique_ptr<Stmt>> Parser::ParseIf() {
  auto stmt = NewStmt(StmtKind::kIf);
  ++conditionals_;
  do {
    Next();
    QUIRE_ASSIGN_OR_RETURN(ExprPtr condition, ParseTuple(false));
    QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
    QUIRE_ASSIGN_OR_RETURN(Block body, ParseBlock({"elif", "else", "endif"}));
    stmt->branches.emplace_back(std::move(condition), std::move(body));
  } while (Peek().IsName("elif"));
  if (SkipName("else")) {
    QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
    QUIRE_ASSIGN_OR_RETURN(stmt->else_body, ParseBlock({"endif"}));
  }
  --conditionals_;
  QUIRE_RETURN_IF_ERROR(ExpectName("endif"));
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

// Filters applied one after the other to something that is not an expression.
Result<ExprPtr> Parser::ParseFilterChain(bool first_without_pipe) {
  ExprPtr chain;
  if (first_without_pipe) {
    QUIRE_ASSIGN_OR_RETURN(chain, ParseFilter(nullptr));
  }
  while (SkipOperator("|")) {
    QUIRE_ASSIGN_OR_RETURN(chain, ParseFilter(std::move(chain)));
  }
  return chain;
}

Result<std::unique_ptr<Stmt>> Parser::ParseSet() {
  auto stmt = NewStmt(StmtKind::kSet);
  Next();
  QUIRE_ASSIGN_OR_RETURN(stmt->target, ParseTarget(true));
  if (SkipOperator("=")) {
    QUIRE_ASSIGN_OR_RETURN(stmt->expr, ParseTuple(true));
    QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
    return stmt;
  }
  stmt->kind = StmtKind::kSetBlock;
  QUIRE_ASSIGN_OR_RETURN(stmt->expr, ParseFilterChain(false));
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  QUIRE_ASSIGN_OR_RETURN(stmt->body, ParseBlock({"endset"}));
  Next();
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

Status Parser::ParseSignature(Macro& macro) {
  QUIRE_RETURN_IF_ERROR(ExpectOperator("("));
  while (!Peek().IsOperator(")")) {
    if (!macro.parameters.empty()) QUIRE_RETURN_IF_ERROR(ExpectOperator(","));
    if (Peek().type != TokenType::kName) {
      return ErrorHere("expected the name of a parameter, got {}", Describe(Peek()));
    }
    macro.parameters.push_back(Next().text);
    if (SkipOperator("=")) {
      QUIRE_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      macro.defaults.push_back(std::move(value));
    } else if (!macro.defaults.empty()) {
      return ErrorHere("parameter '{}' needs a default, as those before it have one",
                       macro.parameters.back());
    }
  }
  Next();
  return {};
}

Status Parser::ParseMacroBody(Macro& macro, std::string_view end_name) {
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  auto body = ParseBlock({end_name});
  macros_.pop_back();
  loops_ = loops;
  if (!body.ok()) return body.error();
  macro.body = std::move(body).value();
  Next();
  return ExpectBlockEnd();
}

Result<std::unique_ptr<Stmt>> Parser::ParseMacro() {
  auto stmt = NewStmt(StmtKind::kMacro);
  Next();
  if (Peek().type != TokenType::kName) {
    return ErrorHere("expected the name of a macro, got {}", Describe(Peek()));
  }
  stmt->macro = std::make_unique<Macro>();
  stmt->macro->name = Next().text;
  QUIRE_RETURN_IF_ERROR(ParseSignature(*stmt->macro));
  QUIRE_RETURN_IF_ERROR(ParseMacroBody(*stmt->macro, "endmacro"));
  return stmt;
}

Result<std::unique_ptr<Stmt>> Parser::ParseCallBlock() {
  auto stmt = NewStmt(StmtKind::kCallBlock);
  Next();
  stmt->macro = std::make_unique<Macro>();
  stmt->macro->name = "caller";
  if (Peek().IsOperator("(")) QUIRE_RETURN_IF_ERROR(ParseSignature(*stmt->macro));
  QUIRE_ASSIGN_OR_RETURN(stmt->expr, ParseExpression());
  if (stmt->expr->kind != ExprKind::kCall) return ErrorHere("a call block needs a call");
  QUIRE_RETURN_IF_ERROR(ParseMacroBody(*stmt->macro, "endcall"));
  return stmt;
}

Result<std::unique_ptr<Stmt>> Parser::ParseFilterBlock() {
  auto stmt = NewStmt(StmtKind::kFilterBlock);
  Next();
  QUIRE_ASSIGN_OR_RETURN(stmt->expr, ParseFilterChain(true));
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  QUIRE_ASSIGN_OR_RETURN(stmt->body, ParseBlock({"endfilter"}));
  Next();
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

Result<std::unique_ptr<Stmt>> Parser::ParseWith() {
  auto stmt = NewStmt(StmtKind::kWith);
  Next();
  while (Peek().type != TokenType::kBlockEnd) {
    if (!stmt->assignments.empty()) QUIRE_RETURN_IF_ERROR(ExpectOperator(","));
    QUIRE_ASSIGN_OR_RETURN(ExprPtr target, ParseTargetName(false));
    QUIRE_RETURN_IF_ERROR(ExpectOperator("="));
    QUIRE_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    stmt->assignments.emplace_back(std::move(target), std::move(value));
  }
  Next();
  QUIRE_ASSIGN_OR_RETURN(stmt->body, ParseBlock({"endwith"}));
  Next();
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

Result<std::unique_ptr<Stmt>> Parser::ParsePrint() {
  auto stmt = NewStmt(StmtKind::kOutput);
  Next();
  QUIRE_ASSIGN_OR_RETURN(stmt->expr, ParseTuple(true));
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

Result<std::unique_ptr<Stmt>> Parser::ParseScope(std::string_view end_name) {
  auto stmt = NewStmt(StmtKind::kScope);
  Next();
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  QUIRE_ASSIGN_OR_RETURN(stmt->body, ParseBlock({end_name}));
  Next();
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

Result<std::unique_ptr<Stmt>> Parser::ParseJump(StmtKind kind) {
  auto stmt = NewStmt(kind);
  if (loops_ == 0) return ErrorHere("'{}' outside of a loop", Peek().text);
  Next();
  QUIRE_RETURN_IF_ERROR(ExpectBlockEnd());
  return stmt;
}

}  // namespace quire::jinja
