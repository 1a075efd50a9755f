"""Tiny random models of Hugging Face's transformers that see, with the towers of Gemma 3, Mistral
Small 3.1 and Gemma 4, against the references and against the engine.

transformers computes norms, softmax, averages and RoPE angles in float32 even in a float64 model,
so it agrees to that rounding; a wrong formula shows as 1e-6 and more.
"""

import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import png, towers_from_transformers as theirs  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402

for family in ("Gemma3", "Mistral3", "Gemma4"):
    if not hasattr(transformers, family + "ForConditionalGeneration"):
        pytest.skip(f"this version of transformers has no {family}", allow_module_level=True)

LIMIT = 1e-10
CASES = {  # family, sizes of images
    "gemma3": (theirs.Gemma3, [(32, 32), (32, 32)]),
    "gemma3-no-image": (theirs.Gemma3, []),
    "mistral3": (theirs.Mistral3, [(64, 48), (32, 80)]),
    "mistral3-one-line": (theirs.Mistral3, [(96, 8), (8, 96), (8, 8)]),
    "mistral3-no-image": (theirs.Mistral3, []),
    "gemma4": (theirs.Gemma4, [(60, 36), (24, 84)]),
    "gemma4-no-image": (theirs.Gemma4, []),
    "gemma4-large-no-image": (theirs.Gemma4Large, []),
    "gemma4-large": (theirs.Gemma4Large, [(60, 36), (24, 84)]),
    "gemma4-large-one-line": (theirs.Gemma4Large, [(96, 12), (12, 96), (36, 36)]),
}


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    make, sizes = CASES[request.param]
    folder, family = tmp_path_factory.mktemp(request.param), make()
    family.write(folder / "model.gguf", folder / "tower.gguf")
    images = [png.blocks(*size, seed=i, side=5) for i, size in enumerate(sizes)]
    tokens = [5, 70, 256, 9, 11, 30] * 4
    for _ in images:
        tokens += [family.words(word) for word in family.shown] + [41, 100]
    reference = family.seen(folder / "model.gguf", folder / "tower.gguf")
    return SimpleNamespace(folder=folder, tokens=tokens, images=images, reference=reference,
                           name=request.param, logits=family.logits(tokens, images))


def test_reference_agrees_with_transformers(made):
    error = nmse(made.reference.all_logits(made.tokens, made.images), made.logits)
    print(f"{made.name:24} {error:.3g}")
    assert error <= LIMIT


def test_engine_agrees_with_transformers(made):
    if not os.environ.get("INFER_BIN"):
        pytest.skip("INFER_BIN does not name the program")
    files = []
    for i, image in enumerate(made.images):
        path = made.folder / f"{i}.png"
        path.write_bytes(png.encode(image))
        files += ["--image", path]
    if made.name.startswith("gemma4"):  # images are scaled to that
        files += ["--image-max-tokens", "16" if "line" not in made.name else "11"]
    out = made.folder / "logits.f32"
    subprocess.run([os.environ["INFER_BIN"], "eval", "-m", made.folder / "model.gguf", "--mmproj",
                    made.folder / "tower.gguf", *files, "--logits", out, "--exact", "--tokens",
                    ",".join(map(str, made.tokens))], check=True)
    made.reference.place(made.tokens, made.images)
    told = made.logits[made.reference.ends]  # of an image those after its last row
    error = nmse(np.fromfile(out, "<f4").reshape(told.shape), told)
    print(f"{made.name:24} {error:.3g}")
    assert error <= LIMIT
