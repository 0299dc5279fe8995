// How events are read (trace/event_json.h): nothing of a line is trusted.
#include <boost/json.hpp>
#include <cmath>
#include <limits>

#include "trace/event_fields.h"
#include "trace/event_json.h"

namespace quire {
namespace {

namespace json = boost::json;

// An event, its list, an entry of it: what is deeper is no event.
constexpr size_t kMaxDepth = 8;

// Reads the fields of an object that are there; the first that is not what it should be is told.
class Reader {
 public:
  // `place`: "step event" or "lines[3]", for messages.
  Reader(const json::object& object, std::string place)
      : object_(object), place_(std::move(place)) {}

  Status status() const { return status_; }

  void Ms(std::string_view name, double& value) {
    if (Find(name, /*is_required=*/true) != nullptr) ReadReal(name, value);
  }
  void Id(std::string_view name, std::integral auto& value) {
    if (Find(name, /*is_required=*/true) != nullptr) ReadWhole(name, value, 0);
  }
  void Count(std::string_view name, std::integral auto& value) {
    if (Find(name) != nullptr) ReadWhole(name, value, 0);
  }
  void Index(std::string_view name, std::integral auto& value, int) {
    if (Find(name) != nullptr) ReadWhole(name, value, -1);
  }
  void Real(std::string_view name, std::floating_point auto& value) {
    if (Find(name) != nullptr) ReadReal(name, value);
  }
  void Flag(std::string_view name, bool& value) {
    const json::value* found = Find(name);
    if (found == nullptr) return;
    if (!found->is_bool()) return Fail(name, "true or false");
    value = found->get_bool();
  }
  void Text(std::string_view name, std::string& value) {
    const json::value* found = Find(name);
    if (found == nullptr) return;
    if (!found->is_string()) return Fail(name, "a string");
    value = std::string_view(found->get_string());
  }
  template <typename E>
  void Enum(std::string_view name, E& value, int num_values) {
    const json::value* found = Find(name, /*is_required=*/true);
    if (found == nullptr) return;
    if (!found->is_string()) return Fail(name, "a name");
    for (int i = 0; i < num_values; ++i) {
      if (NameOf(static_cast<E>(i)) != std::string_view(found->get_string())) continue;
      value = static_cast<E>(i);
      return;
    }
    Fail(name, "a name that the format knows");
  }
  template <typename T>
  void Each(std::string_view name, std::vector<T>& values) {
    const json::value* found = Find(name);
    if (found == nullptr) return;
    if (!found->is_array()) return Fail(name, "a list");
    const json::array& list = found->get_array();
    for (size_t i = 0; i < list.size() && status_.ok(); ++i) {
      if (!list[i].is_object()) return Fail(fmt::format("{}[{}]", name, i), "an object");
      Reader reader(list[i].get_object(), fmt::format("{}: {}[{}]", place_, name, i));
      trace_fields::Describe(reader, values.emplace_back());
      status_ = reader.status();
    }
  }

 private:
  const json::value* Find(std::string_view name, bool is_required = false) {
    if (!status_.ok()) return nullptr;
    const json::value* found = object_.if_contains(name);
    if (found == nullptr && is_required) {
      status_ = MakeError(ErrorCode::kCorrupt, "{}: '{}' is missing", place_, name);
    }
    return found;
  }

  void ReadReal(std::string_view name, std::floating_point auto& value) {
    const json::value* found = object_.if_contains(name);
    double number = 0;
    if (found->is_double()) {
      number = found->get_double();
    } else if (found->is_int64()) {
      number = static_cast<double>(found->get_int64());
    } else if (found->is_uint64()) {
      number = static_cast<double>(found->get_uint64());
    } else {
      return Fail(name, "a number");
    }
    using Value = std::remove_reference_t<decltype(value)>;
    if (!std::isfinite(number) || std::abs(number) > std::numeric_limits<Value>::max()) {
      return Fail(name, "a number in range");
    }
    value = static_cast<Value>(number);
  }

  template <std::integral T>
  void ReadWhole(std::string_view name, T& value, int least) {
    const json::value* found = object_.if_contains(name);
    if (found->is_int64()) {
      const int64_t number = found->get_int64();
      if (number < least || !std::in_range<T>(number)) return Fail(name, "a number in range");
      value = static_cast<T>(number);
    } else if (found->is_uint64()) {
      const uint64_t number = found->get_uint64();
      if (!std::in_range<T>(number)) return Fail(name, "a number in range");
      value = static_cast<T>(number);
    } else {
      Fail(name, "a whole number");
    }
  }

  void Fail(std::string_view name, std::string_view expected) {
    if (!status_.ok()) return;
    status_ = MakeError(ErrorCode::kCorrupt, "{}: '{}' is not {}", place_, name, expected);
  }

  const json::object& object_;
  std::string place_;
  Status status_;
};

Status CheckVersion(const json::object& object) {
  const json::value* version = object.if_contains("version");
  if (version == nullptr || !version->is_int64() || version->get_int64() < 1) {
    return MakeError(ErrorCode::kCorrupt, "run event: 'version' is missing or no number from 1 on");
  }
  if (version->get_int64() > kTraceVersion) {
    return MakeError(ErrorCode::kUnsupported,
                     "the trace has version {} of the format, this program reads up to {}: a later "
                     "quire wrote it",
                     version->get_int64(), kTraceVersion);
  }
  return {};
}

// Reads an Event where the name is its own.
template <typename Event>
bool ReadAs(std::string_view name, const json::object& object, Result<TraceEvent>& result) {
  Event event;
  if (trace_fields::NameOf(event) != name) return false;
  Reader reader(object, fmt::format("{} event", name));
  trace_fields::Describe(reader, event);
  if (const Status status = reader.status(); status.ok()) {
    result = TraceEvent(std::move(event));
  } else {
    result = status.error();
  }
  return true;
}

}  // namespace

Result<TraceEvent> EventFromJson(std::string_view line) {
  if (line.size() > kMaxEventBytes) {
    return MakeError(ErrorCode::kCorrupt, "an event of {} bytes; at most {} are read", line.size(),
                     kMaxEventBytes);
  }
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::monotonic_resource memory;
  const json::value value = json::parse(line, error, &memory, options);
  if (error) return MakeError(ErrorCode::kCorrupt, "not JSON: {}", error.message());
  const json::object* object = value.if_object();
  const json::value* name = object == nullptr ? nullptr : object->if_contains("event");
  if (name == nullptr || !name->is_string()) {
    return MakeError(ErrorCode::kCorrupt, "not an event: an object with an 'event' is expected");
  }
  const std::string_view event_name = name->get_string();
  if (event_name == "run") QUIRE_RETURN_IF_ERROR(CheckVersion(*object));
  Result<TraceEvent> result =
      MakeError(ErrorCode::kCorrupt, "'{}' is no event that the format knows",
                event_name.substr(0, std::min<size_t>(event_name.size(), 40)));
  ReadAs<RunEvent>(event_name, *object, result) ||
      ReadAs<RequestEvent>(event_name, *object, result) ||
      ReadAs<StepEvent>(event_name, *object, result) ||
      ReadAs<BlockEvent>(event_name, *object, result) ||
      ReadAs<TokenEvent>(event_name, *object, result) ||
      ReadAs<EndEvent>(event_name, *object, result) ||
      ReadAs<DroppedEvent>(event_name, *object, result);
  return result;
}

}  // namespace quire
