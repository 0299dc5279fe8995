#include <algorithm>

#include "text/chat_template/filters.h"
#include "text/chat_template/parser.h"
#include "text/chat_template/predicates.h"

namespace quire::jinja {

ExprPtr Parser::NewExpr(ExprKind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = Peek().line;
  return expr;
}

Result<ExprPtr> Parser::Finish(ExprPtr expr) const {
  int depth = 0;
  for (const ExprPtr& arg : expr->args) depth = std::max(depth, arg == nullptr ? 0 : arg->depth);
  for (const auto& [name, arg] : expr->named) depth = std::max(depth, arg->depth);
  for (const ExprPtr* arg : {&expr->star, &expr->star_star}) {
    if (*arg != nullptr) depth = std::max(depth, (*arg)->depth);
  }
  expr->depth = depth + 1;
  if (expr->depth > kMaxNesting) return TooDeep().error();
  return expr;
}

Result<ExprPtr> Parser::FinishBinary(ExprKind kind, ExprPtr left, ExprPtr right) const {
  ExprPtr expr = NewExpr(kind);
  expr->line = left->line;
  expr->args.push_back(std::move(left));
  expr->args.push_back(std::move(right));
  return Finish(std::move(expr));
}

Result<ExprPtr> Parser::ParseExpression() {
  const Nesting nesting(*this);
  if (nesting.too_deep()) return TooDeep().error();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr expr, ParseOr());
  while (SkipName("if")) {
    ExprPtr conditional = NewExpr(ExprKind::kConditional);
    QUIRE_ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
    ExprPtr otherwise;
    if (SkipName("else")) {
      QUIRE_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    conditional->args.push_back(std::move(condition));
    conditional->args.push_back(std::move(expr));
    conditional->args.push_back(std::move(otherwise));
    QUIRE_ASSIGN_OR_RETURN(expr, Finish(std::move(conditional)));
  }
  return expr;
}

Result<ExprPtr> Parser::ParseTuple(bool with_condition) {
  ExprPtr tuple = NewExpr(ExprKind::kTuple);
  bool is_tuple = false;
  for (;;) {
    const Token& token = Peek();
    const bool ends = token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd ||
                      token.IsOperator(")") || (!with_condition && token.IsName("if")) ||
                      (!with_condition && token.IsName("recursive"));
    if (ends) break;
    QUIRE_ASSIGN_OR_RETURN(ExprPtr item, with_condition ? ParseExpression() : ParseOr());
    tuple->args.push_back(std::move(item));
    if (!SkipOperator(",")) break;
    is_tuple = true;
  }
  if (tuple->args.empty()) return ErrorHere("expected an expression, got {}", Describe(Peek()));
  if (!is_tuple) return std::move(tuple->args[0]);
  return Finish(std::move(tuple));
}

Result<ExprPtr> Parser::ParseOr() {
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (SkipName("or")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    QUIRE_ASSIGN_OR_RETURN(left, FinishBinary(ExprKind::kOr, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> Parser::ParseAnd() {
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (SkipName("and")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    QUIRE_ASSIGN_OR_RETURN(left, FinishBinary(ExprKind::kAnd, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> Parser::ParseNot() {
  if (!Peek().IsName("not")) return ParseCompare();
  const Nesting nesting(*this);
  if (nesting.too_deep()) return TooDeep().error();
  ExprPtr negation = NewExpr(ExprKind::kNot);
  Next();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
  negation->args.push_back(std::move(operand));
  return Finish(std::move(negation));
}

Result<ExprPtr> Parser::ParseCompare() {
  struct Symbol {
    std::string_view text;
    CompareOp op;
  };
  constexpr Symbol kSymbols[] = {{"==", CompareOp::kEq}, {"!=", CompareOp::kNe},
                                 {"<", CompareOp::kLt},  {"<=", CompareOp::kLe},
                                 {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  ExprPtr compare = NewExpr(ExprKind::kCompare);
  QUIRE_ASSIGN_OR_RETURN(ExprPtr first, ParseAdditive());
  compare->args.push_back(std::move(first));
  for (;;) {
    const auto* symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                      [&](const Symbol& s) { return Peek().IsOperator(s.text); });
    if (symbol != std::end(kSymbols)) {
      Next();
      compare->compare_ops.push_back(symbol->op);
    } else if (SkipName("in")) {
      compare->compare_ops.push_back(CompareOp::kIn);
    } else if (Peek().IsName("not") && Peek(1).IsName("in")) {
      Next();
      Next();
      compare->compare_ops.push_back(CompareOp::kNotIn);
    } else {
      break;
    }
    QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, ParseAdditive());
    compare->args.push_back(std::move(operand));
  }
  if (compare->args.size() == 1) return std::move(compare->args[0]);
  return Finish(std::move(compare));
}

Result<ExprPtr> Parser::ParseAdditive() {
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, ParseConcat());
  for (;;) {
    const bool add = Peek().IsOperator("+");
    if (!add && !Peek().IsOperator("-")) return left;
    Next();
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, ParseConcat());
    QUIRE_ASSIGN_OR_RETURN(left,
                           FinishBinary(ExprKind::kBinary, std::move(left), std::move(right)));
    left->binary_op = add ? BinaryOp::kAdd : BinaryOp::kSubtract;
  }
}

Result<ExprPtr> Parser::ParseConcat() {
  QUIRE_ASSIGN_OR_RETURN(ExprPtr first, ParseMultiplicative());
  if (!Peek().IsOperator("~")) return first;
  ExprPtr concat = NewExpr(ExprKind::kConcat);
  concat->args.push_back(std::move(first));
  while (SkipOperator("~")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr next, ParseMultiplicative());
    concat->args.push_back(std::move(next));
  }
  return Finish(std::move(concat));
}

Result<ExprPtr> Parser::ParseMultiplicative() {
  struct Symbol {
    std::string_view text;
    BinaryOp op;
  };
  constexpr Symbol kSymbols[] = {{"*", BinaryOp::kMultiply},
                                 {"/", BinaryOp::kDivide},
                                 {"//", BinaryOp::kFloorDivide},
                                 {"%", BinaryOp::kModulo}};
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, ParsePower());
  for (;;) {
    const auto* symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                      [&](const Symbol& s) { return Peek().IsOperator(s.text); });
    if (symbol == std::end(kSymbols)) return left;
    Next();
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, ParsePower());
    QUIRE_ASSIGN_OR_RETURN(left,
                           FinishBinary(ExprKind::kBinary, std::move(left), std::move(right)));
    left->binary_op = symbol->op;
  }
}

Result<ExprPtr> Parser::ParsePower() {
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, ParseUnary(true));
  while (SkipOperator("**")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, ParseUnary(true));
    QUIRE_ASSIGN_OR_RETURN(left,
                           FinishBinary(ExprKind::kBinary, std::move(left), std::move(right)));
    left->binary_op = BinaryOp::kPower;
  }
  return left;
}

Result<ExprPtr> Parser::ParseUnary(bool with_filter) {
  const Nesting nesting(*this);
  if (nesting.too_deep()) return TooDeep().error();
  ExprPtr expr;
  if (Peek().IsOperator("-") || Peek().IsOperator("+")) {
    expr = NewExpr(Peek().IsOperator("-") ? ExprKind::kNegate : ExprKind::kPlus);
    Next();
    QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary(false));
    expr->args.push_back(std::move(operand));
    QUIRE_ASSIGN_OR_RETURN(expr, Finish(std::move(expr)));
  } else {
    QUIRE_ASSIGN_OR_RETURN(expr, ParsePrimary());
  }
  QUIRE_ASSIGN_OR_RETURN(expr, ParsePostfix(std::move(expr)));
  if (!with_filter) return expr;
  return ParseFilters(std::move(expr));
}

