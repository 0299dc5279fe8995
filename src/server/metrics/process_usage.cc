#include "server/metrics/process_usage.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

namespace quire {
namespace {

struct FileCloser {
  void operator()(FILE* file) const { fclose(file); }
};

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double SecondsOn(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int64_t ResidentBytes() {
  const std::unique_ptr<FILE, FileCloser> file(fopen("/proc/self/statm", "re"));
  long long all = 0;
  long long resident = 0;
  if (file == nullptr || fscanf(file.get(), "%lld %lld", &all, &resident) != 2) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

// proc(5): field 22 of stat is the start in clock ticks since the boot. The second field, the
// program's name in brackets, may hold anything.
double ReadStartTime() {
  const std::unique_ptr<FILE, FileCloser> file(fopen("/proc/self/stat", "re"));
  if (file == nullptr) return 0;
  std::array<char, 1024> line{};
  const size_t length = fread(line.data(), 1, line.size() - 1, file.get());
  line[std::min(length, line.size() - 1)] = '\0';
  const char* rest = std::strrchr(line.data(), ')');
  if (rest == nullptr) return 0;
  for (int field = 2; field < 22 && rest != nullptr; ++field) rest = std::strchr(rest + 1, ' ');
  long long ticks = 0;
  if (rest == nullptr || sscanf(rest, " %lld", &ticks) != 1) return 0;
  const double since_boot = static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return SecondsOn(CLOCK_REALTIME) - SecondsOn(CLOCK_BOOTTIME) + since_boot;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  static const double start_time = ReadStartTime();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {.resident_bytes = ResidentBytes(),
          .cpu_seconds = SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime),
          .start_time = start_time};
}

}  // namespace quire
