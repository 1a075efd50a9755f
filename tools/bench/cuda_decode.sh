#!/bin/sh
# What a decode step of llama-3.1-8b in Q4_K_M costs through CUDA, counted without a GPU: bytes to
# read, launches by kernel, the longest chain of launches that wait for each other, and the time that
# the memory of two GPUs allows. The step is the one that a GPU would be given; it is compiled for the
# tests' driver, and nothing computes it.
#
#   tools/bench/cuda_decode.sh [BUILD]      BUILD: build/release, with its tests
set -eu
cd "$(dirname "$0")/../.."
exec "${1:-build/release}/tests/test_cuda" -tc='counts: a decode step*' --no-intro=true
