// Any bytes as what a Redis server says: replies within the reader's bounds, the same however the
// bytes are cut, or a reader that is broken and says why.
//
// The first byte is the length of the pieces in the second reading.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kv/tiers/redis/resp_reader.h"

namespace {

using quire::RespReader;
using quire::RespReply;

constexpr quire::RespLimits kLimits = {.max_reply_bytes = 4096, .max_elements = 64};
constexpr int kMaxDepth = 8;

// Elements of a reply, itself not counted.
size_t CountElements(const RespReply& reply, int depth = 0) {
  QUIRE_CHECK(depth <= kMaxDepth, "nested {} deep", depth);
  size_t count = reply.elements.size();
  for (const RespReply& element : reply.elements) count += CountElements(element, depth + 1);
  return count;
}

// A reply as text, to be compared.
void Print(const RespReply& reply, std::string* out) {
  *out += std::to_string(static_cast<int>(reply.kind)) + ' ' + std::to_string(reply.integer) + ' ' +
          std::to_string(reply.text.size()) + ' ' + reply.text + '(';
  for (const RespReply& element : reply.elements) Print(element, out);
  *out += ')';
}

// All replies up to the end of the bytes or the reader's.
std::vector<std::string> Read(std::string_view bytes, size_t piece) {
  RespReader reader(kLimits);
  std::vector<std::string> replies;
  for (;;) {
    RespReply reply;
    switch (reader.Next(&reply)) {
      case RespReader::Step::kReply:
        QUIRE_CHECK(CountElements(reply) <= kLimits.max_elements);
        Print(reply, &replies.emplace_back());
        continue;
      case RespReader::Step::kBroken:
        QUIRE_CHECK(!reader.reason().empty());
        return replies;
      case RespReader::Step::kNeedsBytes:
        break;
    }
    if (bytes.empty()) return replies;
    const std::string_view some = bytes.substr(0, piece);
    bytes.remove_prefix(some.size());
    reader.Feed(some);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto singly = Read(bytes, 1);
  const auto pieces = Read(bytes, data[0] + size_t{1});
  // A bound may be met sooner or later by a piece; up to there both read the same.
  for (size_t i = 0; i < std::min(singly.size(), pieces.size()); ++i) {
    QUIRE_CHECK(singly[i] == pieces[i], "reply {}", i);
  }
  return 0;
}
