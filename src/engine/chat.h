// A conversation: its messages, and the token ids that they became.
//
// Ids are history, text is not: an answer goes into the next prompt as the ids that were sampled,
// although its text might tokenize otherwise, so the cache still holds every entry of it. Where the
// template rewrites an earlier turn (strips it, drops its reasoning), the prompt is tokenized anew.
// Thread-compatible; the model outlives it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/loaded_model.h"

namespace quire {

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class Conversation {
 public:
  // Fails where the model has no usable chat template.
  static Result<Conversation> Create(const LoadedModel& model);

  std::span<const Message> messages() const { return messages_; }
  void Add(Message message) { messages_.push_back(std::move(message)); }
  // Takes back the newest message (a turn that failed).
  void RemoveLast() { messages_.pop_back(); }
  // Starts over, with a system message unless it is empty.
  void Reset(std::string_view system);

  // The ids of the prompt that asks for the next answer. The template may refuse the messages.
  Result<std::vector<int32_t>> Prompt();
  // The answer to the last Prompt: its ids as sampled, its text as shown.
  void AddAnswer(std::string text, std::span<const int32_t> ids);

 private:
  Conversation(const LoadedModel& model, const ChatTemplate& chat_template)
      : model_(&model), template_(&chat_template) {}

  // The ids of what follows history_text_ in a newly rendered prompt, or nothing when the prompt
  // does not begin with it.
  std::optional<std::vector<int32_t>> EncodeAfterHistory(std::span<const PromptPiece> pieces) const;

  const LoadedModel* model_;
  const ChatTemplate* template_;
  std::vector<Message> messages_;
  std::string history_text_;  // of the last prompt and its answer
  std::vector<int32_t> history_ids_;
  bool ends_in_control_ = false;  // the last id is a control token, not in history_text_
};

}  // namespace quire
