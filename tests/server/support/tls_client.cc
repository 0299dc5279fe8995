#include "server/support/tls_client.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <cstdio>

#include "base/check.h"

namespace quire::testing {

void WriteCertificate(const std::filesystem::path& certificate, const std::filesystem::path& key,
                      const char* password) {
  EVP_PKEY* pair = ::EVP_EC_gen("P-256");
  QUIRE_CHECK(pair != nullptr);
  X509* x509 = ::X509_new();
  ::ASN1_INTEGER_set(::X509_get_serialNumber(x509), 1);
  ::X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  ::X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  ::X509_set_pubkey(x509, pair);
  X509_NAME* name = ::X509_get_subject_name(x509);
  ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  ::X509_set_issuer_name(x509, name);
  QUIRE_CHECK(::X509_sign(x509, pair, ::EVP_sha256()) != 0);
  std::FILE* file = std::fopen(certificate.c_str(), "wb");
  ::PEM_write_X509(file, x509);
  std::fclose(file);
  file = std::fopen(key.c_str(), "wb");
  ::PEM_write_PrivateKey(file, pair, password != nullptr ? ::EVP_aes_128_cbc() : nullptr, nullptr,
                         0, nullptr, const_cast<char*>(password));
  std::fclose(file);
  ::X509_free(x509);
  ::EVP_PKEY_free(pair);
}

struct TlsClient::State {
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
  bool is_connected = false;
};

TlsClient::TlsClient(RawClient& client, int max_version) : state_(std::make_unique<State>()) {
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(client.socket(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  state_->context = ::SSL_CTX_new(::TLS_client_method());
  if (max_version != 0) {
    ::SSL_CTX_set_security_level(state_->context, 0);
    SSL_CTX_set_min_proto_version(state_->context, max_version);
    SSL_CTX_set_max_proto_version(state_->context, max_version);
  }
  state_->ssl = ::SSL_new(state_->context);
  static constexpr unsigned char kProtocols[] = "\x02h2\x08http/1.1";
  ::SSL_set_alpn_protos(state_->ssl, kProtocols, sizeof(kProtocols) - 1);
  ::SSL_set_fd(state_->ssl, client.socket());
  state_->is_connected = ::SSL_connect(state_->ssl) == 1;
}

TlsClient::~TlsClient() {
  ::SSL_free(state_->ssl);
  ::SSL_CTX_free(state_->context);
}

bool TlsClient::is_connected() const { return state_->is_connected; }

std::string TlsClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  ::SSL_get0_alpn_selected(state_->ssl, &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

bool TlsClient::Send(std::string_view bytes) {
  return ::SSL_write(state_->ssl, bytes.data(), static_cast<int>(bytes.size())) ==
         static_cast<int>(bytes.size());
}

std::string TlsClient::ReadUntil(std::string_view text) {
  std::string read;
  char buffer[4096];
  size_t searched = 0;
  while (read.find(text, searched) == std::string::npos) {
    searched = read.size() < text.size() ? 0 : read.size() - text.size();
    const int count = ::SSL_read(state_->ssl, buffer, sizeof(buffer));
    if (count <= 0) break;
    read.append(buffer, static_cast<size_t>(count));
  }
  return read;
}

bool TlsClient::ReadsFarewell() {
  char buffer[4096];
  int count = 0;
  while ((count = ::SSL_read(state_->ssl, buffer, sizeof(buffer))) > 0) {
  }
  return ::SSL_get_error(state_->ssl, count) == SSL_ERROR_ZERO_RETURN;
}

}  // namespace quire::testing