Result<ExprPtr> Parser::ParsePrimary() {
  ExprPtr expr = NewExpr(ExprKind::kLiteral);
  if (Peek().type == TokenType::kOperator) return ParseBracketed();
  if (Peek().type < TokenType::kName || Peek().type > TokenType::kFloat) {
    return ErrorHere("expected an expression, got {}", Describe(Peek()));
  }
  const Token token = Next();
  switch (token.type) {
    case TokenType::kInt:
      expr->literal = Value::MakeInt(token.int_value).SetTrusted(true);
      return expr;
    case TokenType::kFloat:
      expr->literal = Value::MakeFloat(token.float_value).SetTrusted(true);
      return expr;
    case TokenType::kString: {
      std::string text = token.text;
      while (Peek().type == TokenType::kString) text += Next().text;
      expr->literal = Value::MakeString(MarkedString(std::move(text), true));
      return expr;
    }
    default:
      break;
  }
  if (token.text == "true" || token.text == "True") {
    expr->literal = Value::MakeBool(true).SetTrusted(true);
  } else if (token.text == "false" || token.text == "False") {
    expr->literal = Value::MakeBool(false).SetTrusted(true);
  } else if (token.text == "none" || token.text == "None") {
    expr->literal = Value::MakeNone().SetTrusted(true);
  } else {
    expr->kind = ExprKind::kName;
    expr->name = token.text;
    NoteName(token.text);
  }
  return expr;
}

