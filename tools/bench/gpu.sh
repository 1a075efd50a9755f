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
  # Kernels for this machine's GPUs alone: for all that there are it would take several times as long.
  options=()
  if command -v nvidia-smi >/dev/null; then
    gpus=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u |
      sed -E 's/^([0-9]+)\.([0-9]+)$/sm_\1\2/; s/^sm_90$/sm_90a/' | paste -sd ';') || true
    if [[ $gpus =~ ^sm_ ]]; then options=("-DINFER_CUDA_ARCHITECTURES=$gpus"); fi
  fi
  cmake --preset release "${options[@]}" | grep 'Back end' >&2
  cmake --build --preset release --target infer_app >&2
fi
exec python3 tools/bench/gpu.py "$infer" "$devices" "$models"
