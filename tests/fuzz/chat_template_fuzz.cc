// Any bytes as a chat template over fixed messages: an error or a prompt, within small limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/chat_template/chat_template.h"
#include "text/chat_template/json_text.h"
#include "text/chat_template/messages.h"

namespace {

using quire::ChatTemplate;
using quire::TemplateInput;
using quire::TemplateLimits;

constexpr TemplateLimits kLimits = {.max_template_bytes = 1 << 14,
                                    .max_steps = 20'000,
                                    .max_bytes = 4 << 20,
                                    .max_output_bytes = 1 << 20};

quire::jinja::Value Json(std::string_view text) {
  return quire::jinja::ValueFromJson(text).value();
}

TemplateInput FixedInput() {
  TemplateInput input;
  input.now = {1720170487, 0};
  input.messages = quire::NormalizeMessages(Json(R"([
      {"role": "system", "content": "S"}, {"role": "user", "content": "U1 é今"},
      {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 2}"}}]},
      {"role": "tool", "content": "7.5"}])"))
                       .value();
  input.tools =
      Json(R"([{"type": "function", "function": {"name": "f", "parameters": {"z": 1}}}])");
  input.extra =
      Json(R"({"s": "Hello, World", "n": 7, "l": [3, 1, 2], "d": {"b": 1, "a": [null]}})");
  input.trusted_variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemplateInput* const kInput = new TemplateInput(FixedInput());
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  auto parsed = ChatTemplate::Parse(source, kLimits);
  if (!parsed.ok()) return 0;
  const auto pieces = parsed->Render(*kInput);
  if (!pieces.ok()) {
    QUIRE_CHECK(!pieces.error().message.empty());
    return 0;
  }
  for (size_t i = 0; i < pieces->size(); ++i) {
    QUIRE_CHECK(!(*pieces)[i].text.empty());
    QUIRE_CHECK(i == 0 || (*pieces)[i].from_template != (*pieces)[i - 1].from_template);
  }
  return 0;
}
