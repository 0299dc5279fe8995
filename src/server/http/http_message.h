// A request and an answer of HTTP, as plain data, whatever carries them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The value of the first header of this name, any case; null where there is none.
const std::string* FindHeader(const HttpHeaders& headers, std::string_view name);

struct HttpRequest {
  std::string method{};  // "GET"
  std::string path{};    // as sent, up to the first '?': "/v1/models"
  std::string query{};   // after it
  HttpHeaders headers{};
  std::string body{};    // any bytes, within HttpOptions::max_body_bytes
  std::string remote{};  // "127.0.0.1:51234"
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  HttpHeaders headers{};  // beside Content-Type, Content-Length, Connection, Date and Server
};

}  // namespace quire
