#!/bin/sh
# What nvcc makes of the CUDA kernels: registers, spills and shared memory of each (ptxas -v), and the
# instructions of the products' loops (cuobjdump -sass): for 32 weights of a row with few columns, for
# 128 products of matrices with many.
#
#   tools/bench/cuda_kernels.sh [MODULE …]      all modules without arguments
#   ARCHITECTURES="sm_80 sm_89 sm_90a"          of the machine code; PTX for compute_75 is always made
#   NVCC, CUOBJDUMP                             programs; on PATH or in /usr/local/cuda/bin otherwise
#
# Prints a table in Markdown. Fails if a kernel of products or attention spills.
set -eu
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/local/cuda/bin
exec python3 tools/bench/cuda_kernels.py "$@"
