#include "text/chat_template/marked_string.h"

#include <algorithm>

namespace quire::jinja {

MarkedString::MarkedString(std::string text, bool trusted) : text_(std::move(text)) {
  if (!text_.empty()) runs_.push_back({text_.size(), trusted});
}

size_t MarkedString::RunIndexAt(size_t at) const {
  const auto run =
      std::upper_bound(runs_.begin(), runs_.end(), at,
                       [](size_t position, const Run& entry) { return position < entry.end; });
  return static_cast<size_t>(run - runs_.begin());
}

bool MarkedString::TrustedAt(size_t at) const { return runs_[RunIndexAt(at)].trusted; }

void MarkedString::Append(std::string_view text, bool trusted) {
  if (text.empty()) return;
  text_.append(text);
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), trusted});
  }
}

void MarkedString::AppendSlice(const MarkedString& other, size_t begin, size_t end) {
  const std::string_view text = other.text_;
  for (size_t i = other.RunIndexAt(begin); begin < end; ++i) {
    const size_t stop = std::min(end, other.runs_[i].end);
    Append(text.substr(begin, stop - begin), other.runs_[i].trusted);
    begin = stop;
  }
}

MarkedString MarkedString::Slice(size_t begin, size_t end) const {
  MarkedString result;
  result.AppendSlice(*this, begin, end);
  return result;
}

}  // namespace quire::jinja
