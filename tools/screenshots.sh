#!/usr/bin/env bash
# Writes pictures of the window's main states, in several sizes and themes, into a folder. With --docs
# it writes those that the pages in docs/ show.
#   tools/screenshots.sh FOLDER
#   tools/screenshots.sh --docs
set -euo pipefail
usage="usage: tools/screenshots.sh FOLDER | --docs"
root=$(realpath "$(dirname "$0")/..")
case "${1:?$usage}" in
  --docs) folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT ;;
  *) folder=$(realpath -m "$1") ;;
esac
cd "$root"

tools/setup.sh --tests
cmake --preset release
cmake --build --preset release --target test_gui
INFER_SCREENSHOTS=$folder xvfb-run -a -s "-screen 0 2560x1600x24" \
  build/release/tests/test_gui --test-case="screenshots*"
if [ "$1" = --docs ]; then
  for state in chat plan insight; do cp "$folder/$state-dark.png" "docs/images/window-$state.png"; done
fi
