#include "cli/service_notice.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace quire {

void NotifyServiceManager(std::string_view state) {
  const char* variable = std::getenv("NOTIFY_SOCKET");
  const std::string_view name = variable == nullptr ? "" : variable;
  sockaddr_un address{};
  // A path, or '@' and a name that lives in no directory.
  if (name.empty() || (name[0] != '/' && name[0] != '@')) return;
  if (name.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  // Nobody to tell that nobody was told.
  [[maybe_unused]] const ssize_t sent =
      ::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address), length);
  ::close(socket);
}

}  // namespace quire
