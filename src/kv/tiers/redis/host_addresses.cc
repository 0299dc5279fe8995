#include "kv/tiers/redis/host_addresses.h"

#include <netdb.h>
#include <sys/un.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

namespace quire {
namespace {

constexpr size_t kMaxAddresses = 8;

// flags: AI_NUMERICHOST or 0. Returns what getaddrinfo does.
int LookUp(const std::string& host, uint16_t port, int flags, std::vector<HostAddress>* addresses) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return error;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage) || addresses->size() >= kMaxAddresses) break;
    HostAddress& address = addresses->emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return 0;
}

HostAddress UnixAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  HostAddress result;
  std::memcpy(&result.storage, &address, sizeof(address));
  result.size = sizeof(address);
  return result;
}

}  // namespace

struct HostAddresses::Lookup {
  std::string host;
  uint16_t port = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_running = false;
  int error = 0;
  std::vector<HostAddress> addresses;
};

HostAddresses::HostAddresses(const RedisUrl& url) : lookup_(std::make_shared<Lookup>()) {
  if (url.is_unix()) {
    fixed_ = {UnixAddress(url.path)};
  } else if (LookUp(url.host, url.port, AI_NUMERICHOST, &fixed_) != 0) {
    fixed_.clear();
  }
  lookup_->host = url.host;
  lookup_->port = url.port;
}

Result<std::vector<HostAddress>> HostAddresses::Get(
    std::chrono::steady_clock::time_point deadline) {
  if (!fixed_.empty()) return fixed_;
  std::unique_lock lock(lookup_->mutex);
  if (lookup_->addresses.empty() && !lookup_->is_running) {
    lookup_->is_running = true;
    try {
      std::thread([lookup = lookup_] {
        std::vector<HostAddress> addresses;
        const int error = LookUp(lookup->host, lookup->port, 0, &addresses);
        const std::lock_guard guard(lookup->mutex);
        lookup->addresses = std::move(addresses);
        lookup->error = error;
        lookup->is_running = false;
        lookup->changed.notify_all();
      }).detach();
    } catch (const std::system_error& error) {
      lookup_->is_running = false;
      return MakeError(ErrorCode::kIo, "no thread to look up {}: {}", lookup_->host, error.what());
    }
  }
  const bool is_done =
      lookup_->changed.wait_until(lock, deadline, [this] { return !lookup_->is_running; });
  if (!lookup_->addresses.empty()) return lookup_->addresses;
  return MakeError(ErrorCode::kIo, "the address of {} was not found{}{}", lookup_->host,
                   is_done ? ": " : " in time", is_done ? ::gai_strerror(lookup_->error) : "");
}

void HostAddresses::Forget() {
  const std::lock_guard lock(lookup_->mutex);
  lookup_->addresses.clear();
}

}  // namespace quire
