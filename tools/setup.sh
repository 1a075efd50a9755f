#!/usr/bin/env bash
# Installs what building needs on Debian 12; with --tests, what the tests need as well; with --all, what
# fuzzing and the checks of style need besides; with --arm, what building for AArch64 and testing under QEMU
# needs besides the tests; with --machines, what emulated machines need, and a kernel for them in build/kernel.
# With --cuda it gets NVIDIA's compiler and disassembler and nothing else, into build/cuda; it does so by itself
# on a machine with an NVIDIA GPU and no nvcc. With --clients it gets the clients of PyPI that the server's tests
# can use, into build/clients, and promtool; with --peers the packages that results are compared with, into
# build/peers: 6 GB, and a quarter of an hour of compiling.
set -euo pipefail

# NVIDIA's compiler from its packages on PyPI. Their oldest version of a major one makes kernels for
# every driver of that one. Any disassembler of the major one reads them.
get_nvcc() {
  local folder
  folder=$(dirname "$0")/../build/cuda
  if [ -x "$folder/nvidia/cu13/bin/nvcc" ]; then return; fi
  rm -rf "$folder"
  python3 -m pip --version >/dev/null 2>&1 ||
    { echo "tools/setup.sh --cuda needs pip (Debian: python3-pip)" >&2; return 1; }
  python3 -m pip install --quiet --no-deps --target "$folder" 'nvidia-cuda-nvcc==13.0.*' \
    'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' \
    'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-cuobjdump==13.*' 'nvidia-cuda-nvdisasm==13.*'
}
if [ "${1:-}" = --cuda ]; then
  get_nvcc || exit 1
  exit 0
fi

# Packages of PyPI for Debian's python3, which runs the tests, into a folder of build; not if a module of them
# is there already.
# usage: get_modules FOLDER MODULE PACKAGE...
get_modules() {
  local folder module
  folder=$(dirname "$0")/../build/$1
  module=$2
  shift 2
  if [ -d "$folder/$module" ]; then return; fi
  rm -rf "$folder"
  /usr/bin/python3 -m pip install --quiet --target "$folder" "$@"
}
get_clients() { get_modules clients langchain_openai openai anthropic ollama langchain-openai; }
# llama.cpp without what only this machine's processor has: on Intel's with AMX that does not run.
get_peers() {
  CMAKE_ARGS='-DGGML_NATIVE=OFF' get_modules peers llama_cpp 'transformers==5.24.*' torch torchvision gguf peft \
    bitsandbytes 'pillow<13' 'llama-cpp-python==0.3.36'
}

# The kernel of an emulated machine. It is only unpacked: if it were installed, this machine would boot it.
get_kernel() {
  local folder package
  folder=$(realpath "$(dirname "$0")/..")/build/kernel
  if [ -d "$folder/boot" ]; then return; fi
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$folder" && apt-get download --quiet "$package" && dpkg-deb -x ./*.deb . && rm ./*.deb)
}

packages=(
  g++ cmake ninja-build pkg-config
  libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libexpected-dev
  libvulkan-dev libvulkan-volk-dev glslc
  libutf8proc-dev libpcre2-dev libxxhash-dev libedit-dev
  libpng-dev zlib1g-dev libjpeg-dev libwebp-dev
  libcurl4-openssl-dev libssl-dev libsqlite3-dev libtomlplusplus-dev libboost-dev
  libimgui-dev libstb-dev libglfw3-dev libfreetype-dev libcmark-gfm-dev libcmark-gfm-extensions-dev
  fonts-dejavu-core
)
tests=(
  mesa-vulkan-drivers vulkan-validationlayers xvfb xauth libgl1-mesa-dri libglfw3 doctest-dev clang-format fish zsh
  locales python3 python3-pytest python3-numpy python3-jinja2 python3-jsonschema
  chromium chromium-driver python3-selenium
)
case "${1:-}" in
  "") ;;
  --tests | --arm) packages+=("${tests[@]}") ;;
  --all) packages+=("${tests[@]}" clang-19 libclang-rt-19-dev libfuzzer-19-dev clang-tidy) ;;
  --clients) packages=(python3-pip prometheus) ;;
  --peers) packages=(python3-pip python3-dev g++) ;;
  --machines) packages=(qemu-system-x86 busybox-static cpio) ;;
  *) echo "usage: tools/setup.sh [--tests | --all | --arm | --machines | --cuda | --clients | --peers]" >&2; exit 2 ;;
esac
if [ "${1:-}" = --arm ]; then
  # Of the other libraries only headers are used, which are the same for every processor.
  packages+=(
    g++-aarch64-linux-gnu qemu-user
    libstdc++6:arm64 libutf8proc-dev:arm64 libpcre2-dev:arm64 libxxhash-dev:arm64 libedit-dev:arm64
    libpng-dev:arm64 zlib1g-dev:arm64 libjpeg62-turbo-dev:arm64 libwebp-dev:arm64
    libcurl4-openssl-dev:arm64 libssl-dev:arm64 libsqlite3-dev:arm64 libtomlplusplus-dev:arm64
  )
fi

nvcc_wanted=no
if [ -e /proc/driver/nvidia/version ] && [ ! -x /usr/local/cuda/bin/nvcc ] && ! command -v nvcc >/dev/null; then
  nvcc_wanted=yes
  python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
# What comes after the packages.
get_more() {
  if [ $nvcc_wanted = yes ]; then get_nvcc || echo "Building without CUDA." >&2; fi
  if [ "${1:-}" = --clients ]; then get_clients; fi
  if [ "${1:-}" = --peers ]; then get_peers; fi
  if [ "${1:-}" = --machines ]; then get_kernel; fi
}
if [ ${#missing[@]} -eq 0 ]; then
  get_more "${1:-}"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
if [ "${1:-}" = --arm ]; then "${as_root[@]}" dpkg --add-architecture arm64; fi
"${as_root[@]}" apt-get update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y --no-install-recommends "${missing[@]}"
get_more "${1:-}"
