#include "text/stream_decoder.h"

#include <string_view>

#include "base/utf8.h"

namespace quire {

std::string StreamDecoder::Push(TokenId id) {
  last_bytes_ = tokenizer_->TokenBytes(id, with_control_);
  if (last_bytes_.empty()) return {};
  const TokenKind kind = tokenizer_->Kind(id);
  if (at_start_ && kind != TokenKind::kControl && kind != TokenKind::kUnknown) {
    if (kind == TokenKind::kNormal && last_bytes_[0] == ' ') last_bytes_.erase(0, 1);
    at_start_ = false;
  }
  held_ += last_bytes_;
  std::string text;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Character character = FirstCharacter(rest);
    if (character.state == Utf8State::kIncomplete) break;
    if (character.state == Utf8State::kWhole) {
      text += rest.substr(0, character.num_bytes);
    } else {
      text += kReplacementCharacter;
    }
    rest.remove_prefix(character.num_bytes);
  }
  held_.erase(0, held_.size() - rest.size());
  return text;
}

std::string StreamDecoder::Finish() {
  const std::string text(held_.empty() ? std::string_view() : kReplacementCharacter);
  held_.clear();
  at_start_ = tokenizer_->strips_leading_space();
  return text;
}

}  // namespace quire
