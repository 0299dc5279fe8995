# Sourced by test.sh and test-all.sh: building, running and counting.

jobs=$(nproc)
passed=0
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT

# A sanitizer's report is a failure, wherever it comes from.
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_leaks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

step() { printf '\n== %s\n' "$*"; }

# build_tests PRESET
build_tests() {
  cmake --preset "$1" -DBUILD_TESTING=ON >/dev/null
  cmake --build --preset "$1" --parallel "$jobs"
}

# build_chosen_tests PRESET CTEST-OPTION...: what the tests that these options choose need, and no
# more: every test has a target of its name.
build_chosen_tests() {
  local preset=$1 programs
  shift
  cmake --preset "$preset" -DBUILD_TESTING=ON >/dev/null
  programs=$(ctest --test-dir "build/$preset" -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p')
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" --parallel "$jobs" --target $programs
}

# run_tests PRESET CTEST-OPTION...
run_tests() {
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$jobs" "$@" |
    tee "$counts"
  passed=$((passed + $(sed -n 's/^100% tests passed.* out of \([0-9]*\)$/\1/p' "$counts")))
}

# Reached only when nothing failed.
closing_line() { printf '\n%s passed, 0 failed\n' "$passed"; }
