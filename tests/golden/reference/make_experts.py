"""Tiny models of families whose experts are chosen by sigmoid, for make_golden.py."""

from .builder import Builder, shared_experts
from .make_heads import glm4moe_block, hy_v3_block, step35_attention


def glm4moe(name):
    """The last block predicts further tokens."""
    m = Builder(name, "glm4moe", 30, 4, 6, 2, 12, feed_forward_length=38, rope__dimension_count=6,
                leading_dense_block_count=1, nextn_predict_layers=1, expert_count=6,
                expert_used_count=2, expert_feed_forward_length=14, expert_shared_count=1,
                expert_weights_scale=1.5, expert_weights_norm=True, expert_gating_func=2)
    m.embedding()
    for layer in range(m.layers):
        glm4moe_block(m, layer)
    return m


def dots1(name):
    m = Builder(name, "dots1", 30, 3, 4, 2, 12, feed_forward_length=38,
                leading_dense_block_count=1, expert_count=6, expert_used_count=2,
                expert_feed_forward_length=14, expert_shared_count=2, expert_weights_scale=1.5,
                expert_weights_norm=True, expert_gating_func=2)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        shared_experts(m, layer, 6, 14, 2)
    return m


def bailingmoe2(name):
    """Experts in groups; the width of those that every token takes is theirs apart."""
    m = Builder(name, "bailingmoe2", 40, 3, 4, 2, 10, feed_forward_length=38,
                rope__dimension_count=6, rope__freq_base=6e5, leading_dense_block_count=1,
                expert_count=8, expert_used_count=3, expert_group_count=4,
                expert_group_used_count=2, expert_feed_forward_length=14, expert_shared_count=2,
                expert_shared_feed_forward_length=14, expert_weights_scale=2.5,
                expert_weights_norm=True, expert_gating_func=2)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        m.matrix(b + "attn_qkv", (4 + 2 * 2) * 10, m.width, gain=1.5)
        m.matrix(b + "attn_output", m.width, 4 * 10)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        shared_experts(m, layer, 8, 14, 2)
    return m


def cohere2moe(name):
    """The dense layer sees everything, and has RoPE."""
    m = Builder(name, "cohere2moe", 30, 6, 4, 2, 10, feed_forward_length=38,
                attention__layer_norm_epsilon=1e-4, attention__sliding_window=7,
                attention__sliding_window_pattern=[False, True, True, True, False, True],
                leading_dense_block_count=1, expert_count=6, expert_used_count=2,
                expert_feed_forward_length=14, expert_shared_count=1,
                expert_shared_feed_forward_length=14, expert_gating_func=2,
                expert_weights_norm=True, logit_scale=0.6)
    del m.metadata["cohere2moe.attention.layer_norm_rms_epsilon"]
    m.embedding(tied=True, spread=0.7)
    for layer in range(m.layers):
        m.attention(layer)
        if layer == 0:
            m.feed_forward(layer, 38, norms=False)
            continue
        m.experts(layer, 6, 14)
        m.feed_forward(layer, 14, norms=False, suffix="_shexp")
    return m


def step35(name):
    """Layers with a window have more heads; limits are so low that they are met."""
    sliding = [False, True, True, False]
    heads = [6 if slides else 4 for slides in sliding]
    m = Builder(name, "step35", 30, 4, heads, [2] * 4, 12, feed_forward_length=38,
                rope__freq_base=5e5, rope__freq_base_swa=1e4, rope__dimension_count_swa=12,
                attention__sliding_window=7, attention__sliding_window_pattern=sliding,
                leading_dense_block_count=1, expert_count=6, expert_used_count=2,
                expert_feed_forward_length=14, expert_shared_feed_forward_length=22,
                expert_weights_scale=1.7, expert_weights_norm=True, expert_gating_func=2,
                swiglu_clamp_exp=[0.0, 0.0, 0.6, 0.0], swiglu_clamp_shexp=[0.8, 0.4, 0.0, 0.0])
    m.kv_heads = 2
    m.embedding()
    m.tensors["rope_freqs.weight"] = m.rng.uniform(1.0, 8.0, 6)
    for layer in range(m.layers):
        step35_attention(m, layer, heads[layer])
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 6, 14)
        m.bias(f"blk.{layer}.exp_probs_b", 6, spread=0.1)
        m.feed_forward(layer, 22, norms=False, suffix="_shexp")
    return m


