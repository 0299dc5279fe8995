#include "server/openai/response.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "sampling/seed.h"
#include "server/openai/json_writer.h"
#include "server/openai/log_prob_text.h"
#include "server/openai/usage.h"

namespace quire {
namespace {

class ResponseWriter {
 public:
  ResponseWriter(const OpenAiRequest& body, const Tokenizer& tokenizer, const ResponseHead& head)
      : body_(body),
        head_(head),
        spelling_(tokenizer, body.tokens_as_token_ids),
        is_chat_(body.endpoint == OpenAiEndpoint::kChatCompletions),
        shows_answer_(body.max_tokens != 0),
        usage_(body.include_quire) {}

  std::string Write(std::span<const PromptAnswer> answers) {
    json_.BeginObject();
    WriteMember("id", head_.id);
    WriteMember("object", is_chat_ ? "chat.completion" : "text_completion");
    json_.Key("created");
    json_.Int(head_.created);
    WriteMember("model", RepairUtf8(head_.model));
    json_.Key("choices");
    json_.BeginArray();
    for (const PromptAnswer& answer : answers) {
      usage_.Add(answer, shows_answer_, spelling_.tokenizer());
      for (const Choice& choice : answer.result.choices) {
        is_chat_ ? WriteChatChoice(choice) : WriteCompletionChoice(answer, choice);
        ++num_choices_;
      }
    }
    json_.EndArray();
    json_.Key("usage");
    usage_.Write(json_);
    // Those of a completion stand in its choices.
    if (is_chat_) WriteOfPrompt(answers.front());
    json_.EndObject();
    return std::move(out_);
  }

 private:
  void WriteMember(std::string_view name, std::string_view text) {
    json_.Key(name);
    json_.String(text);
  }

  void WriteOfPrompt(const PromptAnswer& answer) {
    if (body_.prompt_logprobs) {
      json_.Key("prompt_logprobs");
      WritePromptLogProbs(answer.result.prompt_log_probs, *body_.prompt_logprobs, spelling_, json_);
    }
    if (body_.return_token_ids) {
      json_.Key("prompt_token_ids");
      json_.Ids(answer.prompt);
    }
  }

  void WriteEnd(std::string_view finish_reason, const Choice* choice) {
    WriteMember("finish_reason", finish_reason);
    json_.Key("stop_reason");
    std::string stop_reason = "null";
    if (choice != nullptr) {
      stop_reason.clear();
      AppendStopReason(*choice, body_.request, stop_reason);
    }
    json_.Raw(stop_reason);
  }

  void WriteChatChoice(const Choice& choice) {
    ToolCallParser parser({.dialect = head_.dialect,
                           .names = body_.tool_names,
                           .single_call = !body_.parallel_tool_calls});
    std::vector<ToolDelta> deltas = parser.Push(choice.text);
    std::ranges::move(parser.Finish(), std::back_inserter(deltas));
    json_.BeginObject();
    json_.Key("index");
    json_.Int(num_choices_);
    json_.Key("message");
    WriteMessage(deltas, parser.num_calls() > 0);
    json_.Key("logprobs");
    if (const auto& count = body_.request.sampling.logprobs) {
      WriteChatLogProbs(choice.log_probs, *count, spelling_, json_);
    } else {
      json_.Null();
    }
    WriteEnd(FinishReasonOf(choice, parser.num_calls() > 0), &choice);
    if (body_.return_token_ids) {
      json_.Key("token_ids");
      json_.Ids(choice.tokens);
    }
    json_.EndObject();
  }

  void WriteMessage(std::span<const ToolDelta> deltas, bool has_calls) {
    std::string text = body_.chat_echo;
    for (const ToolDelta& delta : deltas) text += delta.text;
    json_.BeginObject();
    WriteMember("role", "assistant");
    json_.Key("content");
    has_calls&& text.empty() ? json_.Null() : json_.String(text);
    json_.Key("refusal");
    json_.Null();
    if (has_calls) {
      json_.Key("tool_calls");
      json_.BeginArray();
      int call = 0;
      for (const ToolDelta& delta : deltas) {
        if (delta.kind == ToolDelta::Kind::kCall) WriteCall(delta, call++);
      }
      json_.EndArray();
    }
    json_.EndObject();
  }

