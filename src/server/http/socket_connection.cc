#include "server/http/socket_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <type_traits>
#include <utility>

#include "server/http/listening_sockets.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using TlsStream = asio::ssl::stream<tcp::socket>;

// A client that vanishes without a word (no power, no network) is noticed by the kernel: when it
// has not taken bytes for the write time-out, or has not answered probes.
void SetOptions(int socket, std::chrono::milliseconds write_timeout) {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(std::clamp<int64_t>(write_timeout.count(), 1'000, 3'600'000)));
}

template <typename Stream>
class SocketConnection final : public Connection {
 public:
  SocketConnection(Stream stream, std::string remote, ConnectionHost& host)
      : Connection(host, std::move(remote)), stream_(std::move(stream)) {}

 private:
  static constexpr bool kIsTls = std::is_same_v<Stream, TlsStream>;

  std::shared_ptr<SocketConnection> Self() {
    return std::static_pointer_cast<SocketConnection>(shared_from_this());
  }

  tcp::socket& socket() {
    if constexpr (kIsTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  static ReadResult ResultOf(const error_code& error) {
    if (!error) return ReadResult::kBytes;
    const bool is_end = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    return is_end ? ReadResult::kEnd : ReadResult::kLost;
  }

  void StartHandshake() override {
    if constexpr (kIsTls) {
      stream_.async_handshake(
          asio::ssl::stream_base::server,
          [self = Self()](const error_code& error) { self->OnHandshake(!error); });
    }
  }

  void StartRead(char* data, size_t size) override {
    const asio::mutable_buffer buffer(data, size);
    if (kIsTls && is_tls_over_) {
      return socket().async_read_some(buffer, [self = Self()](const error_code& error, size_t n) {
        self->OnRead(ResultOf(error), n);
      });
    }
    stream_.async_read_some(buffer, [self = Self()](const error_code& error, size_t n) {
      // What TLS says after our farewell is no news; the socket's own end is still to come.
      if (kIsTls && self->is_tls_over_) return self->OnRead(ReadResult::kBytes, 0);
      self->OnRead(ResultOf(error), n);
    });
  }

  void StartWrite(std::string_view bytes) override {
    stream_.async_write_some(
        asio::const_buffer(bytes.data(), bytes.size()),
        [self = Self()](const error_code& error, size_t n) { self->OnWrite(!error, n); });
  }

  void StartShutdown() override {
    if constexpr (kIsTls) {
      // As if the client's farewell had come: ours is sent and nobody waits for an answer to it.
      is_tls_over_ = true;
      ::SSL_set_shutdown(stream_.native_handle(), SSL_RECEIVED_SHUTDOWN);
      stream_.async_shutdown([self = Self()](const error_code&) { self->EndSending(); });
    } else {
      EndSending();
    }
  }

  void EndSending() {
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    OnShutdown();
  }

  void CloseSocket() override {
    error_code ignored;
    socket().close(ignored);
  }

  bool IsPeerGone() const override {
    ::pollfd poll{.fd = const_cast<SocketConnection*>(this)->socket().native_handle(),
                  .events = POLLRDHUP,
                  .revents = 0};
    return ::poll(&poll, 1, 0) > 0;
  }

  Stream stream_;
  bool is_tls_over_ = false;
};

}  // namespace

std::shared_ptr<Connection> MakeSocketConnection(asio::io_context& io, int descriptor,
                                                 asio::ssl::context* tls, ConnectionHost& host) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  tcp::socket socket(io);
  error_code error;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ::close(descriptor);
    return nullptr;
  }
  socket.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), descriptor, error);
  if (error) {
    ::close(descriptor);
    return nullptr;
  }
  SetOptions(descriptor, host.options().write_timeout);
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return nullptr;
  std::string name = HostAndPort(remote.address().to_string(), remote.port());
  if (tls == nullptr) {
    return std::make_shared<SocketConnection<tcp::socket>>(std::move(socket), std::move(name),
                                                           host);
  }
  return std::make_shared<SocketConnection<TlsStream>>(TlsStream(std::move(socket), *tls),
                                                       std::move(name), host);
}

}  // namespace quire
