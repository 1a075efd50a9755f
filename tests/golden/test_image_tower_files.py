"""Files with the towers of Gemma 3, Pixtral and Gemma 4 that lack something or have it in another
shape or type: exit code 3 and a message that names the file and the tensor."""

import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf, make_newer_towers, make_towers, png  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

KINDS = {  # text, tower, the token of an image, its size
    "gemma3": (make_towers.gemma3_text, make_towers.gemma3_tower, "<start_of_image>", (32, 32)),
    "idefics3": (make_towers.llama_text, make_towers.idefics3_tower, "<image>", (24, 16)),
    "lfm2": (make_towers.lfm2_text, make_towers.lfm2_tower, "<image>", (24, 16)),
    "llava": (make_towers.llama_text, make_towers.llava_tower, "<image>", (24, 16)),
    "llava-next": (make_towers.llama_text, make_towers.llava_next_tower, "<image>", (24, 16)),
    "internvl": (make_towers.qwen_text, make_towers.internvl_tower, "<IMG_CONTEXT>", (24, 16)),
    "glm4v": (make_towers.glm4_text, make_towers.glm4v_tower, "<|image|>", (24, 16)),
    "glm5v": (make_towers.glm5_text, make_towers.glm5v_tower, "<|image|>", (24, 16)),
    "glm-ocr": (make_towers.glm4_text, make_newer_towers.glm_ocr_tower, "<|image|>", (24, 16)),
    "paddleocr": (make_newer_towers.paddle_text, make_newer_towers.paddle_tower,
                  make_newer_towers.PADDLE_WORDS[1], (24, 16)),
    "exaone4.5": (make_newer_towers.exaone_text, make_newer_towers.exaone_tower, "<|image_pad|>",
                  (24, 16)),
    "dots-ocr": (make_newer_towers.dots_text, make_newer_towers.dots_tower, "<|imgpad|>", (24, 16)),
    "minicpm-v": (make_newer_towers.minicpm_text, make_newer_towers.minicpm_tower, "<|image_pad|>",
                  (24, 16)),
    "kimi-k25": (make_towers.kimi_text, lambda: make_towers.kimi_tower(True), "<|media_pad|>", (24, 16)),
    "kimi-vl": (make_towers.kimi_text, lambda: make_towers.kimi_tower(False), "<|media_pad|>", (24, 16)),
    "llama4": (make_towers.llama4_text, make_towers.llama4_tower, "<|image|>", (24, 16)),
    "mistral3": (make_towers.mistral3_text, make_towers.pixtral_tower, "[IMG]", (24, 16)),
    "gemma4": (make_towers.gemma4_text, make_towers.gemma4_tower, "<|image|>", (48, 48)),
    "gemma4-large": (lambda: make_towers.gemma4_text(True),
                     lambda: make_towers.gemma4_tower(large=True), "<|image|>", (48, 48)),
}


SECOND_KERNEL = "v.patch_embd.weight.1"  # of a video


