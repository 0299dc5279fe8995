// The text of docs/openapi.json, compiled in.
#pragma once

#include <string_view>

namespace quire {

extern const std::string_view kOpenApiJson;

}  // namespace quire
