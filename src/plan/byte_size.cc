#include "plan/byte_size.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace quire {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};
constexpr std::array kUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"kb", 1e3},
    Unit{"mb", 1e6},
    Unit{"gb", 1e9},
    Unit{"tb", 1e12},
    Unit{"kib", 1024.0},
    Unit{"mib", 1048576.0},
    Unit{"gib", 1073741824.0},
    Unit{"tib", 1099511627776.0},
};

Error Malformed(std::string_view text) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "'{}' is not a size of memory; expected a number and one of B, kB, MB, GB, TB "
                   "(powers of ten), KiB, MiB, GiB, TiB (powers of two), as in 8GiB",
                   text.substr(0, 64));
}

// Tenths, so that no size prints as 0 when it is a tenth of a unit.
std::string Tenths(uint64_t bytes, double unit) {
  const double tenths = std::round(static_cast<double>(bytes) / unit * 10);
  const auto whole = static_cast<uint64_t>(tenths / 10);
  return fmt::format("{}.{}", GroupDigits(whole), static_cast<int>(tenths - 10.0 * whole));
}

}  // namespace

Result<uint64_t> ParseByteSize(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return Malformed(text);
  std::string unit(rest, end);
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size()
                                                                 : unit.find_first_not_of(' '));
  std::ranges::transform(unit, unit.begin(), [](char c) {
    return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto found = std::ranges::find(kUnits, unit, &Unit::name);
  if (found == kUnits.end()) return Malformed(text);
  const double bytes = std::floor(number * found->bytes);
  if (!(bytes < 9.2e18)) return Malformed(text);
  return static_cast<uint64_t>(bytes);
}

std::string GroupDigits(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

std::string FormatUnits(uint64_t bytes) {
  if (bytes < 1048576) {
    return fmt::format("{} KiB, {} kB", Tenths(bytes, 1024.0), Tenths(bytes, 1e3));
  }
  return fmt::format("{} MiB, {} MB", Tenths(bytes, 1048576.0), Tenths(bytes, 1e6));
}

std::string FormatBytes(uint64_t bytes) {
  return fmt::format("{} bytes ({})", GroupDigits(bytes), FormatUnits(bytes));
}

}  // namespace quire
