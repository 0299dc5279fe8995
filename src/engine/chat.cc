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

std::string Join(std::span<const PromptPiece> pieces) {
  std::string text;
  for (const PromptPiece& piece : pieces) text += piece.text;
  return text;
}

// The pieces from byte `offset` of their joint text on.
std::vector<PromptPiece> PiecesFrom(std::span<const PromptPiece> pieces, size_t offset) {
  std::vector<PromptPiece> rest;
  for (const PromptPiece& piece : pieces) {
    if (offset >= piece.text.size()) {
      offset -= piece.text.size();
      continue;
    }
    rest.push_back({piece.text.substr(offset), piece.from_template});
    offset = 0;
  }
  return rest;
}

}  // namespace

Result<Conversation> Conversation::Create(const LoadedModel& model) {
  QUIRE_ASSIGN_OR_RETURN(const ChatTemplate* chat_template, model.chat_template());
  return Conversation(model, *chat_template);
}

void Conversation::Reset(std::string_view system) {
  messages_.clear();
  history_text_.clear();
  history_ids_.clear();
  ends_in_control_ = false;
  if (!system.empty()) Add({"system", std::string(system)});
}

Result<std::vector<int32_t>> Conversation::Prompt() {
  const Tokenizer& tokenizer = model_->tokenizer();
  TemplateInput input;
  QUIRE_ASSIGN_OR_RETURN(input.messages, NormalizeMessages(MessagesAsValue(messages_)));
  for (const auto& [name, id] :
       {std::pair{"bos_token", tokenizer.bos()}, std::pair{"eos_token", tokenizer.eos()}}) {
    input.trusted_variables.emplace_back(name, id < 0 ? "" : tokenizer.TokenText(id));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PromptPiece> pieces, template_->Render(input));
  std::vector<int32_t> ids;
  if (auto added = EncodeAfterHistory(pieces)) {
    ids = history_ids_;
    ids.insert(ids.end(), added->begin(), added->end());
  } else {
    ids = tokenizer.EncodePieces(pieces, /*add_special=*/true);
  }
  history_text_ = Join(pieces);
  history_ids_ = ids;
  ends_in_control_ = false;
  return ids;
}

void Conversation::AddAnswer(std::string text, std::span<const int32_t> ids) {
  history_text_ += text;
  history_ids_.insert(history_ids_.end(), ids.begin(), ids.end());
  ends_in_control_ = !ids.empty() && model_->tokenizer().Kind(ids.back()) == TokenKind::kControl;
  messages_.push_back({"assistant", std::move(text)});
}

std::optional<std::vector<int32_t>> Conversation::EncodeAfterHistory(
    std::span<const PromptPiece> pieces) const {
  if (history_ids_.empty()) return std::nullopt;
  const std::string text = Join(pieces);
  if (!text.starts_with(history_text_)) return std::nullopt;
  size_t offset = history_text_.size();
  if (ends_in_control_) {
    // The template writes the token that ended the answer: its id is there already.
    const std::string_view ender = model_->tokenizer().TokenText(history_ids_.back());
    if (!std::string_view(text).substr(offset).starts_with(ender)) return std::nullopt;
    offset += ender.size();
  }
  return model_->tokenizer().EncodePieces(PiecesFrom(pieces, offset), /*add_special=*/false);
}

}  // namespace quire
