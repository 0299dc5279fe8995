#include "cli/top/server_link.h"

#include <curl/curl.h>

#include <string_view>

#include "cli/top/server_look.h"
#include "formats/printable.h"

namespace quire {
namespace {

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  void operator()(char* text) const { curl_free(text); }
};

// Empty where the URL has no such part.
std::string PartOf(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  const CURLUcode code = curl_url_get(url, part, &text, 0);
  const std::unique_ptr<char, CurlDeleter> owner(text);
  return code == CURLUE_OK && text != nullptr ? std::string(text) : std::string();
}

bool IsThisMachine(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "[::1]";
}

// An answer on its way.
struct Receipt {
  std::string body{};
  bool is_too_long = false;
  const std::function<bool()>* interrupted = nullptr;

  bool WantsToStop() const { return *interrupted && (*interrupted)(); }
};

size_t OnBody(char* data, size_t size, size_t count, void* opaque) {
  auto* receipt = static_cast<Receipt*>(opaque);
  receipt->is_too_long = receipt->body.size() + size * count > ServerLink::kMaxBodyBytes;
  if (receipt->is_too_long) return 0;
  receipt->body.append(data, size * count);
  return size * count;
}

int OnProgress(void* opaque, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Receipt*>(opaque)->WantsToStop() ? 1 : 0;
}

}  // namespace

struct ServerLink::Handle {
  std::unique_ptr<CURL, CurlDeleter> curl;
  std::unique_ptr<curl_slist, CurlDeleter> headers;
};

Result<std::string> ServerUrlOf(const std::string& text) {
  const std::string whole = text.find("://") == std::string::npos ? "http://" + text : text;
  const std::unique_ptr<CURLU, CurlDeleter> url(curl_url());
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, whole.c_str(), 0);
  const std::string scheme = PartOf(url.get(), CURLUPART_SCHEME);
  if (code != CURLUE_OK || (scheme != "http" && scheme != "https")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "'{}' is no address of a server; expected one such as http://127.0.0.1:8080",
                     Printable(text));
  }
  if (!PartOf(url.get(), CURLUPART_USER).empty() || !PartOf(url.get(), CURLUPART_QUERY).empty() ||
      !PartOf(url.get(), CURLUPART_FRAGMENT).empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the address of a server has no user, query or fragment; a key is given with "
                     "--api-key");
  }
  std::string path = PartOf(url.get(), CURLUPART_PATH);
  while (path.ends_with('/')) path.pop_back();
  if (path.ends_with("/v1")) path.resize(path.size() - 3);
  while (path.ends_with('/')) path.pop_back();
  const std::string port = PartOf(url.get(), CURLUPART_PORT);
  return scheme + "://" + PartOf(url.get(), CURLUPART_HOST) + (port.empty() ? "" : ":" + port) +
         path;
}

ServerLink::ServerLink(ServerAddress address, std::function<bool()> interrupted)
    : address_(std::move(address)),
      interrupted_(std::move(interrupted)),
      handle_(std::make_unique<Handle>()) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised == CURLE_OK) handle_->curl.reset(curl_easy_init());
  CURL* curl = handle_->curl.get();
  if (curl == nullptr) return;
  if (!address_.api_key.empty()) {
    handle_->headers.reset(
        curl_slist_append(nullptr, ("Authorization: Bearer " + address_.api_key).c_str()));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, handle_->headers.get());
  }
  const std::unique_ptr<CURLU, CurlDeleter> url(curl_url());
  curl_url_set(url.get(), CURLUPART_URL, address_.url.c_str(), 0);
  if (IsThisMachine(PartOf(url.get(), CURLUPART_HOST))) curl_easy_setopt(curl, CURLOPT_PROXY, "");
  if (!address_.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, address_.ca_file.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "quire");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectTimeoutSeconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kTimeoutSeconds);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
}

ServerLink::~ServerLink() = default;

Result<std::string> ServerLink::Get(const std::string& path) {
  CURL* curl = handle_->curl.get();
  if (curl == nullptr) return MakeError(ErrorCode::kUnsupported, "libcurl cannot be started");
  Receipt receipt{.interrupted = &interrupted_};
  std::string detail(CURL_ERROR_SIZE, '\0');
  const std::string url = address_.url + path;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail.data());
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &receipt);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &receipt);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  if (receipt.is_too_long) {
    return MakeError(ErrorCode::kCorrupt, "{}: an answer of more than {} bytes; no Quire server's",
                     Printable(url), kMaxBodyBytes);
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return MakeError(ErrorCode::kInterrupted, "{}: stopped", Printable(url));
  }
  if (code != CURLE_OK) {
    const bool is_for_good = code == CURLE_PEER_FAILED_VERIFICATION ||
                             code == CURLE_SSL_CACERT_BADFILE || code == CURLE_URL_MALFORMAT;
    const std::string_view reason = detail.c_str();
    return MakeError(is_for_good ? ErrorCode::kUnsupported : ErrorCode::kIo, "{}: {}",
                     Printable(address_.url),
                     Printable(reason.empty() ? curl_easy_strerror(code) : reason));
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) return Refusal(path, status, receipt.body);
  return std::move(receipt.body);
}

Error ServerLink::Refusal(const std::string& path, long status, const std::string& body) const {
  const std::string message = ErrorMessageIn(body);
  const std::string what = fmt::format("{}: status {} for {}{}{}", Printable(address_.url), status,
                                       path, message.empty() ? "" : ": ", message);
  if (status == 401 || status == 403) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}; give an admin's key with --api-key or in QUIRE_API_KEY", what);
  }
  if (status == 408 || status == 429 || status >= 500) {
    return MakeError(ErrorCode::kIo, "{}", what);
  }
  return MakeError(ErrorCode::kUnsupported, "{}; is it a Quire server?", what);
}

}  // namespace quire
