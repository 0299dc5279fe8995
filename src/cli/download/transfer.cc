#include "cli/download/transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>

#include "formats/printable.h"

namespace quire {
namespace {

constexpr long kMaxRedirects = 8;
constexpr long kConnectTimeoutSeconds = 30;

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n";
  const size_t first = text.find_first_not_of(kWhite);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhite) + 1 - first);
}

std::string_view Unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// One transfer as libcurl's callbacks see it.
class Receiver {
 public:
  Receiver(CURL* curl, const TransferSinks& sinks) : curl_(curl), sinks_(sinks) {}

  void TakeHeader(std::string_view line) {
    if (line.starts_with("HTTP/")) {
      // Another answer: after a redirect, or after 100.
      std::string sha256 = std::move(head_.sha256);
      head_ = {.sha256 = std::move(sha256)};
      return;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string name = Lower(Trimmed(line.substr(0, colon)));
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (name == "content-length") head_.body_bytes = ParseNumber(value);
    if (name == "content-range") TakeContentRange(value);
    if (name == "etag" && !value.starts_with("W/")) head_.validator = value;
    if (name == "content-encoding" && Lower(value) != "identity") head_.is_encoded = true;
    if (name == "retry-after") {
      head_.retry_after_s =
          static_cast<int>(std::min<uint64_t>(ParseNumber(value).value_or(0), 60));
    }
    // The first that is told: by the hub itself, not by where it redirects to.
    if (name == "x-linked-etag" && head_.sha256.empty() && IsSha256(Lower(Unquoted(value)))) {
      head_.sha256 = Lower(Unquoted(value));
    }
  }

  size_t TakeBytes(std::span<const std::byte> bytes) {
    if (!EnsureHead()) return 0;
    status_ = sinks_.on_bytes(bytes);
    return status_.ok() ? bytes.size() : 0;
  }

  // Hands the head on, once. A file may have no byte at all.
  bool EnsureHead() {
    if (is_head_told_) return status_.ok();
    is_head_told_ = true;
    long code = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &code);
    head_.status = static_cast<int>(code);
    if (head_.status == 200) head_.total_bytes = head_.body_bytes;
    status_ = sinks_.on_head(head_);
    return status_.ok();
  }

  bool WantsToStop() const { return sinks_.interrupted && sinks_.interrupted(); }
  const Status& status() const { return status_; }

 private:
  // "bytes 200-1000/67589"
  void TakeContentRange(std::string_view value) {
    if (!value.starts_with("bytes ")) return;
    value.remove_prefix(6);
    const size_t dash = value.find('-');
    const size_t slash = value.find('/');
    if (dash == std::string_view::npos || slash == std::string_view::npos) return;
    head_.first_byte = ParseNumber(value.substr(0, dash));
    head_.total_bytes = ParseNumber(value.substr(slash + 1));
  }

  CURL* curl_;
  const TransferSinks& sinks_;
  TransferHead head_{};
  bool is_head_told_ = false;
  Status status_;
};

size_t OnHeader(char* data, size_t size, size_t count, void* receiver) {
  static_cast<Receiver*>(receiver)->TakeHeader({data, size * count});
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* receiver) {
  return static_cast<Receiver*>(receiver)->TakeBytes(
      std::as_bytes(std::span<const char>(data, size * count)));
}

// Faults that a second attempt meets again.
bool IsForGood(CURLcode code) {
  return code == CURLE_TOO_MANY_REDIRECTS || code == CURLE_UNSUPPORTED_PROTOCOL ||
         code == CURLE_URL_MALFORMAT || code == CURLE_PEER_FAILED_VERIFICATION ||
         code == CURLE_SSL_CACERT_BADFILE;
}

int OnProgress(void* receiver, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Receiver*>(receiver)->WantsToStop() ? 1 : 0;
}

}  // namespace

Status Transfer(const TransferRequest& request, const TransferSinks& sinks) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  if (initialised != CURLE_OK || !curl) {
    return MakeError(ErrorCode::kIo, "libcurl cannot be started");
  }
  Receiver receiver(curl.get(), sinks);
  std::string error(CURL_ERROR_SIZE, '\0');
  curl_slist* lines = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (!request.bearer_token.empty()) {
    lines = curl_slist_append(lines, ("Authorization: Bearer " + request.bearer_token).c_str());
  }
  std::string range;
  if (request.offset > 0) {
    range = fmt::format("{}-", request.offset);
    lines = curl_slist_append(lines, ("If-Range: " + request.if_range).c_str());
    curl_easy_setopt(curl.get(), CURLOPT_RANGE, range.c_str());
  }
  const std::unique_ptr<curl_slist, CurlDeleter> headers(lines);
  const bool is_secure = request.url.starts_with("https://");
  curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "quire");
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, error.data());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, kMaxRedirects);
  // What was asked for in secret is never fetched in the open.
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, is_secure ? "https" : "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectTimeoutSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout_s));
  curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &receiver);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &receiver);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &receiver);

  const CURLcode code = curl_easy_perform(curl.get());
  if (receiver.WantsToStop()) {
    return MakeError(ErrorCode::kInterrupted, "{}: stopped", Printable(request.url));
  }
  if (!receiver.status().ok()) return receiver.status();
  if (code != CURLE_OK) {
    const std::string_view detail = error.c_str();
    return MakeError(IsForGood(code) ? ErrorCode::kUnsupported : ErrorCode::kIo, "{}: {}",
                     Printable(request.url), detail.empty() ? curl_easy_strerror(code) : detail);
  }
  receiver.EnsureHead();
  return receiver.status();
}

}  // namespace quire
