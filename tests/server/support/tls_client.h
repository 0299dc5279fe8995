// The client's side of TLS for tests, and certificates to test with (OpenSSL).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/support/raw_client.h"

namespace quire::testing {

// A new key and a certificate for "localhost" that it has signed itself, in PEM. With a password,
// the key is encrypted.
void WriteCertificate(const std::filesystem::path& certificate, const std::filesystem::path& key,
                      const char* password = nullptr);

class TlsClient {
 public:
  // Shakes hands over the client's connection. max_version: 0, or OpenSSL's number.
  explicit TlsClient(RawClient& client, int max_version = 0);
  ~TlsClient();

  bool is_connected() const;
  std::string protocol() const;  // "http/1.1", as agreed by ALPN
  bool Send(std::string_view bytes);
  // Until the text has come, or no more comes.
  std::string ReadUntil(std::string_view text);
  // Whether the other side says farewell rather than just hanging up.
  bool ReadsFarewell();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quire::testing
