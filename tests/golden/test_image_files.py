"""Files with vision towers that are damaged, or do not fit the model: exit code 3 and a message
that names the file and what is wrong, never a crash or a hang."""

import os
import pathlib
import random
import struct
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf, make_vision  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

DATA = ROOT / "tests" / "data" / "vision"
MODEL, TOWER, TALL = (DATA / name for name in ("tiny.gguf", "tiny-mmproj.gguf", "tall.png"))
PAD = make_vision.vocabulary()["tokenizer.ggml.tokens"].index("<|image_pad|>")


def evaluate(folder, model, tower):
    done = subprocess.run(
        [os.environ["INFER_BIN"], "eval", "-m", model, "--mmproj", tower, "--image", TALL,
         "--tokens", f"5,{PAD},6", "--logits", folder / "out.f32", "-c", "64"],
        capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    return done.returncode, (done.stderr.decode().splitlines() or [""])[-1]


def refused(folder, model, tower, *named):
    code, text = evaluate(folder, model, tower)
    assert code == 3 and text.startswith("infer: error: "), (code, text)
    for each in named:
        assert each in text, text


def test_the_pair_is_good(tmp_path):
    assert evaluate(tmp_path, MODEL, TOWER)[0] == 0


def damage(tmp_path, data):
    path = tmp_path / "damaged.gguf"
    path.write_bytes(data)
    return evaluate(tmp_path, MODEL, path)


def header_length():
    """Where the first tensor's data begin."""
    data = TOWER.read_bytes()
    tensors = gguf.read(TOWER)[1]
    last = list(tensors)[-1].encode()
    at = data.index(last) + len(last)
    dimensions, = struct.unpack_from("<I", data, at)
    return at + 4 + 8 * dimensions + 12


def test_truncations(tmp_path):
    data, header = TOWER.read_bytes(), header_length()
    lengths = {0, 1, 3, 4, 8, 23, 24, header - 1, header, header + 40, len(data) - 40,
               *range(30, header, header // 25)}
    for length in sorted(lengths):
        code, text = damage(tmp_path, data[:length])
        assert code == 3 and "damaged.gguf" in text, (length, code, text)


def test_bit_flips(tmp_path):
    """Some make another tower, or one with values that are no numbers."""
    data, header = TOWER.read_bytes(), header_length()
    chance = random.Random(5)
    refused_ones = 0
    for _ in range(120):
        changed = bytearray(data)
        at = chance.randrange(header)
        changed[at] ^= 1 << chance.randrange(8)
        code, text = damage(tmp_path, changed)
        assert code in (0, 3, 4), (at, code, text)
        refused_ones += code == 3
    assert refused_ones > 40


def tower_with(folder, change):
    metadata, tensors = make_vision.tower()
    change(metadata, tensors)
    path = folder / "tower.gguf"
    gguf.write(path, metadata, tensors)
    return path


def setting(key, value):
    return lambda metadata, tensors: metadata.__setitem__(key, value)


def without(name):
    return lambda metadata, tensors: tensors.pop(name)


def shaped(name, *shape):
    return lambda metadata, tensors: tensors.__setitem__(name, np.zeros(shape, np.float16))


SEES = "clip.vision."


@pytest.mark.parametrize("change, named", [
    (setting("general.architecture", "llama"), ["general.architecture", "clip", "llama"]),
    (setting("clip.projector_type", "new_merger"), ["clip.projector_type", "new_merger",
                                                    "qwen3vl_merger"]),
    (lambda metadata, tensors: metadata.pop("clip.projector_type"), ["clip.projector_type"]),
    (lambda metadata, tensors: metadata.pop(SEES + "block_count"), [SEES + "block_count"]),
    (setting(SEES + "block_count", 0), [SEES + "block_count"]),
    (setting(SEES + "block_count", 2000), [SEES + "block_count"]),
    (setting(SEES + "block_count", 4), [SEES + "is_deepstack_layers", "4"]),
    (setting(SEES + "is_deepstack_layers", [True]), [SEES + "is_deepstack_layers", "3"]),
    (setting(SEES + "is_deepstack_layers", 1), [SEES + "is_deepstack_layers"]),
    (setting(SEES + "projection_dim", 32), [SEES + "projection_dim", "64", "32"]),
    (setting(SEES + "patch_size", 0), [SEES + "patch_size"]),
    (setting(SEES + "patch_size", 1000000), [SEES + "patch_size"]),
    (setting(SEES + "patch_size", 16), ["v.patch_embd.weight", "768"]),
    (setting(SEES + "spatial_merge_size", 0), [SEES + "spatial_merge_size"]),
    (setting(SEES + "spatial_merge_size", 9), [SEES + "spatial_merge_size"]),
    (setting(SEES + "embedding_length", 33), [SEES + "attention.head_count", "33"]),
    (setting(SEES + "attention.head_count", 3), [SEES + "attention.head_count", "3"]),
    (setting(SEES + "attention.head_count", 16), [SEES + "attention.head_count", "16"]),
    (setting(SEES + "attention.layer_norm_epsilon", -1.0), ["attention.layer_norm_epsilon"]),
    (setting(SEES + "feed_forward_length", 65), ["v.blk.0.ffn_up.weight", "65"]),
    (setting(SEES + "image_mean", [0.5, 0.5]), [SEES + "image_mean"]),
    (setting(SEES + "image_mean", [0.5, 0.5, float("nan")]), [SEES + "image_mean"]),
    (setting(SEES + "image_mean", "0.5"), [SEES + "image_mean"]),
    (setting(SEES + "image_std", [0.5, 0.5, 0.0]), [SEES + "image_std"]),
    (setting(SEES + "image_std", [0.5, -0.5, 0.5]), [SEES + "image_std"]),
    (setting(SEES + "image_std", [float("inf")] * 3), [SEES + "image_std"]),
    (setting(SEES + "image_max_pixels", 255), [SEES + "image_max_pixels", "256"]),
    (setting(SEES + "image_min_pixels", 0), [SEES + "image_min_pixels"]),
    *((without(name), [name]) for name in (
        "v.patch_embd.weight", "v.position_embd.weight", "v.blk.1.attn_out.weight",
        "v.blk.2.ln1.weight", "v.post_ln.weight", "mm.0.weight", "mm.2.weight",
        "v.deepstack.2.norm.weight", "v.deepstack.0.fc2.weight")),
    (shaped("v.patch_embd.weight", 32, 3, 8, 4), ["v.patch_embd.weight", "192"]),
    (shaped("v.position_embd.weight", 35, 32), ["v.position_embd.weight", "36"]),
    (shaped("v.position_embd.weight", 36, 31), ["v.position_embd.weight", "31"]),
    (shaped("v.blk.0.attn_qkv.weight", 64, 32), ["v.blk.0.attn_qkv.weight", "96"]),
    (shaped("v.blk.1.ln2.weight", 31), ["v.blk.1.ln2.weight", "31"]),
    (shaped("mm.2.weight", 63, 128), ["mm.2.weight", "63"]),
    (shaped("mm.2.bias", 63), ["mm.2.bias", "63"]),
])
def test_what_is_wrong_is_named(tmp_path, change, named):
    refused(tmp_path, MODEL, tower_with(tmp_path, change), "tower.gguf", *named)


def text_with(folder, change):
    metadata, tensors = make_vision.text_model()
    change(metadata, tensors)
    path = folder / "text.gguf"
    gguf.write(path, metadata, tensors)
    return path


def renamed_token(metadata, tensors):
    metadata["tokenizer.ggml.tokens"][PAD] = "<|nothing|>"


def test_wrong_pairs(tmp_path):
    golden = ROOT / "tests" / "data" / "golden"
    refused(tmp_path, golden / "qwen3-f32.gguf", TOWER, "tiny-mmproj.gguf", SEES + "projection_dim",
            "64")
    refused(tmp_path, TOWER, TOWER, "tiny-mmproj.gguf", "clip")
    refused(tmp_path, MODEL, MODEL, "tiny.gguf", "general.architecture", "mmproj", "qwen3vl")
    refused(tmp_path, text_with(tmp_path, renamed_token), TOWER, "tiny-mmproj.gguf",
            "<|image_pad|>")
    refused(tmp_path, MODEL, tmp_path / "absent.gguf", "absent.gguf")
    refused(tmp_path, MODEL, TALL, "tall.png")
    embeds = ROOT / "tests" / "data" / "embed" / "bert-mean"
    refused(tmp_path, embeds, TOWER, "tiny-mmproj.gguf", "vectors")


@pytest.mark.parametrize("sections", [[4, 2], [4, 2, -2, 0], "4"])
def test_wrong_sections(tmp_path, sections):
    key = "qwen3vl.rope.dimension_sections"
    refused(tmp_path, text_with(tmp_path, setting(key, sections)), TOWER, "text.gguf", key)
