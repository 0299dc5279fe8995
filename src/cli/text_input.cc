#include "cli/text_input.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace quire {

Result<std::string> ReadTextFile(const std::string& path) {
  const bool is_standard_input = path == "-";
  std::FILE* file = is_standard_input ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}", path,
                     std::strerror(errno));
  }
  std::string text;
  std::array<char, 65536> chunk;
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), file)) {
    text.append(chunk.data(), count);
  }
  const bool failed = std::ferror(file) != 0;
  if (!is_standard_input) std::fclose(file);
  if (failed) return MakeError(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  return text;
}

}  // namespace quire
