// The page's text, joined by page.cmake and compiled in.
#pragma once

#include <string_view>

namespace quire {

extern const std::string_view kPageSource;

}  // namespace quire
