#include "cli/top/full_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "cli/interrupt.h"

namespace quire {
namespace {

// Alternate screen, no cursor, no wrapping at the edge; and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr char kCtrlC = '\x03';
constexpr std::array kEndings = {SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS};

// What a signal handler has to put back.
termios saved_settings;
std::atomic<bool> is_resized{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void WriteTerminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

// Calls nothing that a signal handler may not.
void Leave() {
  WriteTerminal(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_settings);
}

void OnEnding(int signal) {
  Leave();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void OnResize(int) { is_resized = true; }

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

winsize SizeOfTerminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

// As many whole characters as fit; every character counts as one column.
std::string_view CutTo(std::string_view line, size_t columns) {
  size_t bytes = 0;
  for (; columns > 0 && bytes < line.size(); --columns) {
    bytes += static_cast<size_t>(FirstCharacter(line.substr(bytes)).num_bytes);
  }
  return line.substr(0, bytes);
}

}  // namespace

bool FullScreen::IsPossible() {
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return !is_dumb && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

FullScreen::FullScreen() {
  ::tcgetattr(STDIN_FILENO, &saved_settings);
  termios settings = saved_settings;
  // Keys come at once, unseen, and Ctrl-C is one of them.
  settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  settings.c_cc[VMIN] = 0;
  settings.c_cc[VTIME] = 0;
  // First the way back.
  for (const int signal : kEndings) Handle(signal, OnEnding);
  Handle(SIGWINCH, OnResize);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings);
  WriteTerminal(kEnter);
}

FullScreen::~FullScreen() {
  Leave();
  for (const int signal : kEndings) std::signal(signal, SIG_DFL);
  std::signal(SIGWINCH, SIG_DFL);
}

int FullScreen::columns() const { return SizeOfTerminal().ws_col; }

void FullScreen::Draw(const std::vector<std::string>& lines) {
  const winsize size = SizeOfTerminal();
  const size_t num_lines = std::min<size_t>(lines.size(), size.ws_row);
  // In one piece, over what is there: no flicker.
  std::string frame = "\x1b[H";
  for (size_t i = 0; i < num_lines; ++i) {
    const bool is_last = i + 1 == num_lines;
    // Erased before it is written: behind a line that fills the screen the cursor stands on its
    // end.
    frame += is_last ? "\x1b[J" : "\x1b[2K";
    if (i == 0) frame += "\x1b[1m";
    frame += CutTo(lines[i], size.ws_col);
    if (i == 0) frame += "\x1b[0m";
    if (!is_last) frame += "\r\n";
  }
  WriteTerminal(frame);
}

bool FullScreen::ReadKeys() {
  std::array<char, 64> keys;
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count < 0) return errno != EINTR && errno != EAGAIN;
  return std::any_of(keys.begin(), keys.begin() + count,
                     [](char key) { return key == 'q' || key == 'Q' || key == kCtrlC; });
}

FullScreen::Event FullScreen::Wait(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  for (;;) {
    if (has_ended_ || Interrupted()) return Event::kEnd;
    if (is_resized.exchange(false)) return Event::kResize;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    // A signal between the questions above and this wait is noticed a little later.
    const int ready = ::poll(&input, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 250)));
    if (ready > 0) {
      const bool is_gone = (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
      has_ended_ = ReadKeys() || is_gone;
      continue;
    }
    if (left <= 0) return Event::kTime;
  }
}

}  // namespace quire
