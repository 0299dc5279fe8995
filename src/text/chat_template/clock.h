// Dates as strftime writes them in the C locale, whatever the process's locale is.
#pragma once

#include <string>
#include <string_view>

#include "text/chat_template/chat_template.h"

namespace quire::jinja {

// %Y %m %d %H %M %S %y %b %B %a %A %j %p %I %e %f %u %w %Z %z %D %F %T %R %c %x %X %n %t %%, and
// "-" for no leading zero. Anything else stays as it is.
std::string FormatTime(const WallClock& time, std::string_view format);

}  // namespace quire::jinja
