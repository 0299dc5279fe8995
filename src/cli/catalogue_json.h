// The text of scripts/models.json, put into a source file by catalogue.cmake.
#pragma once

#include <string_view>

namespace quire {

extern const std::string_view kCatalogueJson;

}  // namespace quire
