#include "server/support/raw_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace quire::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool WaitFor(int socket, short events, milliseconds timeout) {
  ::pollfd poll{.fd = socket, .events = events, .revents = 0};
  return ::poll(&poll, 1, static_cast<int>(timeout.count())) > 0;
}

}  // namespace

RawClient::RawClient(int port, const char* address, int receive_buffer_bytes) {
  const bool is_ipv6 = std::string_view(address).find(':') != std::string_view::npos;
  socket_ = ::socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof(receive_buffer_bytes));
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  int result = -1;
  if (is_ipv6) {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET6, address, &name.sin6_addr);
    result = ::connect(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  } else {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, address, &name.sin_addr);
    result = ::connect(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  }
  if (result != 0) Close();
}

RawClient::~RawClient() { Close(); }

bool RawClient::Send(std::string_view bytes) { return SendSome(bytes, timeout) == bytes.size(); }

size_t RawClient::SendSome(std::string_view bytes, milliseconds limit) {
  const auto end = steady_clock::now() + limit;
  size_t sent = 0;
  while (sent < bytes.size()) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    if (left.count() <= 0 || !WaitFor(socket_, POLLOUT, left)) break;
    const ssize_t count =
        ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count <= 0) break;
    sent += static_cast<size_t>(count);
  }
  return sent;
}

void RawClient::CloseSendingHalf() { ::shutdown(socket_, SHUT_WR); }

void RawClient::Close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void RawClient::Reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  Close();
}

RawClient::Got RawClient::Receive(milliseconds limit) {
  if (!WaitFor(socket_, POLLIN, limit)) return Got::kNothing;
  char buffer[16384];
  const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
  if (count <= 0) return Got::kEnd;
  unread_.append(buffer, static_cast<size_t>(count));
  return Got::kBytes;
}

bool RawClient::Need(size_t count) {
  while (unread_.size() < count) {
    if (Receive(timeout) != Got::kBytes) return false;
  }
  return true;
}

std::optional<std::string> RawClient::ReadLine() {
  size_t end = 0;
  while ((end = unread_.find("\r\n")) == std::string::npos) {
    if (Receive(timeout) != Got::kBytes) return std::nullopt;
  }
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 2);
  return line;
}

std::optional<RawAnswer> RawClient::ReadAnswer(bool is_head) {
  RawAnswer answer;
  auto line = ReadLine();
  if (!line || line->rfind("HTTP/1.1 ", 0) != 0) return std::nullopt;
  answer.status = std::atoi(line->c_str() + 9);
  for (line = ReadLine(); line && !line->empty(); line = ReadLine()) {
    const size_t colon = line->find(": ");
    if (colon == std::string::npos) return std::nullopt;
    answer.headers.emplace_back(line->substr(0, colon), line->substr(colon + 2));
  }
  if (!line) return std::nullopt;
  if (is_head || answer.status < 200 || answer.status == 204) return answer;
  if (answer.header("Transfer-Encoding") == "chunked") {
    while ((line = ReadLine())) {
      const size_t size = std::strtoul(line->c_str(), nullptr, 16);
      if (!Need(size + 2)) return std::nullopt;
      answer.body.append(unread_, 0, size);
      unread_.erase(0, size + 2);
      if (size == 0) return answer;
    }
    return std::nullopt;
  }
  if (FindHeader(answer.headers, "Content-Length") == nullptr) {
    auto rest = ReadToEnd();
    if (!rest) return std::nullopt;
    answer.body = *rest;
    return answer;
  }
  const size_t size = std::strtoul(answer.header("Content-Length").c_str(), nullptr, 10);
  if (!Need(size)) return std::nullopt;
  answer.body = unread_.substr(0, size);
  unread_.erase(0, size);
  return answer;
}

std::string RawClient::ReadBytes(size_t count) {
  Need(count);
  std::string bytes = unread_.substr(0, count);
  unread_.erase(0, bytes.size());
  return bytes;
}

std::optional<std::string> RawClient::ReadToEnd() {
  Got got = Got::kBytes;
  while ((got = Receive(timeout)) == Got::kBytes) {
  }
  if (got == Got::kNothing) return std::nullopt;
  return std::exchange(unread_, {});
}

bool RawClient::IsClosedWithin(milliseconds limit) {
  return unread_.empty() && Receive(limit) == Got::kEnd;
}

bool RawClient::IsSilentFor(milliseconds limit) {
  return unread_.empty() && Receive(limit) == Got::kNothing;
}

std::string MakeRequest(std::string_view method, std::string_view target,
                        std::string_view extra_headers, std::string_view body) {
  std::string request =
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}", method, target, extra_headers);
  if (!body.empty()) request += fmt::format("Content-Length: {}\r\n", body.size());
  return request + "\r\n" + std::string(body);
}

}  // namespace quire::testing
