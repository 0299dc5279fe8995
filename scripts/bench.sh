#!/usr/bin/env bash
# What `make bench` runs: every microbenchmark, beside the measured limits of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset bench >/dev/null
cmake --build --preset bench --parallel "$(nproc)"
for program in build/bench/*_bench; do
  [ -x "$program" ] || continue
  printf '\n== %s\n' "$(basename "$program")"
  "$program"
done
