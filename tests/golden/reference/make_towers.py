"""Tiny random models that see, with other towers than make_vision's: text and tower, each
(metadata, tensors). Text models are make_golden's, with a vocabulary that spells every text."""

import numpy as np

from . import make_golden, make_vision
from .make_vision import Parts

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PATCH = 4
SEES, TOWER_HEADS, TOWER_INNER, BLOCKS = 24, 2, 40, 2
GEMMA3_SIDE, GEMMA3_MERGED = 32, 2  # pixels of an image, which has 16 results
PLACES = 24  # of Gemma 4's tower, in patches
INTERNVL_WORDS = ["<IMG_CONTEXT>", "<img>", "</img>"]


def vocabulary(special, shown):
    """`shown`: what stands in the template for an image."""
    keys = make_vision.vocabulary()
    words = make_vision.alphabet() + make_vision.PAIRS + SPECIAL + special
    count = len(SPECIAL + special)
    template = make_vision.TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", shown)
    return keys | {
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [1] * (len(words) - count) + [3] * count,
        "tokenizer.ggml.eos_token_id": words.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": words.index("<|endoftext|>"),
        "tokenizer.chat_template": template,
    }


def spelling(m, special, shown):
    """The metadata and tensors of a Builder's model, with this vocabulary."""
    keys = {key: value for key, value in m.metadata.items() if not key.startswith("tokenizer.")}
    keys |= vocabulary(special, shown)
    count = len(keys["tokenizer.ggml.tokens"])
    keys[keys["general.architecture"] + ".vocab_size"] = count
    for name in ("token_embd.weight", "per_layer_token_embd.weight", "output.weight"):
        if name in m.tensors:
            m.tensors[name] = m.rng.normal(0, 0.4, (count, m.tensors[name].shape[1]))
    return keys, m.tensors


def gemma3_text():
    return spelling(make_golden.gemma("gemma3-sees"), ["<start_of_image>", "<end_of_image>"],
                    "<start_of_image>")


def mistral3_text():
    return spelling(make_golden.mistral3("mistral3-sees"), ["[IMG]", "[IMG_BREAK]", "[IMG_END]"],
                    "[IMG]")


def gemma4_text(large=False):
    """large: images see themselves in layers with a window, and layers take nothing of tokens."""
    return spelling(make_golden.gemma4("gemma4-moe-sees" if large else "gemma4-sees"),
                    ["<|image>", "<|image|>", "<image|>"], "<|image|>")


def llama_text():
    """Of Idefics3, with the names of up to 3 x 3 tiles."""
    names = ["<image>", "<fake_token_around_image>", "<global-img>"]
    names += [f"<row_{row}_col_{column}>" for row in (1, 2, 3) for column in (1, 2, 3)]
    return spelling(make_golden.llama("llama-f32"), names, "<image>")


def lfm2_text():
    """Of LFM2-VL, with the names of up to 6 tiles."""
    names = ["<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"]
    names += [f"<|img_row_{row}_col_{column}|>" for row in range(1, 7) for column in range(1, 7)
              if row * column <= 6]
    return spelling(make_golden.lfm2("lfm2-f32"), names, "<image>")


def qwen_text():
    """Of InternVL."""
    return spelling(make_golden.qwen("qwen2-f32"), INTERNVL_WORDS, INTERNVL_WORDS[0])


def internlm2_text():
    """Of InternVL in its own form."""
    return spelling(make_golden.internlm2("internlm2-f32"), INTERNVL_WORDS, INTERNVL_WORDS[0])


def glm4_text(moe=False):
    """Of GLM-4.1V, or of GLM-4.5V: pairs of RoPE have axes."""
    m = (make_golden.glm4moe if moe else make_golden.glm4)("glm4-sees")
    m.metadata[m.metadata["general.architecture"] + ".rope.dimension_sections"] = [1, 1, 1, 0]
    return spelling(m, ["<|begin_of_image|>", "<|image|>", "<|end_of_image|>"],
                    "<|begin_of_image|><|image|><|end_of_image|>")


