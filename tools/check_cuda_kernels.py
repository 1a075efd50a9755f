#!/usr/bin/env python3
"""Whether the kernels of a build are compiled as they are meant to be.

  tools/check_cuda_kernels.py FOLDER      of the build's *.fatbin, and *.fatbin.txt with what ptxas said
  tools/check_cuda_kernels.py --none WHY  the build has no kernels

Checks for every kernel and GPU that what decodes, attends or multiplies numbers of 16 bits neither spills
registers nor keeps arrays in memory, that tiles of bytes spill little, that a multiprocessor's
registers suffice for the blocks that the kernel states, and that products of warpgroups run beside the
threads.
Where cuobjdump is (CUOBJDUMP, PATH, /usr/local/cuda/bin, build/cuda), also that the machine code multiplies
with the instruction that is meant and loads weights, keys and values 128 bits at a time, or many bytes.

Exits with 1 if a kernel is not as it is meant to be, with 77 if nothing could be checked.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
REGISTERS = 64 << 10  # of a multiprocessor, of every GPU from compute capability 5.0 on
GRANULE = 256  # registers that a warp takes at a time
SKIPPED = 77

# Kernels, with their GPU if it matters, and the bytes that they may spill. Products of bytes use all registers
# that a thread can have: some compilers' versions for some GPUs need a few more. Those of
# a single column spill what they use once for a row of tiles.
SPILLS = [(r"stream_q2_k(_glu)?", 64),
          (r"column_q[2356]_k_glu", 40),
          (r"(column|product|stream|rows|half_tile|warpgroup_tile|attention|text_attention|pooled|scan|causal_conv|select)_\w+", 0),
          (r"tile_\w+", 128),
          (r"decoded_tile_\w+", 192)]
# Kernels by name, with their GPU if it matters, threads of a block, blocks that a multiprocessor is to
# hold. The first match counts.
# Those of attention's tiles are in backends/cuda/ops/attention.h and text_attention.h.
BLOCKS = [
    (r"column_(nf4|fp4)\w*( for \w+)?", 256, 3),
    (r"column_\w+ for sm_(90a?|1\d\d)", 256, 4),
    (r"column_\w+", 256, 3),
    (r"product_\w+", 256, 1),
    (r"rows_\w+", 256, 1),
    (r"half_tile_\w+_few", 128, 3),
    (r"half_tile_\w+ for sm_(80|90a)", 256, 2),
    (r"half_tile_\w+", 256, 1),
    (r"decoded_tile_\w+_16(_glu)?", 64, 8),
    (r"decoded_tile_\w+_64(_glu)?", 64, 6),
    (r"decoded_tile_\w+", 128, 2),
    (r"warpgroup_tile_\w+_16(_glu)?", 128, 3),
    (r"warpgroup_tile_\w+_64(_glu)?", 128, 4),
    (r"warpgroup_tile_\w+", 256, 2),
    (r"to_fragments", 256, 4),
    (r"to_fragments_long", 512, 2),
    (r"stream_\w+", 256, 2),
    (r"tile_\w+_few(_glu)?", 128, 4),
    (r"tile_\w+", 512, 1),
    (r"attention_(chosen_)?\d+_\d+", 128, 3),
    (r"select_slots(_by_head)?", 128, 4),
    (r"select_slots_merge", 1024, 1),
    (r"pooled_attention", 128, 3),
    (r"scan_(by_channel_)?(64|128)", 256, 2),
    (r"scan_by_element_16", 256, 4),
    (r"scan_(by_channel_|by_element_)?\d+", 256, 1),
    (r"text_attention_tile_halves_\d+", 256, 4),
    (r"text_attention_64", 64, 8),
    (r"text_attention_\d+", 64, 4),
    (r"causal_conv_4", 64, 16),
]
# Modules by name, the kernel that stands for theirs (None: that of the module's name), what multiplies,
# what loads 128 bits.
CODE = [
    (r"column_\w+", None, r"IDP\.4A", r"LDGSTS\S*\.128"),
    (r"product_\w+", None, r"FFMA", r"LDG\S*\.128"),
    (r"stream_(?!gates)\w+", None, r"IMMA", r"LDGSTS\S*\.128"),
    (r"tile_\w+", None, r"IMMA", r"LDG\S*\.128"),
    (r"(half|decoded)_tile_\w+", None, r"HMMA", r"LDGSTS\S*\.128"),
    (r"warpgroup_tile_\w+", None, r"HGMMA", r"UBLKCP"),
    (r"attention_tile", "attention_tile_128_128", r"HMMA", r"LDGSTS\S*\.128"),
    (r"text_attention_tile", "text_attention_tile_80", r"HMMA", r"LDGSTS\S*\.128"),
]
# Modules without machine code for some GPUs: kernels that are not chosen there.
WITHOUT = [(r"decoded_tile_\w+", ("sm_86", "sm_89", "sm_90a", "sm_120")),
           (r"warpgroup_tile_\w+", ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"))]


def rule(rules, name):
    return next((r[1:] for r in rules if re.fullmatch(r[0], name)), None)


def attention_tiles():
    ops = ROOT / "backends/cuda/ops"
    cached = re.findall(r"\bTILE\((\d+), (\d+), (\d+)\)", (ops / "attention.h").read_text(encoding="utf-8"))
    texts = re.findall(r"\bTILE\((\d+), (\d+)\)", (ops / "text_attention.h").read_text(encoding="utf-8"))
    return ([(f"attention_tile(_biased)?_{key}_{value}", 128, int(blocks)) for key, value, blocks in cached]
            + [(f"text_attention_tile_{size}", 128, int(blocks)) for size, blocks in texts])


def figures(text):
    """(kernel, GPU, registers, bytes of its stack, bytes spilled) of what ptxas said."""
    for entry in re.split(r"Compiling entry function ", text)[1:]:
        name, arch = re.match(r"'(\w+)' for '(\w+)'", entry).groups()
        stack = re.search(r"(\d+) bytes stack frame", entry)
        yield (name, arch, int(re.search(r"Used (\d+) registers", entry).group(1)),
               int(stack.group(1)) if stack else 0,
               sum(int(n) for n in re.findall(r"(\d+) bytes spill", entry)))


def check_figures(folder):
    """Returns how many kernels were checked, and what is wrong with them."""
    blocks_of = attention_tiles() + BLOCKS
    count, wrong = 0, []
    for path in sorted(folder.glob("*.fatbin.txt")):
        wrong += [f"{path.name}: products of warpgroups one after the other: {line}"
                  for line in path.read_text(encoding="utf-8").splitlines() if "are serialized" in line]
        for name, arch, registers, stack, spilled in figures(path.read_text(encoding="utf-8")):
            count += 1
            where = f"{name} for {arch}"
            allowed = rule(SPILLS, where) or rule(SPILLS, name)
            if allowed is not None and max(stack, spilled) > allowed[0]:
                wrong.append(f"{where}: {spilled} bytes spilled, a stack of {stack} bytes")
            stated = rule(blocks_of, where) or rule(blocks_of, name)
            if stated is None:
                continue
            threads, blocks = stated
            of_warp = -(-registers * 32 // GRANULE) * GRANULE
            held = REGISTERS // (of_warp * (threads // 32))
            if held < blocks:
                wrong.append(f"{where}: {registers} registers let a multiprocessor hold {held} blocks"
                             f" of {threads} threads; it states {blocks}")
    return count, wrong


def cuobjdump():
    found = os.environ.get("CUOBJDUMP") or shutil.which("cuobjdump")
    for folder in ("/usr/local/cuda/bin", ROOT / "build/cuda/nvidia/cu13/bin"):
        found = found or shutil.which("cuobjdump", path=str(folder))
    return found


def check_code(program, path):
    """What is wrong with the machine code of a module's kernel."""
    kernel, multiplies, loads = rule(CODE, path.stem)
    kernel = kernel or path.stem
    text = subprocess.run([program, "-sass", "-fun", kernel, path], check=False, capture_output=True,
                          text=True).stdout
    wrong = []
    parts = re.split(r"^Fatbin elf code:", text, flags=re.M)[1:]
    if not parts:
        wrong.append(f"{path.name}: no machine code of {kernel}")
    without = rule(WITHOUT, path.stem) or ((),)
    for part in parts:
        arch = re.search(r"^arch = (\w+)", part, re.M).group(1)
        if arch in without[0]:
            continue
        own = r"LDG\S*\.128" if arch == "sm_75" else loads  # it has no asynchronous copies
        wrong += [f"{kernel} for {arch}: its machine code has no {word}"
                  for word in (multiplies, own) if not re.search(rf"\b{word}", part)]
    return wrong


def main():
    if len(sys.argv) != (3 if sys.argv[1:2] == ["--none"] else 2):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--none":
        print(f"SKIPPED: kernels of CUDA: {sys.argv[2]}")
        return SKIPPED
    folder = pathlib.Path(sys.argv[1])
    count, wrong = check_figures(folder)
    if count == 0:
        print(f"{folder}: the build has no machine code, only PTX", file=sys.stderr)
        return 1
    print(f"{count} kernels: registers, spills")
    program = cuobjdump()
    if program is None:
        print("SKIPPED: machine code of CUDA's kernels: cuobjdump is missing (tools/setup.sh --cuda)")
    else:
        modules = [p for p in sorted(folder.glob("*.fatbin")) if rule(CODE, p.stem)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(lambda path: check_code(program, path), modules):
                wrong += found
        print(f"{len(modules)} modules: instructions")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
