#!/usr/bin/env bash
# Everything: formatting, clang-tidy, the whole suite with and without sanitizers, comparisons with packages
# of PyPI, memory nodes and the tests of an AArch64 build under emulation, and long fuzzing.
# Hours, unlike .ci/run.
# usage: tools/check.sh [seconds for each fuzz target, default 600]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
jobs=$(nproc)

tools/setup.sh --all
tools/check_format.sh

export INFER_ALL_CASES=1
for preset in release asan tsan; do
  cmake --preset "$preset"
  cmake --build --preset "$preset" -j "$jobs"
  ctest --preset "$preset"
done

tools/setup.sh --clients
tools/setup.sh --peers
PYTHONPATH=build/peers:build/clients ctest --preset release -R '^programs$'

# An hour of random requests: nothing is lost, and the server's memory does not grow.
INFER_BIN=build/release/infer python3 tests/server/endure.py 3600

tools/setup.sh --machines
tests/on_memory_nodes.sh build/release 2 2
tests/on_memory_nodes.sh build/release 4 1

# Each source by itself: that also shows where one does not include what it needs.
cmake --preset release -B build/alone -DINFER_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
cmake --build build/alone -j "$jobs"
git ls-files '*.cpp' ':!tests/fuzz' |
  xargs -P "$jobs" -n 4 clang-tidy -p build/alone --quiet --warnings-as-errors='*'

cmake --preset fuzz
for source in tests/fuzz/*_fuzz.cpp; do
  target=fuzz_$(basename "$source" _fuzz.cpp)
  cmake --build --preset fuzz -j "$jobs" --target "$target"
  "build/fuzz/tests/$target" -max_total_time="$seconds" -print_final_stats=1
done

tools/setup.sh --arm
cmake --preset arm64
cmake --build --preset arm64 -j "$jobs"
ctest --preset arm64
tests/same_bits.py build/release/infer "qemu-aarch64 -cpu max build/arm64/infer"
