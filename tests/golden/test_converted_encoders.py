"""Converted models that make vectors, in llama.cpp: it loads them, reads the same tokens and makes
the same vectors. What cannot be had of such models is named."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf  # noqa: E402

DIRECTORIES = pathlib.Path(__file__).parent.parent / "data/embed"
# What llama.cpp computes otherwise, or not at all.
NOT_IN_LLAMA_CPP = {
    "eurobert": "it wants heads that are together as wide as the model",
    "gemma-embedding": "it wants vectors as wide as the model",
    "neo-bert": "it takes the rows of each head's queries, keys and values for those of all heads",
}
TEXT = "hello world"
# A process of its own: where llama.cpp refuses a file it ends the process.
READ = """
import sys, llama_cpp
model = llama_cpp.Llama(sys.argv[1], embedding=True, n_ctx=64, n_threads=1, verbose=False,
                        pooling_type=int(sys.argv[3]))
vector = model.embed(sys.argv[2], normalize=True)
print(*(vector if isinstance(vector, list) else [vector]))
"""


def program(*args, text=""):
    return subprocess.run([os.environ["INFER_BIN"], *args], input=text, capture_output=True,
                          text=True, check=True).stdout


@pytest.mark.parametrize("name", sorted(path.name for path in DIRECTORIES.iterdir()
                                        if (path / "config.json").exists()
                                        and "rank" not in path.name))
def test_llama_cpp_agrees(name, tmp_path):
    pytest.importorskip("llama_cpp")
    if name in NOT_IN_LLAMA_CPP:
        pytest.skip(NOT_IN_LLAMA_CPP[name])
    path = str(tmp_path / "model.gguf")
    program("convert", str(DIRECTORIES / name), path)
    read = subprocess.run([sys.executable, "-c", READ, path, TEXT, "-1"], capture_output=True,
                          text=True)
    assert read.returncode == 0, read.stderr[-2000:]
    theirs = np.array(read.stdout.split(), float)
    ours = np.array(program("embed", "-m", path, "--exact", text=TEXT + "\n").split(), float)
    assert theirs.shape == ours.shape
    difference = np.abs(theirs - ours).max()
    print(f"{name:20} {difference:.3g}")
    # Its tables of GELU and its cache are float16.
    assert difference <= 2e-3


def test_llama_cpp_takes_the_reranker(tmp_path):
    pytest.importorskip("llama_cpp")
    path = str(tmp_path / "model.gguf")
    program("convert", str(DIRECTORIES / "qwen3-reranker"), path)
    read = subprocess.run([sys.executable, "-c", READ, path, TEXT, "4"], capture_output=True,
                          text=True)
    assert read.returncode == 0, read.stderr[-2000:]


def refused(path):
    done = subprocess.run([os.environ["INFER_BIN"], "plan", "-m", path], capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    return done.stderr


def test_neobert_with_fewer_keys_is_refused(tmp_path):
    path = tmp_path / "model.gguf"
    program("convert", str(DIRECTORIES / "neo-bert"), str(path))
    metadata, tensors = gguf.read(path)
    metadata["neo-bert.attention.head_count_kv"] = 2
    gguf.write(path, metadata, tensors)
    assert "expected 4 key-value heads of 6 elements" in refused(path)


@pytest.mark.parametrize("name, change, named", [
    ("llama-embed", {"pooling": "weighted_avg"}, "pooling"),
    ("neo-bert", {"intermediate_size": 63}, "ffn_up"),
    ("neo-bert-rank", {"num_attention_heads": 5}, "heads")])
def test_other_directories_are_refused(name, change, named, tmp_path):
    shutil.copytree(DIRECTORIES / name, tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    (tmp_path / "m/config.json").write_text(json.dumps(config | change))
    assert named in refused(tmp_path / "m")
