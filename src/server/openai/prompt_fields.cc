// Prompts as texts and as token ids, and how they are cut.
#include "server/openai/fields.h"

namespace quire {

using jinja::Value;

// The first token id of a list that is not one, as an error message, or nothing.
std::optional<std::string> ReadTokenIds(const std::vector<Value>& items, int vocab_size,
                                        std::vector<int32_t>& ids) {
  const int64_t highest = vocab_size > 0 ? vocab_size - 1 : std::numeric_limits<int32_t>::max();
  ids.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const auto id = WholeNumber(items[i]);
    if (!id || *id < 0 || *id > highest) {
      return fmt::format("must hold token ids from 0 to {}, but element {} is {}", highest, i,
                         DescribeJson(items[i]));
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return std::nullopt;
}

namespace {

// One prompt of an array of prompts.
void ReadPromptItem(BodyReader& reader, std::string_view name, const Value& item,
                    const OpenAiLimits& limits, std::vector<OpenAiPrompt>& prompts) {
  if (item.IsString()) {
    prompts.emplace_back(item.Text());
    return;
  }
  if (!item.IsList()) {
    return reader.Fail(
        name, "must be a string, token ids, or an array of such; it holds " + DescribeJson(item),
        "invalid_type");
  }
  std::vector<int32_t> ids;
  if (item.AsSequence().items.empty()) return reader.Fail(name, "must hold at least one token");
  if (const auto fault = ReadTokenIds(item.AsSequence().items, limits.vocab_size, ids)) {
    return reader.Fail(name, *fault);
  }
  prompts.emplace_back(std::move(ids));
}

}  // namespace

void ReadPrompts(BodyReader& reader, std::string_view name, const OpenAiLimits& limits,
                 std::vector<OpenAiPrompt>& prompts) {
  const Value* prompt = reader.Find(name);
  if (reader.error()) return;
  if (prompt == nullptr) {
    return reader.Fail(name, "is missing", "missing_required_parameter");
  }
  const bool is_list = prompt->IsList();
  const auto* items = is_list ? &prompt->AsSequence().items : nullptr;
  if (is_list && items->empty()) {
    return reader.Fail(name, "must hold at least one prompt or token");
  }
  // An array that begins with a number is one prompt.
  if (!is_list || items->front().IsInt() || items->front().IsFloat()) {
    return ReadPromptItem(reader, name, *prompt, limits, prompts);
  }
  if (items->size() > limits.max_prompts) {
    return reader.Fail(name, fmt::format("may hold {} prompts at most, got {}", limits.max_prompts,
                                         items->size()));
  }
  for (const Value& item : *items) {
    ReadPromptItem(reader, name, item, limits, prompts);
    if (reader.error()) return;
  }
}

void ReadPromptShape(BodyReader& reader, OpenAiRequest& body) {
  body.add_special_tokens = reader.Bool("add_special_tokens");
  const auto kept = reader.Int("truncate_prompt_tokens", -1, kMaxIntField);
  if (kept && *kept == 0) reader.Fail("truncate_prompt_tokens", "must be -1, or 1 or more, got 0");
  if (kept) body.truncate_prompt_tokens = static_cast<int>(*kept);
}

void ReadSuffix(BodyReader& reader, OpenAiRequest& body) {
  auto suffix = reader.String("suffix");
  // Nothing follows: an answer is all that is asked for.
  if (!suffix || suffix->empty()) return;
  if (body.echo) reader.Fail("echo", "cannot be true with a suffix");
  body.suffix = std::move(*suffix);
}

}  // namespace quire
