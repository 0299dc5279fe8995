#!/usr/bin/env bash
# What `make peers` runs: other engines to measure beside (bench/compare), in build/peers.
#   llama        llama.cpp for this processor, and llama-avx2 for AVX2 alone; both built from the
#                source package of llama-cpp-python, about 10 minutes each on two cores
#   openvino     a Python environment with OpenVINO GenAI
# A step that is done is passed over. An engine that cannot be had is said, and the rest goes on:
# bench/compare names it as not measured. Status 1 when llama.cpp is missing at the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

llama_package=llama-cpp-python==0.3.36
programs=(llama-bench llama-batched-bench llama-server llama-quantize llama-perplexity)
peers=build/peers
mkdir -p "$peers"

say() { printf '== %s\n' "$*"; }

# Sets `source` to the folder of llama.cpp, fetched where it is missing.
fetch_llama() {
  source=$(echo "$peers"/llama-source/*/vendor/llama.cpp)
  if [ -f "$source/CMakeLists.txt" ]; then return; fi
  say "fetching $llama_package"
  rm -rf "$peers/llama-source" "$peers/download"
  mkdir -p "$peers/llama-source.part"
  # Takes a minute: pip prepares the package's metadata with its build tools.
  python3 -m pip download --quiet --no-deps --no-binary :all: --dest "$peers/download" \
    "$llama_package" || return 1
  tar -xf "$peers"/download/*.tar.gz -C "$peers/llama-source.part" &&
    mv "$peers/llama-source.part" "$peers/llama-source" &&
    source=$(echo "$peers"/llama-source/*/vendor/llama.cpp)
}

# build_llama NAME CMAKE-FLAG...
build_llama() {
  local folder=$peers/$1 program
  shift
  for program in "${programs[@]}"; do
    if [ -x "$folder/bin/$program" ]; then continue; fi
    fetch_llama || return 1
    say "building llama.cpp in $folder"
    if ! { cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF \
             -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF "$@" >"$folder.log" 2>&1 &&
           cmake --build "$folder" --parallel "$(nproc)" --target "${programs[@]}"; }; then
      say "llama.cpp cannot be built in $folder ($folder.log)"
      return 1
    fi
    return 0
  done
  say "$folder is there"
}

install_openvino() {
  local venv=$peers/openvino
  if "$venv/bin/python" -c 'import openvino_genai' 2>/dev/null; then
    say "$venv is there"
    return
  fi
  say "installing OpenVINO GenAI in $venv"
  python3 -m venv "$venv" && "$venv/bin/pip" install --quiet openvino-genai numpy &&
    "$venv/bin/python" -c 'import openvino_genai'
}

status=0
build_llama llama -DGGML_NATIVE=ON || status=1
build_llama llama-avx2 -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON || status=1
install_openvino || say "OpenVINO GenAI cannot be had here; bench/compare goes without it"
[ "$status" -eq 0 ] || say "llama.cpp is missing"
exit "$status"