void Parser::NoteName(std::string_view name) {
  if (macros_.empty()) return;
  Macro& macro = *macros_.back();
  macro.reads_varargs |= name == "varargs";
  macro.reads_kwargs |= name == "kwargs";
  macro.reads_caller |= name == "caller";
}

Result<ExprPtr> Parser::ParseBracketed() {
  if (Peek().IsOperator("{")) return ParseDict();
  if (SkipOperator("(")) {
    ExprPtr empty = NewExpr(ExprKind::kTuple);
    if (SkipOperator(")")) return empty;
    QUIRE_ASSIGN_OR_RETURN(ExprPtr inner, ParseTuple(true));
    QUIRE_RETURN_IF_ERROR(ExpectOperator(")"));
    return inner;
  }
  if (!Peek().IsOperator("[")) return ErrorHere("expected an expression, got {}", Describe(Peek()));
  ExprPtr list = NewExpr(ExprKind::kList);
  Next();
  while (!Peek().IsOperator("]")) {
    if (!list->args.empty()) {
      QUIRE_RETURN_IF_ERROR(ExpectOperator(","));
      if (Peek().IsOperator("]")) break;
    }
    QUIRE_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
    list->args.push_back(std::move(item));
  }
  Next();
  return Finish(std::move(list));
}

Result<ExprPtr> Parser::ParseDict() {
  ExprPtr dict = NewExpr(ExprKind::kDict);
  Next();
  while (!Peek().IsOperator("}")) {
    if (!dict->args.empty()) {
      QUIRE_RETURN_IF_ERROR(ExpectOperator(","));
      if (Peek().IsOperator("}")) break;
    }
    QUIRE_ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
    QUIRE_RETURN_IF_ERROR(ExpectOperator(":"));
    QUIRE_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    dict->args.push_back(std::move(key));
    dict->args.push_back(std::move(value));
  }
  Next();
  return Finish(std::move(dict));
}

