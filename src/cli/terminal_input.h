// Lines typed at a terminal; a paste of many lines is one.
//
// The terminal marks pastes (bracketed paste, xterm's mode 2004) for as long as the object lives,
// and keeps its own line editing.
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <string_view>

namespace quire {

class TerminalInput {
 public:
  TerminalInput();
  ~TerminalInput();
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  enum class Outcome { kLine, kInterrupted, kEnd };
  struct Read {
    Outcome outcome;
    std::string text;  // without its last newline
  };
  // Prints the prompt and reads one message. Ctrl-C drops what was typed; Ctrl-D on an empty line
  // ends the input.
  Read ReadMessage(std::string_view prompt);

 private:
  // One line with its newline; nothing at the end of the input or on Ctrl-C.
  std::optional<std::string> ReadLine();

  std::optional<termios> saved_;
  std::string buffered_;
};

}  // namespace quire
