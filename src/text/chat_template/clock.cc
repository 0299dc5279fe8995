#include "text/chat_template/clock.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

namespace quire {

WallClock WallClock::Now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&now, &local);
  return {static_cast<int64_t>(now), static_cast<int32_t>(local.tm_gmtoff)};
}

namespace jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

struct CivilTime {
  int64_t year;
  int month, day, hour, minute, second;
  int weekday;   // 0 is Sunday
  int year_day;  // 1 is the first of January
};

CivilTime CivilTimeOf(const WallClock& time) {
  using namespace std::chrono;
  const sys_seconds local{seconds(time.unix_seconds + time.utc_offset_seconds)};
  const auto day = floor<days>(local);
  const year_month_day date(day);
  const hh_mm_ss clock(local - day);
  const auto new_year = sys_days(date.year() / January / 1);
  return {int{date.year()},
          static_cast<int>(unsigned{date.month()}),
          static_cast<int>(unsigned{date.day()}),
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count()),
          static_cast<int>(weekday(day).c_encoding()),
          static_cast<int>((day - new_year).count()) + 1};
}

std::string Padded(int64_t value, int width, bool bare, char fill = '0') {
  if (bare) return fmt::to_string(value);
  return fill == '0' ? fmt::format("{:0{}}", value, width) : fmt::format("{:{}}", value, width);
}

std::string Item(const WallClock& time, const CivilTime& civil, char item, bool bare) {
  const auto day = static_cast<size_t>(civil.weekday);
  const auto month = static_cast<size_t>(civil.month - 1);
  switch (item) {
    case 'Y':
      return fmt::to_string(civil.year);
    case 'y':
      return Padded(civil.year % 100, 2, bare);
    case 'm':
      return Padded(civil.month, 2, bare);
    case 'd':
      return Padded(civil.day, 2, bare);
    case 'e':
      return Padded(civil.day, 2, bare, ' ');
    case 'H':
      return Padded(civil.hour, 2, bare);
    case 'I':
      return Padded((civil.hour + 11) % 12 + 1, 2, bare);
    case 'M':
      return Padded(civil.minute, 2, bare);
    case 'S':
      return Padded(civil.second, 2, bare);
    case 'j':
      return Padded(civil.year_day, 3, bare);
    case 'f':
      return "000000";
    case 'p':
      return civil.hour < 12 ? "AM" : "PM";
    case 'a':
      return std::string(kDays[day].substr(0, 3));
    case 'A':
      return std::string(kDays[day]);
    case 'b':
    case 'h':
      return std::string(kMonths[month].substr(0, 3));
    case 'B':
      return std::string(kMonths[month]);
    case 'u':
      return fmt::to_string(civil.weekday == 0 ? 7 : civil.weekday);
    case 'w':
      return fmt::to_string(civil.weekday);
    // A local time without a zone has no name and no offset.
    case 'Z':
    case 'z':
      return "";
    case 'D':
    case 'x':
      return FormatTime(time, "%m/%d/%y");
    case 'F':
      return FormatTime(time, "%Y-%m-%d");
    case 'T':
    case 'X':
      return FormatTime(time, "%H:%M:%S");
    case 'R':
      return FormatTime(time, "%H:%M");
    case 'c':
      return FormatTime(time, "%a %b %e %H:%M:%S %Y");
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    default:
      return fmt::format("%{}{}", bare ? "-" : "", item);
  }
}

}  // namespace

std::string FormatTime(const WallClock& time, std::string_view format) {
  const CivilTime civil = CivilTimeOf(time);
  std::string result;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      result += format[at];
      continue;
    }
    ++at;
    const bool bare = format[at] == '-' && at + 1 < format.size();
    if (bare) ++at;
    result += Item(time, civil, format[at], bare);
  }
  return result;
}

}  // namespace jinja
}  // namespace quire
