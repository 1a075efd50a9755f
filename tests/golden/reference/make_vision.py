"""Makes tests/data/vision: a tiny random model that sees, images, and its logits for a prompt with
two of them. Needs Pillow 12.2, whose results of resizing the engine has.

    python3 -m tests.golden.reference.make_vision tests/data/vision
"""

import json
import pathlib
import sys

import numpy as np

from . import gguf, png
from .vision import SeeingModel

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, INNER = 64, 3, 4, 2, 16, 96
SEES, BLOCKS, TOWER_HEADS, TOWER_INNER, SIDE = 32, 3, 2, 64, 6
PATCH, MERGED = 8, 2
DEEPSTACK = [True, False, True]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
           "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
PAIRS = "th he in er an re on at en nd st or te es of ed is it al ar".split()
# As Qwen's: a list of parts shows images where they stand.
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}
{{- message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type == 'image' or 'image' in part or 'image_url' in part %}
{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'text' in part %}
{{- part.text }}
{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def alphabet():
    """GPT-2's character of each byte."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
             *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown}
    characters |= {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [characters[byte] for byte in range(256)]


def vocabulary():
    tokens = alphabet() + PAIRS + SPECIAL
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - len(SPECIAL)) + [3] * len(SPECIAL),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in PAIRS],
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


class Parts:
    """Random tensors: matrices in F16."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.tensors = {}

    def matrix(self, name, n, k, gain=1.0, bias=False):
        values = self.rng.normal(0, gain / np.sqrt(k), (n, k))
        self.tensors[name + ".weight"] = values.astype(np.float16)
        if bias:
            self.tensors[name + ".bias"] = self.rng.normal(0, 0.2, n)

    def norm(self, name, n, bias=False):
        self.tensors[name + ".weight"] = self.rng.normal(1, 0.2, n)
        if bias:
            self.tensors[name + ".bias"] = self.rng.normal(0, 0.2, n)


def text_model(seed=1):
    keys = vocabulary()
    count = len(keys["tokenizer.ggml.tokens"])
    metadata = {"general.architecture": "qwen3vl", "general.name": "tiny-vl"} | {
        f"qwen3vl.{key}": value for key, value in {
            "block_count": LAYERS, "context_length": 1024, "embedding_length": WIDTH,
            "feed_forward_length": INNER, "attention.head_count": HEADS,
            "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
            "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 10000.0, "rope.dimension_count": HEAD,
            "rope.dimension_sections": [4, 2, 2, 0], "n_deepstack_layers": sum(DEEPSTACK),
            "vocab_size": count,
        }.items()} | keys
    m = Parts(seed)
    m.matrix("token_embd", count, WIDTH, gain=np.sqrt(WIDTH))
    m.norm("output_norm", WIDTH)
    m.matrix("output", count, WIDTH, gain=2.0)
    for layer in range(LAYERS):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", WIDTH)
        m.norm(b + "ffn_norm", WIDTH)
        m.matrix(b + "attn_q", HEADS * HEAD, WIDTH, gain=1.5)
        m.matrix(b + "attn_k", KV_HEADS * HEAD, WIDTH, gain=1.5)
        m.matrix(b + "attn_v", KV_HEADS * HEAD, WIDTH, gain=1.5)
        m.matrix(b + "attn_output", WIDTH, HEADS * HEAD)
        m.norm(b + "attn_q_norm", HEAD)
        m.norm(b + "attn_k_norm", HEAD)
        m.matrix(b + "ffn_gate", INNER, WIDTH)
        m.matrix(b + "ffn_up", INNER, WIDTH)
        m.matrix(b + "ffn_down", WIDTH, INNER)
    return metadata, m.tensors


def tower(seed=2):
    """Images of 4 to 64 results."""
    unit = (PATCH * MERGED) ** 2
    metadata = {"general.architecture": "clip", "general.type": "mmproj",
                "clip.has_vision_encoder": True, "clip.projector_type": "qwen3vl_merger",
                "clip.use_gelu": True} | {
        f"clip.vision.{key}": value for key, value in {
            "projection_dim": WIDTH, "image_size": SIDE * PATCH, "patch_size": PATCH,
            "embedding_length": SEES, "feed_forward_length": TOWER_INNER, "block_count": BLOCKS,
            "attention.head_count": TOWER_HEADS, "attention.layer_norm_epsilon": 1e-6,
            "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28],
            "image_min_pixels": 4 * unit, "image_max_pixels": 64 * unit,
            "spatial_merge_size": MERGED, "is_deepstack_layers": DEEPSTACK,
        }.items()}
    m = Parts(seed)
    for name in ("v.patch_embd.weight", "v.patch_embd.weight.1"):
        m.tensors[name] = m.rng.normal(0, 0.05, (SEES, 3, PATCH, PATCH)).astype(np.float16)
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (SIDE * SIDE, SEES))
    for block in range(BLOCKS):
        b = f"v.blk.{block}."
        m.norm(b + "ln1", SEES, bias=True)
        m.norm(b + "ln2", SEES, bias=True)
        m.matrix(b + "attn_qkv", 3 * SEES, SEES, gain=1.5, bias=True)
        m.matrix(b + "attn_out", SEES, SEES, bias=True)
        m.matrix(b + "ffn_up", TOWER_INNER, SEES, bias=True)
        m.matrix(b + "ffn_down", SEES, TOWER_INNER, bias=True)
    together = SEES * MERGED * MERGED
    mergers = [(f"v.deepstack.{i}.norm", together, f"v.deepstack.{i}.fc1", f"v.deepstack.{i}.fc2")
               for i, flag in enumerate(DEEPSTACK) if flag]
    for norm, width, first, second in [("v.post_ln", SEES, "mm.0", "mm.2"), *mergers]:
        m.norm(norm, width, bias=True)
        m.matrix(first, together, together, gain=1.5, bias=True)
        m.matrix(second, WIDTH, together, gain=1.5, bias=True)
    return metadata, m.tensors


def main(folder):
    from PIL import Image, __version__
    assert __version__.startswith("12.2."), __version__
    folder.mkdir(parents=True, exist_ok=True)
    gguf.write(folder / "tiny.gguf", *text_model())
    gguf.write(folder / "tiny-mmproj.gguf", *tower())
    scaled = png.blocks(70, 50, seed=3)
    fitting = png.blocks(48, 80, seed=4)
    pixels = np.asarray(Image.fromarray(scaled).resize((64, 48), Image.Resampling.BICUBIC))
    for name, rgb in {"blocks": scaled, "blocks-scaled": pixels, "tall": fitting}.items():
        (folder / f"{name}.png").write_bytes(png.encode(rgb))
    model = SeeingModel(folder / "tiny.gguf", folder / "tiny-mmproj.gguf")
    words = model.metadata["tokenizer.ggml.tokens"].index
    image = [words("<|vision_start|>"), words("<|image_pad|>"), words("<|vision_end|>")]
    tokens = [words("a"), words("th"), *image, words("nd"), words("!"), *image, words("is"), 17, 90]
    logits = model.logits(tokens, [pixels, fitting])
    logits.astype("<f4").tofile(folder / "tiny.f32")
    (folder / "tiny.json").write_text(json.dumps(
        {"tokens": tokens, "images": ["blocks.png", "tall.png"]}) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
