// A client of a test: a TCP socket, and just enough of HTTP to cut answers apart.
//
// Every wait has a limit, so that what never comes is a failure and not a hang.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace quire::testing {

struct RawAnswer {
  int status = 0;
  HttpHeaders headers{};
  std::string body{};  // chunks put together

  std::string header(std::string_view name) const {
    const std::string* value = FindHeader(headers, name);
    return value != nullptr ? *value : "";
  }
};

class RawClient {
 public:
  explicit RawClient(int port, const char* address = "127.0.0.1", int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool is_connected() const { return socket_ >= 0; }
  int socket() const { return socket_; }
  // False where the other side has reset the connection.
  bool Send(std::string_view bytes);
  // Sends as far as the other side takes it, for so long.
  size_t SendSome(std::string_view bytes, std::chrono::milliseconds timeout);
  void CloseSendingHalf();
  void Close();
  // Closes with a reset, as a killed process with unread bytes does.
  void Reset();

  // One answer in its framing; nothing where none comes whole. is_head: without a body.
  std::optional<RawAnswer> ReadAnswer(bool is_head = false);
  // Until so many bytes have come in all, unread by ReadAnswer.
  std::string ReadBytes(size_t count);
  // All until the other side closes; nothing where it does not.
  std::optional<std::string> ReadToEnd();
  // Whether the other side closes within the time, with nothing more to say.
  bool IsClosedWithin(std::chrono::milliseconds timeout);
  // Whether nothing comes for so long.
  bool IsSilentFor(std::chrono::milliseconds timeout);

  std::chrono::milliseconds timeout{20'000};

 private:
  enum class Got { kBytes, kEnd, kNothing };
  Got Receive(std::chrono::milliseconds timeout);
  std::optional<std::string> ReadLine();
  bool Need(size_t count);

  int socket_ = -1;
  std::string unread_;
};

// "GET /path HTTP/1.1" with a Host, and a body with its length where there is one.
std::string MakeRequest(std::string_view method, std::string_view target,
                        std::string_view extra_headers = "", std::string_view body = "");

}  // namespace quire::testing
