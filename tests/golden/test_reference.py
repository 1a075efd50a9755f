"""The reference against the stored logits of every golden model whose types it reads."""

import json
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference.model import Model, nmse  # noqa: E402


def golden():
    types = tuple(f"-{name}.gguf" for name in ("f32", "f16", "bf16", "mxfp4", "q8_0"))
    found = sorted(path for path in (ROOT / "tests/data/golden").glob("*.gguf")
                   if path.name.endswith(types))
    assert len(found) >= 30
    return found


@pytest.mark.parametrize("path", golden(), ids=lambda path: path.stem)
def test_reference_agrees_with_stored_logits(path):
    model = Model(path)
    tokens = json.loads(path.with_suffix(".json").read_text())["tokens"]
    exact = np.fromfile(path.with_suffix(".f32"), "<f4")
    assert nmse(model.logits(tokens).ravel(), exact) <= 1e-12
