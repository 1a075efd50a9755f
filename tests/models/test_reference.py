"""The reference against stored logits: those it made, and the shared ones that others made."""

import json
import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.models.reference.model import Model, nmse  # noqa: E402


def golden():
    folders = [ROOT / "tests/data/golden"]
    if os.environ.get("INFER_SHARED_TESTDATA"):
        folders.append(pathlib.Path(os.environ["INFER_SHARED_TESTDATA"]) / "golden")
    return [path for folder in folders for path in sorted(folder.glob("*.gguf"))]


@pytest.mark.parametrize("path", golden(), ids=lambda path: path.stem)
def test_reference_agrees_with_stored_logits(path):
    try:
        model = Model(path)
    except KeyError as error:
        pytest.skip(f"tensor type {error} is not the reference's")
    tokens = json.loads(path.with_suffix(".json").read_text())["tokens"]
    exact = np.fromfile(path.with_suffix(".f32"), "<f4")
    assert nmse(model.logits(tokens).ravel(), exact) <= 1e-12
