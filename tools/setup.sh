#!/usr/bin/env bash
# Installs what building and testing needs on Debian 12; with --all, what fuzzing and the checks of
# format and style need as well; with --arm, what building for AArch64 and testing under QEMU needs.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libexpected-dev
  libvulkan-dev libvulkan-volk-dev glslc mesa-vulkan-drivers vulkan-validationlayers
  doctest-dev libutf8proc-dev libpcre2-dev libxxhash-dev libedit-dev
  locales python3 python3-pytest python3-numpy python3-jinja2 python3-jsonschema
)
if [ "${1:-}" = --all ]; then packages+=(clang-19 libclang-rt-19-dev libfuzzer-19-dev clang-format clang-tidy); fi
if [ "${1:-}" = --arm ]; then
  # Of the other libraries only headers are used, which are the same for every processor.
  packages+=(
    g++-aarch64-linux-gnu qemu-user
    libstdc++6:arm64 libutf8proc-dev:arm64 libpcre2-dev:arm64 libxxhash-dev:arm64 libedit-dev:arm64
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
