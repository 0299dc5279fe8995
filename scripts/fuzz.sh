#!/usr/bin/env bash
# fuzz.sh SECONDS: builds the fuzz targets with clang and runs each for so long, from its corpus. New
# inputs stay in build/fuzz; a crash leaves its input there and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz.sh SECONDS}

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)" --target fuzzers
found=0
for target in build/fuzz/*_fuzz; do
  [ -x "$target" ] || continue
  found=1
  name=$(basename "$target" _fuzz)
  echo "$name: $seconds s"
  mkdir -p "build/fuzz/corpus-$name"
  "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="build/fuzz/$name-" \
    "build/fuzz/corpus-$name" "tests/fuzz/corpus/$name"
done
[ "$found" = 1 ] || { echo "no fuzz target was built" >&2; exit 1; }
