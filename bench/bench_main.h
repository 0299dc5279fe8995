// What bench_main.cc runs: the benchmarks of the program that it is linked into.
#pragma once

namespace quire::bench {

// Each program's own. Called once, before anything is run.
void RegisterAll();

}  // namespace quire::bench
