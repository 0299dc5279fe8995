#include "server/tenants.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "base/sha256.h"
#include "formats/printable.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr size_t kMinKeyLength = 8;
constexpr size_t kMaxKeyLength = 512;
constexpr size_t kMaxNameLength = 64;
constexpr std::string_view kScheme = "bearer ";

std::string DigestOf(std::string_view key) {
  const Digest digest = Sha256().Add(key).Finish();
  return {digest.begin(), digest.end()};
}

// Takes the same time wherever they differ.
bool EqualDigests(const std::string& a, const std::string& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < sizeof(Digest); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

// A group and a name that read alike have different salts, and a salt reads like no name.
std::string SaltFrom(std::string_view kind, std::string_view name) {
  const Digest digest = Sha256()
                            .Add("quire tenant salt 1")
                            .Add(uint64_t{kind.size()})
                            .Add(kind)
                            .Add(uint64_t{name.size()})
                            .Add(name)
                            .Finish();
  return ToHex(digest);
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// Line and column of an offset, from 1.
std::pair<size_t, size_t> PlaceOf(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = static_cast<size_t>(std::ranges::count(before, '\n')) + 1;
  const size_t newline = before.rfind('\n');
  return {line, newline == std::string_view::npos ? offset + 1 : offset - newline};
}

Result<json::value> ParseJson(std::string_view text) {
  json::stream_parser parser;
  json::error_code error;
  size_t taken = parser.write_some(text.data(), text.size(), error);
  if (!error) {
    taken = std::min(text.find_first_not_of(" \t\r\n", taken), text.size());
    if (taken == text.size()) parser.finish(error);
    if (taken == text.size() && !error) return parser.release();
  }
  const auto [line, column] = PlaceOf(text, taken);
  return MakeError(ErrorCode::kCorrupt, "line {}, column {}: expected one JSON value", line,
                   column);
}

// What is wrong with a key; empty = nothing.
std::string FaultOfKey(std::string_view key) {
  if (key.size() < kMinKeyLength || key.size() > kMaxKeyLength) {
    return fmt::format("must have {} to {} characters, got {}; `openssl rand -hex 24` makes one",
                       kMinKeyLength, kMaxKeyLength, key.size());
  }
  if (!std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; })) {
    return "must be printable ASCII without spaces, as a header carries it";
  }
  return "";
}

// Reads one object of "keys". Messages name members and never show a key.
class EntryReader {
 public:
  EntryReader(const json::object& object, size_t index) : object_(object), index_(index) {}

  Result<std::string> Key() {
    QUIRE_ASSIGN_OR_RETURN(const std::string key, Text("key", /*is_needed=*/true));
    if (const std::string fault = FaultOfKey(key); !fault.empty()) return Fault("key", fault);
    return key;
  }

  Result<std::string> Name(std::string_view member, bool is_needed) {
    QUIRE_ASSIGN_OR_RETURN(std::string name, Text(member, is_needed));
    const bool is_absent = name.empty() && !is_needed;
    if (is_absent) return name;
    if (name.empty() || name.size() > kMaxNameLength ||
        !std::ranges::all_of(name, IsNameCharacter)) {
      return Fault(member, fmt::format("must be 1 to {} letters, digits, dots, underscores and "
                                       "hyphens, got '{}'",
                                       kMaxNameLength, Printable(name, 80)));
    }
    return name;
  }

  Result<uint64_t> Quota() {
    const json::value* value = Take("kv_quota");
    if (value == nullptr) return uint64_t{0};
    uint64_t bytes = 0;
    if (value->is_string()) {
      const auto size = ParseByteSize(value->get_string());
      if (!size.ok()) return Fault("kv_quota", size.error().message);
      bytes = *size;
    } else if (value->is_int64() && value->get_int64() > 0) {
      bytes = static_cast<uint64_t>(value->get_int64());
    }
    if (bytes > 0) return bytes;
    return Fault("kv_quota", "must be a size above 0, such as \"2GiB\"; without it there is none");
  }

  Result<bool> Admin() {
    const json::value* value = Take("admin");
    if (value == nullptr) return false;
    if (value->is_bool()) return value->get_bool();
    return Fault("admin", "must be true or false");
  }

  Status NothingElse() {
    for (const auto& member : object_) {
      if (!taken_.contains(member.key())) {
        return Fault(Printable(member.key(), 40),
                     "is not known; the members are key, name, group, kv_quota and admin");
      }
    }
    return {};
  }

 private:
  const json::value* Take(std::string_view member) {
    taken_.insert(std::string(member));
    return object_.if_contains(member);
  }

  Result<std::string> Text(std::string_view member, bool is_needed) {
    const json::value* value = Take(member);
    if (value == nullptr && !is_needed) return std::string();
    if (value == nullptr) return Fault(member, "is missing");
    if (!value->is_string()) return Fault(member, "must be a string");
    return std::string(value->get_string());
  }