def kimi_text():
    """Of Kimi-VL and Kimi K2.5."""
    return spelling(make_golden.deepseek2("deepseek2-v3"),
                    ["<|media_begin|>", "<|media_start|>", "<|media_content|>", "<|media_pad|>",
                     "<|media_end|>"], "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>")


def llama4_text():
    names = ["<|image|>", "<|image_start|>", "<|image_end|>", "<|patch|>", "<|tile_x_separator|>",
             "<|tile_y_separator|>"]
    return spelling(make_golden.llama4("llama4-f32"), names, "<|image|>")


def glm5_text():
    """For the tower of GLM-5.3-Flash, whose own text makes more of small differences."""
    return spelling(make_golden.llama("llama-f32"), ["<|begin_of_image|>", "<|image|>", "<|end_of_image|>"],
                    "<|begin_of_image|><|image|><|end_of_image|>")


def tower_keys(projector, width, **keys):
    return {"general.architecture": "clip", "general.type": "mmproj",
            "clip.has_vision_encoder": True, "clip.projector_type": projector} | {
        f"clip.vision.{key.replace('__', '.')}": value for key, value in {
            "projection_dim": width, "patch_size": PATCH, "embedding_length": SEES,
            "feed_forward_length": TOWER_INNER, "block_count": BLOCKS,
            "attention__head_count": TOWER_HEADS, "attention__layer_norm_epsilon": 1e-6,
            "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]}.items()} | {
        f"clip.vision.{key.replace('__', '.')}": value for key, value in keys.items()}


def encoder(m, norms=("ln1", "ln2"), bias=False, parts=("gate", "up"), norm_bias=False):
    """The kernels of patches, and blocks."""
    m.tensors["v.patch_embd.weight"] = m.rng.normal(0, 0.15, (SEES, 3, PATCH, PATCH))
    for block in range(BLOCKS):
        b = f"v.blk.{block}."
        for norm in norms:
            m.norm(b + norm, SEES, bias=norm_bias)
        for part in "qkv":
            m.matrix(b + "attn_" + part, SEES, SEES, gain=1.5, bias=bias)
        m.matrix(b + "attn_out", SEES, SEES, bias=bias)
        for part in parts:
            m.matrix(b + "ffn_" + part, TOWER_INNER, SEES, bias=bias)
        m.matrix(b + "ffn_down", SEES, TOWER_INNER, bias=bias)


def qwen2_text():
    """A text model that takes what these towers make: of Qwen3-VL, with nothing added behind."""
    metadata, tensors = make_vision.text_model()
    del metadata["qwen3vl.n_deepstack_layers"]
    return metadata, tensors


def qwen2_tower(windows, seed=10):
    """windows: of Qwen2.5-VL, in which every second layer sees the whole image."""
    keys = {"spatial_merge_size": 2} | (
        {"n_wa_pattern": 2, "window_size": 4 * PATCH} if windows else {})
    metadata = tower_keys("qwen2.5vl_merger" if windows else "qwen2vl_merger", make_vision.WIDTH,
                          image_min_pixels=1, image_max_pixels=1 << 20, **keys)
    m = Parts(seed)
    for name in ("v.patch_embd.weight", "v.patch_embd.weight.1"):
        m.tensors[name] = m.rng.normal(0, 0.1, (SEES, 3, PATCH, PATCH))
    for block in range(BLOCKS):
        b = f"v.blk.{block}."
        for norm in ("ln1", "ln2"):
            m.norm(b + norm, SEES, bias=not windows)
        m.matrix(b + "attn_qkv", 3 * SEES, SEES, gain=1.5, bias=True)
        m.matrix(b + "attn_out", SEES, SEES, bias=True)
        for part in ("gate", "up") if windows else ("up",):
            m.matrix(b + "ffn_" + part, TOWER_INNER, SEES, bias=True)
        m.matrix(b + "ffn_down", SEES, TOWER_INNER, bias=True)
    m.norm("v.post_ln", SEES, bias=not windows)
    m.matrix("mm.0", 4 * SEES, 4 * SEES, bias=True)
    m.matrix("mm.2", make_vision.WIDTH, 4 * SEES, gain=1.5, bias=True)
    return metadata, m.tensors


def gemma3_tower(width=30, seed=11):
    metadata = tower_keys("gemma3", width, image_size=GEMMA3_SIDE,
                          projector__scale_factor=GEMMA3_MERGED) | {"clip.use_gelu": True}
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, ((GEMMA3_SIDE // PATCH) ** 2, SEES))
    m.norm("v.post_ln", SEES, bias=True)
    m.norm("mm.soft_emb_norm", SEES)
    projection = m.rng.normal(0, 1.5 / np.sqrt(SEES), (SEES, width))
    m.tensors["mm.input_projection.weight"] = projection.astype(np.float16)
    return metadata, m.tensors


def idefics3_tower(width=30, side=16, edge=48, merged=2, seed=14):
    metadata = tower_keys("idefics3", width, image_size=side, preproc_image_size=edge,
                          projector__scale_factor=merged) | {"clip.use_gelu": True}
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, ((side // PATCH) ** 2, SEES))
    m.norm("v.post_ln", SEES, bias=True)
    m.matrix("mm.model.fc", width, SEES * merged ** 2, gain=1.5)
    return metadata, m.tensors


def lfm2_tower(width=30, norm=True, seed=15):
    """Of 2 to 8 results for an image that is not cut, and 2 to 6 tiles of 4."""
    metadata = tower_keys("lfm2", width, projector__scale_factor=2, image_min_pixels=2 * 64,
                          image_max_pixels=8 * 64, preproc_image_size=16, preproc_min_tiles=2,
                          preproc_max_tiles=6) | {"clip.use_gelu": True}
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (25, SEES))
    m.norm("v.post_ln", SEES, bias=True)
    if norm:
        m.norm("mm.input_norm", 4 * SEES, bias=True)
    m.matrix("mm.1", 44, 4 * SEES, gain=1.5, bias=True)
    m.matrix("mm.2", width, 44, gain=1.5, bias=True)
    return metadata, m.tensors


def llava_tower(width=30, side=16, seed=17):
    metadata = tower_keys("mlp", width, image_size=side)
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    m.tensors["v.class_embd"] = m.rng.normal(0, 1, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (1 + (side // PATCH) ** 2, SEES))
    m.norm("v.pre_ln", SEES, bias=True)
    m.matrix("mm.0", width, SEES, gain=1.5, bias=True)
    m.matrix("mm.2", width, width, gain=1.5, bias=True)
    return metadata, m.tensors


def llava_next_tower(width=30, side=12):
    """Of pictures of 9 results, and 2 to 4 tiles."""
    metadata, tensors = llava_tower(width, side, seed=18)
    metadata["clip.vision.image_grid_pinpoints"] = [
        n * side for grid in ((2, 1), (1, 2), (2, 2), (3, 1), (1, 3)) for n in grid]
    metadata["clip.vision.mm_patch_merge_type"] = "spatial_unpad"
    tensors["model.image_newline"] = Parts(19).rng.normal(0, 1, width)
    return metadata, tensors


def internvl_tower(width=30, side=16, seed=16):
    """Of pictures of 4 results, and 1 to 5 tiles."""
    metadata = tower_keys("internvl", width, image_size=side, projector__scale_factor=2,
                          preproc_min_tiles=1, preproc_max_tiles=5) | {"clip.use_gelu": True}
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    for block in range(BLOCKS):
        for scale in ("ls1", "ls2"):
            m.norm(f"v.blk.{block}.{scale}", SEES)
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.tensors["v.class_embd"] = m.rng.normal(0, 1, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (1 + (side // PATCH) ** 2, SEES))
    m.norm("mm.model.mlp.0", 4 * SEES, bias=True)
    m.matrix("mm.model.mlp.1", width, 4 * SEES, gain=1.5, bias=True)
    m.matrix("mm.model.mlp.3", width, width, gain=1.5, bias=True)
    return metadata, m.tensors


def pixtral_tower(width=30, merged=2, break_row=True, silu=True, seed=12):
    """merged: 1 is Pixtral's own form, without a merger and its norm."""
    metadata = tower_keys("pixtral", width, image_size=96, attention__layer_norm_epsilon=1e-5)
    metadata |= {"clip.rope.freq_base": 10000.0, "clip.use_silu" if silu else "clip.use_gelu": True}
    m = Parts(seed)
    encoder(m)
    m.norm("v.pre_ln", SEES)
    if merged > 1:
        metadata["clip.vision.spatial_merge_size"] = merged
        m.norm("mm.input_norm", SEES)
        m.matrix("mm.patch_merger", SEES, SEES * merged ** 2, gain=1.5)
    m.matrix("mm.1", width, SEES, gain=1.5, bias=merged == 1)
    m.matrix("mm.2", width, width, gain=1.5, bias=merged == 1)
    if break_row:
        m.tensors["v.token_embd.img_break"] = m.rng.normal(0, 1, width)
    return metadata, m.tensors


def gemma4_tower(width=30, large=False, seed=13):
    """large: results are standardised; else products are held within bounds."""
    metadata = tower_keys("gemma4v", width, image_size=224, projector__scale_factor=3,
                          image_mean=[0.0] * 3, image_std=[1.0] * 3)
    m = Parts(seed)
    # Scores are not scaled, and values have no weights: heads of 12 elements.
    encoder(m, norms=["ln1", "attn_post_norm", "ln2", "ffn_post_norm"])
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (2, PLACES, SEES))
    for block in range(BLOCKS):
        for part in ("attn_q_norm", "attn_k_norm"):
            m.norm(f"v.blk.{block}.{part}", SEES // TOWER_HEADS)
            m.tensors[f"v.blk.{block}.{part}.weight"] *= 0.6
        for part in ("attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"):
            for end, low in (("min", -1.2), ("max", 0.8)):
                for which in () if large else ("input", "output"):
                    m.tensors[f"v.blk.{block}.{part}.{which}_{end}"] = m.rng.uniform(
                        low, low + 0.4, 1)
    if large:
        m.tensors["v.std_bias"] = m.rng.normal(0, 1, SEES)
        m.tensors["v.std_scale"] = m.rng.normal(1, 0.2, SEES)
    m.matrix("mm.input_projection", width, SEES, gain=1.5)
    return metadata, m.tensors


def glm4v_tower(width=30, places=5, seed=20):
    """Of 4 to 64 results. The width in its keys is that of the projector's feed-forward."""
    metadata = tower_keys("glm4v", width, image_min_pixels=4 * 64, image_max_pixels=64 * 64,
                          attention__layer_norm_epsilon=1e-5, feed_forward_length=52)
    m = Parts(seed)
    for name in ("v.patch_embd.weight", "v.patch_embd.weight.1"):
        m.tensors[name] = m.rng.normal(0, 0.1, (SEES, 3, PATCH, PATCH))
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.norm("v.norm_embd", SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (places ** 2, SEES))
    for block in range(BLOCKS):
        b = f"v.blk.{block}."
        for norm in ("ln1", "ln2"):
            m.norm(b + norm, SEES)
        m.matrix(b + "attn_qkv", 3 * SEES, SEES, gain=1.5)
        m.matrix(b + "attn_out", SEES, SEES)
        for part in ("gate", "up"):
            m.matrix(b + "ffn_" + part, width, SEES)
        m.matrix(b + "ffn_down", SEES, width)
    m.norm("v.post_ln", SEES)
    m.tensors["mm.patch_merger.weight"] = m.rng.normal(
        0, 1 / np.sqrt(4 * SEES), (width, SEES, 2, 2)).astype(np.float16)
    m.tensors["mm.patch_merger.bias"] = m.rng.normal(0, 0.2, width)
    m.matrix("mm.model.fc", width, width)
    m.norm("mm.post_norm", width, bias=True)
    for part in ("gate", "up"):
        m.matrix("mm." + part, 52, width, gain=1.5)
    m.matrix("mm.down", width, 52, gain=1.5)
    return metadata, m.tensors


def glm5v_tower(width=30, seed=23):
    """Of 4 to 64 results."""
    metadata, tensors = glm4v_tower(width, seed=seed)
    metadata |= {"clip.projector_type": "glm5v", "clip.vision.swiglu_clamp": 0.5,
                 "clip.vision.feed_forward_length": TOWER_INNER}
    for name in ("v.norm_embd.weight", "v.position_embd.weight"):
        del tensors[name]
    m = Parts(seed + 1)
    for block in range(BLOCKS):
        b = f"v.blk.{block}."
        for part in ("q", "k"):
            m.norm(f"{b}attn_{part}_norm", SEES // TOWER_HEADS)
        for part in ("gate", "up"):
            m.matrix(b + "ffn_" + part, TOWER_INNER, SEES, gain=1.5, bias=True)
        m.matrix(b + "ffn_down", SEES, TOWER_INNER, bias=True)
        for part, rows in (("qkv", 3 * SEES), ("out", SEES)):
            m.tensors[f"{b}attn_{part}.bias"] = m.rng.normal(0, 0.2, rows)
    return metadata, tensors | m.tensors


def kimi_tower(k25, width=28, places=5, most=64, seed=21):
    """Of at most so many patches, before an image is filled up."""
    metadata = tower_keys("kimik25" if k25 else "kimivl", width, projector__scale_factor=2,
                          attention__layer_norm_epsilon=1e-5, image_max_pixels=most * PATCH ** 2)
    metadata["clip.use_gelu"] = True
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    for block in range(BLOCKS if k25 else 0):
        for part in ("weight", "bias"):
            m.tensors[f"v.blk.{block}.attn_qkv.{part}"] = np.concatenate(
                [m.tensors.pop(f"v.blk.{block}.attn_{x}.{part}") for x in "qkv"])
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    table = m.rng.normal(0, 0.4, (places + 1, places, SEES) if k25 else (places ** 2, SEES))
    m.tensors["v.position_embd.weight"] = table
    m.norm("v.post_ln", SEES, bias=True)
    m.norm("mm.input_norm", SEES, bias=True)
    m.matrix("mm.1", 4 * SEES, 4 * SEES, bias=True)
    m.matrix("mm.2", width, 4 * SEES, gain=1.5, bias=True)
    return metadata, m.tensors


def llama4_tower(width=30, side=16, tiles=6, seed=22):
    """Of pictures of 4 results."""
    metadata = tower_keys("llama4", width, image_size=side, projector__scale_factor=2,
                          preproc_max_tiles=tiles, attention__layer_norm_epsilon=1e-5)
    metadata["clip.use_gelu"] = True
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    m.tensors["v.patch_embd.weight"] = m.tensors["v.patch_embd.weight"].reshape(SEES, -1)
    m.tensors["v.class_embd"] = m.rng.normal(0, 1, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (1 + (side // PATCH) ** 2, SEES))
    m.norm("v.pre_ln", SEES, bias=True)
    m.norm("v.post_ln", SEES, bias=True)
    m.matrix("mm.model.mlp.1", 36, 4 * SEES, gain=1.5)
    m.matrix("mm.model.mlp.2", 36, 36, gain=1.5)
    m.matrix("mm.model.fc", width, 36, gain=1.5)
    return metadata, m.tensors
