#include "cli/terminal_input.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "cli/interrupt.h"

namespace quire {
namespace {

constexpr std::string_view kPasteBegin = "\x1b[200~";
constexpr std::string_view kPasteEnd = "\x1b[201~";

void Show(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Erase(std::string& text, std::string_view marker) {
  for (size_t at; (at = text.find(marker)) != std::string::npos;) text.erase(at, marker.size());
}

}  // namespace

TerminalInput::TerminalInput() {
  termios settings;
  if (!::isatty(STDIN_FILENO) || ::tcgetattr(STDIN_FILENO, &settings) != 0) return;
  saved_ = settings;
  // Paste markers are echoed as they are, which terminals ignore, and not spelled out as ^[[200~.
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHOCTL);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &settings);
  Show("\x1b[?2004h");
}

TerminalInput::~TerminalInput() {
  if (!saved_) return;
  Show("\x1b[?2004l");
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*saved_);
}

std::optional<std::string> TerminalInput::ReadLine() {
  for (;;) {
    if (const size_t end = buffered_.find('\n'); end != std::string::npos) {
      std::string line = buffered_.substr(0, end + 1);
      buffered_.erase(0, end + 1);
      return line;
    }
    std::array<char, 4096> chunk;
    const ssize_t count = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (count > 0) {
      buffered_.append(chunk.data(), static_cast<size_t>(count));
      continue;
    }
    if (count < 0 && !Interrupted()) continue;
    if (count < 0 || buffered_.empty()) return std::nullopt;
    return std::exchange(buffered_, {}) + '\n';
  }
}

TerminalInput::Read TerminalInput::ReadMessage(std::string_view prompt) {
  Show(prompt);
  std::string text;
  for (;;) {
    const std::optional<std::string> line = ReadLine();
    if (!line) {
      buffered_.clear();
      const bool interrupted = Interrupted();
      ClearInterrupt();
      return {interrupted ? Outcome::kInterrupted : Outcome::kEnd, {}};
    }
    text += *line;
    const size_t begin = text.rfind(kPasteBegin);
    const size_t end = text.rfind(kPasteEnd);
    const bool inside_paste =
        begin != std::string::npos && (end == std::string::npos || end < begin);
    if (!inside_paste) break;
  }
  Erase(text, kPasteBegin);
  Erase(text, kPasteEnd);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return {Outcome::kLine, std::move(text)};
}

}  // namespace quire
