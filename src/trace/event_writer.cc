// How events are written (trace/event_json.h): by hand, since the engine's thread does it.
#include <cmath>
#include <concepts>
#include <type_traits>

#include "trace/event_fields.h"
#include "trace/event_json.h"
#include "trace/json_text.h"

namespace quire {
namespace {

// Writes the fields of an object whose brace is open.
class Writer {
 public:
  Writer(std::string& text, bool is_first) : text_(text), is_first_(is_first) {}

  void Ms(std::string_view name, double value) {
    Name(name);
    AppendMs(value, text_);
  }
  void Id(std::string_view name, std::integral auto value) {
    Name(name);
    using Wide = std::conditional_t<std::is_signed_v<decltype(value)>, int64_t, uint64_t>;
    AppendJson(static_cast<Wide>(value), text_);
  }
  // What is less than nothing, as blocks available where more are promised, is nothing.
  void Count(std::string_view name, std::integral auto value) {
    if (value > 0) Id(name, value);
  }
  void Index(std::string_view name, std::integral auto value, int usual) {
    if (value != usual) Id(name, value);
  }
  void Real(std::string_view name, std::floating_point auto value) {
    if (value == 0 || !std::isfinite(value)) return;
    Name(name);
    AppendJson(value, text_);
  }
  void Flag(std::string_view name, bool value) {
    if (!value) return;
    Name(name);
    text_ += "true";
  }
  void Text(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    Name(name);
    AppendJson(value, text_);
  }
  template <typename E>
  void Enum(std::string_view name, E value, int) {
    Name(name);
    AppendJson(NameOf(value), text_);
  }
  template <typename T>
  void Each(std::string_view name, const std::vector<T>& values) {
    if (values.empty()) return;
    Name(name);
    text_ += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      text_ += i == 0 ? "{" : ",{";
      Writer writer(text_, /*is_first=*/true);
      trace_fields::Describe(writer, values[i]);
      text_ += '}';
    }
    text_ += ']';
  }

 private:
  void Name(std::string_view name) {
    if (!is_first_) text_ += ',';
    is_first_ = false;
    text_ += '"';
    text_ += name;
    text_ += "\":";
  }

  std::string& text_;
  bool is_first_;
};

}  // namespace

void AppendEventJson(const TraceEvent& event, std::string& text) {
  std::visit(
      [&text](const auto& e) {
        text += R"({"event":")";
        text += trace_fields::NameOf(e);
        text += '"';
        Writer writer(text, /*is_first=*/false);
        if constexpr (std::same_as<decltype(e), const RunEvent&>) {
          writer.Id("version", kTraceVersion);
        }
        trace_fields::Describe(writer, e);
        text += '}';
      },
      event);
}

std::string EventAsJson(const TraceEvent& event) {
  std::string text;
  AppendEventJson(event, text);
  return text;
}

}  // namespace quire
