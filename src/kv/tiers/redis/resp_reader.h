// Bytes of the Redis protocol (RESP2) to replies, by hiredis's parser under bounds of our own.
//
// A reply takes at most max_reply_bytes, of all its elements together at most max_elements, and
// nests at most seven deep, whatever lengths it announces: memory grows with bytes that came, never
// with numbers that were read. What breaks protocol or bounds breaks the reader for good.
// Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct RespReply {
  enum class Kind : uint8_t { kNil, kInteger, kStatus, kError, kString, kArray };
  Kind kind = Kind::kNil;
  int64_t integer = 0;
  std::string text{};  // of a status, an error, a string
  std::vector<RespReply> elements{};

  bool IsError(std::string_view prefix) const {
    return kind == Kind::kError && text.starts_with(prefix);
  }
};

struct RespLimits {
  size_t max_reply_bytes = size_t{1} << 20;
  size_t max_elements = 1024;
};

class RespReader {
 public:
  enum class Step : uint8_t { kReply, kNeedsBytes, kBroken };

  explicit RespReader(const RespLimits& limits);
  ~RespReader();
  RespReader(const RespReader&) = delete;
  RespReader& operator=(const RespReader&) = delete;

  // Only after Next said kNeedsBytes, and a piece at a time that is small beside the bound.
  void Feed(std::string_view bytes);
  Step Next(RespReply* reply);

  // No byte is left of a reply that has not been taken.
  bool IsEmpty() const;
  const std::string& reason() const { return reason_; }  // of kBroken

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::string reason_;
};

}  // namespace quire
