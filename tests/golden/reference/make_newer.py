"""Tiny models of families of 2025 and 2026 that are put together from parts of others, for
make_golden.py."""

import numpy as np

from .builder import Builder
from .make_experts import shared_experts
from .make_plain import plain_layers


def head_norms(m, layer):
    for part in "qk":
        m.norm(f"blk.{layer}.attn_{part}_norm", m.head_dim)


def laguna(name):
    """-elements: as the largest one, without windows and with a gate for each element."""
    small = "elements" not in name
    heads = [4, 6, 6, 6, 4] if small else [4] * 3
    keys = {"attention__sliding_window": 7, "rope__freq_base_swa": 3000.0,
            "rope__dimension_count_swa": 12, "rope__scaling__type": "yarn",
            "rope__scaling__factor": 8.0, "rope__scaling__original_context_length": 64,
            "attention__sliding_window_pattern": [i % 4 > 0 for i in range(5)]} if small else {}
    m = Builder(name, "laguna", 30, len(heads), 4, 2, 12, feed_forward_length=38,
                rope__freq_base=5e5, rope__dimension_count=8, leading_dense_block_count=1,
                expert_count=6, expert_used_count=2, expert_feed_forward_length=14,
                expert_shared_feed_forward_length=18, expert_weights_scale=2.5,
                expert_weights_norm=True, expert_gating_func=2, **keys)
    m.metadata["laguna.attention.head_count"] = heads
    m.embedding()
    for layer in range(m.layers):
        m.heads = heads[layer]
        m.attention(layer)
        head_norms(m, layer)
        m.matrix(f"blk.{layer}.attn_gate", m.heads * (1 if small else m.head_dim), m.width, gain=2.0)
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 6, 14)
        m.bias(f"blk.{layer}.exp_probs_b", 6, spread=0.1)
        m.feed_forward(layer, 18, norms=False, suffix="_shexp")
    return m


def mellum(name):
    m = Builder(name, "mellum", 30, 4, 6, 2, 10, feed_forward_length=38, rope__freq_base=5e5,
                rope__freq_base_swa=3000.0, rope__dimension_count_swa=10,
                attention__sliding_window=7, rope__scaling__type="yarn", rope__scaling__factor=8.0,
                rope__scaling__original_context_length=64,
                attention__sliding_window_pattern=[True, True, True, False], expert_count=6,
                expert_used_count=2, expert_feed_forward_length=14)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        head_norms(m, layer)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 6, 14)
    return m


def granite_swa(name):
    """-moe: gate and up of the experts are one matrix, as are those of the shared one."""
    moe = "moe" in name
    layers = 3 if moe else 5
    keys = {"expert_count": 5, "expert_used_count": 3,
            "expert_shared_feed_forward_length": 22} if moe else {
                "attention__rope_pattern": [i > 0 for i in range(layers)]}
    m = Builder(name, "granite_swa", 36, layers, 6, 2, 6, feed_forward_length=26, embedding_scale=6.0,
                residual_scale=0.4, attention__scale=0.2, logit_scale=3.0,
                attention__sliding_window=7,
                attention__sliding_window_pattern=[i % 4 > 0 for i in range(layers)], **keys)
    m.embedding(tied=not moe, spread=0.3)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.tensors[b + "attn_sinks.weight"] = m.rng.normal(0, 2, m.heads)
        if not moe:
            m.feed_forward(layer, 26)
            continue
        m.norm(b + "ffn_norm", m.width)
        m.matrix(b + "ffn_gate_inp", 5, m.width, gain=2.0)
        m.matrix(b + "ffn_gate_up_exps", 52, m.width, 5)
        m.matrix(b + "ffn_down_exps", m.width, 26, 5)
        m.feed_forward(layer, 22, norms=False, fused=True, suffix="_shexp")
    return m


def jais2(name):
    m = Builder(name, "jais2", 36, 3, 6, 2, 6, feed_forward_length=38,
                attention__layer_norm_epsilon=1e-3)
    del m.metadata["jais2.attention.layer_norm_rms_epsilon"]
    m.embedding()
    m.bias("output_norm", m.width)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer, bias="qkvo")
        m.norm(b + "ffn_norm", m.width)
        m.matrix(b + "ffn_up", 38, m.width)
        m.matrix(b + "ffn_down", m.width, 38)
        for part, n in (("attn_norm", m.width), ("ffn_norm", m.width), ("ffn_up", 38),
                        ("ffn_down", m.width)):
            m.bias(b + part, n)
    return m


def maincoder(name):
    m = Builder(name, "maincoder", 30, 3, 6, 2, 10, feed_forward_length=38, rope__freq_base=2e4)
    m.embedding()
    plain_layers(m, 38, head_norms=True)
    return m


def pangu(name):
    m = Builder(name, "pangu-embedded", 36, 3, 6, 2, 6, feed_forward_length=38)
    m.embedding()
    plain_layers(m, 38, bias="qkvo")
    return m


