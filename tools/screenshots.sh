#!/usr/bin/env bash
# Writes pictures of the window's main states, in several sizes and themes, into a folder. Those in
# docs/images are made by it: tools/screenshots.sh docs/images.
#   tools/screenshots.sh FOLDER
set -euo pipefail
folder=$(realpath -m "${1:?usage: tools/screenshots.sh FOLDER}")
cd "$(dirname "$0")/.."

tools/setup.sh --tests
cmake --preset release
cmake --build --preset release --target test_gui
INFER_SCREENSHOTS=$folder ctest --preset release -R '^gui$' -V | grep -E 'test cases|SKIPPED|ERROR'
ls "$folder"
