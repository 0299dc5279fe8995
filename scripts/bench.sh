#!/usr/bin/env bash
# bench.sh [FILTER]: what `make bench` runs: the microbenchmarks, beside the measured limits of this
# machine. FILTER is a regular expression that names have to match; without it, all run.
set -euo pipefail
cd "$(dirname "$0")/.."

filter=${1:-}
cmake --preset bench >/dev/null
cmake --build --preset bench --parallel "$(nproc)"
for program in build/bench/*_bench; do
  [ -x "$program" ] || continue
  if [ -n "$filter" ] &&
     ! "$program" --benchmark_list_tests --benchmark_filter="$filter" 2>/dev/null | grep -q /; then
    continue
  fi
  printf '\n== %s\n' "$(basename "$program")"
  "$program" --benchmark_filter="${filter:-.}"
done
