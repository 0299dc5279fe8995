#include "server/routes/host_names.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace quire {
namespace {

constexpr std::string_view kAny = "*";
constexpr std::string_view kBelow = "*.";
constexpr size_t kMaxName = 253;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string NormalName(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::string normal(name);
  std::ranges::transform(normal, normal.begin(), Lower);
  return normal;
}

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool IsAddress(int family, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return false;
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(family, std::string(text).c_str(), address.data()) == 1;
}

// What stands behind a name: nothing, or a colon and digits.
bool IsPort(std::string_view text) {
  return text.empty() ||
         (text.front() == ':' && text.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

// "[::1]:8080", also with a zone: "[fe80::1%25eth0]".
bool IsBracketedAddress(std::string_view host) {
  const size_t end = host.find(']');
  if (end == std::string_view::npos || !IsPort(host.substr(end + 1))) return false;
  const std::string_view inside = host.substr(1, end - 1);
  return IsAddress(AF_INET6, inside.substr(0, inside.find('%')));
}

// Empty where the machine has none.
std::string MachineName() {
  std::array<char, kMaxName + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return NormalName(name.data());
}

bool Matches(std::string_view pattern, std::string_view name) {
  if (!pattern.starts_with(kBelow)) return name == pattern;
  const std::string_view tail = pattern.substr(1);
  return name.size() > tail.size() && name.ends_with(tail);
}

}  // namespace

bool IsHostPattern(std::string_view text) {
  if (text == kAny) return true;
  if (text.starts_with(kBelow)) text.remove_prefix(kBelow.size());
  return !text.empty() && text.size() <= kMaxName && text.front() != '.' &&
         std::ranges::all_of(text, IsNameByte);
}

HostNames::HostNames(std::span<const std::string> patterns)
    : patterns_{"localhost", "*.localhost"} {
  if (const std::string machine = MachineName(); !machine.empty()) {
    patterns_.push_back(machine);
    patterns_.push_back(machine + ".local");
  }
  for (const std::string& pattern : patterns) patterns_.push_back(NormalName(pattern));
  has_any_ = std::ranges::find(patterns, kAny) != patterns.end();
}

bool HostNames::Has(std::string_view host) const {
  if (has_any_ || host.empty()) return true;
  if (host.front() == '[') return IsBracketedAddress(host);
  const size_t colon = std::min(host.find(':'), host.size());
  if (!IsPort(host.substr(colon))) return false;
  const std::string name = NormalName(host.substr(0, colon));
  if (name.empty()) return false;
  return IsAddress(AF_INET, name) || std::ranges::any_of(patterns_, [&](const auto& pattern) {
           return Matches(pattern, name);
         });
}

}  // namespace quire
