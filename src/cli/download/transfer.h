// One GET of HTTP or HTTPS, by libcurl: redirects, proxies (https_proxy and its like),
// certificates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace quire {

struct TransferRequest {
  std::string url{};
  std::string bearer_token{};  // goes to the host of `url`, never to one that it redirects to
  uint64_t offset = 0;         // where to go on; needs if_range
  std::string if_range{};      // the validator that the first bytes had: others, and all comes anew
  int stall_timeout_s = 60;    // without a byte
};

// Of the answer that redirects ended in.
struct TransferHead {
  int status = 0;
  std::optional<uint64_t> body_bytes{};   // of this answer
  std::optional<uint64_t> first_byte{};   // of a 206: where it goes on
  std::optional<uint64_t> total_bytes{};  // of the whole file
  std::string validator{};                // a strong ETag; empty = none
  bool is_encoded = false;                // the bytes are not the file's
  std::string sha256{};   // that the hub told (X-Linked-Etag): 64 lower-case digits; empty = none
  int retry_after_s = 0;  // 0 = not told
};

struct TransferSinks {
  // Before the first byte; an error ends the transfer.
  std::function<Status(const TransferHead& head)> on_head{};
  std::function<Status(std::span<const std::byte> bytes)> on_bytes{};
  std::function<bool()> interrupted{};
};

// kIo where the connection fails or ends early; kUnsupported for what another attempt would meet
// again (redirects without end or to another protocol, a certificate that is not trusted);
// kInterrupted; the sinks' errors. A status that is no success is for on_head to judge.
Status Transfer(const TransferRequest& request, const TransferSinks& sinks);

}  // namespace quire
