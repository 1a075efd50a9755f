#!/usr/bin/env bash
# Makes the icons in desktop/ of desktop/infer.svg. Needs rsvg-convert (Debian: librsvg2-bin).
set -euo pipefail
cd "$(dirname "$0")/../desktop"

for size in 48 128 256; do
  rsvg-convert -w "$size" -h "$size" infer.svg -o "infer-$size.png"
done
