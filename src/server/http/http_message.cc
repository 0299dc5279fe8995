#include "server/http/http_message.h"

#include <strings.h>

namespace quire {

const std::string* FindHeader(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [other, value] : headers) {
    if (other.size() == name.size() && ::strncasecmp(other.data(), name.data(), name.size()) == 0) {
      return &value;
    }
  }
  return nullptr;
}

}  // namespace quire
