// A string that knows which of its bytes the template wrote.
//
// Text of the template and of the tokenizer's own variables is trusted: it may name control tokens.
// Whatever came with a request is not. Slices and concatenations keep the marks byte by byte.
// Invariant: runs() covers the text in order, without empty runs, neighbours differ in trust.
// Comparison of strings ignores the marks (operators.h), so the type has no operator==.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire::jinja {

class MarkedString {
 public:
  // Bytes from the end of the run before up to `end`.
  struct Run {
    size_t end;
    bool trusted;
  };

  MarkedString() = default;
  MarkedString(std::string text, bool trusted);

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  std::span<const Run> runs() const { return runs_; }
  // True for the empty string.
  bool AllTrusted() const { return runs_.empty() || (runs_.size() == 1 && runs_[0].trusted); }
  // at < size().
  bool TrustedAt(size_t at) const;

  void Append(std::string_view text, bool trusted);
  void Append(const MarkedString& other) { AppendSlice(other, 0, other.size()); }
  // Bytes [begin, end) of `other`; begin <= end <= other.size(). `other` may not be this string.
  void AppendSlice(const MarkedString& other, size_t begin, size_t end);
  MarkedString Slice(size_t begin, size_t end) const;

 private:
  size_t RunIndexAt(size_t at) const;

  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace quire::jinja
