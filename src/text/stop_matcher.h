// Stop strings in text that comes in pieces: lets through what cannot belong to one.
//
// The stop string that is completed first ends the text, the longest of those completed at the same
// byte, so the outcome does not depend on how the text was cut into pieces. One automaton a string
// (Knuth, Morris and Pratt, 1977): time linear in the text for each of them. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class StopMatcher {
 public:
  // Fails for an empty stop string. No strings at all let everything through.
  static Result<StopMatcher> Create(std::vector<std::string> stops);

  // The text that may be shown: everything so far that no stop string, whole or begun, covers.
  // After a match, what stands before the stop string; the rest, and all later text, is dropped.
  std::string Push(std::string_view text);
  // The end of the text: what was held back because it might have begun a stop string.
  std::string Finish();

  // Index of the stop string that ended the text.
  std::optional<size_t> matched() const { return matched_; }

 private:
  struct Automaton {
    std::string stop;
    std::vector<uint32_t> fallback;  // per prefix length: its longest border
    uint32_t state = 0;              // bytes of `stop` that the text ends in
  };

  StopMatcher() = default;

  static void Advance(Automaton& automaton, char byte);

  std::vector<Automaton> automatons_;
  std::string held_;  // the longest end of the text that begins a stop string
  std::optional<size_t> matched_;
};

}  // namespace quire
