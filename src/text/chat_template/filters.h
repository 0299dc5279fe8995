// The filters: {{ value | name(arguments) }}.
#pragma once

#include <string_view>
#include <utility>

#include "base/result.h"
#include "text/chat_template/call_args.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

using Filter = Result<Value> (*)(const Value& input, const CallArgs& args, RenderState& state);
using FilterEntry = std::pair<std::string_view, Filter>;

// Null when there is none of that name.
Filter FindFilter(std::string_view name);

// A room's part of the table.
Filter FindTextFilter(std::string_view name);       // text_filters.cc
Filter FindSequenceFilter(std::string_view name);   // sequence_filters.cc
Filter FindSelectionFilter(std::string_view name);  // selection_filters.cc

// Null unless the table holds the name.
template <typename Table>
Filter FindIn(const Table& table, std::string_view name) {
  for (const auto& [key, filter] : table) {
    if (key == name) return filter;
  }
  return nullptr;
}

}  // namespace quire::jinja
