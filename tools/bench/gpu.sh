#!/usr/bin/env bash
# What a GPU does here, in one call of less than nine minutes after the build: what it is, whether
# everything is right on it, then CUDA and Vulkan against the ceilings measured in the same run, as a
# short table at the end. docs/gpus.md says what a real driver may do differently from the tests'.
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: tools/bench/gpu.sh [-D DEVICE,...] [-m SHAPE:TYPE,...] [-B]
  -D DEVICE,...      devices of one GPU (default: cuda and vulkan, those that there are)
  -m SHAPE:TYPE,...  models (default: llama-3.1-8b:q4_k_m)
  -B                 do not build; use build/release/infer as it is
Exit code 1 if anything is wrong on the GPU, 5 if there is none.
TEXT
  exit 2
}

devices='' models=llama-3.1-8b:q4_k_m build=yes
while getopts D:m:B option; do
  case $option in
    D) devices=$OPTARG ;;
    m) models=$OPTARG ;;
    B) build=no ;;
    *) usage ;;
  esac
done
((OPTIND > $#)) || usage

cd "$(dirname "$0")/../.."
infer=build/release/infer
if [[ $build == yes ]]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target infer_app >&2
fi
exec python3 tools/bench/gpu.py "$infer" "$devices" "$models"
