"""Tiny random models of Hugging Face's transformers against the reference and against the engine.

transformers computes norms, softmax and RoPE angles in float32 even in a float64 model, so it
agrees to that rounding; a wrong formula shows as 1e-6 and more.
"""

import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import from_transformers, gguf  # noqa: E402
from tests.golden.reference.model import Model, nmse  # noqa: E402

LIMIT = 1e-10


@pytest.fixture(scope="module", params=from_transformers.MODELS)
def made(request, tmp_path_factory):
    builder, tokens, logits = from_transformers.build(request.param)
    path = tmp_path_factory.mktemp("models") / f"{request.param}.gguf"
    gguf.write(path, builder.metadata, builder.tensors)
    return path, tokens, logits


def test_reference_agrees_with_transformers(made):
    path, tokens, logits = made
    error = nmse(Model(path).logits(tokens), logits)
    print(f"{path.stem:20} {error:.3g}")
    assert error <= LIMIT


def test_engine_agrees_with_transformers(made, tmp_path):
    if not os.environ.get("INFER_BIN"):
        pytest.skip("INFER_BIN does not name the program")
    path, tokens, logits = made
    out = tmp_path / "logits.f32"
    subprocess.run([os.environ["INFER_BIN"], "eval", "-m", path, "--logits", out, "--tokens",
                    ",".join(map(str, tokens))], check=True)
    error = nmse(np.fromfile(out, "<f4").reshape(logits.shape), logits)
    print(f"{path.stem:20} {error:.3g}")
    assert error <= LIMIT
