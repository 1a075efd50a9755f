#!/usr/bin/env bash
# Fails if a source is not formatted as .clang-format says. Exit 77, which ctest counts as skipped,
# where clang-format is absent.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-format >/dev/null; then
  echo "SKIPPED: clang-format is not installed" >&2
  exit 77
fi
find app backends engine formats models tests -type f \
  \( -name '*.h' -o -name '*.hpp' -o -name '*.cpp' \) -print0 |
  xargs -0 clang-format --dry-run --Werror
