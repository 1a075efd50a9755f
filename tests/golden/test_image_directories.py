"""Tiny random models of Hugging Face's transformers that see, from the directories that it saves:
text and tower, against its logits.

transformers computes norms, softmax, averages and RoPE angles in float32 even in a float64 model,
so it agrees to that rounding; a wrong formula shows as 1e-6 and more.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden import test_image_checkpoints as qwen3  # noqa: E402
from tests.golden import test_image_tower_checkpoints as others  # noqa: E402
from tests.golden.reference import from_transformers  # noqa: E402
from tests.golden.reference import make_vision, png, safetensors  # noqa: E402
from tests.golden.reference import towers_from_transformers as theirs  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402

LIMIT = 1e-10
SHOWN = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")


def write_tokenizer(folder, vocabulary):
    """tokenizer.json with the same ids. What it makes of texts does not matter here."""
    tokens = vocabulary["tokenizer.ggml.tokens"]
    kinds = vocabulary["tokenizer.ggml.token_type"]
    added = [{"id": i, "content": token, "special": True, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False}
             for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind in (3, 4)]
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps(
        {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": level,
         "post_processor": None, "decoder": level, "model": model}))


def save(folder, model, vocabulary, processor):
    model.float().save_pretrained(folder)
    write_tokenizer(folder, vocabulary)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))


def evaluate(folder, tokens, images, *options):
    files = []
    for i, image in enumerate(images):
        path = folder / f"{i}.png"
        path.write_bytes(png.encode(image))
        files += ["--image", path]
    out = folder / "logits.f32"
    subprocess.run([os.environ["INFER_BIN"], "eval", "-m", folder, "--mmproj", folder, *files,
                    "--logits", out, "--exact", "--tokens", ",".join(map(str, tokens)), *options],
                   check=True)
    return np.fromfile(out, "<f4")


def last_rows(tokens, lengths, mark, kept=False):
    """Of the rows of a prompt those that answer a token: of an image its last one, and that of its
    token where this stays before the image."""
    lengths, ends, at = iter(lengths), [], -1
    for token in tokens:
        if token == mark and kept:
            ends.append(at + 1)
        at += next(lengths) if token == mark else 1
        ends.append(at)
    return ends


def compare(told, logits, ends):
    error = nmse(told.reshape(len(ends), -1), logits[ends])
    print(f"{error:.3g}")
    assert error <= LIMIT


def qwen2_model(windows, deep):
    text = make_vision.text_model()[0]
    key = lambda name: text["qwen3vl." + name]
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    family = "Qwen2_5_VL" if windows else "Qwen2VL"
    config = getattr(transformers, family + "Config")
    sees = {"depth": deep, "num_heads": 4, "patch_size": 8, "spatial_merge_size": 2,
            "temporal_patch_size": 2}
    if windows:
        sees |= {"hidden_size": 48, "intermediate_size": 72, "out_hidden_size": 32,
                 "window_size": 48, "fullatt_block_indexes": list(range(1, deep, 2))}
    else:
        sees |= {"embed_dim": 48, "hidden_size": 32, "mlp_ratio": 2}
    words = make_vision.vocabulary()["tokenizer.ggml.tokens"].index
    torch.manual_seed(11)
    model = getattr(transformers, family + "ForConditionalGeneration")(config(
        text_config={"vocab_size": key("vocab_size"), "hidden_size": 32, "intermediate_size": 48,
                     "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
                     "rope_parameters": rope, "max_position_embeddings": 512,
                     "tie_word_embeddings": False, "sliding_window": None},
        vision_config=sees, image_token_id=words(SHOWN[1]), video_token_id=words("<|video_pad|>"),
        vision_start_token_id=words(SHOWN[0]), vision_end_token_id=words(SHOWN[2]),
        tie_word_embeddings=False))
    return qwen3.filled(model)


def transpose_experts(folder):
    """As the published files have them, where transformers saves them as it holds them."""
    path = folder / "model.safetensors"
    safetensors.write(path, {
        name: x.swapaxes(1, 2) if ".mlp.experts." in name else x
        for name, x in safetensors.read(path).items()})


def check_qwen(folder, model, sizes, change=lambda folder: None, **processor):
    vocabulary = make_vision.vocabulary()
    words = vocabulary["tokenizer.ggml.tokens"].index
    images = [png.blocks(*size, seed=i) for i, size in enumerate(sizes)]
    tokens = [5, 70, 256, 9]
    for _ in images:
        tokens += [words(word) for word in SHOWN] + [41, 100]
    logits = qwen3.logits_of(model, tokens, images)
    keys = make_vision.tower()[0]
    colours = {key: [float(x) for x in keys["clip.vision." + key]]
               for key in ("image_mean", "image_std")}
    save(folder, model, vocabulary, colours | processor)
    change(folder)
    vision = model.config.vision_config
    side = vision.patch_size * vision.spatial_merge_size
    lengths = [width // side * (height // side) for width, height in sizes]
    compare(evaluate(folder, tokens, images), logits, last_rows(tokens, lengths, words(SHOWN[1])))


@pytest.mark.parametrize("sizes", [[(48, 64), (80, 32)], [(16, 160)], [(96, 96), (16, 16)], []])
@pytest.mark.parametrize("windows", [False, True])
def test_qwen2(tmp_path, windows, sizes):
    check_qwen(tmp_path, qwen2_model(windows, 4), sizes, min_pixels=1, max_pixels=1 << 20)


@pytest.mark.parametrize("case", qwen3.CASES)
def test_qwen3(tmp_path, case):
    layers, deepstack, side, sizes = qwen3.CASES[case]
    words = make_vision.vocabulary()["tokenizer.ggml.tokens"].index
    check_qwen(tmp_path, qwen3.random_model(layers, deepstack, side, words), sizes,
               size={"shortest_edge": 1, "longest_edge": 1 << 20})


@pytest.mark.parametrize("change", [lambda folder: None, transpose_experts])
@pytest.mark.parametrize("width", [24, 32, 64])  # half the model's width, and all of it
def test_qwen3_with_experts(tmp_path, width, change):
    words = make_vision.vocabulary()["tokenizer.ggml.tokens"].index
    model = qwen3.random_model(3, [0, 2], 6, words, {
        "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": width,
        "mlp_only_layers": [1], "decoder_sparse_step": 1})
    check_qwen(tmp_path, model, [(64, 48), (32, 80)], change,
               size={"shortest_edge": 1, "longest_edge": 1 << 20})


def qwen4exp_model():
    """Its blocks of tokens and its n-grams reach across images. The index has so many heads that no
    two blocks score 0: of such blocks transformers may choose another."""
    words = make_vision.vocabulary()["tokenizer.ggml.tokens"].index
    sees = make_vision.tower()[0]
    see = lambda name: sees["clip.vision." + name]
    text = from_transformers.CHECKPOINTS["qwen4exp"][2] | {
        "vocab_size": len(make_vision.vocabulary()["tokenizer.ggml.tokens"]), "hidden_size": 32,
        "indexer_n_heads": 16, "eos_token_id": 9, "pad_token_id": 0}
    torch.manual_seed(5)
    config = transformers.Qwen4ExpConfig(
        text_config=text, vision_config={
            "depth": 2, "hidden_size": 48, "intermediate_size": 72, "num_heads": 4,
            "patch_size": see("patch_size"), "spatial_merge_size": see("spatial_merge_size"),
            "temporal_patch_size": 2, "out_hidden_size": 32, "num_position_embeddings": 36},
        image_token_id=words(SHOWN[1]), video_token_id=words("<|video_pad|>"),
        vision_start_token_id=words(SHOWN[0]), vision_end_token_id=words(SHOWN[2]))
    config._experts_implementation = "eager"
    return qwen3.filled(transformers.Qwen4ExpForConditionalGeneration(config))


@pytest.mark.skipif(not hasattr(transformers, "Qwen4ExpConfig"),
                    reason="this version of transformers has no Qwen4-Exp")
@pytest.mark.parametrize("sizes", [[(48, 64), (80, 32)], [(96, 96), (16, 16)], []])
def test_qwen4exp(tmp_path, sizes):
    check_qwen(tmp_path, qwen4exp_model(), sizes,
               size={"shortest_edge": 1, "longest_edge": 1 << 20})


class Pixtral(theirs.Mistral3):
    """Pixtral 12B is a Llava: no merger, and biases in the projector."""
    merged = 1

    def make(self):
        text = transformers.MistralConfig(
            **theirs.TEXT, vocab_size=self.count, num_hidden_layers=self.layers, rms_norm_eps=1e-5,
            sliding_window=None, tie_word_embeddings=False)
        return transformers.LlavaForConditionalGeneration(transformers.LlavaConfig(
            text_config=text, vision_config=transformers.PixtralVisionConfig(
                **theirs.VISION, image_size=theirs.EDGE,
                head_dim=theirs.SEES // theirs.SEES_HEADS),
            image_token_index=self.words("[IMG]"), vision_feature_layer=-1,
            vision_feature_select_strategy="full", tie_word_embeddings=False))

    def tower(self):
        return self.tower_keys("pixtral"), {}


CASES = others.CASES | {"pixtral": (Pixtral, [(32, 24), (16, 40)]),
                        "pixtral-no-image": (Pixtral, [])}


@pytest.mark.parametrize("case", CASES)
def test_others(tmp_path, case):
    make, sizes = CASES[case]
    family = make()
    images = [png.blocks(*size, seed=i, side=5) for i, size in enumerate(sizes)]
    tokens = [5, 70, 256, 9, 11, 30] * 4
    for _ in images:
        tokens += [family.words(word) for word in family.shown] + [41, 100]
    logits = family.logits(tokens, images)
    keys = family.tower()[0]
    save(tmp_path, family.model, family.vocabulary,
         {key: [float(x) for x in keys["clip.vision." + key]] for key in ("image_mean", "image_std")})
    options = []
    if case.startswith("gemma4"):  # images are scaled to that
        options = ["--image-max-tokens", "16" if "line" not in case else "11"]
    mark = family.words(family.seen.image_token)
    lengths = [len(family.rows(image)) for image in images]
    compare(evaluate(tmp_path, tokens, images, *options), logits,
            last_rows(tokens, lengths, mark, kept=case == "gemma3"))
