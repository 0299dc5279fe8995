#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace quire {

Result<StopMatcher> StopMatcher::Create(std::vector<std::string> stops) {
  StopMatcher matcher;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty() || stops[i].size() > UINT32_MAX) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "stop string {} has {} bytes; expected at least 1, less than 4 GiB", i,
                       stops[i].size());
    }
    Automaton automaton{.stop = std::move(stops[i]), .fallback = {0}};
    automaton.fallback.reserve(automaton.stop.size() + 1);
    automaton.fallback.push_back(0);
    for (size_t at = 1; at < automaton.stop.size(); ++at) {
      Advance(automaton, automaton.stop[at]);
      automaton.fallback.push_back(automaton.state);
    }
    automaton.state = 0;
    matcher.automatons_.push_back(std::move(automaton));
  }
  return matcher;
}

void StopMatcher::Advance(Automaton& automaton, char byte) {
  uint32_t& state = automaton.state;
  while (state > 0 && automaton.stop[state] != byte) state = automaton.fallback[state];
  if (automaton.stop[state] == byte) ++state;
}

std::string StopMatcher::Push(std::string_view text) {
  if (matched_) return {};
  std::string shown = std::move(held_);
  held_.clear();
  for (const char byte : text) {
    shown.push_back(byte);
    size_t matched_bytes = 0;
    for (size_t i = 0; i < automatons_.size(); ++i) {
      Automaton& automaton = automatons_[i];
      Advance(automaton, byte);
      if (automaton.state == automaton.stop.size() && automaton.state > matched_bytes) {
        matched_bytes = automaton.state;
        matched_ = i;
      }
    }
    if (matched_) {
      shown.resize(shown.size() - matched_bytes);
      return shown;
    }
  }
  size_t held_bytes = 0;
  for (const Automaton& automaton : automatons_) {
    held_bytes = std::max<size_t>(held_bytes, automaton.state);
  }
  held_ = shown.substr(shown.size() - held_bytes);
  shown.resize(shown.size() - held_bytes);
  return shown;
}

std::string StopMatcher::Finish() {
  for (Automaton& automaton : automatons_) automaton.state = 0;
  return std::exchange(held_, {});
}

}  // namespace quire
