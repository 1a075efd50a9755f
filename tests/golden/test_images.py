"""Images in prompts: what `infer eval --image` computes, against the reference in float64, and
from run to run."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf, make_vision, png, vision  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

DATA = ROOT / "tests" / "data" / "vision"
MODEL, TOWER, TALL = (DATA / name for name in ("tiny.gguf", "tiny-mmproj.gguf", "tall.png"))
ISAS = ("scalar", "avx2", "avx2_vnni", "avx512", "neon", "neon_dotprod", "neon_i8mm")
LIMIT = 1e-10
NAMES = make_vision.vocabulary()["tokenizer.ggml.tokens"]
PAD = NAMES.index("<|image_pad|>")
IMAGE = [NAMES.index("<|vision_start|>"), PAD, NAMES.index("<|vision_end|>")]
UNIT = make_vision.PATCH * make_vision.MERGED


def infer(*arguments, model=MODEL, tower=TOWER, code=0, timeout=120):
    command = [arguments[0], "-m", model, *(["--mmproj", tower] if tower else []), *arguments[1:]]
    done = subprocess.run([os.environ["INFER_BIN"], *map(str, command)], capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=timeout)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout if code == 0 else done.stderr.decode().splitlines()[-1]


def evaluate(folder, tokens, files, *options, **rest):
    out = folder / "out.f32"
    images = [word for file in files for word in ("--image", file)]
    infer("eval", "--tokens", ",".join(map(str, tokens)), "--logits", out, *images, *options,
          **rest)
    return np.fromfile(out, "<f4").reshape(-1, len(NAMES))


def of(folder, width, height, seed=1):
    """An image file, and its pixels."""
    path = folder / f"{width}x{height}-{seed}.png"
    pixels = png.blocks(width, height, seed)
    path.write_bytes(png.encode(pixels))
    return path, pixels


@pytest.fixture(scope="module")
def reference():
    return vision.SeeingModel(MODEL, TOWER)


def test_reference_agrees_with_stored_logits(reference):
    case = json.loads((DATA / "tiny.json").read_text())
    names = {"blocks.png": "blocks-scaled.png"}
    images = [png.decode((DATA / names.get(name, name)).read_bytes()) for name in case["images"]]
    stored = np.fromfile(DATA / "tiny.f32", "<f4")
    assert nmse(reference.logits(case["tokens"], images).ravel(), stored) <= 1e-12


def test_stored_logits_with_an_image_that_is_scaled(tmp_path):
    case = json.loads((DATA / "tiny.json").read_text())
    files = [DATA / name for name in case["images"]]
    exact = np.fromfile(DATA / "tiny.f32", "<f4").reshape(-1, len(NAMES))
    for options in ((), ("--exact",)):
        assert nmse(evaluate(tmp_path, case["tokens"], files, *options), exact) <= LIMIT


def prompt(*parts):
    """Tokens, with an image in place of each None."""
    return [token for part in parts for token in (IMAGE if part is None else part)]


CASES = {
    "no-image": (prompt([5, 70, 256]), []),
    "image-alone": ([PAD], [(64, 48)]),
    "text-before": (prompt([5, 70, 256], None), [(32, 32)]),
    "text-behind": (prompt(None, [5, 70, 256]), [(32, 32)]),
    "square": (prompt([5], None, [70, 256]), [(128, 128)]),
    "one-line": (prompt([5], None, [70, 256]), [(160, 16)]),
    "one-column": (prompt([5], None, [70, 256]), [(16, 160)]),
    "two": (prompt([5, 9], None, [70, 256, 11], None, [8, 3, 2]), [(64, 48), (32, 96)]),
    "two-side-by-side": (prompt([5], None, None), [(48, 48), (80, 32)]),
    "touching": ([5, PAD, PAD, 7], [(48, 48), (80, 32)]),
    "twice-the-same": (prompt([5, 9], None, [70], None, [8, 3, 2]), [(64, 48), (64, 48)]),
    "three": (prompt(None, [70], None, [8, 3, 2], None, [1]), [(64, 48), (16, 64), (64, 48)]),
    "longer-than-a-page": (prompt([5] * 30, None, [70] * 50, None, [9] * 40),
                           [(128, 112), (112, 128)]),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference(tmp_path, reference, name):
    tokens, sizes = CASES[name]
    made = [of(tmp_path, *size) for size in sizes]
    exact = reference.logits(tokens, [pixels for _, pixels in made])
    assert len(exact) == len(tokens)
    error = nmse(evaluate(tmp_path, tokens, [path for path, _ in made], "--exact"), exact)
    print(f"{name:20} {error:.3g}")
    assert error <= LIMIT


def test_which_image_is_where_makes_a_difference(tmp_path):
    """A row sees its image, and the text behind it does."""
    tokens = prompt([5, 9], None, [70, 256], None, [8])
    one, other = of(tmp_path, 64, 48, 1)[0], of(tmp_path, 64, 48, 2)[0]
    first, second = evaluate(tmp_path, tokens, [one, other]), evaluate(tmp_path, tokens, [one, one])
    before = tokens.index(PAD, tokens.index(PAD) + 1)
    assert (first[:before] == second[:before]).all()
    for row in range(before, len(tokens)):
        assert nmse(first[row], second[row]) > 1e-3


@pytest.mark.parametrize("exact", [[], ["--exact"]], ids=["usual", "exact"])
def test_the_same_bits(tmp_path, exact):
    tokens, sizes = CASES["longer-than-a-page"]
    files = [of(tmp_path, *size)[0] for size in sizes]
    run = lambda *options: evaluate(tmp_path, tokens, files, *exact, *options).tobytes()
    usual = run()
    for options in (*(["--chunk", n] for n in (1, 3, 7, 64)), ["-t", 1], ["-t", 2], ["--mmap"],
                    ["-b", 5], ["-c", 512], ["-t", 2, "--chunk", 33]):
        assert run(*options) == usual, options


def test_the_same_bits_on_every_instruction_set(tmp_path):
    tokens, sizes = CASES["two"]
    files = [of(tmp_path, *size)[0] for size in sizes]
    found = {}
    for isa in ISAS:
        known = subprocess.run([os.environ["INFER_BIN"], "eval", "-m", MODEL, "--isa", isa,
                                "--tokens", "1", "--logits", tmp_path / "one.f32"],
                               capture_output=True)
        if known.returncode == 0:
            found[isa] = evaluate(tmp_path, tokens, files, "--isa", isa).tobytes()
    assert "scalar" in found and len(found) > 1, found.keys()
    assert len(set(found.values())) == 1


def rows_of(tmp_path, size, *options):
    """Tokens of a prompt that is an image of this size."""
    file = of(tmp_path, *size)[0]
    told = infer("run", "-q", "--json", "-p", NAMES[PAD], "-n", 1, "--image", file, *options)
    return json.loads(told)["timings"]["prompt_tokens"]


def test_images_are_scaled_to_the_limits(tmp_path):
    limits = (4 * UNIT ** 2, 64 * UNIT ** 2)
    for size in ((64, 48), (70, 50), (10, 10), (1, 1), (300, 200), (1000, 30), (7, 500), (25, 25),
                 (129, 128), (128, 129)):
        width, height = vision.fit(*size, UNIT, *limits)
        assert rows_of(tmp_path, size) == width * height // UNIT ** 2, size


@pytest.mark.parametrize("most", [1, 2, 3, 5, 6, 11, 12, 40])
def test_larger_images_are_scaled_down(tmp_path, most):
    for size in ((64, 48), (48, 64), (128, 128), (256, 16), (16, 256), (33, 1000), (9, 9)):
        rows = rows_of(tmp_path, size, "--image-max-tokens", most)
        assert 1 <= rows <= most, size
        whole = rows_of(tmp_path, size)
        assert rows == whole if whole <= most else rows <= whole, size
    # About as many as there may be, where the form allows it.
    assert rows_of(tmp_path, (640, 480), "--image-max-tokens", most) > most / 3


def test_what_is_scaled_down_agrees_with_the_reference(tmp_path, reference):
    """A colour alone is the same in every size."""
    path = tmp_path / "plain.png"
    path.write_bytes(png.encode(np.full((96, 128, 3), (200, 30, 90), np.uint8)))
    tokens = prompt([5], None, [70])
    got = evaluate(tmp_path, tokens, [path], "--image-max-tokens", 12, "--exact")
    scaled = np.full((48, 64, 3), (200, 30, 90), np.uint8)
    assert nmse(got, reference.logits(tokens, [scaled])) <= LIMIT


def test_quantised_text(tmp_path, reference):
    tokens, sizes = CASES["two"]
    made = [of(tmp_path, *size) for size in sizes]
    exact = reference.logits(tokens, [pixels for _, pixels in made])
    got = evaluate(tmp_path, tokens, [path for path, _ in made], "--quantize", "q8_0")
    assert 1e-8 < nmse(got, exact) < 1e-2


def test_quantised_tower(tmp_path, reference):
    small = tmp_path / "q8_0.gguf"
    subprocess.run([os.environ["INFER_BIN"], "quantize", TOWER, small, "q8_0"], check=True,
                   capture_output=True)
    assert small.stat().st_size < 0.7 * TOWER.stat().st_size
    tokens, sizes = CASES["two"]
    made = [of(tmp_path, *size) for size in sizes]
    exact = reference.logits(tokens, [pixels for _, pixels in made])
    got = evaluate(tmp_path, tokens, [path for path, _ in made], tower=small)
    assert 1e-8 < nmse(got, exact) < 1e-2


def test_kernels_of_one_image_are_a_still_image(tmp_path):
    """A file may hold the sum of both kernels alone."""
    metadata, tensors = gguf.read(TOWER)
    tensors["v.patch_embd.weight"] += tensors.pop("v.patch_embd.weight.1")
    gguf.write(tmp_path / "tower.gguf", metadata, tensors)
    one = evaluate(tmp_path, prompt(None), [TALL], "--exact")
    other = evaluate(tmp_path, prompt(None), [TALL], "--exact", tower=tmp_path / "tower.gguf")
    assert nmse(one, other) <= LIMIT
