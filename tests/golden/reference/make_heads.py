"""Random layers that predict the token after the next one, behind the tiny models' own."""

import zlib

import numpy as np

from .builder import VOCABULARY

# Which models have one, and whether it has an embedding and an output of its own.
HEADS = {"qwen35-f32": False, "glm4moe-f32": True, "deepseek2-flash-f32": False,
         "nemotron_h_moe-f32": False}


def nemotron(m, layer):
    b = f"blk.{layer}."
    m.kv_heads = 2
    m.attention(layer)
    m.norm(b + "post_attention_norm", m.width)
    m.matrix(b + "ffn_gate_inp", 6, m.width, gain=2.0)
    m.bias(b + "exp_probs_b", 6)
    m.matrix(b + "ffn_latent_down", 12, m.width)
    m.matrix(b + "ffn_latent_up", m.width, 12)
    m.matrix(b + "ffn_up_exps", 14, 12, 6)
    m.matrix(b + "ffn_down_exps", 12, 14, 6)
    m.matrix(b + "ffn_up_shexp", 18, m.width)
    m.matrix(b + "ffn_down_shexp", m.width, 18)
    for key, value in (("head_count_kv", 2),):
        m.metadata[f"nemotron_h_moe.attention.{key}"] += [value]
    m.metadata["nemotron_h_moe.feed_forward_length"] += [38]


def qwen35(m, layer):
    b = f"blk.{layer}."
    m.attention(layer)
    m.matrix(b + "attn_q", 2 * m.heads * m.head_dim, m.width, gain=1.5)
    for part in "qk":
        m.norm(f"{b}attn_{part}_norm", m.head_dim)
    m.norm(b + "post_attention_norm", m.width)
    m.feed_forward(layer, 38, norms=False)


def add_head(m, name):
    if name not in HEADS:
        return
    m.rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    arch = m.metadata["general.architecture"]
    layer = m.metadata[f"{arch}.block_count"]
    if m.metadata.get(f"{arch}.nextn_predict_layers"):
        layer -= 1  # its block is there
    else:
        m.metadata[f"{arch}.block_count"] = layer + 1
        m.metadata[f"{arch}.nextn_predict_layers"] = 1
        (nemotron if arch == "nemotron_h_moe" else qwen35)(m, layer)
    b = f"blk.{layer}.nextn."
    m.matrix(b + "eh_proj", m.width, 2 * m.width)
    m.norm(b + "enorm", m.width)
    m.norm(b + "hnorm", m.width)
    if HEADS[name]:
        m.tensors[b + "embed_tokens.weight"] = m.rng.normal(0, 1.0, (VOCABULARY, m.width))
        m.matrix(b + "shared_head_head", VOCABULARY, m.width, gain=2.0)
    if arch != "deepseek2":
        m.norm(b + "shared_head_norm", m.width)