def bailingmoe(name):
    m = Builder(name, "bailingmoe", 30, 3, 6, 2, 10, feed_forward_length=38, rope__freq_base=6e5,
                leading_dense_block_count=0, expert_count=6, expert_used_count=3,
                expert_feed_forward_length=14, expert_shared_count=2, expert_weights_scale=1.0,
                expert_weights_norm=True)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        shared_experts(m, layer, 6, 14, 2)
        del m.tensors[f"blk.{layer}.exp_probs_b.bias"]
    return m


def spark(name):
    m = Builder(name, "spark2_5", 36, 4, 6, 2, 12, feed_forward_length=38, rope__freq_base=5e5,
                rope__dimension_count=6, rope__freq_base_swa=1e4, rope__dimension_count_swa=12,
                attention__sliding_window=7,
                attention__sliding_window_pattern=[True, True, True, False])
    m.embedding(tied=True, spread=0.7)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        m.matrix(b + "attn_qkv", (6 + 2 * 2) * 12, m.width, gain=1.5)
        m.matrix(b + "attn_output", m.width, 6 * 12)
        m.matrix(b + "attn_gate", 6, m.width, gain=2.0)
        m.feed_forward(layer, 38)
    return m


def plm(name):
    rope, nope, value, latent = 8, 10, 12, 18
    m = Builder(name, "plm", 28, 3, 4, 4, nope + rope, feed_forward_length=40,
                attention__kv_lora_rank=latent, rope__dimension_count=rope,
                attention__value_length=value)
    m.embedding(tied=True, spread=0.7)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        m.matrix(b + "attn_q", m.heads * (nope + rope), m.width)
        m.matrix(b + "attn_kv_a_mqa", latent + rope, m.width)
        m.norm(b + "attn_kv_a_norm", latent)
        m.matrix(b + "attn_kv_b", m.heads * (nope + value), latent)
        m.matrix(b + "attn_output", m.width, m.heads * value)
        m.norm(b + "ffn_norm", m.width)
        m.matrix(b + "ffn_up", 40, m.width)
        m.matrix(b + "ffn_down", m.width, 40)
    return m


def deci(name):
    """All that a layer may be: whole, with a matrix for attention, without attention, without a
    feed-forward, and nothing."""
    heads, keys, widths = [6, 6, 0, 6, 0, 6], [2, 0, 0, 3, 0, 1], [38, 22, 46, 0, 0, 30]
    m = Builder(name, "deci", 36, 6, 6, 2, 6, feed_forward_length=38)
    m.metadata |= {"deci.attention.head_count": heads, "deci.attention.head_count_kv": keys,
                   "deci.feed_forward_length": widths}
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.kv_heads = keys[layer]
        if keys[layer]:
            m.attention(layer)
        elif heads[layer]:
            m.norm(b + "attn_norm", m.width)
            m.matrix(b + "attn_output", m.width, m.width)
        if widths[layer]:
            m.feed_forward(layer, widths[layer])
    return m


def xverse(name):
    m = Builder(name, "xverse", 36, 3, 6, 2, 6, feed_forward_length=38)
    m.embedding()
    plain_layers(m, 38)
    return m


def plamo3(name):
    """Its norms behind the parts are named without an ending, as in files."""
    keys = {} if "plain" in name else {
        "attention__sliding_window": 7, "rope__freq_base_swa": 700.0,
        "attention__sliding_window_pattern": [True, True, False, True]}
    m = Builder(name, "plamo3", 30, 4, 6, 2, 10, feed_forward_length=38, rope__freq_base=5e4, **keys)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        parts = [m.tensors.pop(f"{b}attn_{part}.weight") for part in "qkv"]
        m.tensors[b + "attn_qkv.weight"] = np.concatenate(parts)
        m.norm(b + "attn_q_norm", 10)
        m.norm(b + "attn_k_norm", 10)
        m.feed_forward(layer, 38, fused=True)
        for part in ("post_attention_norm", "post_ffw_norm"):
            m.tensors[b + part] = m.rng.normal(1, 0.2, m.width)
    return m


def grok(name):
    """-1: what the file leaves out is that of Grok 1. Else there is a feed-forward beside the experts."""
    first = name == "grok-1-f32"
    keys = {} if first else {
        "embedding_scale": 2.7, "logit_scale": 0.7, "attention__output_scale": 0.4,
        "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0, "router_logit_softcapping": 30.0,
        "expert_feed_forward_length": 14}
    m = Builder(name, "grok", 30, 3, 6, 2, 10, feed_forward_length=14 if first else 38,
                rope__freq_base=5000.0, expert_count=6, expert_used_count=2, **keys)
    m.embedding()
    if first:
        m.tensors["token_embd.weight"] /= 50.0
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_output_norm", m.width)
        m.norm(b + "ffn_norm", m.width)
        m.experts(layer, 6, 14)
        if not first:
            m.feed_forward(layer, 38, norms=False)
        m.norm(b + ("layer_output_norm" if first else "post_ffw_norm"), m.width)
    return m
