// A chat template: Jinja source that turns messages into a prompt.
//
// The language is that of Jinja2's immutable sandbox as the transformers library sets it up
// (trim_blocks, lstrip_blocks, loop controls, its own tojson, raise_exception, strftime_now,
// generation blocks); docs/chat-templates.md says what is in and what is out. A prompt comes in
// pieces that say which text the template wrote: only there may control tokens be read.
// Const after Parse: any number of threads may Render. A render ends in bounded time and memory for
// any template and any messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_template/value.h"
#include "text/tokenizer.h"

namespace quire {

struct TemplateLimits {
  uint64_t max_template_bytes = 1 << 20;
  int64_t max_steps = 20'000'000;   // expressions evaluated, items walked
  uint64_t max_bytes = 1ull << 30;  // text and containers made, thrown away or not
  uint64_t max_output_bytes = 64 << 20;
  int max_depth = 800;                 // calls, loops and expressions inside one another
  uint64_t max_stack_bytes = 2 << 20;  // of the calling thread, that those may take
  int64_t max_range = 100'000;         // as Jinja2's sandbox
};

// The time that strftime_now prints: local, as the server's users read it.
struct WallClock {
  int64_t unix_seconds = 0;
  // East of Greenwich.
  int32_t utc_offset_seconds = 0;
  static WallClock Now();
};

struct TemplateInput {
  // A list of dicts, as NormalizeMessages (messages.h) makes it.
  jinja::Value messages = jinja::Value::MakeList({});
  // Lists of dicts, or none.
  jinja::Value tools = jinja::Value::MakeNone();
  jinja::Value documents = jinja::Value::MakeNone();
  bool add_generation_prompt = true;
  // bos_token, eos_token and their like: text that may name control tokens.
  std::vector<std::pair<std::string, std::string>> trusted_variables;
  // Variables of the request (chat_template_kwargs): a dict, or none. They do not replace the ones
  // above, apart from tools and documents that are none.
  jinja::Value extra = jinja::Value::MakeNone();
  WallClock now = WallClock::Now();
};

namespace jinja {
struct TemplateTree;
}

class ChatTemplate {
 public:
  // kCorrupt for a syntax error, kUnsupported for include, import, extends and unknown tags,
  // filters and tests, kResourceExhausted for a template beyond the limits; all name the line.
  static Result<ChatTemplate> Parse(std::string_view source, const TemplateLimits& limits = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // kInvalidArgument means that the template itself refused the messages with raise_exception: the
  // message ends with its words. kCorrupt: the template does not fit these values.
  // kResourceExhausted: a limit. Pieces are not empty, and neighbours differ in from_template.
  Result<std::vector<PromptPiece>> Render(const TemplateInput& input) const;

 private:
  ChatTemplate(std::unique_ptr<const jinja::TemplateTree> tree, const TemplateLimits& limits);

  std::unique_ptr<const jinja::TemplateTree> tree_;
  TemplateLimits limits_;
};

}  // namespace quire
