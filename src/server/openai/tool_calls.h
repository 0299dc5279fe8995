// Calls of tools in the text of an answer, told apart from what is said beside them.
//
//   hermes  <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number, text around them
//   json    {"name": ..., "parameters" or "arguments": {...}} as the whole answer: alone, in an
//           array, or several with ';' between; behind <|python_tag|> or in a ``` or ```json fence
//
// The dialect follows the model's template; a hermes answer may have the json form, too, since
// models fall back to it. In the json form the name must be that of an offered tool.
// Invariants:
//   1. The deltas are the same however the text is cut into pieces, texts joined.
//   2. A call is told when it is whole and well-formed: arguments are always a JSON object.
//   3. A marker is never part of a text, unless what it begins is no call: that stays text, as it
//      is. Space between a call and its neighbours is dropped.
// One parser an answer; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

class LoadedModel;
struct OpenAiRequest;

enum class ToolDialect : uint8_t { kNone, kHermes, kJson };

// By what the source of the model's template shows as a call. kNone where the body offers no tools.
ToolDialect ToolDialectOf(const OpenAiRequest& body, std::string_view template_source);
ToolDialect ToolDialectOf(const OpenAiRequest& body, const LoadedModel& model);

struct ToolDelta {
  enum class Kind : uint8_t { kText, kCall };
  Kind kind = Kind::kText;
  std::string text{};       // of a text; not empty
  std::string name{};       // of a call
  std::string arguments{};  // of a call: the JSON text of an object, as the model wrote it
};

struct ToolOptions {
  ToolDialect dialect = ToolDialect::kNone;
  std::vector<std::string> names{};  // of the offered tools
  bool single_call = false;          // later calls are dropped (parallel_tool_calls: false)
};

class ToolCallParser {
 public:
  explicit ToolCallParser(ToolOptions options);

  // What is known for good after this much more of the answer.
  std::vector<ToolDelta> Push(std::string_view text);
  // What was held back; the answer has ended.
  std::vector<ToolDelta> Finish();

  int num_calls() const { return num_calls_; }

 private:
  enum class State : uint8_t { kStart, kBare, kText, kCall };

  std::vector<ToolDelta> Advance(bool at_end);
  // Each looks at held_; true: something was decided, look again.
  bool AdvanceStart(bool at_end);
  bool AdvanceBare(bool at_end, std::vector<ToolDelta>& deltas);
  bool AdvanceText(bool at_end, std::vector<ToolDelta>& deltas);
  bool AdvanceCall(bool at_end, std::vector<ToolDelta>& deltas);
  // Gives out the first bytes of held_.
  void EmitText(size_t num_bytes, std::vector<ToolDelta>& deltas);
  void EmitCall(ToolDelta call, std::vector<ToolDelta>& deltas);

  ToolOptions options_;
  State state_ = State::kStart;
  std::string held_;         // not decided yet
  size_t call_begin_ = 0;    // kCall: of what follows the marker, in held_
  size_t scanned_ = 0;       // kCall: no end marker begins before it
  bool after_call_ = false;  // space that follows is dropped
  int num_calls_ = 0;
};

// The id of a call: "call_" and 24 digits, the same for equal arguments.
std::string ToolCallId(std::string_view response_id, int choice, int call);

}  // namespace quire
