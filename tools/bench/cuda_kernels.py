"""The work of cuda_kernels.sh."""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path("backends/cuda")
NVCC = os.environ.get("NVCC", "nvcc")
CUOBJDUMP = os.environ.get("CUOBJDUMP", "cuobjdump")
ARCHITECTURES = os.environ.get("ARCHITECTURES", "sm_80 sm_89 sm_90a").split()
OPTIONS = ["-std=c++20", "-O3", "-fmad=false", "-I", "."]
# Of the products' types: whether runs are of 16 elements, and products of codes a run.
RUNS_OF_16 = {"q2_k", "q3_k", "q6_k", "nvfp4"}
TWO_PARTS = {"nf4", "fp4"}
# Instructions of a warp for 16 rows and 64 elements of K that a product with one column has to stay under.
TARGETS = {"q4_0": 80, "q4_k": 80, "q6_k": 115, "q8_0": 90}
# Bytes that a product with one column may spill and load: outside of its loop over K.
COLUMN_SPILLS = 40
# Products of matrices for 32 rows, 64 columns and 256 elements of K, with runs of 32.
TILE_PRODUCTS = 128


def units(folder):
    """Writes the units that the build writes (backend.cmake); yields module and path."""
    for path in sorted(ROOT.glob("*.cu")) + sorted(ROOT.glob("ops/*.cu")):
        yield path.stem, path
    for header in sorted(ROOT.glob("quant/*.h")):
        for line in re.findall(r"^// kernels: (.*)$", header.read_text(encoding="utf-8"), re.M):
            for base in line.split():
                name = f"{base}_{header.stem}"
                unit = pathlib.Path(folder) / f"{name}.cu"
                unit.write_text(
                    f'#define INFER_TYPE {header.stem}\n#include "{header}"\n'
                    f'#include "{ROOT}/weights/{base}.cu"\n',
                    encoding="utf-8",
                )
                yield name, unit


def figures(text):
    """By kernel: registers, bytes spilled, bytes of static shared memory."""
    found = {}
    for entry in re.split(r"Compiling entry function ", text)[1:]:
        name = re.match(r"'(\w+)'", entry).group(1)
        shared = re.search(r"(\d+) bytes smem", entry)
        found[name] = (
            int(re.search(r"Used (\d+) registers", entry).group(1)),
            sum(int(n) for n in re.findall(r"(\d+) bytes spill", entry)),
            int(shared.group(1)) if shared else 0,
        )
    return found


def instructions(cubin, kernel):
    """Of a kernel: (address, opcode, target of a branch)."""
    text = subprocess.run([CUOBJDUMP, "-sass", "-fun", kernel, cubin], check=True,
                          capture_output=True, text=True).stdout
    code = []
    for address, body in re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?);", text, re.M):
        words = [w for w in body.split() if not w.startswith(("@", "{", "}"))]
        target = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)", body)
        code.append((int(address, 16), words[0], int(target.group(1), 16) if target else None))
    return code


def multiplies(opcode):
    # HFMA2.MMA only writes constants.
    return opcode.startswith("IDP.4A") or ("MMA" in opcode and not opcode.startswith("HFMA2"))


def loop(code):
    """The loop with the most products, of matrices or of four bytes, for its length."""
    best, most = [], 0.0
    for address, _, target in code:
        if target is None or target >= address:
            continue
        body = [c for c in code if target <= c[0] <= address]
        products = sum(multiplies(c[1]) for c in body) / len(body)
        if products > most:
            best, most = body, products
    if not best:  # unrolled as a whole: from the first product to the last
        at = [i for i, c in enumerate(code) if multiplies(c[1])]
        best = code[at[0]:at[-1] + 1] if at else []
    return best


def per_tile(kernel, code):
    """Of weights/column.cu: instructions of a warp by class for 16 rows and 64 elements of K."""
    kind = kernel.removeprefix("column_")
    products = sum("IDP.4A" in c[1] for c in code)
    tiles = products / (16 if kind in TWO_PARTS else 8)
    classes = collections.Counter()
    for _, opcode, _ in code:
        word = opcode.split(".")[0]
        if word in ("IDP", "LDGSTS", "LDS", "SHFL", "SEL"):
            classes[word] += 1
        elif word in ("FFMA", "FMUL", "FADD", "HADD2"):
            classes["float"] += 1
    return len(code) / tiles, {c: n / tiles for c, n in classes.items()}


def per_products(kernel, code):
    """Of weights/tile.cu: instructions of a warp for 32 rows, 64 columns and 256 elements of K, by
    class, without what ends a stretch of K; and those of an end."""
    kind = kernel.removeprefix("tile_")
    blocks = blocks_of(code)
    ends = [b for b in blocks
            if any(c[1] == "FADD" for c in b) and not any("MMA" in c[1] for c in b)]
    inner = [c for b in blocks if b not in ends for c in b]
    products = sum("IMMA" in c[1] for c in inner)
    scale = TILE_PRODUCTS * (2 if kind in RUNS_OF_16 else 1) * (2 if kind in TWO_PARTS else 1)
    classes = collections.Counter(c[1].split(".")[0] for c in inner)
    each = scale / products
    return (len(inner) * each, {c: n * each for c, n in classes.items()}, sum(map(len, ends)))


def blocks_of(code):
    """Its basic blocks."""
    leaders = {c[2] for c in code if c[2] is not None}
    blocks = [[]]
    for c in code:
        if c[0] in leaders or (blocks[-1] and blocks[-1][-1][1] in ("BRA", "EXIT")):
            blocks.append([])
        blocks[-1].append(c)
    return blocks