  Error Fault(std::string_view member, std::string_view what) const {
    return MakeError(ErrorCode::kCorrupt, "keys[{}].{} {}", index_, member, what);
  }

  const json::object& object_;
  size_t index_;
  std::set<std::string, std::less<>> taken_;
};

Result<std::string> ReadKeysFile(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  struct stat status{};
  if (!stream || ::stat(path.c_str(), &status) != 0) {
    const int reason = errno;
    return MakeError(reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}",
                     path.string(), std::strerror(reason));
  }
  if (S_ISDIR(status.st_mode)) {
    return MakeError(ErrorCode::kIo, "{}: is a directory, not a file of keys", path.string());
  }
  if (S_ISREG(status.st_mode) && (status.st_mode & 07) != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: everybody on this machine may open it (mode {:04o}), and it holds keys; "
                     "`chmod 600` or `chmod 640` closes it",
                     path.string(), status.st_mode & 07777);
  }
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return MakeError(ErrorCode::kIo, "{}: cannot be read", path.string());
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kMaxFileBytes) {
    return MakeError(ErrorCode::kCorrupt, "{}: longer than {} bytes", path.string(), kMaxFileBytes);
  }
  return text;
}

}  // namespace

Tenants::Tenants() { everybody_ = {.name = "default", .is_admin = true}; }

Result<Tenants> Tenants::FromFile(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadKeysFile(path));
  auto tenants = FromJson(text);
  if (tenants.ok()) return tenants;
  return MakeError(tenants.error().code, "{}: {}", path.string(), tenants.error().message);
}

Result<Tenants> Tenants::FromJson(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const json::value file, ParseJson(text));
  const json::object* object = file.if_object();
  const json::value* list = object == nullptr ? nullptr : object->if_contains("keys");
  if (list == nullptr || !list->is_array() || object->size() != 1) {
    return MakeError(ErrorCode::kCorrupt,
                     "expected one object with the one member \"keys\", an array");
  }
  if (list->get_array().empty()) {
    return MakeError(ErrorCode::kCorrupt,
                     "\"keys\" is empty, so that nobody could ask; leave the file away to let "
                     "everybody in");
  }
  Tenants tenants;
  std::map<std::string, size_t> names;
  for (size_t i = 0; i < list->get_array().size(); ++i) {
    const json::object* entry = list->get_array()[i].if_object();
    if (entry == nullptr) {
      return MakeError(ErrorCode::kCorrupt, "keys[{}] must be an object", i);
    }
    EntryReader reader(*entry, i);
    Key added;
    QUIRE_ASSIGN_OR_RETURN(const std::string key, reader.Key());
    QUIRE_ASSIGN_OR_RETURN(added.tenant.name, reader.Name("name", /*is_needed=*/true));
    QUIRE_ASSIGN_OR_RETURN(const std::string group, reader.Name("group", /*is_needed=*/false));
    QUIRE_ASSIGN_OR_RETURN(added.tenant.kv_quota_bytes, reader.Quota());
    QUIRE_ASSIGN_OR_RETURN(added.tenant.is_admin, reader.Admin());
    QUIRE_RETURN_IF_ERROR(reader.NothingElse());
    added.digest = DigestOf(key);
    added.tenant.salt =
        group.empty() ? SaltFrom("name", added.tenant.name) : SaltFrom("group", group);
    const auto [name, is_new_name] = names.emplace(added.tenant.name, i);
    if (!is_new_name) {
      return MakeError(ErrorCode::kCorrupt, "keys[{}].name '{}' is that of keys[{}], too", i,
                       added.tenant.name, name->second);
    }
    const auto same = std::ranges::find(tenants.keys_, added.digest, &Key::digest);
    if (same != tenants.keys_.end()) {
      return MakeError(ErrorCode::kCorrupt, "keys[{}].key is that of keys[{}], too", i,
                       same - tenants.keys_.begin());
    }
    tenants.keys_.push_back(std::move(added));
  }
  return tenants;
}

Result<Tenants> Tenants::FromKey(std::string_view key) {
  if (const std::string fault = FaultOfKey(key); !fault.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "the API key {}", fault);
  }
  Tenants tenants;
  tenants.keys_.push_back({.digest = DigestOf(key), .tenant = tenants.everybody_});
  return tenants;
}

const Tenant* Tenants::Authorize(std::string_view authorization) const {
  if (!asks_for_key()) return &everybody_;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  if (!std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, {}, lower)) {
    return nullptr;
  }
  std::string_view key = authorization.substr(kScheme.size());
  while (key.starts_with(' ')) key.remove_prefix(1);
  while (key.ends_with(' ')) key.remove_suffix(1);
  const std::string digest = DigestOf(key);
  const Tenant* found = nullptr;
  for (const Key& candidate : keys_) {
    if (EqualDigests(candidate.digest, digest)) found = &candidate.tenant;
  }
  return found;
}

}  // namespace quire
