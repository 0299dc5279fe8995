// Template source to tokens: text between tags, and what stands inside them.
//
// White space follows Jinja2 with trim_blocks and lstrip_blocks on and keep_trailing_newline off:
// a newline after a block or comment goes, white space before one on its line goes, "-" takes all
// of it on that side, "+" keeps it. Comments are dropped and raw blocks become text here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::jinja {

enum class TokenType : uint8_t {
  kText,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInt,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  // of a text, name, operator; the value of a string
  int64_t int_value = 0;
  double float_value = 0;

  bool IsOperator(std::string_view symbol) const {
    return type == TokenType::kOperator && text == symbol;
  }
  bool IsName(std::string_view name) const { return type == TokenType::kName && text == name; }
};

// The last token is kEnd. Errors name the line.
Result<std::vector<Token>> Tokenize(std::string_view source);

// As a message names it: "'}'", "name 'x'", "end of the template".
std::string Describe(const Token& token);

}  // namespace quire::jinja