def half_products(code):
    """Blocks with products of halves, and those with powers of two (the weights of a softmax): of each
    its instructions, products, loads of matrices."""
    found = []
    for block in blocks_of(code):
        count = collections.Counter(c[1].split(".")[0] for c in block)
        powers = sum(c[1] == "MUFU.EX2" for c in block)
        if count["HMMA"] >= 16 or (powers >= 16 and not count["FFMA"]):
            found.append(f"{len(block)} ({count['HMMA']}, {count['LDSM']}, {powers})")
    return "; ".join(found)


def per_warpgroup_product(code):
    """Of weights/warpgroup_tile.cu: instructions of a warp for 16 elements of K, with copies that only
    some of them bring, and how many of each opcode."""
    products = sum(c[1].startswith("HGMMA") for c in code) or 1
    classes = collections.Counter(c[1].split(".")[0] for c in code)
    return len(code) / products, collections.Counter({c: n / products for c, n in classes.items()})


def main():
    wanted = set(sys.argv[1:])
    failed = []
    rows = []
    counts = []
    tiles = []
    halves = []
    warpgroups = []
    sass = shutil.which(CUOBJDUMP) is not None
    with tempfile.TemporaryDirectory() as folder:
        for module, unit in units(folder):
            if wanted and module not in wanted:
                continue
            subprocess.run([NVCC, *OPTIONS, "-ptx", "-arch=compute_75", "-o", os.devnull, unit],
                           check=True)
            by_arch = {}
            for arch in ARCHITECTURES:
                cubin = f"{folder}/{module}_{arch}.cubin"
                made = subprocess.run(
                    [NVCC, *OPTIONS, "-cubin", f"-arch={arch}", "-Xptxas", "-v", "-o", cubin, unit],
                    check=True, capture_output=True, text=True)
                by_arch[arch] = figures(made.stderr + made.stdout)
                for kernel in by_arch[arch]:
                    counted = kernel == module and module.startswith("column_")
                    if sass and counted and arch in ("sm_89", "sm_90a"):
                        counts.append((kernel, arch, *per_tile(kernel, loop(
                            instructions(cubin, kernel)))))
                    if sass and kernel == module and module.startswith("tile_"):
                        tiles.append((kernel, arch, *per_products(kernel, loop(
                            instructions(cubin, kernel)))))
                    if sass and module.startswith(
                            ("half_tile", "decoded_tile", "attention_tile", "text_attention_tile")):
                        halves.append((kernel, arch, half_products(instructions(cubin, kernel))))
                    if sass and kernel.startswith("warpgroup_tile") and not kernel.endswith("_glu"):
                        warpgroups.append((kernel, arch, *per_warpgroup_product(loop(
                            instructions(cubin, kernel)))))
            for kernel in dict.fromkeys(k for a in ARCHITECTURES for k in by_arch[a]):
                cells = [by_arch[a].get(kernel, ("–", 0, 0)) for a in ARCHITECTURES]  # not chosen there
                rows.append((kernel, cells))
                allowed = COLUMN_SPILLS if re.fullmatch(r"column_q\d_k_glu", kernel) else 0
                spilled = any(c[1] > allowed for c in cells)
                if spilled and kernel.startswith(
                        ("column", "product", "rows", "attention", "text_attention", "half_tile",
                         "warpgroup_tile")):
                    failed.append(kernel)
    print(f"| kernel | registers ({', '.join(ARCHITECTURES)}) | bytes spilled | shared bytes |")
    print("|---|---|---|---|")
    for kernel, cells in rows:
        print(f"| {kernel} | {', '.join(str(c[0]) for c in cells)} |"
              f" {', '.join(str(c[1]) for c in cells)} | {max(c[2] for c in cells)} |")
    words = ("IDP", "LDGSTS", "LDS", "SHFL", "SEL", "float")
    if counts:
        print(f"\n| one column | GPU | instructions of a tile | {' | '.join(words)} | target |")
        print("|---|---|---|---|---|---|---|---|---|---|")
    for kernel, arch, count, classes in counts:
        cells = " | ".join(f"{classes.get(c, 0):.2g}" for c in words)
        target = TARGETS.get(kernel.removeprefix("column_"))
        print(f"| {kernel} | {arch} | {count:.0f} | {cells} | {target or ''} |")
        if target and count > target:
            failed.append(f"{kernel} on {arch}: {count:.0f} instructions")
    if tiles:
        print("\n| tile | GPU | instructions | IMMA | HMMA | LDG | LDS | FFMA | end of a stretch |")
        print("|---|---|---|---|---|---|---|---|---|")
    for kernel, arch, count, classes, end in tiles:
        words = ("IMMA", "HMMA", "LDG", "LDS", "FFMA")
        cells = " | ".join(f"{classes.get(c, 0):.0f}" for c in words)
        print(f"| {kernel} | {arch} | {count:.0f} | {cells} | {end} |")
    if halves:
        print("\n| kernel | GPU | instructions of blocks (HMMA, LDSM, EX2) |")
        print("|---|---|---|")
    for kernel, arch, found in halves:
        print(f"| {kernel} | {arch} | {found} |")
    if warpgroups:
        print("\n| kernel | GPU | instructions of a product | LDS | PRMT, LOP3 | HADD2, HMUL2, HFMA2 |")
        print("|---|---|---|---|---|---|")
    for kernel, arch, count, classes in warpgroups:
        cells = (classes["LDS"], classes["PRMT"] + classes["LOP3"],
                 classes["HADD2"] + classes["HMUL2"] + classes["HFMA2"])
        print(f"| {kernel} | {arch} | {count:.0f} | {' | '.join(f'{c:.2g}' for c in cells)} |")
    for what in failed:
        print(f"over its limit: {what}", file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
