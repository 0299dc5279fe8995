#include "server/http/request_reader.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <utility>

#include "base/check.h"
#include "formats/printable.h"

namespace quire {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// A body's first allocation: what is announced and never sent takes no memory.
constexpr size_t kMaxReserve = size_t{64} << 10;

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view ViewOf(beast::string_view text) { return {text.data(), text.size()}; }

// The path of an absolute target ("http://host/path"); other forms as they are.
std::string_view WithoutOrigin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!EqualsIgnoringCase(target.substr(0, scheme.size()), scheme)) continue;
    const size_t path = target.find_first_of("/?", scheme.size());
    return path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  return target;
}

ApiError Refusal(int status, std::string code, std::string message) {
  ApiError error{.status = status, .message = std::move(message)};
  error.code = std::move(code);
  return error;
}

}  // namespace

// Beast's grammar; what it finds goes into the request as it is found.
class RequestReader::Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(const RequestLimits& limits) : limits_(limits) {
    header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
    body_limit(limits.max_body_bytes);
    eager(false);
  }

  ReadProgress Feed(std::string_view bytes, size_t* used) {
    *used = 0;
    while (!has_begun_ && bytes.substr(*used, 2) == "\r\n") {
      // A line end left over from a body before, as some clients send it.
      if (++num_empty_lines_ > kMaxEmptyLines) return Refuse(400, "only empty lines");
      *used += 2;
    }
    if (!has_begun_ && bytes.substr(*used) == "\r") return ReadProgress::kNeedsMore;
    while (*used < bytes.size()) {
      has_begun_ = true;
      const std::string_view rest = bytes.substr(*used);
      beast::error_code error;
      const size_t taken = put(boost::asio::const_buffer(rest.data(), rest.size()), error);
      *used += taken;
      if (error == http::error::need_more) {
        if (rest.size() - taken < limits_.max_header_bytes + kSlackBytes) break;
        return RefuseLength(rest);
      }
      if (error) return RefuseFor(error, rest);
      if (is_done()) return ReadProgress::kDone;
      if (!has_told_head_ && is_header_done()) {
        has_told_head_ = true;
        return ReadProgress::kHead;
      }
    }
    return ReadProgress::kNeedsMore;
  }

  HttpRequest& request() { return request_; }
  const ApiError& error() const { return error_; }
  bool is_http10() const { return is_http10_; }
  bool expects_continue() const { return expects_continue_; }

 private:
  static constexpr int kMaxEmptyLines = 4;
  static constexpr size_t kSlackBytes = 1024;

  void on_request_impl(http::verb, beast::string_view method, beast::string_view target,
                       int version, beast::error_code&) override {
    is_http10_ = version < 11;
    request_.method = ViewOf(method);
    const std::string_view path = WithoutOrigin(ViewOf(target));
    const size_t query = path.find('?');
    request_.path = path.substr(0, query);
    if (request_.path.empty()) request_.path = "/";
    if (query != std::string_view::npos) request_.query = path.substr(query + 1);
    is_line_read_ = true;
  }

  void on_field_impl(http::field field, beast::string_view name, beast::string_view value,
                     beast::error_code& error) override {
    // Trailers say nothing that anybody here reads.
    if (is_head_read_) return;
    if (field == http::field::transfer_encoding && !EqualsIgnoringCase(ViewOf(value), "chunked")) {
      Fail(501,
           fmt::format("Transfer-Encoding must be chunked, got '{}'", Printable(ViewOf(value), 80)),
           error);
    } else if (field == http::field::transfer_encoding && is_http10()) {
      Fail(400, "HTTP/1.0 knows no Transfer-Encoding", error);
    } else if (field == http::field::host && ++num_hosts_ > 1) {
      Fail(400, "more than one Host header", error);
    } else if (field == http::field::expect && !is_http10()) {
      expects_continue_ = EqualsIgnoringCase(ViewOf(value), "100-continue");
      if (!expects_continue_) {
        Fail(417,
             fmt::format("Expect knows 100-continue alone, got '{}'", Printable(ViewOf(value), 80)),
             error);
      }
    } else {
      request_.headers.emplace_back(ViewOf(name), ViewOf(value));
    }
  }

  void on_header_impl(beast::error_code& error) override {
    is_head_read_ = true;
    if (!is_http10() && num_hosts_ == 0) Fail(400, "HTTP/1.1 asks for a Host header", error);
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>& length,
                         beast::error_code&) override {
    if (length) request_.body.reserve(std::min<size_t>(*length, kMaxReserve));
  }

  std::size_t on_body_impl(beast::string_view bytes, beast::error_code&) override {
    request_.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }

  void on_chunk_header_impl(std::uint64_t, beast::string_view, beast::error_code&) override {}

  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes,
                                 beast::error_code&) override {
    request_.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }

  void on_finish_impl(beast::error_code&) override {}

  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {
    QUIRE_CHECK(false, "a response where requests are read");
  }

  // Ends the parse from within one of its callbacks.
  void Fail(int status, std::string message, beast::error_code& error) {
    Refuse(status, std::move(message));
    error = http::error::bad_value;
  }

  ReadProgress Refuse(int status, std::string message, std::string code = "bad_request") {
    error_ = Refusal(status, std::move(code), std::move(message));
    return ReadProgress::kRefused;
  }

  // More bytes would be needed than a head, or what stands between chunks, may have.
  ReadProgress RefuseLength(std::string_view rest) {
    if (is_head_read_) return Refuse(400, "a chunk's extensions or trailers are too long");
    if (!is_line_read_ && rest.substr(0, limits_.max_header_bytes).find('\n') == rest.npos) {
      return Refuse(
          414, fmt::format("the request line is longer than {} bytes", limits_.max_header_bytes),
          "uri_too_long");
    }
    return Refuse(431,
                  fmt::format("the headers are longer than {} bytes", limits_.max_header_bytes),
                  "headers_too_large");
  }

  ReadProgress RefuseFor(const beast::error_code& error, std::string_view rest) {
    if (!error_.message.empty()) return ReadProgress::kRefused;
    if (error == http::error::header_limit) return RefuseLength(rest);
    if (error == http::error::body_limit) {
      return Refuse(413,
                    fmt::format("the body is longer than {} bytes; send a shorter one, or start "
                                "the server with a higher limit",
                                limits_.max_body_bytes),
                    "body_too_large");
    }
    if (error == http::error::bad_version) {
      return Refuse(505, "HTTP/1.0 and HTTP/1.1 are spoken here", "bad_http_version");
    }
    return Refuse(400, fmt::format("this is not an HTTP request: {}", error.message()));
  }

  RequestLimits limits_;
  HttpRequest request_;
  ApiError error_;
  int num_empty_lines_ = 0;
  int num_hosts_ = 0;
  bool is_http10_ = false;
  bool has_begun_ = false;
  bool is_line_read_ = false;
  bool is_head_read_ = false;
  bool has_told_head_ = false;
  bool expects_continue_ = false;
};

RequestReader::RequestReader(const RequestLimits& limits)
    : parser_(std::make_unique<Parser>(limits)) {}

RequestReader::~RequestReader() = default;

ReadProgress RequestReader::Feed(std::string_view bytes, size_t* used) {
  return parser_->Feed(bytes, used);
}

HttpRequest& RequestReader::request() { return parser_->request(); }
const ApiError& RequestReader::error() const { return parser_->error(); }
bool RequestReader::is_http10() const { return parser_->is_http10(); }
bool RequestReader::keeps_alive() const { return parser_->keep_alive(); }
bool RequestReader::expects_continue() const { return parser_->expects_continue(); }
size_t RequestReader::body_bytes() const { return parser_->request().body.size(); }

}  // namespace quire
