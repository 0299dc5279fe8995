#include "server/server_context.h"

#include <algorithm>

namespace quire {

bool ServedModel::IsNamed(std::string_view name) const {
  return name == id || std::ranges::find(aliases, name) != aliases.end();
}

std::string SaltOf(const Tenant& tenant, std::string_view request_salt) {
  if (tenant.salt.empty() && request_salt.empty()) return "";
  // With its length, so that no two pairs read alike.
  return fmt::format("{}:{}{}", tenant.salt.size(), tenant.salt, request_salt);
}

}  // namespace quire
