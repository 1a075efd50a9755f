#!/usr/bin/env bash
# What the products' shaders cost on AMD's GPUs, as lines of the table in RESULTS.md. No GPU is needed:
# Mesa's driver compiles for families that are not there. A family is one that the driver knows; its
# file can be another release's (VK_ICD_FILENAMES).
set -euo pipefail
cd "$(dirname "$0")/../.."

program=build/release/tests/test_shaders
[ -x "$program" ] || { echo "$program: not built; see README.md for the tests" >&2; exit 2; }
(($#)) || set -- NAVI21 VEGA10 POLARIS10
export VK_ICD_FILENAMES=${VK_ICD_FILENAMES:-$(ls /usr/share/vulkan/icd.d/radeon_icd*.json)}
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-build/release/cache} INFER_PRINT_COSTS=1

echo "| family | shader | columns | instructions | useful, % | bytes in flight | registers | waves |"
echo "|---|---|---|---|---|---|---|---|"
for family; do
  RADV_FORCE_FAMILY=$family "$program" --test-case='*cost*' 2>/dev/null | grep "^| $family "
done
