// What one render may use up, and what lives as long as it.
//
// Every operation whose cost a template or a message can choose spends steps or bytes here first,
// so a render ends in bounded time and memory. Once a limit is hit it stays hit: CheckLimits()
// fails from then on, and walks that cannot return an error simply stop.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_template/chat_template.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

// A template that is wrong, or does not fit the values it was given.
template <typename... Args>
Error Fault(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kCorrupt, format, std::forward<Args>(args)...);
}

class RenderState {
 public:
  RenderState(const TemplateLimits& limits, WallClock now)
      : limits_(limits), now_(now), steps_left_(limits.max_steps), bytes_left_(limits.max_bytes) {}

  const TemplateLimits& limits() const { return limits_; }
  const WallClock& now() const { return now_; }

  // False when the limit is reached.
  bool Step(int64_t count = 1) {
    steps_left_ -= count;
    return steps_left_ >= 0;
  }
  bool exhausted() const { return steps_left_ < 0; }
  // Bytes about to be made: text, or values in a container.
  Status SpendBytes(uint64_t count);
  Status SpendItems(uint64_t count) { return SpendBytes(count * sizeof(Value)); }
  Status CheckLimits() const;

  // The object lives until the render ends.
  template <typename T>
  T* Adopt(std::unique_ptr<T> object) {
    T* raw = object.get();
    objects_.push_back(std::move(object));
    return raw;
  }

 private:
  TemplateLimits limits_;
  WallClock now_;
  int64_t steps_left_;
  uint64_t bytes_left_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace quire::jinja
