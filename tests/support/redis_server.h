// Servers that the Redis tier talks to in tests: the real one, and one that says what a test wants.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kv/tiers/redis/resp_connection.h"
#include "support/scratch_directory.h"

namespace quire::testing {

// redis-server from the PATH, or the program that QUIRE_REDIS_SERVER names, on a unix socket and a
// port of its own, without anything on disk; gone with the object.
class RedisServer {
 public:
  // Where there is none, tests skip.
  static bool IsThere();

  explicit RedisServer(std::vector<std::string> arguments = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::string socket() const { return (directory_.path() / "redis.sock").string(); }
  std::string url() const { return "unix://" + socket(); }
  int port() const { return port_; }
  // credentials: "user:password@", or nothing.
  std::string tcp_url(const std::string& credentials = "") const;

  // Ends it at once, as kill -9 does; Start starts one like it, empty.
  void Kill();
  void Start();
  void Pause();  // it runs no further, and keeps its sockets
  void Continue();

  // What it answers. credentials as above, for one who may ask.
  RespReply Ask(std::initializer_list<std::string_view> words);
  std::vector<std::string> Keys(const std::string& pattern);

 private:
  ScratchDirectory directory_;
  std::vector<std::string> arguments_;
  int port_ = 0;
  pid_t process_ = -1;
};

// A server in this process: `talk` has each connection to itself, in a thread of its own, and the
// connection is closed when it returns.
class ScriptedServer {
 public:
  class Peer {
   public:
    Peer(int socket, const std::atomic<bool>* is_stopping)
        : socket_(socket), is_stopping_(is_stopping) {}
    // Some bytes that came; empty once the other side has closed.
    std::string Read();
    // False where the other side has closed.
    bool Write(std::string_view bytes);
    // Waits so long; false where the server is to stop.
    bool Wait(int ms);

   private:
    int socket_;
    const std::atomic<bool>* is_stopping_;
  };

  explicit ScriptedServer(std::function<void(Peer&)> talk);
  ~ScriptedServer();

  std::string url() const { return "unix://" + socket(); }
  std::string socket() const { return (directory_.path() / "scripted.sock").string(); }
  int num_connections() const { return num_connections_; }

 private:
  void Accept();

  ScratchDirectory directory_;
  std::function<void(Peer&)> talk_;
  int listener_ = -1;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<int> num_connections_ = 0;
  std::vector<std::thread> peers_;  // of the accepting thread
  std::thread accepting_;
};

// A connection to a unix socket.
std::unique_ptr<RespConnection> ConnectTo(const std::string& socket, const RespLimits& limits = {});

inline RespDeadline In(int ms) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
}

}  // namespace quire::testing
