#!/usr/bin/env bash
# Lists what the last run of the tests skipped, from ctest's log (default: that of the release build).
# Fails if something was skipped for another reason than what the machine or the GPU lacks, NVIDIA's
# compiler or disassembler, FreeType, a package of PyPI that a test compares with, a program that only looks
# at what the server says, or that the tests run as root.
set -euo pipefail
cd "$(dirname "$0")/.."

log=${1:-build/release/Testing/Temporary/LastTest.log}
[ -e "$log" ] || { echo "$log: no log of ctest; run the tests first" >&2; exit 2; }

skips=$(grep -aE '^SKIPPED' "$log" | sort | uniq -c || true)
if [ -z "$skips" ]; then echo "No test was skipped."; exit 0; fi

peers='openai|anthropic|ollama|langchain_openai|ray(\.serve)?|torch|transformers|tokenizers|safetensors(\.torch)?|bitsandbytes|gguf|llama_cpp|PIL'
allowed="could not import '($peers)'|the Python package ($peers) is missing"
allowed+="|no Vulkan device|no such device here|SKIPPED: vulkan: |the device has no |no driver of Vulkan that compiles for absent AMD GPUs|the table of shaders is that of "
allowed+="|(promtool|systemd-analyze) is not installed|this systemd-analyze cannot look at files"
allowed+="|SKIPPED: kernels of CUDA: |SKIPPED: machine code of CUDA's kernels: "
allowed+="|at memory nodes: (this machine has one|the system does not tell what lies where)$|SKIPPED: threads at nodes: this process may use one processor$"
allowed+="|SKIPPED: emoji: FreeType "
allowed+="|SKIPPED: (avx|neon)[a-z0-9_]*: |: the administrator reads all of them$"
echo "Skipped:"
echo "$skips"
if others=$(grep -vE "$allowed" <<<"$skips"); then
  echo "These were skipped for another reason than the machine or a package of PyPI:" >&2
  echo "$others" >&2
  exit 1
fi
