// What this process takes of the machine, under the meanings of Prometheus' process_* metrics.
#pragma once

#include <cstdint>

namespace quire {

struct ProcessUsage {
  int64_t resident_bytes = 0;
  double cpu_seconds = 0;  // user and system, of all threads
  double start_time = 0;   // Unix time in seconds
};

// 0 for what the system does not tell.
ProcessUsage ReadProcessUsage();

}  // namespace quire
