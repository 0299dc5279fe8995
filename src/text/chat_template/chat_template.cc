#include "text/chat_template/chat_template.h"

#include "text/chat_template/ast.h"
#include "text/chat_template/interpreter.h"
#include "text/chat_template/lexer.h"
#include "text/chat_template/parser.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/value_text.h"

namespace quire {
namespace {

using jinja::Interpreter;
using jinja::MarkedString;
using jinja::Value;

// Later settings of a name replace earlier ones.
Status SetVariables(Interpreter& interpreter, const TemplateInput& input) {
  if (input.extra.IsDict()) {
    for (const auto& [key, value] : input.extra.AsDict().entries()) {
      if (!key.IsString()) {
        return MakeError(ErrorCode::kInvalidArgument, "a template variable's name is no string");
      }
      interpreter.SetVariable(key.Text(), value);
    }
  } else if (!input.extra.IsNone()) {
    return MakeError(ErrorCode::kInvalidArgument, "template variables must be an object, not {}",
                     jinja::TypeName(input.extra));
  }
  const bool has_extra = input.extra.IsDict();
  const auto set_unless_none = [&](std::string_view name, const Value& value) {
    const bool given = has_extra && input.extra.AsDict().Find(name) != nullptr;
    if (!value.IsNone() || !given) interpreter.SetVariable(name, value);
  };
  interpreter.SetVariable("messages", input.messages);
  set_unless_none("tools", input.tools);
  set_unless_none("documents", input.documents);
  interpreter.SetVariable("add_generation_prompt", Value::MakeBool(input.add_generation_prompt));
  for (const auto& [name, text] : input.trusted_variables) {
    interpreter.SetVariable(name, Value::MakeString(MarkedString(text, true)));
  }
  return {};
}

std::vector<PromptPiece> PiecesOf(const MarkedString& text) {
  std::vector<PromptPiece> pieces;
  size_t begin = 0;
  for (const MarkedString::Run& run : text.runs()) {
    pieces.push_back({text.text().substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return pieces;
}

Error AtLine(const Error& error, int line) {
  if (error.code == ErrorCode::kInvalidArgument) {
    return MakeError(error.code, "the chat template (line {}) refuses these messages: {}", line,
                     error.message);
  }
  return MakeError(error.code, "chat template, line {}: {}", line, error.message);
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const jinja::TemplateTree> tree,
                           const TemplateLimits& limits)
    : tree_(std::move(tree)), limits_(limits) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.max_template_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "the chat template has {} bytes, the limit is {}", source.size(),
                     limits.max_template_bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<jinja::Token> tokens, jinja::Tokenize(source));
  QUIRE_ASSIGN_OR_RETURN(auto tree, jinja::Parser(std::move(tokens)).ParseTemplate());
  return ChatTemplate(std::move(tree), limits);
}

Result<std::vector<PromptPiece>> ChatTemplate::Render(const TemplateInput& input) const {
  jinja::RenderState state(limits_, input.now);
  Interpreter interpreter(*tree_, state);
  QUIRE_RETURN_IF_ERROR(SetVariables(interpreter, input));
  auto text = interpreter.Run();
  if (!text.ok()) return AtLine(text.error(), interpreter.line());
  return PiecesOf(*text);
}

}  // namespace quire
