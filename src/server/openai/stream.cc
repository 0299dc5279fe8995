#include "server/openai/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/utf8.h"
#include "server/openai/json_writer.h"
#include "server/openai/log_prob_text.h"
#include "server/openai/usage.h"

namespace quire {
namespace {

constexpr std::string_view kEventBegin = "data: ";
constexpr std::string_view kEventEnd = "\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

// One answer as far as it has been told.
struct ChoiceState {
  ChoiceState(const OpenAiRequest& body, const ResponseHead& head, const TokenSpelling& spelling)
      : parser({.dialect = head.dialect,
                .names = body.tool_names,
                .single_call = !body.parallel_tool_calls}),
        offsets(spelling.tokenizer(), body.request.show_control_tokens),
        entries(body.request.sampling.logprobs.value_or(0), spelling) {}

  ToolCallParser parser;
  AnswerOffsets offsets;
  CompletionLogProbs entries;  // of the next chunk

  size_t num_bytes = 0;      // of the answer's text that came
  size_t num_tokens = 0;     // of the answer's tokens that came
  int64_t num_shown = 0;     // characters that were written, the echo not counted
  int64_t first_offset = 0;  // characters of the echo
  bool has_begun = false;    // a chunk was written
  // Wait for a chunk. An entry of a completion also waits for the text in front of its token.
  std::vector<int32_t> ids{};
  std::vector<LogProbs> log_probs{};
  std::vector<std::pair<int32_t, int64_t>> places{};  // of log_probs: token, offset; completions
};

}  // namespace

class ChunkWriter::Parts {
 public:
  Parts(const OpenAiRequest& body, const Tokenizer& tokenizer, ResponseHead head)
      : body_(body),
        head_(std::move(head)),
        spelling_(tokenizer, body.tokens_as_token_ids),
        is_chat_(body.endpoint == OpenAiEndpoint::kChatCompletions),
        shows_answer_(body.max_tokens != 0),
        usage_(body.include_quire) {
    JsonWriter json(event_head_ = kEventBegin);
    json.BeginObject();
    json.Key("id");
    json.String(head_.id);
    json.Key("object");
    json.String(is_chat_ ? "chat.completion.chunk" : "text_completion");
    json.Key("created");
    json.Int(head_.created);
    json.Key("model");
    json.String(RepairUtf8(head_.model));
    json.Key("choices");
    event_head_ += '[';
  }

  // Beams are known at the end; so are the log-probabilities of an echo.
  bool writes_at_end() const {
    const Request& request = body_.request;
    return request.beams.width > 0 || !shows_answer_ ||
           (!is_chat_ && body_.echo && request.sampling.logprobs);
  }

  void Begin(size_t prompt_idx, std::span<const int32_t> prompt, int num_added, std::string& out) {
    if (body_.return_token_ids) {
      if (prompt_ids_.size() <= prompt_idx) prompt_ids_.resize(prompt_idx + 1);
      prompt_ids_[prompt_idx].assign(prompt.begin(), prompt.end());
    }
    num_prompt_tokens_ += static_cast<int64_t>(prompt.size());
    for (int choice = 0; choice < body_.request.num_choices; ++choice) {
      const size_t index = IndexOf(prompt_idx, choice);
      if (is_chat_) {
        WriteChunk(index, R"({"role":"assistant","content":""})", out);
        if (!body_.chat_echo.empty()) WriteChatText(index, body_.chat_echo, out);
      } else if (body_.echo && !writes_at_end()) {
        WriteEcho(index, EchoPrompt(prompt, num_added, {}, spelling_, nullptr), out);
      }
    }
  }

  void Piece(const StreamPiece& piece, std::string& out) {
    if (writes_at_end()) return;
    Take(IndexOf(piece.prompt, piece.choice), piece.text, piece.tokens, piece.log_probs, out);
  }

  void End(size_t prompt_idx, const PromptAnswer& answer, std::string& out) {
    usage_.Add(answer, shows_answer_, spelling_.tokenizer());
    for (const Choice& choice : answer.result.choices) {
      const size_t index = IndexOf(prompt_idx, choice.index);
      ChoiceState& state = StateOf(index);
      if (writes_at_end() && !is_chat_ && body_.echo) {
        const auto& logprobs = body_.request.sampling.logprobs;
        WriteEcho(index,
                  EchoPrompt(answer.prompt, answer.num_added, answer.result.prompt_log_probs,
                             spelling_, logprobs ? &state.entries : nullptr),
                  out);
      }
      if (shows_answer_) TakeRest(index, choice, out);
      WriteEnd(index, choice, out);
    }
  }

  void Finish(std::string& out) {
    if (body_.include_usage) {
      out += event_head_;
      out += "],\"usage\":";
      JsonWriter json(out);
      usage_.Write(json);
      out += '}';
      out += kEventEnd;
    }
    out += kDone;
  }