def minimax_m2(name):
    m = Builder(name, "minimax-m2", 30, 2, 6, 2, 12, feed_forward_length=14,
                rope__dimension_count=6, expert_count=6, expert_used_count=2,
                expert_feed_forward_length=14, expert_gating_func=2)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_q_norm", m.heads * m.head_dim)
        m.norm(b + "attn_k_norm", m.kv_heads * m.head_dim)
        m.norm(b + "ffn_norm", m.width)
        m.experts(layer, 6, 14)
        m.bias(b + "exp_probs_b", 6, spread=0.1)
    return m


def afmoe(name):
    m = Builder(name, "afmoe", 30, 5, 4, 2, 12, feed_forward_length=38, attention__sliding_window=7,
                leading_dense_block_count=1, expert_count=6, expert_used_count=2,
                expert_feed_forward_length=14, expert_shared_count=2, expert_weights_scale=1.5,
                expert_weights_norm=True, expert_gating_func=2)
    m.embedding(spread=0.2)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        m.matrix(b + "attn_gate", m.heads * m.head_dim, m.width)
        m.norm(b + "post_attention_norm", m.width)
        m.norm(b + "post_ffw_norm", m.width)
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        shared_experts(m, layer, 6, 14, 2)
    return m


def exaone_moe(name):
    """The last layer always sees everything."""
    m = Builder(name, "exaone-moe", 30, 6, 4, 2, 10, feed_forward_length=38,
                attention__sliding_window=7, leading_dense_block_count=1, expert_count=6,
                expert_used_count=2, expert_feed_forward_length=14, expert_shared_count=1,
                expert_weights_scale=2.5, expert_weights_norm=True, expert_gating_func=2,
                attention__sliding_window_pattern=[True, True, True, False, True, False])
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        m.norm(b + "ffn_norm", m.width)
        m.experts(layer, 6, 14)
        m.bias(b + "exp_probs_b", 6, spread=0.1)
        m.feed_forward(layer, 14, norms=False, suffix="_shexp")
    return m


def hy_v3(name):
    m = Builder(name, "hy_v3", 30, 3, 6, 2, 10, feed_forward_length=38, rope__freq_base=2e5,
                expert_count=6, expert_used_count=2, expert_feed_forward_length=14,
                expert_shared_feed_forward_length=14, expert_weights_scale=2.826,
                expert_weights_norm=True, expert_gating_func=2)
    m.embedding()
    for layer in range(m.layers):
        hy_v3_block(m, layer)
    return m


def minimax_m3(name):
    """Gates and what they multiply exceed the limits of SwiGLU in some places."""
    m = Builder(name, "minimax-m3", 30, 4, 6, 2, 12, feed_forward_length=38,
                rope__dimension_count=6, rope__freq_base=5000.0, leading_dense_block_count=1,
                expert_count=6, expert_used_count=2, expert_feed_forward_length=14,
                expert_shared_count=1, expert_weights_scale=1.7, expert_weights_norm=True,
                expert_gating_func=2, attention__indexer__head_count=2,
                attention__indexer__key_length=10, attention__indexer__top_k=3,
                attention__indexer__block_size=5, attention__indexer__local_blocks=1)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        for part, heads in (("q", 2), ("k", 1)):
            m.matrix(f"{b}indexer.{part}_proj", heads * 10, m.width)
            m.norm(f"{b}indexer.{part}_norm", 10)
        shared_experts(m, layer, 6, 14, 1)
        m.tensors[b + "ffn_gate_shexp.weight"] *= 3
        m.tensors[b + "ffn_up_exps.weight"] *= 3
    return m
