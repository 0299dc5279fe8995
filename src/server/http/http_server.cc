#include "server/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <ctime>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/thread_name.h"
#include "server/http/connection.h"
#include "server/http/http_wire.h"
#include "server/http/listening_sockets.h"
#include "server/http/network_queue.h"
#include "server/http/socket_connection.h"
#include "server/http/tls_context.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

// Where the system has no descriptor or memory for another connection.
constexpr milliseconds kAcceptPause{50};
constexpr milliseconds kMinTick{5};
constexpr milliseconds kMaxTick{1'000};
// All bodies that are being received together: so many of the longest, at least this much.
constexpr size_t kBodiesAtOnce = 8;
constexpr size_t kMinBodyMemory = size_t{256} << 20;

// An eighth of the shortest time-out: how much late is no matter.
milliseconds TickOf(const HttpOptions& options) {
  const milliseconds shortest = std::min(
      {options.header_timeout, options.body_timeout, options.idle_timeout, options.write_timeout});
  return std::clamp(shortest / 8, kMinTick, kMaxTick);
}

class TcpServer final : public HttpServer, private ConnectionHost {
 public:
  TcpServer(const HttpOptions& options, ListeningSockets sockets,
            std::shared_ptr<asio::ssl::context> tls);
  ~TcpServer() override { Stop(); }

  void Start(HttpHandler handler) override;
  void Drain(std::function<void()> on_drained) override;
  void Stop() override;

  std::string url() const override {
    return fmt::format("{}://{}", tls_ != nullptr ? "https" : "http",
                       HostAndPort(options_.host, port_));
  }
  int port() const override { return port_; }
  HttpCounters counters() const override {
    return {.connections_open = num_open_.load(std::memory_order_relaxed),
            .connections_accepted = num_accepted_.load(std::memory_order_relaxed),
            .requests = num_requests_.load(std::memory_order_relaxed)};
  }
  TaskQueue& network() override { return *queue_; }
  void PostAfter(std::chrono::milliseconds delay, std::function<void()> task) override;

 private:
  struct Listener {
    explicit Listener(asio::io_context& io) : acceptor(io) {}
    tcp::acceptor acceptor;
    bool is_accepting = false;
  };

  const HttpOptions& options() const override { return options_; }
  bool is_draining() const override { return is_draining_; }
  const std::shared_ptr<NetworkQueue>& queue() const override { return queue_; }
  std::string_view date() override;
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  bool TakeBodyBytes(size_t count) override;
  void ReturnBodyBytes(size_t count) override { body_bytes_ -= count; }
  void OnClosed(Connection& connection) override;

  void Accept();
  void OnAccepted(const error_code& error, tcp::socket socket);
  void Add(tcp::socket socket);
  void Tick();
  void RunLaterTasks();
  void AwaitLaterTasks();
  void CloseListeners();
  void TellDrained();
  std::vector<std::shared_ptr<Connection>> Connections() const;

  const HttpOptions options_;
  const int port_;
  const std::shared_ptr<asio::ssl::context> tls_;
  const size_t max_connections_;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::shared_ptr<NetworkQueue> queue_;
  std::thread thread_;
  std::atomic<int64_t> num_open_ = 0;
  std::atomic<int64_t> num_accepted_ = 0;
  std::atomic<int64_t> num_requests_ = 0;

  // The network thread's, from Start on.
  HttpHandler handler_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  asio::steady_timer accept_pause_{io_};
  asio::steady_timer tick_{io_};
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> later_tasks_;
  asio::steady_timer later_{io_};  // expires with the first of them
  bool is_ticking_ = false;
  bool is_draining_ = false;
  bool is_stopped_ = false;
  std::function<void()> on_drained_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  size_t body_bytes_ = 0;  // that are being received, of all connections
  std::time_t date_time_ = 0;
  std::string date_;
};

TcpServer::TcpServer(const HttpOptions& options, ListeningSockets sockets,
                     std::shared_ptr<asio::ssl::context> tls)
    : options_(options),
      port_(sockets.port()),
      tls_(std::move(tls)),
      max_connections_(static_cast<size_t>(options.max_connections)),
      queue_(std::make_shared<NetworkQueue>(
          [this] { asio::post(io_, [queue = queue_.get()] { queue->RunTasks(); }); })) {
  for (const int socket : sockets.Release()) {
    auto listener = std::make_unique<Listener>(io_);
    error_code error;
    // The family matters for what is accepted alone, which is asked for its own.
    listener->acceptor.assign(tcp::v4(), socket, error);
    QUIRE_CHECK(!error, "a listening socket: {}", error.message());
    listeners_.push_back(std::move(listener));
  }
}

void TcpServer::Start(HttpHandler handler) {
  QUIRE_CHECK(!thread_.joinable() && !is_stopped_, "a server starts once");
  handler_ = std::move(handler);
  queue_->Post([this] { Accept(); });
  thread_ = std::thread([this] {
    NameThisThread("quire-net");
    io_.run();
  });
}

void TcpServer::Accept() {
  if (is_draining_ || is_stopped_) return;
  for (const auto& listener : listeners_) {
    if (listener->is_accepting || connections_.size() >= max_connections_) continue;
    listener->is_accepting = true;
    listener->acceptor.async_accept(
        io_, [this, listener = listener.get()](const error_code& error, tcp::socket socket) {
          listener->is_accepting = false;
          OnAccepted(error, std::move(socket));
        });
  }
}

void TcpServer::OnAccepted(const error_code& error, tcp::socket socket) {
  if (is_draining_ || is_stopped_) return;
  if (!error) {
    Add(std::move(socket));
  } else if (error != asio::error::connection_aborted) {
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](const error_code& cancelled) {
      if (!cancelled) Accept();
    });
    return;
  }
  Accept();
}

