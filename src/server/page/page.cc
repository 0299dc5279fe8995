#include "server/page/page.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/sha256.h"
#include "server/page/page_source.h"

namespace quire {
namespace {

constexpr std::string_view kDataOpening = R"(<script id="quire-data" type="application/json">)";
constexpr std::string_view kClosing = "</script>";

// "'sha256-...'" of every script that a browser runs.
std::string ScriptHashes(std::string_view page) {
  constexpr std::string_view kOpening = "<script";
  std::string hashes;
  for (size_t at = page.find(kOpening); at != std::string_view::npos;
       at = page.find(kOpening, at)) {
    const size_t begin = page.find('>', at) + 1;
    const size_t end = page.find(kClosing, begin);
    if (begin == 0 || end == std::string_view::npos) break;
    const std::string_view opening = page.substr(at, begin - at);
    if (opening.find("application/json") == std::string_view::npos) {
      const Digest digest = Sha256().Add(page.substr(begin, end - begin)).Finish();
      hashes += fmt::format(" 'sha256-{}'", Base64(digest));
    }
    at = end;
  }
  return hashes;
}

}  // namespace

std::string_view PageHtml() { return kPageSource; }

std::string PageWithData(std::string_view json) {
  const std::string_view page = PageHtml();
  const size_t opening = page.find(kDataOpening);
  QUIRE_CHECK(opening != std::string_view::npos, "the page has no place for data");
  const size_t begin = opening + kDataOpening.size();
  std::string saved(page.substr(0, begin));
  for (const char c : json) {
    if (c == '<') {
      saved += "\\u003c";
    } else {
      saved += c;
    }
  }
  saved += page.substr(page.find(kClosing, begin));
  return saved;
}

const std::string& PagePolicy() {
  // Styles that scripts write into elements cannot be named beforehand.
  static const std::string policy = fmt::format(
      "default-src 'none'; script-src{}; style-src 'unsafe-inline'; img-src data: blob:; "
      "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      ScriptHashes(PageHtml()));
  return policy;
}

const std::string& PageTag() {
  static const std::string tag =
      fmt::format("\"{}\"", ToHex(Sha256().Add(PageHtml()).Finish()).substr(0, 32));
  return tag;
}

}  // namespace quire
