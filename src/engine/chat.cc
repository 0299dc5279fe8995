#include "engine/chat.h"

#include <utility>

#include "sampling/seed.h"
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

// The last message's content with a mark behind it, in place of the content.
Status MarkFinalContent(const std::string& mark, TemplateInput& input) {
  const auto refuse = [](std::string_view why) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the last message cannot be continued: it {}; leave out "
                     "continue_final_message to get an answer to it",
                     why);
  };
  std::vector<jinja::Value> messages = input.messages.AsSequence().items;
  if (messages.empty() || !messages.back().IsDict()) return refuse("is missing");
  jinja::Dict last = messages.back().AsDict();
  const jinja::Value* calls = last.Find("tool_calls");
  if (calls != nullptr && jinja::IsTrue(*calls)) return refuse("calls tools");
  const jinja::Value* content = last.Find("content");
  if (content == nullptr || !content->IsString()) return refuse("has no content");
  jinja::MarkedString marked = content->AsString();
  marked.Append(mark, false);
  last.Set("content", jinja::Value::MakeString(std::move(marked)));
  messages.back() = jinja::Value::MakeDict(std::move(last));
  input.messages = jinja::Value::MakeList(std::move(messages));
  return {};
}

// The first `num_bytes` of the pieces' joint text.
std::vector<PromptPiece> CutPieces(std::vector<PromptPiece> pieces, size_t num_bytes) {
  std::vector<PromptPiece> cut;
  for (PromptPiece& piece : pieces) {
    if (num_bytes == 0) break;
    if (piece.text.size() > num_bytes) piece.text.resize(num_bytes);
    num_bytes -= piece.text.size();
    cut.push_back(std::move(piece));
  }
  return cut;
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

Result<std::vector<PromptPiece>> RenderUnfinishedChat(const LoadedModel& model,
                                                      TemplateInput input) {
  // Random, so that no message holds it: contents may end in anything, markup of the template
  // included, and are found by what follows them alone.
  QUIRE_ASSIGN_OR_RETURN(const uint64_t random, RandomSeed());
  const std::string mark = fmt::format("quire-{:016x}-ends-here", random);
  QUIRE_RETURN_IF_ERROR(MarkFinalContent(mark, input));
  input.add_generation_prompt = false;
  QUIRE_ASSIGN_OR_RETURN(std::vector<PromptPiece> pieces, RenderChat(model, std::move(input)));
  std::string text;
  for (const PromptPiece& piece : pieces) text += piece.text;
  const size_t end = text.rfind(mark);
  if (end == std::string::npos) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the last message cannot be continued: the model's template does not show its "
                     "content");
  }
  return CutPieces(std::move(pieces), end);
}

}  // namespace quire
