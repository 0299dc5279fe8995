// GETs from one server, one after the other over a connection that stays open.
//
// Bounded: kMaxBodyBytes of an answer, kTimeoutSeconds for it. Follows no redirect, so that a key
// never leaves for another host, and uses no proxy for a server of this machine. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace quire {

struct ServerAddress {
  std::string url{};      // "http://127.0.0.1:8080", without a slash or "/v1" at the end
  std::string api_key{};  // empty = none
  std::string ca_file{};  // certificates to trust in place of the system's; empty = those
};

// A URL as people write it: the scheme may be left out, a slash or "/v1" stand at the end.
// kInvalidArgument for another scheme, a user name, a query, or what is no URL.
Result<std::string> ServerUrlOf(const std::string& text);

class ServerLink {
 public:
  static constexpr size_t kMaxBodyBytes = size_t{8} << 20;
  static constexpr long kConnectTimeoutSeconds = 5;
  static constexpr long kTimeoutSeconds = 10;

  // `interrupted` is asked while an answer is awaited, about once a second at least.
  ServerLink(ServerAddress address, std::function<bool()> interrupted);
  ~ServerLink();
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;

  // The body of GET PATH. kIo for what may be over in a while (no connection, a timeout, a status
  // of 408, 429 or 5xx), kInterrupted; kInvalidArgument for a key that is refused, kUnsupported and
  // kCorrupt for what is no Quire server: they name the address and say what to do.
  Result<std::string> Get(const std::string& path);

  const ServerAddress& address() const { return address_; }

 private:
  struct Handle;  // libcurl's

  Error Refusal(const std::string& path, long status, const std::string& body) const;

  ServerAddress address_;
  std::function<bool()> interrupted_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace quire
