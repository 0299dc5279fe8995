#include "text/chat_template_fixtures.h"

#include "base/check.h"
#include "text/chat_template/json_text.h"

namespace quire::testing {

jinja::Value Json(std::string_view text) {
  auto value = jinja::ValueFromJson(text);
  QUIRE_CHECK(value.ok(), "{} in {}", value.error().message, text);
  return std::move(value).value();
}

TemplateInput InputFrom(const jinja::Value& description) {
  TemplateInput input;
  // Friday 2024-07-05 09:08:07, as the goldens.
  input.now = {1720170487, 0};
  if (!description.IsDict()) return input;
  const jinja::Dict& members = description.AsDict();
  if (const auto* value = members.Find("messages")) input.messages = *value;
  if (const auto* value = members.Find("tools")) input.tools = *value;
  if (const auto* value = members.Find("extra")) input.extra = *value;
  if (const auto* value = members.Find("add_generation_prompt")) {
    input.add_generation_prompt = value->AsBool();
  }
  if (const auto* trusted = members.Find("trusted")) {
    for (const auto& [name, text] : trusted->AsDict().entries()) {
      input.trusted_variables.emplace_back(name.Text(), text.Text());
    }
  }
  return input;
}

std::string Joined(const std::vector<PromptPiece>& pieces) {
  std::string text;
  for (const PromptPiece& piece : pieces) text += piece.text;
  return text;
}

namespace {

Result<std::vector<PromptPiece>> Render(std::string_view source, const TemplateInput& input) {
  QUIRE_ASSIGN_OR_RETURN(const ChatTemplate parsed, ChatTemplate::Parse(source));
  return parsed.Render(input);
}

}  // namespace

std::string Rendered(std::string_view source, const TemplateInput& input) {
  const auto pieces = Render(source, input);
  return pieces.ok() ? Joined(*pieces) : "error: " + pieces.error().message;
}

std::string WithMarks(std::string_view source, const TemplateInput& input) {
  const auto pieces = Render(source, input);
  if (!pieces.ok()) return "error: " + pieces.error().message;
  std::string text;
  for (const PromptPiece& piece : *pieces) {
    text += piece.from_template ? piece.text : "«" + piece.text + "»";
  }
  return text;
}

TemplateInput FourMessages() {
  TemplateInput input = InputFrom(jinja::Value());
  input.messages = Json(R"([{"role":"system","content":"S"},{"role":"user","content":"U1"},
                            {"role":"assistant","content":"A1"},{"role":"user","content":"U2"}])");
  return input;
}

}  // namespace quire::testing
