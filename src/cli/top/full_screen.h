// A terminal's whole screen, for as long as the object lives: the alternate screen, keys as they
// are typed, no cursor.
//
// Invariants:
//   1. After the destructor, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV and SIGBUS the terminal is
//      what it was before. One object at a time. Not so after SIGKILL, any other signal that ends
//      a process, a stack that has overflowed, or while SIGTSTP or SIGSTOP from outside stops it
//      (Ctrl-Z does not: it is a key).
//   2. q, Q, Ctrl-C and a terminal that is gone all mean the end.
// Nothing of what is drawn may hold control characters. One thread.
#pragma once

#include <string>
#include <vector>

namespace quire {

class FullScreen {
 public:
  // Whether standard input and output are terminals that can be driven so.
  static bool IsPossible();

  FullScreen();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  int columns() const;
  // The first line stands out. What is wider or longer than the screen is cut.
  void Draw(const std::vector<std::string>& lines);

  enum class Event { kTime, kResize, kEnd };
  // Sleeps until something happens, or so many seconds have passed.
  Event Wait(double seconds);
  // Whether the end was asked for; does not wait.
  bool IsEndAsked() { return Wait(0) == Event::kEnd; }

 private:
  bool ReadKeys();

  bool has_ended_ = false;
};

}  // namespace quire
