// What is said about a path that nobody answers: which one was meant.
#pragma once

#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/routes/router.h"

namespace quire {

// 404, with a hint for paths of other servers and for base URLs that end too early or too late.
ApiError NoSuchPath(std::string_view path, const std::vector<Route>& routes);

}  // namespace quire
