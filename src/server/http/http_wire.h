// The bytes of an answer: status line, headers, chunks.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace quire {

// How an answer's end is told, which the request decides.
struct AnswerFraming {
  bool is_http10 = false;
  bool is_head = false;     // the headers alone
  bool is_stream = false;   // the body follows in chunks; to HTTP/1.0 until the connection closes
  bool keeps_alive = true;  // another request may follow
};

// Status line, headers and the empty line. A header's value has no way to begin another header:
// line ends in it become spaces.
void AppendHead(std::string& out, const HttpResponse& response, const AnswerFraming& framing,
                std::string_view date);

// One chunk; nothing for no bytes, since an empty chunk is the end.
void AppendChunk(std::string& out, std::string_view bytes);

inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
std::string HttpDate(std::time_t time);

}  // namespace quire
