// Messages of a chat, turned into a prompt by the model's own template.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/loaded_model.h"

namespace quire {

struct Message {
  std::string role{};  // "system", "user", "assistant"
  std::string content{};
};

// The prompt that asks for the next answer, in pieces that say which text the template wrote.
// kNotFound and kCorrupt where the model has no usable template; the template may refuse the
// messages (ChatTemplate::Render).
Result<std::vector<PromptPiece>> RenderChat(const LoadedModel& model,
                                            std::span<const Message> messages);

// As above, of all that a template can be given: messages with tool calls as NormalizeMessages
// makes them, tools, documents, variables of the request. The texts of the model's bos_token and
// eos_token are added to the trusted variables.
Result<std::vector<PromptPiece>> RenderChat(const LoadedModel& model, TemplateInput input);

// As above, cut right after the content of the last message, so that the answer goes on with it.
// add_generation_prompt is not looked at. kInvalidArgument where the last message has no content to
// go on with, or calls tools, or the template does not show its content.
Result<std::vector<PromptPiece>> RenderUnfinishedChat(const LoadedModel& model,
                                                      TemplateInput input);

}  // namespace quire
