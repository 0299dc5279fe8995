#!/usr/bin/env bash
# What `make test` runs: every test but those labelled slow or models in the release build, the unit
# tests under the address and undefined-behaviour sanitizers (the fuzz corpora are among them), and
# the tests labelled tsan-short under the thread sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/test-steps.sh

step "release build"
build_tests release
step "model: smollm2-135m-instruct"
build/release/quire pull smollm2-135m-instruct
step "tests"
run_tests release --label-exclude '^(slow|models)$'

step "address and undefined-behaviour sanitizers"
unit_tests=(--label-exclude '^(slow|models|smollm2|house|cli)$')
build_chosen_tests asan "${unit_tests[@]}"
run_tests asan "${unit_tests[@]}"

step "thread sanitizer, short"
build_chosen_tests tsan --label-regex '^tsan-short$'
run_tests tsan --label-regex '^tsan-short$'

closing_line
