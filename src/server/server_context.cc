#include "server/server_context.h"

#include <algorithm>
#include <utility>

namespace quire {

bool ServedModel::IsNamed(std::string_view name) const {
  return name == id || std::ranges::find(aliases, name) != aliases.end();
}

void PostReading(ServerContext& context, size_t body_bytes, std::function<void()> task) {
  // So much takes some hundredths of a second to tokenize.
  constexpr size_t kLongBody = size_t{256} << 10;
  if (body_bytes >= kLongBody) {
    context.text.PostLong(std::move(task));
  } else {
    context.text.Post(std::move(task));
  }
}

std::string SaltOf(const Tenant& tenant, std::string_view request_salt) {
  if (tenant.salt.empty() && request_salt.empty()) return "";
  // With its length, so that no two pairs read alike.
  return fmt::format("{}:{}{}", tenant.salt.size(), tenant.salt, request_salt);
}

}  // namespace quire
