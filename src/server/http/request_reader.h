// Bytes of a connection to one request: the grammar and the limits of HTTP/1.1 (RFC 9112).
//
// Strict where two readers of one connection could disagree about where a request ends: a body has
// a length or is chunked, never both; lengths agree; no other coding, no bare line ends. What is
// refused comes as an error with its status; the connection is of no use after it.
// One request a reader; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "server/api_error.h"
#include "server/http/http_message.h"

namespace quire {

struct RequestLimits {
  size_t max_header_bytes = 0;  // of the request line and the headers, each
  size_t max_body_bytes = 0;
};

enum class ReadProgress : uint8_t {
  kNeedsMore,  // bytes
  kHead,       // the head is complete and a body follows; told once
  kDone,       // request() is complete
  kRefused,    // error() says why
};

class RequestReader {
 public:
  explicit RequestReader(const RequestLimits& limits);
  ~RequestReader();

  // Reads from the beginning of `bytes`, which continue what was fed and not used before. *used is
  // how many are done with; the rest is to be fed again, with more behind it.
  ReadProgress Feed(std::string_view bytes, size_t* used);

  HttpRequest& request();
  const ApiError& error() const;
  // Valid once the head is complete.
  bool is_http10() const;
  bool keeps_alive() const;
  bool expects_continue() const;
  // Of the body, as far as received.
  size_t body_bytes() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace quire