 private:
  size_t IndexOf(size_t prompt_idx, int choice) const {
    QUIRE_CHECK(choice >= 0 && choice < body_.request.num_choices);
    return prompt_idx * static_cast<size_t>(body_.request.num_choices) +
           static_cast<size_t>(choice);
  }

  ChoiceState& StateOf(size_t index) {
    while (choices_.size() <= index) {
      choices_.push_back(std::make_unique<ChoiceState>(body_, head_, spelling_));
    }
    return *choices_[index];
  }

  // More of an answer.
  void Take(size_t index, std::string_view text, std::span<const int32_t> tokens,
            std::span<const LogProbs> log_probs, std::string& out) {
    ChoiceState& state = StateOf(index);
    state.num_bytes += text.size();
    state.num_tokens += tokens.size();
    num_answer_tokens_ += static_cast<int64_t>(tokens.size());
    if (body_.return_token_ids) state.ids.insert(state.ids.end(), tokens.begin(), tokens.end());
    if (body_.request.sampling.logprobs) {
      QUIRE_CHECK(log_probs.size() == tokens.size());
      state.log_probs.insert(state.log_probs.end(), log_probs.begin(), log_probs.end());
      for (const int32_t token : tokens) {
        if (!is_chat_) state.places.emplace_back(token, state.offsets.Next(token));
      }
    }
    if (text.empty()) return;
    if (!is_chat_) return WriteText(index, text, out);
    if (head_.dialect == ToolDialect::kNone) return WriteChatText(index, text, out);
    WriteDeltas(index, state.parser.Push(text), out);
  }

  // What of a whole answer has not come in pieces.
  void TakeRest(size_t index, const Choice& choice, std::string& out) {
    ChoiceState& state = StateOf(index);
    const std::string_view text = choice.text;
    const std::span<const int32_t> tokens = choice.tokens;
    const std::span<const LogProbs> log_probs = choice.log_probs;
    QUIRE_CHECK(state.num_bytes <= text.size() && state.num_tokens <= tokens.size());
    Take(index, text.substr(state.num_bytes), tokens.subspan(state.num_tokens),
         log_probs.subspan(std::min(state.num_tokens, log_probs.size())), out);
    if (is_chat_) WriteDeltas(index, state.parser.Finish(), out);
  }

  void WriteDeltas(size_t index, std::span<const ToolDelta> deltas, std::string& out) {
    ChoiceState& state = StateOf(index);
    int call = state.parser.num_calls() - static_cast<int>(std::ranges::count(
                                              deltas, ToolDelta::Kind::kCall, &ToolDelta::kind));
    for (const ToolDelta& delta : deltas) {
      if (delta.kind == ToolDelta::Kind::kText) {
        WriteChatText(index, delta.text, out);
      } else {
        WriteCall(index, delta, call++, out);
      }
    }
  }

