// main of the benchmark programs that register what they run themselves, by name: those of all
// kernel sets that this machine has.
#include "bench_main.h"

#include <benchmark/benchmark.h>

int main(int argc, char** argv) {
  quire::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
