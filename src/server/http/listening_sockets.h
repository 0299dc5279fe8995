// Sockets that listen on a host's addresses.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

class ListeningSockets {
 public:
  // host: an IPv4 or IPv6 address (also in brackets) or a name, all of whose addresses are listened
  // on. port 0: any that is free on all of them. A port in use, also by a server on another of the
  // machine's addresses that covers this one, is kIo; nothing is shared.
  static Result<ListeningSockets> Open(const std::string& host, int port);
  ~ListeningSockets();
  ListeningSockets(ListeningSockets&& other) noexcept;
  ListeningSockets& operator=(ListeningSockets&& other) = delete;

  int port() const { return port_; }
  // The sockets, which are the caller's from here on.
  std::vector<int> Release() { return std::move(sockets_); }

 private:
  ListeningSockets() = default;

  std::vector<int> sockets_;
  int port_ = 0;
};

// "127.0.0.1:8080", "[::1]:8080"
std::string HostAndPort(const std::string& host, int port);

}  // namespace quire
