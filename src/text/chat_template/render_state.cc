#include "text/chat_template/render_state.h"

namespace quire::jinja {

Status RenderState::SpendBytes(uint64_t count) {
  if (count > bytes_left_) {
    bytes_left_ = 0;
    steps_left_ = -1;
    return MakeError(ErrorCode::kResourceExhausted,
                     "the template makes more than {} bytes of text and values", limits_.max_bytes);
  }
  bytes_left_ -= count;
  // Copying is work too.
  return Step(static_cast<int64_t>(count / 256)) ? Status() : CheckLimits();
}

Status RenderState::CheckLimits() const {
  if (!exhausted()) return {};
  return MakeError(ErrorCode::kResourceExhausted, "the template takes more than {} steps",
                   limits_.max_steps);
}

}  // namespace quire::jinja