  void WriteCall(const ToolDelta& delta, int call) {
    json_.BeginObject();
    WriteMember("id", ToolCallId(head_.id, num_choices_, call));
    WriteMember("type", "function");
    json_.Key("function");
    json_.BeginObject();
    WriteMember("name", delta.name);
    WriteMember("arguments", delta.arguments);
    json_.EndObject();
    json_.EndObject();
  }

  void WriteCompletionChoice(const PromptAnswer& answer, const Choice& choice) {
    const auto& logprobs = body_.request.sampling.logprobs;
    CompletionLogProbs entries(logprobs.value_or(0), spelling_);
    std::string text;
    if (body_.echo) {
      text = EchoPrompt(answer.prompt, answer.num_added, answer.result.prompt_log_probs, spelling_,
                        logprobs ? &entries : nullptr);
    }
    if (shows_answer_) {
      if (logprobs) AddAnswerEntries(choice, CountCharacters(text), entries);
      text += choice.text;
    }
    json_.BeginObject();
    json_.Key("index");
    json_.Int(num_choices_);
    WriteMember("text", text);
    json_.Key("logprobs");
    logprobs ? entries.Write(json_) : json_.Null();
    if (shows_answer_) {
      WriteEnd(FinishReasonOf(choice, /*has_calls=*/false), &choice);
    } else {
      WriteEnd(NameOf(FinishReason::kLength), nullptr);
    }
    WriteOfPrompt(answer);
    if (body_.return_token_ids) {
      json_.Key("token_ids");
      json_.Ids(shows_answer_ ? choice.tokens : std::vector<int32_t>());
    }
    json_.EndObject();
  }

  void AddAnswerEntries(const Choice& choice, int64_t first_offset, CompletionLogProbs& entries) {
    const int64_t text_length = CountCharacters(choice.text);
    AnswerOffsets offsets(spelling_.tokenizer(), body_.request.show_control_tokens);
    for (size_t i = 0; i < choice.log_probs.size(); ++i) {
      const int32_t token = choice.tokens[i];
      // What a stop string cut off has no place in the text: it stands at the end.
      entries.Add(token, spelling_.Bytes(token), &choice.log_probs[i],
                  first_offset + std::min(offsets.Next(token), text_length));
    }
  }

  const OpenAiRequest& body_;
  const ResponseHead& head_;
  TokenSpelling spelling_;
  bool is_chat_;
  bool shows_answer_;
  UsageSum usage_;
  int num_choices_ = 0;
  std::string out_;
  JsonWriter json_{out_};
};

}  // namespace

std::string_view FinishReasonOf(const Choice& choice, bool has_calls) {
  // Those that OpenAI's API has, and vLLM's word for an answer that was broken off.
  switch (choice.finish_reason) {
    case FinishReason::kStop:
      return has_calls ? "tool_calls" : NameOf(choice.finish_reason);
    case FinishReason::kLength:
      return NameOf(choice.finish_reason);
    default:
      return NameOf(FinishReason::kAborted);
  }
}

void AppendStopReason(const Choice& choice, const Request& request, std::string& json) {
  JsonWriter writer(json);
  if (choice.matched_stop) return writer.String(*choice.matched_stop);
  const auto& ids = request.stop_token_ids;
  if (choice.matched_stop_token &&
      std::ranges::find(ids, *choice.matched_stop_token) != ids.end()) {
    return writer.Int(*choice.matched_stop_token);
  }
  writer.Null();
}

std::string ResponseBody(const OpenAiRequest& body, std::span<const PromptAnswer> answers,
                         const Tokenizer& tokenizer, const ResponseHead& head) {
  return ResponseWriter(body, tokenizer, head).Write(answers);
}

std::string NewResponseId(std::string_view prefix) {
  // Where the system has no random bits, identifiers are the least of its troubles.
  const auto high = RandomSeed();
  const auto low = RandomSeed();
  return fmt::format("{}{:016x}{:016x}", prefix, high.ok() ? *high : 0, low.ok() ? *low : 0);
}

std::string NewResponseId(OpenAiEndpoint endpoint) {
  return NewResponseId(endpoint == OpenAiEndpoint::kChatCompletions ? "chatcmpl-" : "cmpl-");
}

}  // namespace quire
