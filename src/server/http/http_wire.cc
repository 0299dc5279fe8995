#include "server/http/http_wire.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace quire {
namespace {

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  out.append(name);
  out.append(": ");
  const size_t begin = out.size();
  out.append(value);
  for (size_t i = begin; i < out.size(); ++i) {
    if (out[i] == '\r' || out[i] == '\n' || out[i] == '\0') out[i] = ' ';
  }
  out.append("\r\n");
}

}  // namespace

void AppendHead(std::string& out, const HttpResponse& response, const AnswerFraming& framing,
                std::string_view date) {
  const bool has_body = response.status >= 200 && response.status != 204 && response.status != 304;
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", response.status,
                 ReasonOf(response.status));
  AppendHeader(out, "Server", "quire");
  AppendHeader(out, "Date", date);
  if (has_body && !response.content_type.empty()) {
    AppendHeader(out, "Content-Type", response.content_type);
  }
  for (const auto& [name, value] : response.headers) AppendHeader(out, name, value);
  if (!framing.keeps_alive) {
    AppendHeader(out, "Connection", "close");
  } else if (framing.is_http10) {
    AppendHeader(out, "Connection", "keep-alive");
  }
  if (has_body && framing.is_stream && !framing.is_http10) {
    AppendHeader(out, "Transfer-Encoding", "chunked");
  } else if (has_body && !framing.is_stream) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", response.body.size());
  }
  out.append("\r\n");
}

void AppendChunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out.append(bytes);
  out.append("\r\n");
}

std::string HttpDate(std::time_t time) {
  static constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                            "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[parts.tm_wday], parts.tm_mday,
                     kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

}  // namespace quire
