// The functions that every template finds: range, dict, namespace, raise_exception, strftime_now.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

// The one mutable value: {% set ns.x = ... %} inside a loop is seen outside of it.
class Namespace : public Object {
 public:
  std::string Describe() const override { return "<Namespace>"; }
  // Null when it is not there.
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

std::optional<Value> FindGlobal(std::string_view name);

}  // namespace quire::jinja
