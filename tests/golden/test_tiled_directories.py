"""Tiny random models of Hugging Face's transformers that cut images into tiles, from the directories
that it saves: texts with images of many sizes, against its processors and its logits.

The processors are those that scale with Pillow, to the bit. transformers computes norms, softmax and
RoPE angles in float32 even in a float64 model, so it agrees to that rounding; a wrong formula or
pixel shows as 1e-6 and more.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("PIL")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)
if not hasattr(transformers, "Idefics3ImageProcessorPil"):
    pytest.skip("this version of transformers has no processors of its own with Pillow",
                allow_module_level=True)

from PIL import Image  # noqa: E402

from tests.golden.reference import newer_from_transformers as newer  # noqa: E402
from tests.golden.reference import whole_from_transformers as whole  # noqa: E402
from tests.golden.reference import png, tiled_from_transformers as theirs  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402

# Small, odd, wide, tall, as large as the tiles, larger, a line, a column, one pixel.
SIZES = [(24, 24), (10, 7), (96, 48), (31, 97), (300, 41), (200, 190), (97, 96), (500, 3), (2, 120),
         (1, 1), (64, 64), (129, 255)]
KINDS = {
    "idefics3": lambda: theirs.Idefics3(),
    "idefics3-whole": lambda: theirs.Idefics3(do_image_splitting=False),
    "idefics3-one-tile": lambda: theirs.Idefics3(size={"longest_edge": 24}),
    "idefics3-odd-edge": lambda: theirs.Idefics3(size={"longest_edge": 55}),
    "idefics3-tiles-without-names": lambda: theirs.Idefics3(size={"longest_edge": 180}),
    "idefics3-odd-tiles": lambda: theirs.Idefics3Odd(),
    "smolvlm": lambda: theirs.SmolVlm(),
    "lfm2": lambda: theirs.Lfm2Vl(),
    "lfm2-whole": lambda: theirs.Lfm2Vl(do_image_splitting=False),
    "lfm2-no-overview": lambda: theirs.Lfm2Vl(use_thumbnail=False, max_tiles=5),
    "llava": lambda: theirs.Llava(),
    "llava-all-layers": lambda: theirs.LlavaWhole(),
    "llava-next": lambda: theirs.LlavaNext(),
    "llava-next-more-grids": lambda: theirs.LlavaNextMore(),
    "internvl": lambda: theirs.InternVl(),
    "internvl-6b": lambda: theirs.InternVl6B(),
    "internvl-own": lambda: theirs.InternVlOwn(),
    "internvl-own-6b": lambda: theirs.InternVlOwn6B(),
    "glm4v": lambda: whole.Glm4v(),
    "glm4v-moe": lambda: whole.Glm4vMoe(),
    "glm46v": lambda: whole.Glm46v(),
    "glm46v-moe": lambda: whole.Glm46vMoe(),
    "glm5-next": lambda: whole.Glm5Next(),
    "kimi-k25": lambda: whole.KimiK25(),
    "kimi-k25-fewer": lambda: whole.KimiK25(max_patches=61),
    "kimi-vl": lambda: whole.KimiVl(),
    "llama4": lambda: whole.Llama4(),
    "llama4-two-tiles": lambda: whole.Llama4(max_patches=2),
    "glm-ocr": lambda: newer.GlmOcr(),
    "paddleocr": lambda: newer.PaddleOcrVl(),
    "paddleocr-flat": lambda: newer.PaddleOcrVlFlat(),
    "exaone4.5": lambda: newer.Exaone45(),
    "minicpm-v": lambda: newer.MiniCpmV(),
    "minicpm-v-4x": lambda: newer.MiniCpmVMore(),
    "minicpm-v-uncut": lambda: newer.MiniCpmV(slice_mode=False, use_image_id=False),
    "minicpm-v-fewer": lambda: newer.MiniCpmV(max_slice_nums=4),
    "minicpm-ocr": lambda: newer.MiniCpmOcr(),
    "minicpm-ocr-never-larger": lambda: newer.MiniCpmOcr(small_image_upsize="never"),
    "internvl-at-least-2": lambda: theirs.InternVl(min_patches=2, max_patches=12),
}


def infer(folder, command, *options, stdin=b""):
    done = subprocess.run([os.environ["INFER_BIN"], command, "-m", str(folder), *map(str, options)],
                          input=stdin, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Made:
    def __init__(self, folder, kind):
        self.folder, self.family = folder, KINDS[kind]()
        if self.family.torchvision and importlib.util.find_spec("torchvision") is None:
            pytest.skip("transformers needs torchvision for its processor")
        folder.mkdir()
        self.family.write(folder)

    def tokens(self, text):
        return json.loads(infer(self.folder, "tokenize", "--json", "--no-bos",
                                stdin=text.encode()))

    def check(self, text, sizes):
        files, images = [], []
        for i, size in enumerate(sizes):
            rgb = png.blocks(*size, seed=i, side=5)
            (self.folder / f"{i}.png").write_bytes(png.encode(rgb))
            files += ["--image", self.folder / f"{i}.png"]
            images.append(Image.fromarray(rgb))
        ids, logits = self.family.logits(text, images)
        out = self.folder.parent / "logits.f32"
        infer(self.folder, "eval", "--mmproj", self.folder, *files, "--exact", "--logits", out,
              "--tokens", ",".join(map(str, self.tokens(self.family.spelled(text)))))
        told = np.fromfile(out, "<f4").reshape(-1, logits.shape[1])
        run = json.loads(infer(self.folder, "run", "-q", "--json", "-p", text, "-n", 1, *files,
                               "-c", 4096))
        assert run["timings"]["prompt_tokens"] == len(ids)
        others = len(told) - len(sizes)  # tokens outside of images
        # Of equal images the rows are as many. The last token of a text is always outside.
        lengths = self.lengths(ids, others, sizes)
        error = nmse(told, logits[self.family.own_rows(ids, lengths)])
        print(f"{len(ids):6} {sizes} {error:.3g}")
        assert error <= self.family.limit

    def lengths(self, ids, others, sizes):
        if len(sizes) == 1:
            return [len(ids) - others]
        found = []
        for i, size in enumerate(sizes):
            rgb = png.blocks(*size, seed=i, side=5)
            ids, _ = self.family.logits(self.family.mark, [Image.fromarray(rgb)])
            found.append(len(ids) - self.family.around())
        return found


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    return Made(tmp_path_factory.mktemp(request.param) / "model", request.param)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(made, size):
    if not made.family.takes(size):
        pytest.skip("transformers makes more tokens of it than its limit")
    made.check(f"It is{made.family.mark}\n so", [size])


def test_several_images(made):
    mark = made.family.mark
    made.check(f"{mark}a{mark}{mark}\nbut {mark}.", [(60, 30), (20, 20), (33, 150), (60, 30)])


def test_no_image(made):
    ids, logits = made.family.logits("some text", None)
    out = made.folder.parent / "logits.f32"
    infer(made.folder, "eval", "--exact", "--logits", out, "--tokens", ",".join(map(str, ids)))
    error = nmse(np.fromfile(out, "<f4").reshape(logits.shape), logits)
    assert error <= made.family.limit
