#include "kv/tiers/key_ring.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "base/check.h"

namespace quire {
namespace {

using Secret = std::array<uint8_t, 32>;

// More than kMaxKeys lines of keys ever take, with long comments.
constexpr size_t kMaxFileBytes = 64 << 10;

// What a subkey is for; part of the format of records (docs/kv-format.md).
constexpr std::string_view kIdInfo = "quire kv key id 1";
constexpr std::string_view kMacInfo = "quire kv mac 1";
constexpr std::string_view kEncryptionInfo = "quire kv encryption 1";
constexpr std::string_view kNamesInfo = "quire kv names 1";

struct ContextDeleter {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};
template <typename T>
using Context = std::unique_ptr<T, ContextDeleter>;

OSSL_PARAM Octets(const char* name, const void* bytes, size_t size) {
  // OpenSSL reads what it is given here; the type has no room for const.
  return OSSL_PARAM_construct_octet_string(name, const_cast<void*>(bytes), size);
}

OSSL_PARAM Sha256ByName() {
  static char name[] = "SHA256";
  return OSSL_PARAM_construct_utf8_string(OSSL_ALG_PARAM_DIGEST, name, 0);
}

// HKDF-SHA256 without a salt.
void Derive(const Secret& key, std::string_view info, std::span<uint8_t> subkey) {
  static EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  QUIRE_CHECK(kdf != nullptr, "OpenSSL has no HKDF");
  const Context<EVP_KDF_CTX> context(EVP_KDF_CTX_new(kdf));
  const OSSL_PARAM params[] = {Sha256ByName(), Octets(OSSL_KDF_PARAM_KEY, key.data(), key.size()),
                               Octets(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
                               OSSL_PARAM_construct_end()};
  QUIRE_CHECK(context != nullptr &&
                  EVP_KDF_derive(context.get(), subkey.data(), subkey.size(), params) == 1,
              "no subkey for {}", info);
}

Digest Hmac(const Secret& key, std::span<const std::span<const std::byte>> parts) {
  // Looked up once: that takes longer than a short text.
  static EVP_MAC* const mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  QUIRE_CHECK(mac != nullptr, "OpenSSL has no HMAC");
  const Context<EVP_MAC_CTX> context(EVP_MAC_CTX_new(mac));
  const OSSL_PARAM params[] = {Sha256ByName(), OSSL_PARAM_construct_end()};
  bool works =
      context != nullptr && EVP_MAC_init(context.get(), key.data(), key.size(), params) == 1;
  for (const std::span<const std::byte> part : parts) {
    works = works && EVP_MAC_update(context.get(), reinterpret_cast<const uint8_t*>(part.data()),
                                    part.size()) == 1;
  }
  Digest digest;
  size_t size = 0;
  works = works && EVP_MAC_final(context.get(), digest.data(), &size, digest.size()) == 1;
  QUIRE_CHECK(works && size == digest.size(), "HMAC of {} parts", parts.size());
  return digest;
}

std::optional<Secret> ParseKey(std::string_view digits) {
  Secret key;
  if (digits.size() != 2 * key.size()) return std::nullopt;
  const auto value_of = [](char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < key.size(); ++i) {
    const int high = value_of(digits[2 * i]);
    const int low = value_of(digits[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return key;
}

// Of a file that only its owner may touch. Nothing of it ever goes into a message.
Result<std::string> ReadSecretFile(const std::string& path) {
  // Not waiting: a pipe has no business here.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                     "{}: cannot open the key file: {}", path, std::strerror(errno));
  }
  const auto read = [&]() -> Result<std::string> {
    struct stat status{};
    if (::fstat(fd, &status) != 0) {
      return MakeError(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: a key file is an ordinary file", path);
    }
    if ((status.st_mode & 077) != 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: mode {:04o} lets others than the owner at the keys; chmod 600 it", path,
                       status.st_mode & 07777);
    }
    std::string text(kMaxFileBytes + 1, '\0');
    size_t size = 0;
    while (size < text.size()) {
      const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return MakeError(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
      if (got == 0) break;
      size += static_cast<size_t>(got);
    }
    if (size > kMaxFileBytes) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: longer than the {} bytes of a key file",
                       path, kMaxFileBytes);
    }
    text.resize(size);
    return text;
  };
  auto text = read();
  ::close(fd);
  return text;
}

Result<std::vector<Secret>> ParseKeys(const std::string& path, std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<Secret> keys;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
    if (line.empty()) continue;
    const std::optional<Secret> key = ParseKey(line);
    if (!key) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: line {}: expected 64 hexadecimal digits, got {} characters (openssl "
                       "rand -hex 32 makes a key)",
                       path, line_number, line.size());
    }
    if (std::find(keys.begin(), keys.end(), *key) != keys.end()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: line {}: a key that is there already",
                       path, line_number);
    }
    if (keys.size() == KeyRing::kMaxKeys) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: line {}: more than {} keys", path,
                       line_number, KeyRing::kMaxKeys);
    }
    keys.push_back(*key);
  }
  if (keys.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: no key in it; openssl rand -hex 32 makes one", path);
  }
  return keys;
}

