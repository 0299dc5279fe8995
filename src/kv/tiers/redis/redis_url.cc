#include "kv/tiers/redis/redis_url.h"

#include <sys/un.h>

#include <charconv>
#include <optional>

namespace quire {
namespace {

constexpr std::string_view kForm =
    "redis://[user[:password]@]host[:port][/db] or unix://[user[:password]@]/path[?db=N]";

template <typename... Args>
Error Bad(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kInvalidArgument, "the URL of the Redis tier: {}; expected {}",
                   fmt::format(format, std::forward<Args>(args)...), kForm);
}

int HexValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexValue(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexValue(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::optional<int> ParseNumber(std::string_view text, int min, int max) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < min || value > max) return std::nullopt;
  return value;
}

Status ReadUser(std::string_view text, RedisUrl* url) {
  const size_t colon = text.find(':');
  const auto user = PercentDecoded(text.substr(0, colon));
  const auto password =
      colon == std::string_view::npos ? std::string() : PercentDecoded(text.substr(colon + 1));
  if (!user || !password) return Bad("a '%' in user or password is not followed by two hex digits");
  if (!user->empty() && password->empty()) return Bad("a user without a password");
  url->user = *user;
  url->password = *password;
  return {};
}

Status ReadDb(std::string_view text, RedisUrl* url) {
  const auto db = ParseNumber(text, 0, kMaxRedisDb);
  if (!db) return Bad("the database is not a number from 0 to {}", kMaxRedisDb);
  url->db = *db;
  return {};
}

Status ReadHost(std::string_view text, RedisUrl* url) {
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Bad("'[' without ']'");
    url->host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (!text.empty() && text[0] != ':') return Bad("only a port may follow ']'");
    port = text;
  } else {
    const size_t colon = text.find(':');
    url->host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon);
    if (port.find(':', 1) != std::string_view::npos) {
      return Bad("an IPv6 address goes in brackets");
    }
  }
  if (url->host.empty()) return Bad("no host");
  for (const char c : url->host) {
    if (c <= ' ' || c > '~') return Bad("the host holds a byte that no host name has");
  }
  if (port.empty()) return {};
  const auto number = ParseNumber(port.substr(1), 1, 65'535);
  if (!number) return Bad("the port is not a number from 1 to 65535");
  url->port = static_cast<uint16_t>(*number);
  return {};
}

Status ReadSocket(std::string_view text, RedisUrl* url) {
  const size_t question = text.find('?');
  const auto path = PercentDecoded(text.substr(0, question));
  if (!path || path->empty() || (*path)[0] != '/' || path->find('\0') != std::string::npos) {
    return Bad("the socket is not an absolute path");
  }
  constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
  if (path->size() > kMaxPath) {
    return Bad("the path of the socket has {} bytes, the system allows {}", path->size(), kMaxPath);
  }
  url->path = *path;
  if (question == std::string_view::npos) return {};
  const std::string_view query = text.substr(question + 1);
  if (!query.starts_with("db=")) return Bad("after '?' only db=N is read");
  return ReadDb(query.substr(3), url);
}

std::string Shown(const RedisUrl& url) {
  const std::string user = url.user.empty() ? "" : url.user + "@";
  if (url.is_unix()) {
    return fmt::format("unix://{}{}{}", user, url.path,
                       url.db == 0 ? "" : fmt::format("?db={}", url.db));
  }
  const bool has_colon = url.host.find(':') != std::string::npos;
  return fmt::format("redis://{}{}{}{}:{}/{}", user, has_colon ? "[" : "", url.host,
                     has_colon ? "]" : "", url.port, url.db);
}

}  // namespace

Result<RedisUrl> ParseRedisUrl(std::string_view text) {
  const size_t mark = text.find("://");
  if (mark == std::string_view::npos) return Bad("no scheme");
  const std::string_view scheme = text.substr(0, mark);
  if (scheme == "rediss" || scheme == "valkeys") {
    return MakeError(ErrorCode::kUnsupported,
                     "the URL of the Redis tier: {}:// asks for TLS, which is not spoken here; run "
                     "a TLS proxy (stunnel, ghostunnel, socat) beside Quire and name its local "
                     "address with redis:// or unix://",
                     scheme);
  }
  const bool is_unix = scheme == "unix";
  if (!is_unix && scheme != "redis" && scheme != "valkey") {
    return Bad("a scheme that is not read here");
  }
  text.remove_prefix(mark + 3);
  RedisUrl url;
  // A password may hold '@' only encoded, but a path may hold one as it is.
  const size_t slash = text.find('/');
  const size_t at = text.substr(0, slash).rfind('@');
  if (at != std::string_view::npos) {
    QUIRE_RETURN_IF_ERROR(ReadUser(text.substr(0, at), &url));
    text.remove_prefix(at + 1);
  }
  if (is_unix) {
    QUIRE_RETURN_IF_ERROR(ReadSocket(text, &url));
  } else {
    const size_t path = text.find('/');
    QUIRE_RETURN_IF_ERROR(ReadHost(text.substr(0, path), &url));
    if (path != std::string_view::npos && path + 1 < text.size()) {
      QUIRE_RETURN_IF_ERROR(ReadDb(text.substr(path + 1), &url));
    }
  }
  url.shown = Shown(url);
  return url;
}

}  // namespace quire
