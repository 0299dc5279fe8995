// Reads the members of an untrusted JSON object, each with its type and range.
//
//   BodyReader reader(dict);
//   const std::optional<int64_t> n = reader.Int("n", 1, 128);
//   if (reader.error()) return *reader.error();
//
// A member that is null counts as absent. The first fault is kept, with the name of the member as
// `param`; whatever is read after it comes back absent. The object outlives the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "text/chat_template/value.h"

namespace quire {

class BodyReader {
 public:
  explicit BodyReader(const jinja::Dict& body) : body_(&body) {}

  const std::optional<ApiError>& error() const { return error_; }
  // "param MESSAGE"; kept unless there is an earlier fault.
  void Fail(std::string_view param, std::string_view message,
            std::string_view code = "invalid_value");

  // Null where the member is absent.
  const jinja::Value* Find(std::string_view name);
  std::optional<bool> Bool(std::string_view name);
  // A number without a fraction, both ends included; 5.0 is one.
  std::optional<int64_t> Int(std::string_view name, int64_t lowest, int64_t highest);
  std::optional<double> Number(std::string_view name, double lowest, double highest);
  std::optional<std::string> String(std::string_view name);
  const jinja::Dict* Object(std::string_view name);
  const std::vector<jinja::Value>* List(std::string_view name);

  // Members that no one asked for, at most kMaxUnknown, made fit for printing.
  static constexpr size_t kMaxUnknown = 16;
  std::vector<std::string> UnknownMembers() const;

 private:
  const jinja::Value* FindOf(std::string_view name, bool (jinja::Value::*is_kind)() const,
                             std::string_view expected);

  const jinja::Dict* body_;
  std::set<std::string, std::less<>> known_;
  std::optional<ApiError> error_;
};

// The value as an error message shows it: "a string", "an array", 1.5, true.
std::string DescribeJson(const jinja::Value& value);

// A number without a fraction that 64 bits hold.
std::optional<int64_t> WholeNumber(const jinja::Value& value);

}  // namespace quire
