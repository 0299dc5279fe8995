// The way back to the client of one request.
//
// Either Respond, once; or BeginStream, any number of Writes, EndStream. One that is given up with
// neither answers 500, so that no client waits for ever.
// Any thread, also several in turn; calls of one exchange come one after the other. Nothing blocks:
// bytes that a client is slow to read wait in memory, up to HttpOptions::max_unsent_bytes, beyond
// which the client counts as gone.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "server/http/http_message.h"

namespace quire {

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void Respond(HttpResponse response) = 0;

  // The head of an answer whose body follows in pieces (chunked; to HTTP/1.0 until the connection
  // closes). head.body is the first of them and may be empty.
  virtual void BeginStream(HttpResponse head) = 0;
  virtual void Write(std::string bytes) = 0;
  virtual void EndStream() = 0;

  // Called once, on any thread, when the client has gone before the answer's end; at once where it
  // has gone already; never after the end. Replaces an earlier callback.
  virtual void OnGone(std::function<void()> callback) = 0;

  // Bytes of a stream that wait for the client: whoever would rather leave out than pile up looks
  // here before a Write.
  virtual size_t unsent_bytes() const { return 0; }
};

}  // namespace quire
