#!/usr/bin/env bash
# What a GPU does here, in one call of less than nine minutes: what it is, whether every operation is
# right on it, then speed against its ceilings, as a short table at the end.
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: tools/bench/gpu.sh [-D DEVICE] [-m SHAPE:TYPE,...] [-B]
  -D DEVICE          as 'infer bench --device' (default: vulkan)
  -m SHAPE:TYPE,...  models (default: llama-3.1-8b:q4_k_m,llama-24m:q4_0)
  -B                 do not build; use build/release/infer as it is
TEXT
  exit 2
}

device=vulkan models=llama-3.1-8b:q4_k_m,llama-24m:q4_0 build=yes
while getopts D:m:B option; do
  case $option in
    D) device=$OPTARG ;;
    m) models=$OPTARG ;;
    B) build=no ;;
    *) usage ;;
  esac
done
((OPTIND > $#)) || usage

cd "$(dirname "$0")/../.."
if [[ $build == yes ]]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target infer_app >&2
fi
timeout 150 build/release/infer selftest --device "$device" >&2 ||
  echo "selftest: exit code $? (124: not done in 150 s)" >&2
timeout 330 tools/bench/cpu.sh -B -D "$device" -m "$models" -p 512 -n 64 -d 0 -b 1,4 -r 3