  // The name first, as clients expect, then the arguments.
  void WriteCall(size_t index, const ToolDelta& delta, int call, std::string& out) {
    std::string text = fmt::format(R"({{"tool_calls":[{{"index":{},"id":"{}","type":"function",)"
                                   R"("function":{{"name":")",
                                   call, ToolCallId(head_.id, static_cast<int>(index), call));
    AppendEscaped(delta.name, text);
    text += R"(","arguments":""}}]})";
    WriteChunk(index, text, out);
    text = fmt::format(R"({{"tool_calls":[{{"index":{},"function":{{"arguments":")", call);
    AppendEscaped(delta.arguments, text);
    text += R"("}}]})";
    WriteChunk(index, text, out);
  }

  void WriteChatText(size_t index, std::string_view text, std::string& out) {
    delta_ = R"({"content":")";
    AppendEscaped(text, delta_);
    delta_ += "\"}";
    WriteChunk(index, delta_, out);
  }

  // Of a completion.
  void WriteText(size_t index, std::string_view text, std::string& out) {
    ChoiceState& state = StateOf(index);
    if (body_.request.sampling.logprobs) {
      state.num_shown += CountCharacters(text);
      ShowEntries(state, state.num_shown);
    }
    delta_ = '"';
    AppendEscaped(text, delta_);
    delta_ += '"';
    WriteChunk(index, delta_, out);
  }

  void WriteEcho(size_t index, std::string_view text, std::string& out) {
    StateOf(index).first_offset = CountCharacters(text);
    delta_ = '"';
    AppendEscaped(text, delta_);
    delta_ += '"';
    WriteChunk(index, delta_, out);
  }

  // Moves the entries whose place is known into the next chunk: those that begin in what is shown.
  void ShowEntries(ChoiceState& state, int64_t num_shown) {
    size_t count = 0;
    while (count < state.places.size() && state.places[count].second <= num_shown) {
      const auto& [token, offset] = state.places[count];
      state.entries.Add(token, spelling_.Bytes(token), &state.log_probs[count],
                        state.first_offset + offset);
      ++count;
    }
    state.places.erase(state.places.begin(), state.places.begin() + static_cast<ptrdiff_t>(count));
    state.log_probs.erase(state.log_probs.begin(),
                          state.log_probs.begin() + static_cast<ptrdiff_t>(count));
  }

  // The chunk that says how the answer ended, with all that waited.
  void WriteEnd(size_t index, const Choice& choice, std::string& out) {
    ChoiceState& state = StateOf(index);
    // What a stop string cut off has no place in the text: it stands at the end.
    const int64_t length = CountCharacters(choice.text);
    for (auto& [token, offset] : state.places) offset = std::min(offset, length);
    ShowEntries(state, length);
    const std::string_view reason = shows_answer_
                                        ? FinishReasonOf(choice, state.parser.num_calls() > 0)
                                        : NameOf(FinishReason::kLength);
    std::string end = fmt::format(R"("{}","stop_reason":)", reason);
    if (shows_answer_) {
      AppendStopReason(choice, body_.request, end);
    } else {
      end += "null";
    }
    WriteChunk(index, is_chat_ ? "{}" : "\"\"", out, end);
  }

  // delta: JSON; finish_reason: JSON and what follows it.
  void WriteChunk(size_t index, std::string_view delta, std::string& out,
                  std::string_view finish_reason = "null") {
    ChoiceState& state = StateOf(index);
    out += event_head_;
    out += "{\"index\":";
    const fmt::format_int digits(index);
    out.append(digits.data(), digits.size());
    out += is_chat_ ? ",\"delta\":" : ",\"text\":";
    out += delta;
    out += ",\"logprobs\":";
    WriteLogProbs(state, out);
    out += ",\"finish_reason\":";
    out += finish_reason;
    const bool tells_prompt = body_.return_token_ids && !state.has_begun;
    if (body_.return_token_ids) WriteIds(state, out);
    if (tells_prompt && !is_chat_) WritePromptIds(index, out);
    out += "}]";
    if (tells_prompt && is_chat_ && index == 0) WritePromptIds(index, out);
    if (body_.continuous_usage) {
      out += fmt::format(R"(,"usage":{{"prompt_tokens":{},"completion_tokens":{},)"
                         R"("total_tokens":{}}})",
                         num_prompt_tokens_, num_answer_tokens_,
                         num_prompt_tokens_ + num_answer_tokens_);
    } else if (body_.include_usage) {
      out += ",\"usage\":null";
    }
    out += '}';
    out += kEventEnd;
    state.has_begun = true;
  }

  void WriteLogProbs(ChoiceState& state, std::string& out) {
    const auto& count = body_.request.sampling.logprobs;
    const bool has_any = is_chat_ ? !state.log_probs.empty() : !state.entries.empty();
    if (!count || !has_any) {
      out += "null";
      return;
    }
    JsonWriter json(out);
    if (!is_chat_) return state.entries.Write(json);
    WriteChatLogProbs(state.log_probs, *count, spelling_, json);
    state.log_probs.clear();
  }

  static void WriteIds(ChoiceState& state, std::string& out) {
    out += ",\"token_ids\":";
    JsonWriter(out).Ids(state.ids);
    state.ids.clear();
  }

  void WritePromptIds(size_t index, std::string& out) const {
    out += ",\"prompt_token_ids\":";
    JsonWriter(out).Ids(prompt_ids_[index / static_cast<size_t>(body_.request.num_choices)]);
  }

  const OpenAiRequest& body_;
  ResponseHead head_;
  TokenSpelling spelling_;
  bool is_chat_;
  bool shows_answer_;
  std::string event_head_;  // up to the choices
  std::string delta_;       // of the chunk that is being made
  UsageSum usage_;
  int64_t num_prompt_tokens_ = 0;
  int64_t num_answer_tokens_ = 0;
  std::vector<std::vector<int32_t>> prompt_ids_;  // by prompt, where the response tells them
  std::vector<std::unique_ptr<ChoiceState>> choices_;
};

ChunkWriter::ChunkWriter(const OpenAiRequest& body, const Tokenizer& tokenizer, ResponseHead head)
    : parts_(std::make_unique<Parts>(body, tokenizer, std::move(head))) {}

ChunkWriter::~ChunkWriter() = default;

void ChunkWriter::Begin(size_t prompt_idx, std::span<const int32_t> prompt, int num_added,
                        std::string& out) {
  parts_->Begin(prompt_idx, prompt, num_added, out);
}

void ChunkWriter::Piece(const StreamPiece& piece, std::string& out) { parts_->Piece(piece, out); }

void ChunkWriter::End(size_t prompt_idx, const PromptAnswer& answer, std::string& out) {
  parts_->End(prompt_idx, answer, out);
}

void ChunkWriter::Finish(std::string& out) { parts_->Finish(out); }

bool ChunkWriter::writes_at_end() const { return parts_->writes_at_end(); }

void AppendErrorEvent(const ApiError& error, std::string& out) {
  out += kEventBegin;
  out += ToJson(error);
  out += kEventEnd;
  out += kDone;
}

}  // namespace quire
