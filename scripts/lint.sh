#!/usr/bin/env bash
# What `make lint` runs: the format of every C++ file, clang-tidy over src, and the rules of the house.
set -euo pipefail
cd "$(dirname "$0")/.."

find src tests bench \( -name '*.cc' -o -name '*.h' \) -print0 |
  xargs -0 clang-format-19 --dry-run -Werror
python3 tests/house/house_test.py
cmake --preset release >/dev/null
run-clang-tidy-19 -quiet -p build/release -j "$(nproc)" "$PWD/src/.*\.cc\$" 2>/dev/null
