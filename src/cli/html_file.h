// The page with data in it, as a file (server/page/page.h).
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace quire {

// kInvalidArgument where the file holds anything but a page that was written before: to be asked
// before there is anything to write.
Status CheckHtmlFile(const std::filesystem::path& path);

// json: a JSON text, with the "view" that the page is to open on. kIo, naming the file, where it
// cannot be written; refuses as CheckHtmlFile does.
Status WriteHtmlFile(const std::filesystem::path& path, std::string_view json);

}  // namespace quire
