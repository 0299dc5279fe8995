#!/usr/bin/env bash
# What `make test` runs, each test once where once is enough: the program from outside, SmolLM2 and
# what optimisation could break in the release build; all unit tests, fuzz corpora among them, under
# the address and undefined-behaviour sanitizers; those labelled tsan-short under the thread
# sanitizer. Labels: tests/CMakeLists.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/test-steps.sh

step "release build"
release_tests=(--label-regex '^(optimised|cli|smollm2|house)$' --label-exclude '^(slow|models)$')
build_chosen_tests release "${release_tests[@]}"
step "model: smollm2-135m-instruct"
build/release/quire pull smollm2-135m-instruct
step "tests"
run_tests release "${release_tests[@]}"

step "address and undefined-behaviour sanitizers"
unit_tests=(--label-exclude '^(slow|models|smollm2|house|cli)$')
build_chosen_tests asan "${unit_tests[@]}"
run_tests asan "${unit_tests[@]}"

step "thread sanitizer, short"
build_chosen_tests tsan --label-regex '^tsan-short$'
run_tests tsan --label-regex '^tsan-short$'

closing_line
