// The arguments of a call, and how a built-in reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Takes arguments in the order of the parameters, then checks that none is left:
//   ArgReader reader("indent", args);
//   const Value width = reader.Take("width", Value::MakeInt(4));
//   QUIRE_RETURN_IF_ERROR(reader.Finish());
// `args` must outlive the reader.
class ArgReader {
 public:
  ArgReader(std::string_view callee, const CallArgs& args) : callee_(callee), args_(args) {}

  // By position, else by name, else the fallback.
  Value Take(std::string_view name, Value fallback);
  // As Take; Finish fails when it is missing.
  Value Need(std::string_view name);
  Status Finish() const;

 private:
  std::string_view callee_;
  const CallArgs& args_;
  size_t next_positional_ = 0;
  size_t named_taken_ = 0;
  std::string missing_;
};

// Readings of an argument; `what` names it in the error.
Result<int64_t> IntOf(const Value& value, std::string_view what);
Result<MarkedString> StringOf(const Value& value, std::string_view what);

}  // namespace quire::jinja
