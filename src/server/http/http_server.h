// HTTP/1.0 and 1.1 over TCP or TLS, one network thread (Boost.Beast and Asio behind it).
//
// Reads requests within limits of size and time, hands each to the handler, writes what comes back.
// What cannot be a request is answered here, in OpenAI's error form: 400, 408, 413, 414, 417, 431,
// 501, 505; and 503 where the bodies that arrive at once are more than memory is meant for.
// Requests that a client sends ahead (pipelining) are read when the one before has its answer.
// A client that closes its sending half while its answer is under way counts as gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http/http_exchange.h"
#include "server/task_queue.h"

namespace quire {

struct HttpOptions {
  std::string host = "127.0.0.1";  // address or name; of several addresses all are listened on
  int port = 8080;                 // 0 = any free one
  std::string certificate_file{};  // PEM chain; with key_file: TLS
  std::string key_file{};
  size_t max_body_bytes = size_t{16} << 20;
  size_t max_header_bytes = size_t{32} << 10;
  int max_connections = 4096;  // further ones wait in the system's queue
  size_t max_unsent_bytes = size_t{4} << 20;
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte to the end of the head
  std::chrono::milliseconds body_timeout{60'000};    // to receive the whole body
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests of one connection
  std::chrono::milliseconds write_timeout{60'000};   // without the client taking a byte
};

struct HttpCounters {
  int64_t connections_open = 0;
  int64_t connections_accepted = 0;
  int64_t requests = 0;
};

// Called on the network thread: quick, or it delays everybody.
using HttpHandler =
    std::function<void(HttpRequest request, std::shared_ptr<HttpExchange> exchange)>;

class HttpServer {
 public:
  // Listens; connections wait until Start. kIo, naming the address and the reason, where it cannot;
  // kInvalidArgument for an address or port that is none, kNotFound and kCorrupt for TLS files.
  static Result<std::unique_ptr<HttpServer>> Listen(const HttpOptions& options);
  virtual ~HttpServer() = default;  // Stop

  virtual void Start(HttpHandler handler) = 0;
  // Takes no further connection and no further request; connections close as they become idle.
  // on_drained is called on the network thread when the last one has. Any thread.
  virtual void Drain(std::function<void()> on_drained) = 0;
  // Closes everything and waits for the network thread. Any thread but that.
  virtual void Stop() = 0;

  // "http://127.0.0.1:8080"
  virtual std::string url() const = 0;
  virtual int port() const = 0;
  virtual HttpCounters counters() const = 0;
  // Runs tasks on the network thread, in order.
  virtual TaskQueue& network() = 0;
  // Runs a task on the network thread once so much time has passed. Any thread; dropped by Stop.
  virtual void PostAfter(std::chrono::milliseconds delay, std::function<void()> task) = 0;
};

}  // namespace quire
