#include "kv/tiers/redis/resp_connection.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"

namespace quire {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

std::string SystemReason(std::string_view what, int error) {
  return fmt::format("{}: {}", what, std::generic_category().message(error));
}

// kNone where the socket is ready for `events`, or where a moment to look at `cancelled` has come.
RespFault Poll(int socket, short events, RespDeadline deadline, const RespCancelled& cancelled,
               short* ready) {
  using std::chrono::milliseconds;
  *ready = 0;
  if (cancelled && cancelled()) return RespFault::kCancelled;
  const auto left = deadline - std::chrono::steady_clock::now();
  if (left.count() <= 0) return RespFault::kTimeout;
  // Rounded up, lest the last millisecond is spent polling; bounded, lest it overflows.
  auto wait = std::min<int64_t>(std::chrono::duration_cast<milliseconds>(left).count() + 1, 60'000);
  if (cancelled) wait = std::min<int64_t>(wait, RespConnection::kCancelPollMs);
  pollfd entry = {.fd = socket, .events = events, .revents = 0};
  if (::poll(&entry, 1, static_cast<int>(wait)) < 0 && errno != EINTR) return RespFault::kLost;
  *ready = entry.revents;
  return RespFault::kNone;
}

RespFault AwaitConnected(int socket, RespDeadline deadline, const RespCancelled& cancelled,
                         std::string* reason) {
  for (;;) {
    short ready = 0;
    const RespFault fault = Poll(socket, POLLOUT, deadline, cancelled, &ready);
    if (fault != RespFault::kNone) {
      *reason =
          fault == RespFault::kTimeout ? "no answer to connect in time" : "gave up connecting";
      return fault;
    }
    if (ready == 0) continue;
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return RespFault::kNone;
    *reason = SystemReason("connect", error);
    return RespFault::kLost;
  }
}

}  // namespace

std::unique_ptr<RespConnection> RespConnection::Connect(
    const sockaddr* address, uint32_t address_bytes, const RespLimits& limits,
    RespDeadline deadline, const RespCancelled& cancelled, RespFault* fault, std::string* reason) {
  const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    *reason = SystemReason("socket", errno);
    *fault = RespFault::kLost;
    return nullptr;
  }
  std::unique_ptr<RespConnection> connection(new RespConnection(socket, limits));
  if (address->sa_family != AF_UNIX) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  }
  *fault = RespFault::kNone;
  if (::connect(socket, address, address_bytes) != 0) {
    if (errno == EINPROGRESS) {
      *fault = AwaitConnected(socket, deadline, cancelled, reason);
    } else {
      *reason = SystemReason("connect", errno);
      *fault = RespFault::kLost;
    }
  }
  return *fault == RespFault::kNone ? std::move(connection) : nullptr;
}

RespConnection::~RespConnection() {
  if (socket_ >= 0) ::close(socket_);
}

RespFault RespConnection::Break(RespFault fault, std::string reason) {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  unsent_.clear();
  fault_ = fault;
  reason_ = std::move(reason);
  return fault;
}

void RespConnection::Send(std::span<const std::string_view> words) {
  if (is_broken()) return;
  std::vector<const char*> starts;
  std::vector<size_t> sizes;
  for (const std::string_view word : words) {
    starts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* text = nullptr;
  const int size =
      redisFormatCommandArgv(&text, static_cast<int>(words.size()), starts.data(), sizes.data());
  QUIRE_CHECK(size > 0 && text != nullptr, "a command of {} words", words.size());
  if (num_pending_ == 0) has_heard_ = false;
  if (sent_bytes_ == unsent_.size()) {
    unsent_.clear();
    sent_bytes_ = 0;
  }
  unsent_.append(text, static_cast<size_t>(size));
  redisFreeCommand(text);
  ++num_pending_;
}

RespFault RespConnection::WriteSome() {
  while (sent_bytes_ < unsent_.size()) {
    const ssize_t count = ::send(socket_, unsent_.data() + sent_bytes_,
                                 unsent_.size() - sent_bytes_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent_bytes_ += static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    // A server that refuses says why before it closes: that is read first.
    if (errno == EPIPE || errno == ECONNRESET) {
      unsent_.clear();
      sent_bytes_ = 0;
      break;
    }
    return Break(RespFault::kLost, SystemReason("send", errno));
  }
  return RespFault::kNone;
}

RespFault RespConnection::ReadSome() {
  std::array<char, kReadBytes> bytes;
  const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) {
    has_heard_ = true;
    reader_.Feed(std::string_view(bytes.data(), static_cast<size_t>(count)));
    return RespFault::kNone;
  }
  if (count == 0) return Break(RespFault::kLost, "the server closed the connection");
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return RespFault::kNone;
  return Break(RespFault::kLost, SystemReason("receive", errno));
}

RespFault RespConnection::Wait(RespDeadline deadline, const RespCancelled& cancelled) {
  const bool has_unsent = sent_bytes_ < unsent_.size();
  short ready = 0;
  const auto events = static_cast<short>(has_unsent ? POLLIN | POLLOUT : POLLIN);
  switch (Poll(socket_, events, deadline, cancelled, &ready)) {
    case RespFault::kNone:
      break;
    case RespFault::kTimeout:
      return Break(RespFault::kTimeout,
                   has_heard_ ? "its answer was not whole in time" : "no answer in time");
    case RespFault::kCancelled:
      return Break(RespFault::kCancelled, "given up");
    default:
      return Break(RespFault::kLost, SystemReason("poll", errno));
  }
  if ((ready & POLLOUT) != 0) {
    if (const RespFault fault = WriteSome(); fault != RespFault::kNone) return fault;
  }
  return (ready & (POLLIN | POLLHUP | POLLERR)) != 0 ? ReadSome() : RespFault::kNone;
}

RespFault RespConnection::Receive(RespDeadline deadline, const RespCancelled& cancelled,
                                  RespReply* reply) {
  if (is_broken()) return fault_;
  QUIRE_CHECK(num_pending_ > 0, "no command waits for a reply");
  // Written before replies that are here already are taken: the server works on the next meanwhile.
  if (const RespFault fault = WriteSome(); fault != RespFault::kNone) return fault;
  for (;;) {
    switch (reader_.Next(reply)) {
      case RespReader::Step::kReply:
        --num_pending_;
        return RespFault::kNone;
      case RespReader::Step::kBroken:
        return Break(RespFault::kProtocol, reader_.reason());
      case RespReader::Step::kNeedsBytes:
        break;
    }
    if (const RespFault fault = Wait(deadline, cancelled); fault != RespFault::kNone) return fault;
  }
}

bool RespConnection::IsIdle() {
  if (is_broken() || num_pending_ > 0 || sent_bytes_ < unsent_.size() || !reader_.IsEmpty()) {
    return false;
  }
  char byte = 0;
  const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace quire
