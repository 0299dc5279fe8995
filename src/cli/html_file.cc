#include "cli/html_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cli/posix_file.h"
#include "server/page/page.h"

namespace quire {

Status WriteHtmlFile(const std::filesystem::path& path, std::string_view json) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0) {
    return MakeError(ErrorCode::kIo, "cannot write {}: {}", path.string(), std::strerror(errno));
  }
  const std::string page = PageWithData(json);
  return WriteAll(file.fd(), std::as_bytes(std::span(page)), path);
}

}  // namespace quire
