#include "server/http/listening_sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace quire {
namespace {

constexpr int kMaxPort = 65'535;
constexpr int kPortTries = 16;  // for one that is free on all addresses

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  void SetPort(int port) {
    const auto number = htons(static_cast<uint16_t>(port));
    if (storage.ss_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = number;
    } else {
      reinterpret_cast<sockaddr_in*>(&storage)->sin_port = number;
    }
  }
};

std::string WithoutBrackets(const std::string& host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

Result<std::vector<Address>> Resolve(const std::string& host) {
  // Asking the network for the name "256.1.1.1" would take a while to say the same.
  const bool is_number = host.find_first_not_of("0123456789.") == std::string::npos;
  const bool is_ipv6 = host.find(':') != std::string::npos;
  if (host.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the host to listen on is empty; 127.0.0.1 serves this machine, 0.0.0.0 all");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | (is_number || is_ipv6 ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "host '{}' is neither an address nor a name with one: {}", host,
                     ::gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    Address address{.size = entry->ai_addrlen};
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    const bool is_known =
        std::any_of(addresses.begin(), addresses.end(), [&](const Address& other) {
          return other.size == address.size &&
                 std::memcmp(&other.storage, &address.storage, address.size) == 0;
        });
    if (!is_known) addresses.push_back(address);
  }
  return addresses;
}

// The listening socket, or -1 with errno.
int ListenOn(const Address& address) {
  const int socket =
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int on = 1;
  const int off = 0;
  // A restart need not wait for the connections of before to be forgotten.
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // "::" is everything, IPv4 included, whatever the system's default.
  if (address.storage.ss_family == AF_INET6) {
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 &&
      ::listen(socket, SOMAXCONN) == 0) {
    return socket;
  }
  const int error = errno;
  ::close(socket);
  errno = error;
  return -1;
}

int PortOf(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string_view HintOf(int error) {
  switch (error) {
    case EADDRINUSE:
      return "; another program listens there: stop it or take another port";
    case EACCES:
    case EPERM:
      return "; ports below 1024 usually take rights that this user lacks";
    case EADDRNOTAVAIL:
      return "; it is no address of this machine";
    default:
      return "";
  }
}

}  // namespace

std::string HostAndPort(const std::string& host, int port) {
  const bool needs_brackets = host.find(':') != std::string::npos && host.front() != '[';
  return needs_brackets ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<ListeningSockets> ListeningSockets::Open(const std::string& host, int port) {
  if (port < 0 || port > kMaxPort) {
    return MakeError(ErrorCode::kInvalidArgument, "port {}: ports go from 0 (any) to {}", port,
                     kMaxPort);
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<Address> addresses, Resolve(WithoutBrackets(host)));
  int error = 0;
  for (int attempt = 0; attempt < (port == 0 ? kPortTries : 1); ++attempt) {
    ListeningSockets result;
    result.port_ = port;
    error = 0;
    for (Address& address : addresses) {
      address.SetPort(result.port_);
      const int socket = ListenOn(address);
      if (socket >= 0) {
        result.sockets_.push_back(socket);
        result.port_ = PortOf(socket);
        continue;
      }
      error = errno;
      // A name may have an address of a family that this machine does not have.
      const bool is_absent = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
      if (!is_absent || addresses.size() == 1) break;
    }
    const bool is_absent = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    if (!result.sockets_.empty() && (error == 0 || is_absent)) return result;
    if (error != EADDRINUSE) break;
  }
  return MakeError(ErrorCode::kIo, "cannot listen on {}: {}{}", HostAndPort(host, port),
                   std::strerror(error), HintOf(error));
}

ListeningSockets::ListeningSockets(ListeningSockets&& other) noexcept
    : sockets_(std::exchange(other.sockets_, {})), port_(other.port_) {}

ListeningSockets::~ListeningSockets() {
  for (const int socket : sockets_) ::close(socket);
}

}  // namespace quire