Result<ExprPtr> Parser::ParsePostfix(ExprPtr expr) {
  for (;;) {
    if (Peek().IsOperator("(")) {
      QUIRE_ASSIGN_OR_RETURN(expr, ParseCall(std::move(expr)));
    } else if (Peek().IsOperator("[")) {
      QUIRE_ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
    } else if (Peek().IsOperator(".")) {
      ExprPtr access = NewExpr(ExprKind::kAttribute);
      Next();
      access->args.push_back(std::move(expr));
      if (Peek().type == TokenType::kName) {
        access->name = Next().text;
      } else if (Peek().type == TokenType::kInt) {
        access->kind = ExprKind::kSubscript;
        ExprPtr index = NewExpr(ExprKind::kLiteral);
        index->literal = Value::MakeInt(Next().int_value);
        access->args.push_back(std::move(index));
      } else {
        return ErrorHere("expected a name after '.', got {}", Describe(Peek()));
      }
      QUIRE_ASSIGN_OR_RETURN(expr, Finish(std::move(access)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> Parser::ParseFilters(ExprPtr expr) {
  for (;;) {
    if (SkipOperator("|")) {
      QUIRE_ASSIGN_OR_RETURN(expr, ParseFilter(std::move(expr)));
    } else if (SkipName("is")) {
      QUIRE_ASSIGN_OR_RETURN(expr, ParseTest(std::move(expr)));
    } else if (Peek().IsOperator("(")) {
      QUIRE_ASSIGN_OR_RETURN(expr, ParseCall(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<std::string> Parser::ParseDottedName() {
  if (Peek().type != TokenType::kName) {
    return ErrorHere("expected a name, got {}", Describe(Peek()));
  }
  std::string name = Next().text;
  while (Peek().IsOperator(".") && Peek(1).type == TokenType::kName) {
    Next();
    name += "." + Next().text;
  }
  return name;
}

Result<ExprPtr> Parser::ParseFilter(ExprPtr input) {
  ExprPtr filter = NewExpr(ExprKind::kFilter);
  QUIRE_ASSIGN_OR_RETURN(filter->name, ParseDottedName());
  if (conditionals_ == 0 && FindFilter(filter->name) == nullptr) {
    return Located(ErrorCode::kUnsupported,
                   fmt::format("there is no filter named '{:.60}'", filter->name));
  }
  filter->args.push_back(std::move(input));
  if (Peek().IsOperator("(")) QUIRE_RETURN_IF_ERROR(ParseArguments(*filter));
  return Finish(std::move(filter));
}

Result<ExprPtr> Parser::ParseTest(ExprPtr input) {
  ExprPtr negation = NewExpr(ExprKind::kNot);
  const bool negated = SkipName("not");
  ExprPtr test = NewExpr(ExprKind::kTest);
  QUIRE_ASSIGN_OR_RETURN(test->name, ParseDottedName());
  if (conditionals_ == 0 && FindPredicate(test->name) == nullptr) {
    return Located(ErrorCode::kUnsupported,
                   fmt::format("there is no test named '{:.60}'", test->name));
  }
  test->args.push_back(std::move(input));
  const Token& next = Peek();
  const bool is_operand = (next.type >= TokenType::kName && next.type <= TokenType::kFloat &&
                           !next.IsName("else") && !next.IsName("or") && !next.IsName("and")) ||
                          next.IsOperator("[") || next.IsOperator("{");
  if (next.IsOperator("(")) {
    QUIRE_RETURN_IF_ERROR(ParseArguments(*test));
  } else if (is_operand) {
    if (next.IsName("is")) return ErrorHere("tests cannot be chained with 'is'");
    QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, ParsePrimary());
    QUIRE_ASSIGN_OR_RETURN(operand, ParsePostfix(std::move(operand)));
    test->args.push_back(std::move(operand));
  }
  QUIRE_ASSIGN_OR_RETURN(test, Finish(std::move(test)));
  if (!negated) return test;
  negation->args.push_back(std::move(test));
  return Finish(std::move(negation));
}

Result<ExprPtr> Parser::ParseSubscript(ExprPtr object) {
  ExprPtr access = NewExpr(ExprKind::kSubscript);
  access->args.push_back(std::move(object));
  Next();
  ExprPtr first;
  if (!Peek().IsOperator(":")) {
    QUIRE_ASSIGN_OR_RETURN(first, ParseExpression());
  }
  if (Peek().IsOperator(":")) {
    access->kind = ExprKind::kSlice;
    access->args.push_back(std::move(first));
    for (int bound = 0; bound < 2; ++bound) {
      ExprPtr value;
      if (SkipOperator(":") && !Peek().IsOperator(":") && !Peek().IsOperator("]")) {
        QUIRE_ASSIGN_OR_RETURN(value, ParseExpression());
      }
      access->args.push_back(std::move(value));
    }
  } else if (Peek().IsOperator(",")) {
    ExprPtr key = NewExpr(ExprKind::kTuple);
    key->args.push_back(std::move(first));
    while (SkipOperator(",")) {
      QUIRE_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
      key->args.push_back(std::move(item));
    }
    QUIRE_ASSIGN_OR_RETURN(key, Finish(std::move(key)));
    access->args.push_back(std::move(key));
  } else {
    access->args.push_back(std::move(first));
  }
  QUIRE_RETURN_IF_ERROR(ExpectOperator("]"));
  return Finish(std::move(access));
}

Result<ExprPtr> Parser::ParseCall(ExprPtr callee) {
  ExprPtr call = NewExpr(ExprKind::kCall);
  call->args.push_back(std::move(callee));
  QUIRE_RETURN_IF_ERROR(ParseArguments(*call));
  return Finish(std::move(call));
}

Status Parser::ParseArguments(Expr& call) {
  QUIRE_RETURN_IF_ERROR(ExpectOperator("("));
  bool first = true;
  while (!Peek().IsOperator(")")) {
    if (!first) {
      QUIRE_RETURN_IF_ERROR(ExpectOperator(","));
      if (Peek().IsOperator(")")) break;
    }
    first = false;
    if (SkipOperator("**")) {
      if (call.star_star != nullptr) return ErrorHere("a call takes one ** argument");
      QUIRE_ASSIGN_OR_RETURN(call.star_star, ParseExpression());
    } else if (SkipOperator("*")) {
      if (call.star != nullptr) return ErrorHere("a call takes one * argument");
      QUIRE_ASSIGN_OR_RETURN(call.star, ParseExpression());
    } else if (Peek().type == TokenType::kName && Peek(1).IsOperator("=")) {
      std::string name = Next().text;
      Next();
      QUIRE_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.named.empty() || call.star != nullptr || call.star_star != nullptr) {
        return ErrorHere("a positional argument follows a named one");
      }
      QUIRE_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      call.args.push_back(std::move(value));
    }
  }
  Next();
  return {};
}

}  // namespace quire::jinja
