// What goes into a chat's template: messages, tools, documents, variables.
#include <algorithm>
#include <iterator>

#include "formats/printable.h"
#include "server/openai/fields.h"
#include "text/chat_template/messages.h"

namespace quire {
namespace {

using jinja::Value;

constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                       "tool",   "function",  "ipython", "model"};

// Null for what is no tool: {"type": "function", "function": {"name": ...}}.
const std::string* NameOfTool(const Value& tool) {
  if (!tool.IsDict()) return nullptr;
  const Value* type = tool.AsDict().Find("type");
  if (type != nullptr && !(type->IsString() && type->Text() == "function")) return nullptr;
  const Value* function = tool.AsDict().Find("function");
  if (function == nullptr || !function->IsDict()) return nullptr;
  const Value* name = function->AsDict().Find("name");
  return name == nullptr || !name->IsString() || name->Text().empty() ? nullptr : &name->Text();
}

void ReadTools(BodyReader& reader, const OpenAiLimits& limits, OpenAiRequest& body) {
  const auto* tools = reader.List("tools");
  const Value* choice = reader.Find("tool_choice");
  bool offers_tools = true;
  if (choice != nullptr) {
    const bool is_word = choice->IsString();
    if (!is_word || (choice->Text() != "none" && choice->Text() != "auto")) {
      return reader.Fail("tool_choice",
                         fmt::format("must be 'none' or 'auto', got {}: a call cannot be forced",
                                     DescribeJson(*choice)),
                         "unsupported_value");
    }
    offers_tools = choice->Text() == "auto";
  }
  Assign(body.parallel_tool_calls, reader.Bool("parallel_tool_calls"));
  if (tools == nullptr) return;
  if (tools->size() > limits.max_tools) {
    return reader.Fail(
        "tools", fmt::format("may hold {} tools at most, got {}", limits.max_tools, tools->size()));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string* name = NameOfTool((*tools)[i]);
    if (name == nullptr) {
      return reader.Fail("tools",
                         fmt::format("must hold objects with a function that has a name, but "
                                     "element {} is {}",
                                     i, (*tools)[i].IsDict() ? "none" : DescribeJson((*tools)[i])),
                         "invalid_type");
    }
    if (name->size() > limits.max_tool_name_bytes) {
      return reader.Fail("tools", fmt::format("may have names of {} bytes at most, but that of "
                                              "element {} has {}",
                                              limits.max_tool_name_bytes, i, name->size()));
    }
    names.push_back(*name);
  }
  // A tool that must not be called is not shown to the model.
  if (!offers_tools || tools->empty()) return;
  body.tools = Value::MakeList(*tools);
  body.tool_names = std::move(names);
}

void ReadMessages(BodyReader& reader, OpenAiRequest& body) {
  const auto* messages = reader.List("messages");
  if (reader.error()) return;
  if (messages == nullptr || messages->empty()) {
    return reader.Fail("messages", "must hold at least one message", "missing_required_parameter");
  }
  auto normalized = NormalizeMessages(Value::MakeList(*messages));
  if (!normalized.ok()) {
    return reader.Fail("messages", "are not in OpenAI's form: " + normalized.error().message);
  }
  const auto& items = normalized->AsSequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string& role = items[i].AsDict().Find("role")->Text();
    if (std::ranges::find(kRoles, role) == std::end(kRoles)) {
      return reader.Fail("messages",
                         fmt::format("must have roles such as system, user, assistant or tool, but "
                                     "messages[{}].role is '{}'",
                                     i, Printable(role, 40)));
    }
  }
  body.messages = std::move(normalized).value();
}

void ReadDocuments(BodyReader& reader, OpenAiRequest& body) {
  const auto* documents = reader.List("documents");
  if (documents == nullptr || documents->empty()) return;
  for (const Value& document : *documents) {
    if (!document.IsDict()) {
      return reader.Fail("documents", "must hold objects alone, got " + DescribeJson(document),
                         "invalid_type");
    }
  }
  body.documents = Value::MakeList(*documents);
}

void ReadTemplateFields(BodyReader& reader, OpenAiRequest& body) {
  ReadDocuments(reader, body);
  const auto add_prompt = reader.Bool("add_generation_prompt");
  Assign(body.continue_final_message, reader.Bool("continue_final_message"));
  if (body.continue_final_message && add_prompt.value_or(false)) {
    reader.Fail("continue_final_message", "and add_generation_prompt cannot both be true");
  }
  body.add_generation_prompt = add_prompt.value_or(!body.continue_final_message);
  if (const Value* arguments = reader.Find("chat_template_kwargs")) {
    if (!arguments->IsDict()) {
      return reader.Fail("chat_template_kwargs",
                         "must be an object, got " + DescribeJson(*arguments), "invalid_type");
    }
    body.template_arguments = *arguments;
  }
}

// vLLM's echo of a chat: the answer begins with what the assistant had said last.
void ReadChatEcho(BodyReader& reader, OpenAiRequest& body) {
  Assign(body.echo, reader.Bool("echo"));
  if (!body.echo || reader.error()) return;
  const jinja::Dict& last = body.messages.AsSequence().items.back().AsDict();
  if (last.Find("role")->Text() == "assistant") body.chat_echo = last.Find("content")->Text();
}

}  // namespace

void ReadChat(BodyReader& reader, const OpenAiLimits& limits, OpenAiRequest& body) {
  ReadMessages(reader, body);
  ReadTools(reader, limits, body);
  ReadTemplateFields(reader, body);
  ReadChatEcho(reader, body);
  const Value* suffix = reader.Find("suffix");
  if (suffix != nullptr && jinja::IsTrue(*suffix)) {
    reader.Fail("suffix", "is not supported in a chat; /v1/completions takes one",
                "unsupported_parameter");
  }
}

}  // namespace quire
