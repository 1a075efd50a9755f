#!/usr/bin/env bash
# Installs what building needs on Debian 12; with --tests, what the tests need as well; with --all, what
# fuzzing and the checks of style need besides; with --arm, what building for AArch64 and testing under
# QEMU needs besides the tests.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libexpected-dev
  libvulkan-dev libvulkan-volk-dev glslc
  libutf8proc-dev libpcre2-dev libxxhash-dev libedit-dev
  libcurl4-openssl-dev libssl-dev libsqlite3-dev libtomlplusplus-dev
  libimgui-dev libstb-dev libglfw3-dev libcmark-gfm-dev libcmark-gfm-extensions-dev fonts-dejavu-core
)
tests=(
  mesa-vulkan-drivers vulkan-validationlayers xvfb xauth libgl1-mesa-dri libglfw3 doctest-dev clang-format fish zsh
  locales python3 python3-pytest python3-numpy python3-jinja2 python3-jsonschema
)
case "${1:-}" in
  "") ;;
  --tests | --arm) packages+=("${tests[@]}") ;;
  --all) packages+=("${tests[@]}" clang-19 libclang-rt-19-dev libfuzzer-19-dev clang-tidy) ;;
  *) echo "usage: tools/setup.sh [--tests | --all | --arm]" >&2; exit 2 ;;
esac
if [ "${1:-}" = --arm ]; then
  # Of the other libraries only headers are used, which are the same for every processor.
  packages+=(
    g++-aarch64-linux-gnu qemu-user
    libstdc++6:arm64 libutf8proc-dev:arm64 libpcre2-dev:arm64 libxxhash-dev:arm64 libedit-dev:arm64
    libcurl4-openssl-dev:arm64 libssl-dev:arm64 libsqlite3-dev:arm64 libtomlplusplus-dev:arm64
  )
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
if [ "${1:-}" = --arm ]; then "${as_root[@]}" dpkg --add-architecture arm64; fi
"${as_root[@]}" apt-get update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y --no-install-recommends "${missing[@]}"
