#include "server/http/query.h"

#include <algorithm>

namespace quire {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string FormDecoded(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return PercentDecoded(spaced);
}

}  // namespace

std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool may_begin = text[i] == '%' && i + 2 < text.size();
    const int high = may_begin ? HexValue(text[i + 1]) : -1;
    const int low = may_begin ? HexValue(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      decoded += text[i];
    } else {
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return decoded;
}

QueryFields ParseQuery(std::string_view query) {
  QueryFields fields;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view field = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (field.empty()) continue;
    const size_t equals = std::min(field.find('='), field.size());
    fields.emplace_back(FormDecoded(field.substr(0, equals)),
                        FormDecoded(field.substr(std::min(equals + 1, field.size()))));
  }
  return fields;
}

}  // namespace quire
