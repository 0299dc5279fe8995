#include "text/chat_template/filters.h"

namespace quire::jinja {

Filter FindFilter(std::string_view name) {
  for (const auto find : {FindTextFilter, FindSequenceFilter, FindSelectionFilter}) {
    if (const Filter filter = find(name)) return filter;
  }
  return nullptr;
}

}  // namespace quire::jinja
