#include "engine/chat.h"

#include <utility>

#include "text/chat_template/messages.h"

namespace quire {
namespace {

jinja::Value MessagesAsValue(std::span<const Message> messages) {
  std::vector<jinja::Value> list;
  for (const Message& message : messages) {
    jinja::Dict dict;
    dict.Set("role", jinja::Value::MakeString(message.role));
    dict.Set("content", jinja::Value::MakeString(message.content));
    list.push_back(jinja::Value::MakeDict(std::move(dict)));
  }
  return jinja::Value::MakeList(std::move(list));
}

}  // namespace

Result<std::vector<PromptPiece>> RenderChat(const LoadedModel& model,
                                            std::span<const Message> messages) {
  TemplateInput input;
  QUIRE_ASSIGN_OR_RETURN(input.messages, NormalizeMessages(MessagesAsValue(messages)));
  return RenderChat(model, std::move(input));
}

Result<std::vector<PromptPiece>> RenderChat(const LoadedModel& model, TemplateInput input) {
  QUIRE_ASSIGN_OR_RETURN(const ChatTemplate* chat_template, model.chat_template());
  const Tokenizer& tokenizer = model.tokenizer();
  for (const auto& [name, id] :
       {std::pair{"bos_token", tokenizer.bos()}, std::pair{"eos_token", tokenizer.eos()}}) {
    input.trusted_variables.emplace_back(name, id < 0 ? "" : tokenizer.TokenText(id));
  }
  return chat_template->Render(input);
}

}  // namespace quire
