// What `quire top` shows of a server: lines of text for a terminal or a log, or one JSON object.
#pragma once

#include <string>
#include <vector>

#include "cli/top/server_look.h"

namespace quire {

struct TopView {
  std::string url{};
  const ServerLook* now = nullptr;
  // The look before, of the same server process; null = none: rates are not known.
  const ServerLook* before = nullptr;
};

// The first line is a title, the second is empty. Lines are meant for 80 columns; the bar takes
// what `columns` leaves.
std::vector<std::string> TopLines(const TopView& view, int columns);
// On one line, without its end.
std::string TopJson(const TopView& view);

}  // namespace quire