void TcpServer::Add(tcp::socket socket) {
  error_code error;
  const int descriptor = socket.release(error);
  if (error) return;
  auto connection = MakeSocketConnection(io_, descriptor, tls_.get(), *this);
  if (connection == nullptr) return;
  num_accepted_.fetch_add(1, std::memory_order_relaxed);
  num_open_.fetch_add(1, std::memory_order_relaxed);
  connections_.emplace(connection.get(), connection);
  if (!std::exchange(is_ticking_, true)) Tick();
  connection->Start(tls_ != nullptr);
}

void TcpServer::Tick() {
  if (connections_.empty() || is_stopped_) {
    // An idle server sleeps.
    is_ticking_ = false;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  for (const auto& connection : Connections()) connection->Tick(now);
  tick_.expires_after(TickOf(options_));
  tick_.async_wait([this](const error_code&) { Tick(); });
}

std::vector<std::shared_ptr<Connection>> TcpServer::Connections() const {
  std::vector<std::shared_ptr<Connection>> result;
  result.reserve(connections_.size());
  for (const auto& [key, connection] : connections_) result.push_back(connection);
  return result;
}

std::string_view TcpServer::date() {
  const std::time_t now = std::time(nullptr);
  if (now != date_time_) {
    date_time_ = now;
    date_ = HttpDate(now);
  }
  return date_;
}

void TcpServer::Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  num_requests_.fetch_add(1, std::memory_order_relaxed);
  handler_(std::move(request), std::move(exchange));
}

bool TcpServer::TakeBodyBytes(size_t count) {
  body_bytes_ += count;
  return body_bytes_ <= std::max(kMinBodyMemory, options_.max_body_bytes * kBodiesAtOnce);
}

void TcpServer::OnClosed(Connection& connection) {
  connections_.erase(&connection);
  num_open_.fetch_sub(1, std::memory_order_relaxed);
  Accept();
  TellDrained();
}

void TcpServer::TellDrained() {
  if (!is_draining_ || !connections_.empty() || !on_drained_) return;
  queue_->Post(std::exchange(on_drained_, nullptr));
}

void TcpServer::PostAfter(milliseconds delay, std::function<void()> task) {
  const auto when = std::chrono::steady_clock::now() + delay;
  queue_->Post([this, when, task = std::move(task)]() mutable {
    const auto place = later_tasks_.emplace(when, std::move(task));
    if (place == later_tasks_.begin()) AwaitLaterTasks();
  });
}

void TcpServer::AwaitLaterTasks() {
  if (later_tasks_.empty() || is_stopped_) return;
  later_.expires_at(later_tasks_.begin()->first);
  later_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) RunLaterTasks();
  });
}

void TcpServer::RunLaterTasks() {
  const auto now = std::chrono::steady_clock::now();
  while (!later_tasks_.empty() && later_tasks_.begin()->first <= now) {
    const std::function<void()> task = std::move(later_tasks_.begin()->second);
    later_tasks_.erase(later_tasks_.begin());
    if (!is_stopped_) task();
  }
  AwaitLaterTasks();
}

void TcpServer::CloseListeners() {
  for (const auto& listener : listeners_) {
    error_code ignored;
    listener->acceptor.close(ignored);
  }
  accept_pause_.cancel();
}

void TcpServer::Drain(std::function<void()> on_drained) {
  queue_->Post([this, on_drained = std::move(on_drained)] {
    is_draining_ = true;
    on_drained_ = on_drained;
    CloseListeners();
    for (const auto& connection : Connections()) connection->Drain();
    TellDrained();
  });
}

void TcpServer::Stop() {
  QUIRE_CHECK(thread_.get_id() != std::this_thread::get_id(), "Stop on the network thread");
  if (thread_.joinable()) {
    queue_->Post([this] {
      is_stopped_ = true;
      CloseListeners();
      tick_.cancel();
      later_.cancel();
      work_.reset();  // the thread ends with what is under way, which is cancelled
      for (const auto& connection : Connections()) connection->Close();
    });
    thread_.join();
  }
  is_stopped_ = true;
  queue_->Close();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpOptions& options) {
  if (options.max_connections < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "max_connections is {}: at least 1",
                     options.max_connections);
  }
  std::shared_ptr<asio::ssl::context> tls;
  if (!options.certificate_file.empty() || !options.key_file.empty()) {
    QUIRE_ASSIGN_OR_RETURN(tls, MakeTlsContext(options.certificate_file, options.key_file));
  }
  QUIRE_ASSIGN_OR_RETURN(ListeningSockets sockets,
                         ListeningSockets::Open(options.host, options.port));
  return std::unique_ptr<HttpServer>(
      std::make_unique<TcpServer>(options, std::move(sockets), std::move(tls)));
}

}  // namespace quire
