"""Tiny random models that see: GLM-OCR, PaddleOCR-VL, EXAONE 4.5 and MiniCPM-V 4.6, text and tower,
each (metadata, tensors)."""

import numpy as np

from . import make_golden
from .make_towers import (
    BLOCKS, PATCH, SEES, TOWER_HEADS, TOWER_INNER, encoder, glm4v_tower, spelling, tower_keys)
from .make_vision import Parts

PADDLE_WORDS = ["<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"]
MINICPM_WORDS = ["<|image_pad|>", "<image>", "</image>", "<slice>", "</slice>", "<image_id>",
                 "</image_id>"]
DOTS_WORDS = ["<|img|>", "<|imgpad|>", "<|endofimg|>"]
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


def minicpm_text():
    """For the tower of MiniCPM-V 4.6."""
    return spelling(make_golden.llama("llama-f32"), MINICPM_WORDS, MINICPM_WORDS[0])


def minicpm_tower(width=30, merges=True, side=32, places=5, seed=29):
    """Of pictures of about 4 results, and up to 5 slices. merges: patches inside the encoder."""
    unit = 4 if merges else 2
    keys = {"wa_layer_indexes": [0]} if merges else {}
    metadata = tower_keys("minicpmv4_6", width, image_size=side * unit // 4,
                          projector__scale_factor=unit, preproc_max_tiles=5, **keys)
    metadata["clip.use_gelu"] = True
    m = Parts(seed)
    encoder(m, bias=True, parts=["up"], norm_bias=True)
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.tensors["v.position_embd.weight"] = m.rng.normal(0, 0.4, (places ** 2, SEES))
    m.norm("v.post_ln", SEES, bias=True)
    if merges:
        b = "v.vit_merger."
        m.norm(b + "ln1", SEES, bias=True)
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            m.matrix(b + part, SEES, SEES, gain=1.5, bias=True)
        m.norm(b + "ds_ln", 4 * SEES, bias=True)
        m.matrix(b + "ds_ffn_up", 4 * TOWER_INNER, 4 * SEES, bias=True)
        m.matrix(b + "ds_ffn_down", SEES, 4 * TOWER_INNER, bias=True)
    m.norm("mm.input_norm", 4 * SEES, bias=True)
    m.matrix("mm.up", 4 * SEES, 4 * SEES, bias=True)
    m.matrix("mm.down", width, 4 * SEES, gain=1.5, bias=True)
    return metadata, m.tensors


def dots_text():
    return spelling(make_golden.qwen("qwen2-f32"), DOTS_WORDS, "".join(DOTS_WORDS))


def dots_tower(width=30, seed=30):
    """Of 4 to 64 results."""
    metadata = tower_keys("dots_ocr", width, image_min_pixels=4 * 64, image_max_pixels=64 * 64,
                          projector__scale_factor=2, attention__layer_norm_epsilon=1e-5)
    metadata["clip.use_silu"] = True
    m = Parts(seed)
    encoder(m)
    for block in range(BLOCKS):
        m.tensors[f"v.blk.{block}.attn_qkv.weight"] = np.concatenate(
            [m.tensors.pop(f"v.blk.{block}.attn_{x}.weight") for x in "qkv"])
    m.tensors["v.patch_embd.bias"] = m.rng.normal(0, 0.2, SEES)
    m.norm("v.pre_ln", SEES)
    m.norm("mm.post_norm", SEES)
    m.norm("mm.input_norm", SEES, bias=True)
    m.matrix("mm.0", 4 * SEES, 4 * SEES, bias=True)
    m.matrix("mm.2", width, 4 * SEES, gain=1.5, bias=True)
    return metadata, m.tensors
