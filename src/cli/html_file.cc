#include "cli/html_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"
#include "cli/posix_file.h"
#include "server/page/page.h"

namespace quire {

Status CheckHtmlFile(const std::filesystem::path& path) {
  constexpr std::string_view kTitle = "<title>Quire</title>";
  const std::string_view page = PageHtml();
  const size_t title = page.find(kTitle);
  QUIRE_CHECK(title != std::string_view::npos, "the page has no title");
  return CheckMayReplace(path, page.substr(0, title + kTitle.size()), "a page of Quire");
}

Status WriteHtmlFile(const std::filesystem::path& path, std::string_view json) {
  QUIRE_RETURN_IF_ERROR(CheckHtmlFile(path));
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0) {
    return MakeError(ErrorCode::kIo, "cannot write {}: {}", path.string(), std::strerror(errno));
  }
  const std::string page = PageWithData(json);
  return WriteOutput(file.fd(), std::as_bytes(std::span(page)), path);
}

}  // namespace quire
