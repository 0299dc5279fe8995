// A connection over TCP, plain or with TLS (Boost.Asio).
#pragma once

#include <memory>
#include <string>

#include "server/http/connection.h"

namespace boost::asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace boost::asio

namespace quire {

// Takes the accepted socket. tls: null for none. Null where the socket is of no use any more.
std::shared_ptr<Connection> MakeSocketConnection(boost::asio::io_context& io, int socket,
                                                 boost::asio::ssl::context* tls,
                                                 ConnectionHost& host);

}  // namespace quire
