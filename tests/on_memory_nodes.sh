#!/usr/bin/env bash
# Runs the tests of memory nodes, and the built-in model, on an emulated machine with several nodes:
# QEMU boots Debian's kernel (build/kernel) with these programs alone. The kernel tells what lies
# where. Speed says nothing, since all of the memory is the host's.
# usage: tests/on_memory_nodes.sh BUILD NODES PROCESSORS_OF_A_NODE   (after tools/setup.sh --machines)
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 nodes=$2 processors=$3
kernel=$(echo build/kernel/boot/vmlinuz-*)
node_megabytes=1200

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root
programs=("$build/tests/test_core" "$build/tests/test_ops" "$build/infer")
question=(run -p "Once upon a time" -n 16 --temp 0)

mkdir -p "$root"/{bin,proc,sys,tmp}
cp /bin/busybox "$root/bin/busybox"
for name in sh mount poweroff; do ln -s busybox "$root/bin/$name"; done
install -s -t "$root/bin" "${programs[@]}"
ldd "${programs[@]}" | grep -o '/[^ ]*\.so[^ ]*' | sort -u |
  while read -r library; do install -D "$library" "$root$library"; done
cat > "$root/init" <<INIT
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
infer devices
test_core -tc="memory nodes*" && echo core passed
test_ops -tc="memory nodes*" && echo ops passed
echo "answer: \$(infer ${question[*]@Q} 2>/dev/null)"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) > "$folder/root.gz"

machine=()
for ((n = 0; n < nodes; ++n)); do
  first=$((n * processors))
  machine+=(-object "memory-backend-ram,id=memory$n,size=${node_megabytes}M"
    -numa "node,nodeid=$n,cpus=$first-$((first + processors - 1)),memdev=memory$n")
done
timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp $((nodes * processors)) \
  -m $((nodes * node_megabytes)) "${machine[@]}" -kernel "$kernel" -initrd "$folder/root.gz" \
  -append "console=ttyS0 panic=-1 quiet" -nographic -no-reboot | tr -d '\r' > "$folder/output"

for wanted in "memory nodes $nodes" "core passed" "ops passed" \
  "answer: $("$build/infer" "${question[@]}" 2>/dev/null)"; do
  if ! grep -qF -- "$wanted" "$folder/output"; then
    cat "$folder/output"
    echo "tests/on_memory_nodes.sh: expected \"$wanted\" in what the machine printed" >&2
    exit 1
  fi
done
if grep SKIPPED "$folder/output" | grep 'memory nodes\|threads at nodes'; then exit 1; fi
