"""Tiny models of families of 2023 and 2024 that are the plain decoder but for little, and of some that
came after, for make_golden.py."""

from .builder import Builder
from .make_layer_norms import embedding, fused_attention, norm, normed, plain_feed_forward


def qwen(name):
    """Its files say twice the width of the feed-forward."""
    m = Builder(name, "qwen", 36, 3, 6, 6, 6, feed_forward_length=44)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        m.matrix(b + "attn_qkv", 3 * 36, m.width, gain=1.5)
        m.bias(b + "attn_qkv", 3 * 36)
        m.matrix(b + "attn_output", m.width, 36)
        m.feed_forward(layer, 22)
    return m


def codeshell(name):
    m = normed(name, "codeshell", 36, 3, 6, 2, 6, feed_forward_length=38, rope__freq_base=5000.0)
    embedding(m)
    for layer in range(m.layers):
        norm(m, f"blk.{layer}.attn_norm")
        fused_attention(m, layer)
        norm(m, f"blk.{layer}.ffn_norm")
        plain_feed_forward(m, layer, 38)
    return m


def plamo(name):
    """Its files have no keys of RoPE, nor of heads."""
    m = Builder(name, "plamo", 36, 3, 6, 2, 6, context=4096, feed_forward_length=38)
    for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        del m.metadata[f"plamo.{key}"]
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        m.feed_forward(layer, 38, norms=False)
    return m


def openelm(name):
    heads, keys, widths = [4, 6, 3], [2, 2, 1], [22, 38, 30]
    m = Builder(name, "openelm", 36, 3, 4, 2, 10, feed_forward_length=widths)
    m.metadata |= {"openelm.attention.head_count": heads, "openelm.attention.head_count_kv": keys,
                   "openelm.attention.layer_norm_rms_epsilon": 1e-6}
    m.embedding(tied=True, spread=0.7)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.heads, m.kv_heads = heads[layer], keys[layer]
        m.norm(b + "attn_norm", m.width)
        fused_attention(m, layer, bias=False)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        m.feed_forward(layer, widths[layer])
    return m


def smallthinker(name):
    """-windows: with windows, and chosen by softmax."""
    windows = "windows" in name
    keys = {"attention__sliding_window": 7} if windows else {}
    m = Builder(name, "smallthinker", 36, 6 if windows else 2, 6, 2, 6, feed_forward_length=14,
                expert_feed_forward_length=14, expert_count=5, expert_used_count=2,
                expert_gating_func=1 if windows else 2, **keys)
    m.embedding(tied=windows, spread=0.7)
    for layer in range(m.layers):
        m.attention(layer)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 5, 14)
    return m


def arctic(name):
    m = Builder(name, "arctic", 36, 3, 6, 2, 6, feed_forward_length=14, expert_count=5,
                expert_used_count=2)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        m.feed_forward(layer, m.width)
        m.norm(f"blk.{layer}.ffn_norm_exps", m.width)
        m.experts(layer, 5, 14)
    return m


def maple(name):
    """Limits are so low that they are met."""
    sliding = [True, True, False, True]
    m = Builder(name, "maple", 36, 4, 6, 2, 12, feed_forward_length=14, rope__dimension_count=6,
                attention__sliding_window=7, attention__sliding_window_pattern=sliding,
                expert_count=5, expert_used_count=2, expert_feed_forward_length=14,
                swiglu_clamp_exp=[0.6] * 4)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        m.norm(f"blk.{layer}.attn_q_norm", m.head_dim)
        m.norm(f"blk.{layer}.attn_k_norm", m.head_dim)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 5, 14)
    return m


def nanbeige(name):
    """-skip: without the norm between its rounds."""
    m = Builder(name, "nanbeige", 36, 2, 6, 2, 6, feed_forward_length=38, num_loops=3,
                skip_loop_final_norm="skip" in name)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        m.feed_forward(layer, 38)
    return m


def hrm_text(name):
    """Two layers a stack, two rounds of the high one, each after three of the low one."""
    m = Builder(name, "hrm_text", 36, 2 * 2 * 4, 3, 3, 12, feed_forward_length=38, embedding_scale=3.0,
                hrm__layers_per_stack=2, hrm__h_cycles=2, hrm__l_cycles=3, hrm__prefix_lm=True)
    m.embedding()
    del m.tensors["output_norm.weight"]
    m.tensors["hrm.z_l_init"] = m.rng.normal(0, 0.7, m.width)
    for layer in range(4):
        m.attention(layer, norms=False)
        m.matrix(f"blk.{layer}.attn_gate", 36, m.width, gain=1.5)
        m.feed_forward(layer, 38, norms=False)
    return m
