// What stands behind a path's '?'. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

// "a%2Fb" as "a/b"; a percent sign that begins no byte stays.
std::string PercentDecoded(std::string_view text);

// "a=1&b=x+y" as {a, 1}, {b, x y}, in order, percent-decoded; a name alone has an empty value, and
// what is empty is passed over. Any bytes.
using QueryFields = std::vector<std::pair<std::string, std::string>>;
QueryFields ParseQuery(std::string_view query);

}  // namespace quire
