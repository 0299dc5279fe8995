// A server's side of TLS: certificate, key, and what is spoken with them.
#pragma once

#include <memory>

#include "base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace quire {

// TLS 1.2 and 1.3 with OpenSSL's choice of ciphers. Both files are PEM; the certificate's may hold
// a chain. kNotFound for a file that cannot be read, kCorrupt for one that holds no certificate or
// key, a key behind a password, or a key of another certificate.
Result<std::shared_ptr<boost::asio::ssl::context>> MakeTlsContext(
    const std::string& certificate_file, const std::string& key_file);

}  // namespace quire
