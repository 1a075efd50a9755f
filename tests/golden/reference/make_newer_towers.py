"""Tiny random models that see: GLM-OCR, PaddleOCR-VL and EXAONE 4.5, text and tower, each (metadata,
tensors)."""

from . import make_golden
from .make_towers import (
    BLOCKS, PATCH, SEES, TOWER_HEADS, TOWER_INNER, encoder, glm4v_tower, spelling, tower_keys)
from .make_vision import Parts

PADDLE_WORDS = ["<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"]
EXAONE_WORDS = ["<vision>", "<|image_pad|>", "</vision>"]


def glm_ocr_tower(width=30, inner=44, seed=25):
    """Of 4 to 64 results."""
    metadata, tensors = glm4v_tower(width, seed=seed)
    metadata["clip.vision.feed_forward_length"] = TOWER_INNER
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
    for part in ("gate", "up"):
        m.matrix("mm." + part, inner, width, gain=1.5)
    m.matrix("mm.down", width, inner, gain=1.5)
    return metadata, tensors | m.tensors


def paddle_text():
    return spelling(make_golden.ernie4_5("paddleocr-f32"), PADDLE_WORDS, "".join(PADDLE_WORDS))


def paddle_tower(width=30, places=5, seed=27):
    """Of 4 to 64 results."""
    metadata = tower_keys("paddleocr", width, image_min_pixels=4 * 64, image_max_pixels=64 * 64)
    metadata["clip.use_gelu"] = True
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (places ** 2, SEES))
    m.norm("v.post_ln", SEES, bias=True)
    m.norm("mm.input_norm", SEES, bias=True)
    m.matrix("mm.1", 4 * SEES, 4 * SEES, bias=True)
    m.matrix("mm.2", width, 4 * SEES, gain=1.5, bias=True)
    return metadata, m.tensors


def exaone_text():
    return spelling(make_golden.exaone4("exaone4-32b-f32"), EXAONE_WORDS, "".join(EXAONE_WORDS))


def exaone_tower(width=30, windows=True, seed=28):
    """Heads of keys and values are half as many. windows: every second layer sees all."""
    keys = {"n_wa_pattern": 2, "window_size": 4 * PATCH} if windows else {}
    metadata = tower_keys("exaone4_5", width, image_min_pixels=4 * 64, image_max_pixels=64 * 64,
                          attention__head_count_kv=TOWER_HEADS // 2, **keys)
    metadata["clip.use_silu"] = True
    m = Parts(seed)
    for name in ("v.patch_embd.weight", "v.patch_embd.weight.1"):
        m.tensors[name] = m.rng.normal(0, 0.1, (SEES, 3, PATCH, PATCH))
    for block in range(BLOCKS):
        b = f"v.blk.{block}."
        for norm in ("ln1", "ln2"):
            m.norm(b + norm, SEES)
        m.matrix(b + "attn_qkv", 2 * SEES, SEES, gain=1.5, bias=True)
        m.matrix(b + "attn_out", SEES, SEES, bias=True)
        for part in ("gate", "up"):
            m.matrix(b + "ffn_" + part, TOWER_INNER, SEES, bias=True)
        m.matrix(b + "ffn_down", SEES, TOWER_INNER, bias=True)
    m.norm("v.post_ln", SEES)
    m.matrix("mm.0", 4 * SEES, 4 * SEES, bias=True)
    m.matrix("mm.2", width, 4 * SEES, gain=1.5, bias=True)
    return metadata, m.tensors