class Pair:
    """A good model, and towers in its folder."""

    def __init__(self, folder, name):
        text, self.tower, mark, size = KINDS[name]
        self.folder, self.name = folder, name
        metadata, tensors = text()
        gguf.write(folder / "model.gguf", metadata, tensors)
        (folder / "image.png").write_bytes(png.encode(png.blocks(*size, seed=1)))
        self.tokens = f"5,{metadata['tokenizer.ggml.tokens'].index(mark)},6"

    def evaluate(self, metadata, tensors):
        gguf.write(self.folder / "tower.gguf", metadata, tensors)
        return self.run_tower()

    def run_tower(self):
        done = subprocess.run(
            [os.environ["INFER_BIN"], "eval", "-m", self.folder / "model.gguf",
             "--mmproj", self.folder / "tower.gguf", "--image", self.folder / "image.png",
             "--tokens", self.tokens, "--logits", self.folder / "out.f32", "-c", "64",
             "--image-max-tokens", "16"],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        return done.returncode, (done.stderr.decode().splitlines() or [""])[-1]

    def refuses(self, metadata, tensors, *named):
        code, text = self.evaluate(metadata, tensors)
        assert code == 3 and text.startswith("infer: error: "), (named, code, text)
        for each in ("tower.gguf", *named):
            assert each in text, (named, text)


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    return Pair(tmp_path_factory.mktemp(request.param), request.param)


def optional(name):
    """What towers may be without."""
    return (name.endswith((".bias", "_min", "_max")) or
            name in ("mm.input_norm.weight", "v.token_embd.img_break", SECOND_KERNEL))


def test_the_pair_is_good(pair):
    assert pair.evaluate(*pair.tower())[0] == 0


def test_grids_of_llava_next(tmp_path):
    pair = Pair(tmp_path, "llava-next")
    metadata, tensors = pair.tower()
    key = "clip.vision.image_grid_pinpoints"
    for wrong in ([24], [24, 12, 12], [24, 13], [0, 12], [-12, 12], [12 << 10, 12 << 10],
                  [12, 24] * 300, "all"):
        pair.refuses(metadata | {key: wrong}, tensors, key)
    pair.refuses(metadata | {"clip.vision.mm_patch_merge_type": "flat"}, tensors, "flat")


def test_missing_tensors(pair):
    for name in pair.tower()[1]:
        metadata, tensors = pair.tower()
        if optional(name):
            continue
        del tensors[name]
        pair.refuses(metadata, tensors, name.replace("_qkv.", "_q."))  # of three


def other_shapes(name, shape):
    """With one row, one column and so on more or less, and all in one row."""
    for axis in range(len(shape)):
        sides = (1,) if shape[0] == 2 else (0, 1)  # of Gemma 4's, of Kimi K2.5's
        if name == "v.position_embd.weight" and axis in sides and len(shape) == 3:
            continue  # they may be for images of any size
        for change in (-1, 1):
            yield [n + change * (i == axis) for i, n in enumerate(shape)]
    if len(shape) > 1:
        yield [int(np.prod(shape))]


def test_tensors_of_other_shapes(pair):
    for name, tensor in pair.tower()[1].items():
        if name.startswith("v.blk.1."):  # as those of block 0
            continue
        for shape in other_shapes(name, tensor.shape):
            metadata, tensors = pair.tower()
            tensors[name] = np.zeros(shape, tensor.dtype)
            named = "v.patch_embd_1" if name == SECOND_KERNEL else name.removesuffix(".weight")
            pair.refuses(metadata, tensors, named)  # or of its bias


@pytest.mark.parametrize("name, tower, tensor", [
    ("gemma3", lambda: make_towers.gemma3_tower(width=32), "mm.input_projection.weight"),
    ("mistral3", make_towers.pixtral_tower, "mm.patch_merger.weight")])
def test_quantised_tensors_that_are_sorted_anew(tmp_path, name, tower, tensor):
    """Blocks of these would have to be taken apart."""
    metadata, tensors = tower()
    shape = tensors[tensor].shape
    tensors[tensor] = gguf.Mxfp4.random(np.random.default_rng(1), shape)
    Pair(tmp_path, name).refuses(metadata, tensors, tensor, "MXFP4", "F16")


def test_numbers_that_fit_nothing(pair):
    """Keys that all towers have."""
    metadata = pair.tower()[0]
    for key, values in {"patch_size": (0, 3, 1000), "attention.head_count": (0, 5, 1000),
                        "embedding_length": (0, 20, 28), "feed_forward_length": (39,),
                        "block_count": (0, 3, 2000), "projection_dim": (0, 29, 31)}.items():
        key = "clip.vision." + key
        for value in values:
            pair.refuses(metadata | {key: value}, pair.tower()[1])
        if not key.endswith("feed_forward_length"):
            pair.refuses({other: value for other, value in metadata.items() if other != key},
                         pair.tower()[1], key)


@pytest.mark.parametrize("length", [0, None])
def test_files_that_do_not_say_how_wide_the_feed_forward_is(pair, length):
    metadata, tensors = pair.tower()
    key = "clip.vision.feed_forward_length"
    metadata.pop(key)
    assert pair.evaluate(metadata | ({} if length is None else {key: length}), tensors)[0] == 0


def test_gemma4_without_places_for_a_result(tmp_path):
    pair = Pair(tmp_path, "gemma4")
    metadata, tensors = pair.tower()
    pair.refuses(metadata | {"clip.vision.projector.scale_factor": 64}, tensors,
                 "v.position_embd.weight", "64")
    tensors["v.position_embd.weight"] = tensors["v.position_embd.weight"][:, :2]
    pair.refuses(metadata, tensors, "v.position_embd.weight", "2")


def test_bounds_of_gemma4_are_ranges(tmp_path):
    pair = Pair(tmp_path, "gemma4")
    ends = [name for name in pair.tower()[1] if name.endswith(("_min", "_max"))]
    assert ends
    for name in ends[:4]:
        for value in (np.nan, np.inf if name.endswith("min") else -np.inf):
            metadata, tensors = pair.tower()
            tensors[name] = np.full_like(tensors[name], value)
            if name.endswith("min") and value == np.inf:
                tensors[name.replace("_min", "_max")] = np.float32([1.0])
            elif value == -np.inf:
                tensors[name.replace("_max", "_min")] = np.float32([-1.0])
            pair.refuses(metadata, tensors, name.rpartition(".")[0])


def test_the_base_of_pixtrals_frequencies(tmp_path):
    pair = Pair(tmp_path, "mistral3")
    metadata, tensors = pair.tower()
    for base in (0.0, -5.0, np.nan, np.inf):
        pair.refuses(metadata | {"clip.rope.freq_base": base}, tensors, "rope.freq_base")


@pytest.mark.parametrize("type_name", ["q8_0", "q4_0"])
def test_towers_are_quantised_but_for_what_is_sorted_anew(tmp_path, type_name):
    pair = Pair(tmp_path, "mistral3")
    gguf.write(tmp_path / "whole.gguf", *make_towers.pixtral_tower())
    done = subprocess.run(
        [os.environ["INFER_BIN"], "quantize", tmp_path / "whole.gguf", tmp_path / "tower.gguf",
         type_name], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 0, done.stderr
    assert pair.run_tower()[0] == 0


def test_images_of_gemma3_are_of_whole_results(tmp_path):
    pair = Pair(tmp_path, "gemma3")
    metadata, tensors = pair.tower()
    for key, value in {"image_size": 36, "projector.scale_factor": 3}.items():
        pair.refuses(metadata | {"clip.vision." + key: value}, tensors, "image_size")


def test_tiles_of_lfm2_are_of_whole_results(tmp_path):
    pair = Pair(tmp_path, "lfm2")
    metadata, tensors = pair.tower()
    for key, values in {"preproc_image_size": (0, 12, 1 << 20), "projector.scale_factor": (0, 65),
                        "preproc_min_tiles": (0, 7), "preproc_max_tiles": (0, 1, 1 << 20),
                        "image_max_pixels": (0, 63)}.items():
        for value in values:
            pair.refuses(metadata | {"clip.vision." + key: value}, tensors, "clip.vision.")


def test_images_of_llava_are_of_whole_patches(tmp_path):
    pair = Pair(tmp_path, "llava")
    metadata, tensors = pair.tower()
    for value in (0, 18, 1 << 20):
        pair.refuses(metadata | {"clip.vision.image_size": value}, tensors, "image_size")
    pair.refuses(metadata | {"clip.vision.feature_layer": [1, 2]}, tensors, "feature_layer")


def test_tiles_of_internvl_are_of_whole_results(tmp_path):
    pair = Pair(tmp_path, "internvl")
    metadata, tensors = pair.tower()
    for key, values in {"image_size": (0, 12, 1 << 20), "projector.scale_factor": (0, 3, 65),
                        "preproc_min_tiles": (0, 6), "preproc_max_tiles": (0, 1 << 20)}.items():
        for value in values:
            pair.refuses(metadata | {"clip.vision." + key: value}, tensors, "clip.vision.")


def test_pictures_of_idefics3_are_of_whole_results(tmp_path):
    pair = Pair(tmp_path, "idefics3")
    metadata, tensors = pair.tower()
    for key, values in {"image_size": (0, 3, 12, 20, 1 << 20), "projector.scale_factor": (0, 3, 65),
                        "preproc_image_size": (0, 1 << 30)}.items():
        for value in values:
            pair.refuses(metadata | {"clip.vision." + key: value}, tensors, "clip.vision.")


@pytest.mark.parametrize("name", ["gemma3", "idefics3", "lfm2", "internvl", "mistral3", "gemma4"])
def test_the_models_vocabulary_has_no_token_for_images(tmp_path, name):
    pair = Pair(tmp_path, name)
    text, _, mark, _ = KINDS[name]
    metadata, tensors = text()
    words = metadata["tokenizer.ggml.tokens"]
    words[words.index(mark)] = "<other>"
    gguf.write(tmp_path / "model.gguf", metadata, tensors)
    pair.refuses(*pair.tower(), mark)


def test_a_tower_of_another_model(tmp_path):
    """Widths of results differ."""
    pair = Pair(tmp_path, "gemma3")
    pair.refuses(*make_towers.gemma3_tower(width=32), "32", "30")
