#!/usr/bin/env bash
# What `make test-all` runs: everything of `make test`, the tests that need the other models or much
# time, the thread sanitizer over every test that is not slow, and each fuzz target for FUZZ_SECONDS.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/test-steps.sh

step "release build"
build_tests release
for model in $(build/release/quire models --json |
               python3 -c 'import json, sys
for model in json.load(sys.stdin)["models"]:
    if model["licence"]: print(model["name"])'); do
  step "model: $model"
  build/release/quire pull "$model"
done
step "every test"
run_tests release

step "goldens"
scripts/check-goldens.sh

step "address and undefined-behaviour sanitizers"
build_tests asan
run_tests asan --label-exclude '^(slow|models|smollm2|house)$'

step "thread sanitizer"
build_tests tsan
run_tests tsan --label-exclude '^(slow|models|smollm2|house)$'

step "fuzz targets, ${FUZZ_SECONDS:-60} s each"
scripts/fuzz.sh "${FUZZ_SECONDS:-60}"

closing_line
