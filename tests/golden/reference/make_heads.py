"""Random layers that predict further tokens, behind the tiny models' own."""

import zlib

import numpy as np

from .builder import VOCABULARY, shared_experts
from .make_recurrent import latent_attention

# Which models have one, and whether it has an embedding and an output of its own.
HEADS = {"qwen35-f32": False, "glm4moe-f32": True, "deepseek2-flash-f32": False,
         "nemotron_h_moe-f32": False, "mimo-f32": False, "mimo2-f32": False, "step35-f32": True,
         "hy_v3-f32": False, "deepseek32-f32": False, "glm-dsa-f32": True, "bailingmoe3-f32": False,
         "cohere2moe-f32": False}
# Which models have several of them, and how many.
CHAINS = {"glm4moe-f32": 2, "mimo2-f32": 3, "step35-f32": 2}


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


def glm4moe_block(m, layer):
    b = f"blk.{layer}."
    m.attention(layer, bias="qkv")
    m.norm(b + "attn_q_norm", m.head_dim)
    m.norm(b + "attn_k_norm", m.head_dim)
    m.norm(b + "post_attention_norm", m.width)
    if layer == 0:
        m.feed_forward(layer, 38, norms=False)
        return
    m.experts(layer, 6, 14)
    m.bias(b + "exp_probs_b", 6, spread=0.1)
    m.feed_forward(layer, 14, norms=False, suffix="_shexp")


def hy_v3_block(m, layer):
    """Its bias on the choice is named without an ending."""
    b = f"blk.{layer}."
    m.attention(layer)
    m.norm(b + "attn_q_norm", m.head_dim)
    m.norm(b + "attn_k_norm", m.head_dim)
    if layer == 0:
        m.feed_forward(layer, 38)
        return
    m.norm(b + "ffn_norm", m.width)
    m.experts(layer, 6, 14)
    m.tensors[b + "exp_probs_b"] = m.rng.normal(0, 0.1, 6)
    m.feed_forward(layer, 14, norms=False, suffix="_shexp")


def mimo(m, layer):
    m.attention(layer, bias="qkv")
    m.feed_forward(layer, 46)


def mimo2_attention(m, layer, kv_heads, sinks):
    b = f"blk.{layer}."
    value = m.metadata["mimo2.attention.value_length"]
    m.norm(b + "attn_norm", m.width)
    widths = [m.heads * m.head_dim, kv_heads * m.head_dim, kv_heads * value]
    for part, n in zip("qkv", widths):
        m.matrix(f"{b}attn_{part}", n, m.width, gain=1.5)
    m.matrix(b + "attn_output", m.width, m.heads * value)
    if sinks:
        m.tensors[b + "attn_sinks.weight"] = m.rng.normal(0, 2, m.heads)


def mimo2(m, layer):
    mimo2_attention(m, layer, 3, True)
    m.feed_forward(layer, 38)
    m.norm(f"blk.{layer}.layer_output_norm", m.width)
    m.metadata["mimo2.attention.head_count_kv"] += [3]
    m.metadata["mimo2.attention.sliding_window_pattern"] += [True]


def step35_attention(m, layer, heads):
    b = f"blk.{layer}."
    m.heads = heads
    m.attention(layer)
    m.norm(b + "attn_q_norm", m.head_dim)
    m.norm(b + "attn_k_norm", m.head_dim)
    m.matrix(b + "attn_gate", heads, m.width, gain=2.0)


def step35(m, layer):
    """With a window, as in published models."""
    step35_attention(m, layer, 6)
    m.feed_forward(layer, 38)
    for key, value in (("attention.head_count", 6), ("attention.head_count_kv", 2),
                       ("attention.sliding_window_pattern", True), ("swiglu_clamp_exp", 0.0),
                       ("swiglu_clamp_shexp", 0.0)):
        m.metadata[f"step35.{key}"] += [value]


def latent(m, layer):
    """Of DeepSeek V3.2 and GLM-5, without an index."""
    key = lambda name: m.metadata[f"{m.metadata['general.architecture']}.{name}"]
    rope = key("rope.dimension_count")
    m.norm(f"blk.{layer}.attn_norm", m.width)
    latent_attention(m, layer, key("attention.kv_lora_rank"), rope,
                     key("attention.key_length_mla") - rope, key("attention.value_length_mla"))
    shared_experts(m, layer, key("expert_count"), key("expert_feed_forward_length"),
                   key("expert_shared_count"))


def bailingmoe3(m, layer):
    b = f"blk.{layer}."
    m.norm(b + "attn_norm", m.width)
    latent_attention(m, layer, 14, 6, 8, 12)
    m.matrix(b + "attn_gate", m.heads, m.width, gain=2.0)
    m.norm(b + "ffn_norm", m.width)
    m.experts(layer, 8, 14)
    m.bias(b + "exp_probs_b", 8)
    m.feed_forward(layer, 18, norms=False, suffix="_shexp")
    m.norm(b + "layer_output_norm", m.width)
    m.metadata["bailingmoe3.attention.head_count_kv"] += [1]


def cohere2moe(m, layer):
    """With a window; RoPE it has in any case."""
    m.attention(layer)
    m.experts(layer, 6, 14)
    m.feed_forward(layer, 14, norms=False, suffix="_shexp")
    m.metadata["cohere2moe.attention.sliding_window_pattern"] += [True]


BLOCKS = {"deepseek32": latent, "glm-dsa": latent, "bailingmoe3": bailingmoe3, "cohere2moe": cohere2moe,
          "nemotron_h_moe": nemotron, "qwen35": qwen35, "glm4moe": glm4moe_block, "mimo": mimo,
          "mimo2": mimo2, "step35": step35, "hy_v3": hy_v3_block}


def add_heads(m, name):
    if name not in HEADS:
        return
    m.rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    arch = m.metadata["general.architecture"]
    blocks, heads = f"{arch}.block_count", f"{arch}.nextn_predict_layers"
    there = m.metadata.setdefault(heads, 0)  # the model has the blocks of so many
    first = m.metadata[blocks] - there
    for i in range(CHAINS.get(name, 1)):
        if i >= there:
            m.metadata[blocks] += 1
            m.metadata[heads] += 1
            BLOCKS[arch](m, first + i)
        add_head(m, name, arch, first + i)


def add_head(m, name, arch, layer):
    b = f"blk.{layer}.nextn."
    m.matrix(b + "eh_proj", m.width, 2 * m.width)
    m.norm(b + "enorm", m.width)
    m.norm(b + "hnorm", m.width)
    if HEADS[name]:
        m.tensors[b + "embed_tokens.weight"] = m.rng.normal(0, 1.0, (VOCABULARY, m.width))
        m.matrix(b + "shared_head_head", VOCABULARY, m.width, gain=2.0)
    if arch not in ("deepseek2", "mimo2", "bailingmoe3"):
        m.norm(b + "shared_head_norm", m.width)
