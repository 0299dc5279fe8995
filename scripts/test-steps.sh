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

# build_labelled_tests PRESET LABEL: the programs of the tests with that label, and no others.
build_labelled_tests() {
  cmake --preset "$1" -DBUILD_TESTING=ON >/dev/null
  local programs
  programs=$(ctest --test-dir "build/$1" -N -L "^$2\$" | sed -n 's/^ *Test *#[0-9]*: //p')
  # shellcheck disable=SC2086
  cmake --build --preset "$1" --parallel "$jobs" --target $programs
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
