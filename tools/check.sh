#!/usr/bin/env bash
# Everything: formatting, clang-tidy, the whole suite with and without sanitizers, long fuzzing.
# Hours, unlike .ci/run. Needs clang, clang-tidy, clang-format and libFuzzer besides tools/setup.sh.
# usage: tools/check.sh [seconds for each fuzz target, default 600]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
jobs=$(nproc)

tools/check_format.sh

for preset in release asan tsan; do
  cmake --preset "$preset"
  cmake --build --preset "$preset" -j "$jobs"
  ctest --preset "$preset"
done

git ls-files '*.cpp' ':!tests/fuzz' |
  xargs -P "$jobs" -n 4 clang-tidy -p build/release --quiet --warnings-as-errors='*'

cmake -G Ninja -S . -B build/fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DINFER_SANITIZE=address,undefined \
  -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link -DINFER_FUZZ=ON -DINFER_TESTS=ON -DINFER_APP=OFF
for source in tests/fuzz/*_fuzz.cpp; do
  target=fuzz_$(basename "$source" _fuzz.cpp)
  cmake --build build/fuzz -j "$jobs" --target "$target"
  "$(find build/fuzz -type f -name "$target")" -max_total_time="$seconds" -print_final_stats=1
done
