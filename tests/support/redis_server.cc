#include "support/redis_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace quire::testing {
namespace {

constexpr int kStopPollMs = 5;

sockaddr_un AddressOf(const std::string& socket) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  QUIRE_CHECK(socket.size() < sizeof(address.sun_path), "{}", socket);
  std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
  return address;
}

// Path of the program; empty = none.
std::string ServerProgram() {
  if (const char* named = std::getenv("QUIRE_REDIS_SERVER")) return named;
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const size_t colon = folders.find(':');
    const std::string program = std::string(folders.substr(0, colon)) + "/redis-server";
    if (::access(program.c_str(), X_OK) == 0) return program;
    folders.remove_prefix(colon == std::string_view::npos ? folders.size() : colon + 1);
  }
  return {};
}

int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  QUIRE_CHECK(::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0);
  QUIRE_CHECK(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

}  // namespace

std::unique_ptr<RespConnection> ConnectTo(const std::string& socket, const RespLimits& limits) {
  const sockaddr_un address = AddressOf(socket);
  RespFault fault = RespFault::kNone;
  std::string reason;
  return RespConnection::Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address),
                                 limits, In(2000), {}, &fault, &reason);
}

bool RedisServer::IsThere() { return !ServerProgram().empty(); }

RedisServer::RedisServer(std::vector<std::string> arguments)
    : arguments_(std::move(arguments)), port_(FreePort()) {
  Start();
}

RedisServer::~RedisServer() { Kill(); }

std::string RedisServer::tcp_url(const std::string& credentials) const {
  return "redis://" + credentials + "127.0.0.1:" + std::to_string(port_);
}

void RedisServer::Start() {
  std::vector<std::string> words = {ServerProgram(),
                                    "--port",
                                    std::to_string(port_),
                                    "--bind",
                                    "127.0.0.1",
                                    "--unixsocket",
                                    socket(),
                                    "--save",
                                    "",
                                    "--appendonly",
                                    "no",
                                    "--logfile",
                                    (directory_.path() / "log").string(),
                                    "--dir",
                                    directory_.path().string()};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  process_ = ::fork();
  QUIRE_CHECK(process_ >= 0, "fork");
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  for (int tries = 0; tries < 1000; ++tries) {
    if (auto connection = ConnectTo(socket())) {
      RespReply reply;
      connection->Send({"PING"});
      // A server that asks who is there is ready too.
      if (connection->Receive(In(2000), {}, &reply) == RespFault::kNone &&
          !reply.IsError("LOADING")) {
        return;
      }
    }
    ::usleep(10'000);
  }
  QUIRE_CHECK(false, "redis-server did not start:\n{}", ReadFile(directory_.path() / "log"));
}

void RedisServer::Kill() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = -1;
  std::error_code error;
  std::filesystem::remove(socket(), error);
}

void RedisServer::Pause() {
  ::kill(process_, SIGSTOP);
  int status = 0;
  ::waitpid(process_, &status, WUNTRACED);
}

void RedisServer::Continue() { ::kill(process_, SIGCONT); }

RespReply RedisServer::Ask(std::initializer_list<std::string_view> words) {
  RespReply reply;
  auto connection = ConnectTo(socket());
  QUIRE_CHECK(connection != nullptr, "{} does not answer", socket());
  connection->Send(words);
  const RespFault fault = connection->Receive(In(10'000), {}, &reply);
  QUIRE_CHECK(fault == RespFault::kNone, "{}", connection->reason());
  return reply;
}

std::vector<std::string> RedisServer::Keys(const std::string& pattern) {
  std::vector<std::string> keys;
  for (const RespReply& key : Ask({"KEYS", pattern}).elements) keys.push_back(key.text);
  return keys;
}

std::string ScriptedServer::Peer::Read() {
  std::string bytes(size_t{64} << 10, '\0');
  while (!*is_stopping_) {
    pollfd entry = {.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, kStopPollMs) <= 0) continue;
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (count <= 0) return {};
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
  return {};
}

bool ScriptedServer::Peer::Write(std::string_view bytes) {
  while (!bytes.empty() && !*is_stopping_) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd entry = {.fd = socket_, .events = POLLOUT, .revents = 0};
      ::poll(&entry, 1, kStopPollMs);
    } else {
      return false;
    }
  }
  return bytes.empty();
}

bool ScriptedServer::Peer::Wait(int ms) {
  for (; ms > 0 && !*is_stopping_; ms -= kStopPollMs) ::usleep(kStopPollMs * 1000);
  return !*is_stopping_;
}

ScriptedServer::ScriptedServer(std::function<void(Peer&)> talk) : talk_(std::move(talk)) {
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = AddressOf(socket());
  QUIRE_CHECK(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  QUIRE_CHECK(::listen(listener_, 64) == 0);
  accepting_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  is_stopping_ = true;
  accepting_.join();
  for (std::thread& peer : peers_) peer.join();
  ::close(listener_);
}

void ScriptedServer::Accept() {
  while (!is_stopping_) {
    pollfd entry = {.fd = listener_, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, kStopPollMs) <= 0) continue;
    const int socket = ::accept(listener_, nullptr, nullptr);
    if (socket < 0) continue;
    ++num_connections_;
    peers_.emplace_back([this, socket] {
      Peer peer(socket, &is_stopping_);
      talk_(peer);
      ::close(socket);
    });
  }
}

}  // namespace quire::testing