// One text in parts through a cipher, in place.
bool RunCipher(EVP_CIPHER_CTX* context, std::span<const std::byte> clear,
               std::span<const std::span<std::byte>> text) {
  constexpr size_t kMaxPart = std::numeric_limits<int>::max();
  int size = 0;
  bool works =
      clear.size() <= kMaxPart &&
      EVP_CipherUpdate(context, nullptr, &size, reinterpret_cast<const uint8_t*>(clear.data()),
                       static_cast<int>(clear.size())) == 1;
  for (const std::span<std::byte> part : text) {
    auto* bytes = reinterpret_cast<uint8_t*>(part.data());
    works = works && part.size() <= kMaxPart &&
            EVP_CipherUpdate(context, bytes, &size, bytes, static_cast<int>(part.size())) == 1;
  }
  return works;
}

Context<EVP_CIPHER_CTX> StartCipher(const Secret& key, std::span<const uint8_t> nonce,
                                    bool encrypts) {
  static EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  QUIRE_CHECK(cipher != nullptr, "OpenSSL has no AES-256-GCM");
  Context<EVP_CIPHER_CTX> context(EVP_CIPHER_CTX_new());
  QUIRE_CHECK(
      context != nullptr && EVP_CipherInit_ex2(context.get(), cipher, key.data(), nonce.data(),
                                               encrypts ? 1 : 0, nullptr) == 1,
      "AES-256-GCM does not start");
  return context;
}

}  // namespace

Result<std::shared_ptr<const KeyRing>> KeyRing::FromFile(const std::filesystem::path& path) {
  auto text = ReadSecretFile(path.string());
  if (!text.ok()) return text.error();
  auto keys = ParseKeys(path.string(), *text);
  OPENSSL_cleanse(text->data(), text->size());
  if (!keys.ok()) return keys.error();
  auto ring = Make(*keys);
  OPENSSL_cleanse(keys->data(), keys->size() * sizeof(Secret));
  return ring;
}

Result<std::shared_ptr<const KeyRing>> KeyRing::Make(std::span<const Secret> keys) {
  if (keys.empty() || keys.size() > kMaxKeys) {
    return MakeError(ErrorCode::kInvalidArgument, "expected 1 to {} keys, got {}", kMaxKeys,
                     keys.size());
  }
  std::shared_ptr<KeyRing> ring(new KeyRing);
  ring->keys_.reserve(keys.size());  // no copies left behind by growing
  for (const Secret& secret : keys) {
    Key key;
    Derive(secret, kIdInfo, key.id);
    Derive(secret, kMacInfo, key.mac);
    Derive(secret, kEncryptionInfo, key.encryption);
    Derive(secret, kNamesInfo, key.names);
    if (ring->Knows(key.id)) {
      return MakeError(ErrorCode::kInvalidArgument, "a key is there twice");
    }
    ring->keys_.push_back(key);
    OPENSSL_cleanse(&key, sizeof(key));
  }
  return std::shared_ptr<const KeyRing>(std::move(ring));
}

KeyRing::~KeyRing() { OPENSSL_cleanse(keys_.data(), keys_.size() * sizeof(Key)); }

const KeyRing::Key* KeyRing::Find(const KeyId& id) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.id == id; });
  return found == keys_.end() ? nullptr : &*found;
}

const KeyRing::Key& KeyRing::Get(const KeyId& id) const {
  const Key* key = Find(id);
  QUIRE_CHECK(key != nullptr, "a key that is not in the ring");
  return *key;
}

Digest KeyRing::Mac(const KeyId& id, std::span<const std::span<const std::byte>> parts) const {
  return Hmac(Get(id).mac, parts);
}

Digest KeyRing::Name(const KeyId& id, std::string_view purpose,
                     std::span<const std::byte> text) const {
  // The zero ends the purpose, so that no two pairs read alike.
  static constexpr std::byte kEnd[1] = {};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(purpose)), kEnd, text};
  return Hmac(Get(id).names, parts);
}

void KeyRing::Encrypt(std::span<const uint8_t, kNonceBytes> nonce, std::span<const std::byte> clear,
                      std::span<const std::span<std::byte>> text,
                      std::span<uint8_t, kTagBytes> tag) const {
  const auto context = StartCipher(keys_[0].encryption, nonce, /*encrypts=*/true);
  int size = 0;
  QUIRE_CHECK(RunCipher(context.get(), clear, text) &&
                  EVP_CipherFinal_ex(context.get(), tag.data(), &size) == 1 && size == 0 &&
                  EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG,
                                      static_cast<int>(tag.size()), tag.data()) == 1,
              "AES-256-GCM of {} parts", text.size());
}

bool KeyRing::Decrypt(const KeyId& id, std::span<const uint8_t, kNonceBytes> nonce,
                      std::span<const std::byte> clear, std::span<const std::span<std::byte>> text,
                      std::span<const uint8_t, kTagBytes> tag) const {
  const auto context = StartCipher(Get(id).encryption, nonce, /*encrypts=*/false);
  std::array<uint8_t, kTagBytes> expected;
  std::copy(tag.begin(), tag.end(), expected.begin());
  uint8_t rest[16];
  int size = 0;
  return RunCipher(context.get(), clear, text) &&
         EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG,
                             static_cast<int>(expected.size()), expected.data()) == 1 &&
         EVP_CipherFinal_ex(context.get(), rest, &size) == 1;
}

std::array<uint8_t, KeyRing::kNonceBytes> KeyRing::RandomNonce() {
  std::array<uint8_t, kNonceBytes> nonce;
  QUIRE_CHECK(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1,
              "the system gives no random bytes");
  return nonce;
}

bool KeyRing::Equal(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace quire
