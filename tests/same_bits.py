#!/usr/bin/env python3
"""Whether programs for different processors give the same bits: logits of the models in tests/data/golden,
vectors of those in tests/data/embed, and texts of the built-in model.

usage: tests/same_bits.py PROGRAM OTHER...

A program is a command, which may have an emulator and arguments that all commands take:
"qemu-aarch64 build/arm64/infer". Each runs on one thread and on three. Prints what differs, and fails then.
"""

import hashlib
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent / "data"
TEXTS = "The quick brown fox\nand a few words that are much longer than it\na\n"
QUESTIONS = [
    ["-p", "Once upon a time", "-n", "48", "--temp", "0"],
    ["-p", "The dog and the cat", "-n", "48", "--temp", "0.9", "--seed", "11"],
    ["-p", "Lily said", "-n", "48", "--temp", "1.2", "--top-k", "0", "--min-p", "0.05", "--seed", "12"],
    ["-p", "A bird", "-n", "48", "--temp", "0.7", "--mirostat", "2", "--seed", "13"],
]


def run(program, arguments):
    """What it printed. A failure is the comparison's."""
    done = subprocess.run(program + arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"tests/same_bits.py: {shlex.join(program + arguments)} failed: {done.stderr.decode()}")
    return done.stdout


def cases(folder):
    """Name and arguments of each; logits go to `folder`."""
    texts = folder / "texts"
    texts.write_text(TEXTS)
    for description in sorted((DATA / "golden").glob("*.json")):
        model = description.with_suffix("")
        if not model.is_dir():
            model = description.with_suffix(".gguf")
        tokens = ",".join(map(str, json.loads(description.read_text())["tokens"]))
        for variant in [["-t", "1"], ["-t", "3", "--exact"], ["-t", "3", "-ctk", "f16", "-ctv", "f16"]]:
            yield model.name, ["eval", "-m", str(model), "--tokens", tokens, "--logits", str(folder / "logits"), *variant]
    for directory in sorted((DATA / "embed").iterdir()):
        file = directory / "model.gguf"
        common = ["-m", str(file if file.exists() else directory), "-t", "3", "-f", str(texts)]
        if directory.name.endswith(("-rank", "-reranker")):
            yield directory.name, ["rerank", *common, "-q", "a question"]
        else:
            yield directory.name, ["embed", *common]
    vision = DATA / "vision"
    prompt = json.loads((vision / "tiny.json").read_text())
    images = [word for name in prompt["images"] for word in ("--image", str(vision / name))]
    yield "images", ["eval", "-m", str(vision / "tiny.gguf"), "--mmproj", str(vision / "tiny-mmproj.gguf"), "-t", "3", *images,
                     "--tokens", ",".join(map(str, prompt["tokens"])), "--logits", str(folder / "logits")]
    for question in QUESTIONS:
        for threads in ["1", "3"]:
            yield "built-in model", ["run", "-t", threads, *question]


def fingerprints(program, folder):
    logits = folder / "logits"
    for name, arguments in cases(folder):
        printed = run(program, arguments)
        if arguments[0] == "eval":
            printed = logits.read_bytes()
            logits.unlink()
        if not printed:
            sys.exit(f"tests/same_bits.py: {shlex.join(program + arguments)} printed nothing")
        yield name, arguments, hashlib.sha256(printed).hexdigest()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    programs = [shlex.split(program) for program in sys.argv[1:]]
    compared, different = 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        folders = [pathlib.Path(temporary, str(i)) for i in range(len(programs))]
        for folder in folders:
            folder.mkdir()
        for row in zip(*(fingerprints(*pair) for pair in zip(programs, folders)), strict=True):
            first = row[0]
            for program, (name, arguments, fingerprint) in zip(programs[1:], row[1:], strict=True):
                compared += 1
                if fingerprint != first[2]:
                    different += 1
                    print(f"{name}: other bits: {shlex.join(program + arguments)}")
    print(f"{compared} compared, {different} different")
    sys.exit(different != 0 or compared == 0)


if __name__ == "__main__":
    main()
