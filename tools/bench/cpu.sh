#!/usr/bin/env bash
# Reproduces the figures of RESULTS.md on this machine: builds the release preset, makes the models
# in a temporary folder, measures them one after another and prints a table.
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: tools/bench/cpu.sh [options]
  -m SHAPE:TYPE,...  models (default: tinyllama-1.1b in q4_0, q4_k_m, q6_k and q8_0, llama-24m in q4_0)
  -p, -n, -d, -b, -r, -t  as those of 'infer bench' (default: -p 256,512 -n 32 -d 0,4096 -b 1,4 -r 3)
  -D DEVICE          as 'infer bench --device' (default: cpu)
  -q                 quick: llama-24m alone, shallow
  -B                 do not build; use build/release/infer as it is
  -o DIR             keep the JSON of each model there
TEXT
  exit 2
}

models=tinyllama-1.1b:q4_0,tinyllama-1.1b:q4_k_m,tinyllama-1.1b:q6_k,tinyllama-1.1b:q8_0,llama-24m:q4_0
prompts=256,512 generations=32 depths=0,4096 batches=1,4 repeats=3 threads=0
build=yes results='' device=cpu
while getopts m:p:n:d:b:r:t:D:qBo: option; do
  case $option in
    m) models=$OPTARG ;;
    p) prompts=$OPTARG ;;
    n) generations=$OPTARG ;;
    d) depths=$OPTARG ;;
    b) batches=$OPTARG ;;
    r) repeats=$OPTARG ;;
    t) threads=$OPTARG ;;
    D) device=$OPTARG ;;
    q) models=llama-24m:q4_0 depths=0 ;;
    B) build=no ;;
    o) results=$(realpath -m -- "$OPTARG") ;;
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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[[ -n $results ]] && mkdir -p "$results"

compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' build/release/CMakeCache.txt)
echo "machine:  $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
[[ $device == cpu ]] || "$infer" devices
echo "compiler: $("$compiler" --version | head -n 1)"
echo "source:   $(git describe --always --dirty 2>/dev/null || echo unknown)"
echo
echo "| model | test | tokens/s | a sequence | of the ceiling | ceilings (GB/s, G MAC/s) |"
echo "|---|---|---|---|---|---|"

IFS=, read -ra wanted <<<"$models"
for model in "${wanted[@]}"; do
  shape=${model%%:*} type=${model#*:}
  [[ $shape != "$model" ]] || usage
  file=$folder/$shape-$type.gguf
  "$infer" synth "$shape" "$file" --type "$type" -q
  json=$folder/$shape-$type.json
  "$infer" bench -m "$file" -p "$prompts" -n "$generations" -d "$depths" -b "$batches" \
    -r "$repeats" -t "$threads" --device "$device" --json >"$json"
  python3 - "$shape $type" "$json" <<'PYTHON'
import json
import sys

name, path = sys.argv[1:]
with open(path) as file:
    report = json.load(file)
# One prompt and one generation alone come without the list.
results = report.get("results") or [
    {"test": f"{letters}{report[phase]['tokens']}", "batch": 1, "bound": bound,
     "tokens_per_s_per_sequence": report[phase]["tokens_per_s"], **report[phase]}
    for phase, letters, bound in (("prefill", "pp", "arithmetic"), ("decode", "tg", "bandwidth"))]
for r in results:
    each = f"{r['tokens_per_s_per_sequence']:.1f}" if r["batch"] > 1 else ""
    print(f"| {name} | {r['test']} | {r['tokens_per_s']:.1f} ± {r['spread']:.1%} | {each} "
          f"| {r['fraction']:.1%} of the {r['bound']} "
          f"| {report['read_bandwidth_gb_s']:.0f}, {report['int8_mac_g_s']:.0f} |")
PYTHON
  [[ -z $results ]] || cp "$json" "$results/"
  rm "$file"
done
