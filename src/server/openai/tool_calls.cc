#include "server/openai/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/sha256.h"
#include "engine/loaded_model.h"
#include "server/openai/call_text.h"
#include "server/openai/request.h"

namespace quire {
namespace {

constexpr std::string_view kCallBegin = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kSpace = " \t\r\n";

// Where the text may turn into a marker, with the space in front of it; its size where it cannot.
size_t HeldFrom(std::string_view text, std::string_view marker) {
  size_t from = text.size();
  for (size_t length = std::min(marker.size() - 1, text.size()); length > 0; --length) {
    if (text.ends_with(marker.substr(0, length))) {
      from = text.size() - length;
      break;
    }
  }
  while (from > 0 && kSpace.find(text[from - 1]) != kSpace.npos) --from;
  return from;
}

}  // namespace

ToolDialect ToolDialectOf(const OpenAiRequest& body, std::string_view template_source) {
  if (body.tool_names.empty()) return ToolDialect::kNone;
  return template_source.find(kCallBegin) != std::string_view::npos ? ToolDialect::kHermes
                                                                    : ToolDialect::kJson;
}

ToolDialect ToolDialectOf(const OpenAiRequest& body, const LoadedModel& model) {
  const auto source = model.file().GetStringOr("tokenizer.chat_template", "");
  return ToolDialectOf(body, source.ok() ? *source : std::string_view());
}

ToolCallParser::ToolCallParser(ToolOptions options) : options_(std::move(options)) {
  if (options_.dialect == ToolDialect::kNone) state_ = State::kText;
}

std::vector<ToolDelta> ToolCallParser::Push(std::string_view text) {
  held_ += text;
  return Advance(/*at_end=*/false);
}

std::vector<ToolDelta> ToolCallParser::Finish() { return Advance(/*at_end=*/true); }

std::vector<ToolDelta> ToolCallParser::Advance(bool at_end) {
  std::vector<ToolDelta> deltas;
  bool goes_on = true;
  while (goes_on && !held_.empty()) {
    switch (state_) {
      case State::kStart:
        goes_on = AdvanceStart(at_end);
        break;
      case State::kBare:
        goes_on = AdvanceBare(at_end, deltas);
        break;
      case State::kText:
        goes_on = AdvanceText(at_end, deltas);
        break;
      case State::kCall:
        goes_on = AdvanceCall(at_end, deltas);
        break;
    }
  }
  return deltas;
}

bool ToolCallParser::AdvanceStart(bool at_end) {
  switch (MayBeCalls(held_, options_.names)) {
    case Prospect::kOpen:
      if (!at_end) return false;
      [[fallthrough]];
    case Prospect::kNo:
      state_ = State::kText;
      return true;
    case Prospect::kYes:
      state_ = State::kBare;
      return true;
  }
  return false;
}

bool ToolCallParser::AdvanceBare(bool at_end, std::vector<ToolDelta>& deltas) {
  if (!at_end) return false;
  std::vector<ToolDelta> calls = CallsOfWhole(held_, options_.names);
  if (calls.empty()) {
    state_ = State::kText;
    return true;
  }
  for (ToolDelta& call : calls) EmitCall(std::move(call), deltas);
  held_.clear();
  return false;
}

bool ToolCallParser::AdvanceText(bool at_end, std::vector<ToolDelta>& deltas) {
  if (options_.dialect != ToolDialect::kHermes) {
    EmitText(held_.size(), deltas);
    return false;
  }
  const size_t marker = held_.find(kCallBegin);
  if (marker == std::string::npos) {
    EmitText(at_end ? held_.size() : HeldFrom(held_, kCallBegin), deltas);
    return false;
  }
  // The space in front of the marker is text only where no call follows.
  size_t end = marker;
  while (end > 0 && kSpace.find(held_[end - 1]) != kSpace.npos) --end;
  EmitText(end, deltas);
  call_begin_ = scanned_ = marker - end + kCallBegin.size();
  state_ = State::kCall;
  return true;
}

bool ToolCallParser::AdvanceCall(bool at_end, std::vector<ToolDelta>& deltas) {
  const size_t end = held_.find(kCallEnd, scanned_);
  const bool is_closed = end != std::string::npos;
  if (!is_closed && !at_end) {
    const size_t tail = std::min(held_.size(), kCallEnd.size() - 1);
    scanned_ = std::max(call_begin_, held_.size() - tail);
    return false;
  }
  // An answer that ends without the marker may hold a whole call.
  const std::string_view text = held_;
  const size_t length = is_closed ? end - call_begin_ : text.npos;
  auto call = CallOf(text.substr(call_begin_, length));
  state_ = State::kText;
  if (!call) {
    EmitText(call_begin_, deltas);
    return true;
  }
  EmitCall(*std::move(call), deltas);
  held_.erase(0, is_closed ? end + kCallEnd.size() : held_.size());
  return true;
}

void ToolCallParser::EmitText(size_t num_bytes, std::vector<ToolDelta>& deltas) {
  std::string text = held_.substr(0, num_bytes);
  held_.erase(0, num_bytes);
  if (after_call_) text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
  if (text.empty()) return;
  after_call_ = false;
  deltas.push_back({.text = std::move(text)});
}

void ToolCallParser::EmitCall(ToolDelta call, std::vector<ToolDelta>& deltas) {
  after_call_ = true;
  if (options_.single_call && num_calls_ > 0) return;
  ++num_calls_;
  deltas.push_back(std::move(call));
}

std::string ToolCallId(std::string_view response_id, int choice, int call) {
  const std::string origin = fmt::format("{}/{}/{}", response_id, choice, call);
  return "call_" + ToHex(Sha256().Add(origin).Finish()).substr(0, 24);
}

}  // namespace quire
