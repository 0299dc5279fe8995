#include "server/http/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <boost/asio/ssl/context.hpp>
#include <cerrno>
#include <cstring>

namespace quire {
namespace {

std::string LastTlsError() {
  const unsigned long code = ::ERR_peek_last_error();
  ::ERR_clear_error();
  const char* reason = ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : "not in PEM form";
}

// Without it OpenSSL asks on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

// Clients that ask for HTTP/2 first are told HTTP/1.1; those that offer nothing we speak go on
// without an agreement, as most servers let them.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* in, unsigned int in_size, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* selected = nullptr;
  if (::SSL_select_next_proto(&selected, out_size, kHttp11, sizeof(kHttp11) - 1, in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

Status CheckReadable(const std::string& file, std::string_view what) {
  if (::access(file.c_str(), R_OK) == 0) return {};
  return MakeError(ErrorCode::kNotFound, "{}: cannot read the {} for TLS: {}", file, what,
                   std::strerror(errno));
}

}  // namespace

Result<std::shared_ptr<boost::asio::ssl::context>> MakeTlsContext(
    const std::string& certificate_file, const std::string& key_file) {
  if (certificate_file.empty() || key_file.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "TLS takes a certificate and its key; only the {} is given",
                     key_file.empty() ? "certificate" : "key");
  }
  QUIRE_RETURN_IF_ERROR(CheckReadable(certificate_file, "certificate"));
  QUIRE_RETURN_IF_ERROR(CheckReadable(key_file, "key"));
  ::ERR_clear_error();
  auto context = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_alpn_select_cb(native, SelectProtocol, nullptr);
  ::SSL_CTX_set_default_passwd_cb(native, NoPassword);
  if (::SSL_CTX_use_certificate_chain_file(native, certificate_file.c_str()) != 1) {
    return MakeError(ErrorCode::kCorrupt, "{}: no certificate in PEM form: {}", certificate_file,
                     LastTlsError());
  }
  if (::SSL_CTX_use_PrivateKey_file(native, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return MakeError(ErrorCode::kCorrupt, "{}: no key of {} in PEM form and without a password: {}",
                     key_file, certificate_file, LastTlsError());
  }
  if (::SSL_CTX_check_private_key(native) != 1) {
    return MakeError(ErrorCode::kCorrupt, "{}: not the key of {}: {}", key_file, certificate_file,
                     LastTlsError());
  }
  return context;
}

}  // namespace quire
