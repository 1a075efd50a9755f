"""Weights used from mapped files: logits are those without, to the bit, where matrices are stored
as they are used, and where they are made of what is stored (directories) or lie in an adapter."""

import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf, model  # noqa: E402
from tests.golden.test_adapters import random_adapter  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

DATA = ROOT / "tests/data/golden"
DIRECTORIES = sorted(path.name for path in DATA.glob("hf-*") if path.is_dir())
WAYS = (["--mmap"], ["--spill"], ["--spill", "--chunk", "1"])


def evaluate(folder, *options):
    done = subprocess.run([os.environ["INFER_BIN"], "eval", "--tokens", "1,5,9,2,7,11,3", "--logits",
                           folder / "out.f32", "-c", "64", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (folder / "out.f32").read_bytes()


@pytest.mark.parametrize("name", DIRECTORIES)
def test_directories(name, tmp_path):
    loaded = evaluate(tmp_path, "-m", DATA / name)
    for way in WAYS:
        assert evaluate(tmp_path, "-m", DATA / name, *way) == loaded, way


@pytest.mark.parametrize("name", ["llama-f32.gguf", "qwen3-f32.gguf"])
def test_adapters(name, tmp_path):
    gguf.write(tmp_path / "adapter.gguf", *random_adapter(model.Model(DATA / name), 1))
    options = ["-m", DATA / name, "--lora", tmp_path / "adapter.gguf"]
    loaded = evaluate(tmp_path, *options)
    assert loaded != evaluate(tmp_path, "-m", DATA / name)
    for way in WAYS:
        assert evaluate(tmp_path, *options, *way) == loaded, way
