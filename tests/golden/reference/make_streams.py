"""Tiny models of latent attention that came after DeepSeek's, for make_golden.py."""

import numpy as np

from .builder import Builder, shared_experts
from .make_recurrent import kimi_delta, latent_attention, latent_keys


def hyper_connection(m, name, streams, parts):
    m.matrix(name + "_fn", parts * streams, streams * m.width, gain=1.5)
    m.tensors[name + "_base.weight"] = m.rng.normal(-0.5, 0.7, parts * streams)
    m.tensors[name + "_scale.weight"] = m.rng.uniform(0.4, 1.3, parts)


def slot_index(m, layer, heads, key, rank):
    b = f"blk.{layer}.indexer."
    m.matrix(b + "attn_q_b", heads * key, rank, gain=1.5)
    m.matrix(b + "attn_k", key, m.width, gain=1.5)
    m.norm(b + "k_norm", key)
    m.bias(b + "k_norm", key)
    m.matrix(b + "proj", heads, m.width, gain=1.5)


def mixed_streams(m, layer, streams):
    b = f"blk.{layer}."
    for part in ("attn", "ffn"):
        m.matrix(f"{b}hc_{part}_fn", streams * (streams + 2), streams * m.width, gain=1.5)
        m.tensors[f"{b}hc_{part}_base.weight"] = m.rng.normal(0, 0.7, streams * (streams + 2))
        m.tensors[f"{b}hc_{part}_scale.weight"] = m.rng.uniform(0.4, 1.3, 3)


def hy_v4(name):
    arch, streams, rank = "hy_v4", 3, 16
    sizes = (14, 6, 8, 12)
    m = Builder(name, arch, 30, 4, 3, 1, 20, feed_forward_length=38, rope__freq_base=5000.0,
                attention__q_lora_rank=rank, expert_count=6, expert_used_count=2,
                expert_shared_count=2, expert_feed_forward_length=14, expert_gating_func=2,
                expert_weights_norm=True, expert_weights_scale=1.7, leading_dense_block_count=1,
                swiglu_clamp_exp=[0.4] * 4, hyper_connection__count=streams,
                hyper_connection__epsilon=1e-3, hyper_connection__magnitude=1.6,
                attention__indexer__top_k=9, attention__indexer__head_count=5,
                attention__indexer__key_length=11,
                attention__indexer__types=[True, True, False, True])
    latent_keys(m, *sizes)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        for part in ("attn", "ffn"):
            hyper_connection(m, f"{b}hc_{part}", streams, 2)
        m.norm(b + "attn_norm", m.width)
        latent_attention(m, layer, *sizes)
        m.matrix(b + "attn_gate", m.heads * sizes[3], m.width, gain=1.5)
        m.tensors[b + "attn_sinks.weight"] = m.rng.normal(0, 1, m.heads)
        if layer != 2:
            slot_index(m, layer, 5, 11, rank)
        if layer == 0:
            m.feed_forward(layer, 38)
        else:
            shared_experts(m, layer, 6, 14, 2)
    hyper_connection(m, "output_hc", streams, 1)
    return m


def deepseek4(name):
    """Plain layers, blocks that overlap and are chosen, others that are all seen, and some longer than
    a page of the cache."""
    arch, streams, rank, groups, used = "deepseek4", 3, 14, 2, 2
    ratios = [0, 4, 6, 70, 4]
    m = Builder(name, arch, 30, len(ratios), 4, 1, 16, rope__dimension_count=6,
                rope__freq_base=5000.0, rope__scaling__type="yarn", rope__scaling__factor=4.0,
                rope__scaling__original_context_length=64, rope__scaling__yarn_beta_fast=8.0,
                rope__scaling__yarn_beta_slow=1.0, attention__compress_rope_freq_base=20000.0,
                attention__q_lora_rank=rank, attention__sliding_window=7,
                attention__output_group_count=groups, attention__output_lora_rank=10,
                attention__compress_ratios=ratios, attention__indexer__head_count=7,
                attention__indexer__key_length=11, attention__indexer__top_k=3,
                hyper_connection__count=streams, hyper_connection__sinkhorn_iterations=4,
                hyper_connection__epsilon=1e-3, hash_layer_count=2, expert_count=6,
                expert_used_count=used, expert_shared_count=1, expert_feed_forward_length=14,
                expert_gating_func=4, expert_weights_norm=True, expert_weights_scale=1.7,
                swiglu_clamp_exp=[0.5] * len(ratios), swiglu_clamp_shexp=[0.6] * len(ratios))
    width, head = m.width, m.head_dim
    m.embedding()

    def compressor(prefix, dim, block):
        for part in ("kv", "gate"):
            m.matrix(prefix + part, dim, width, gain=1.5)
        m.tensors[prefix + "ape.weight"] = m.rng.normal(0, 1, (block, dim))

    for layer, block in enumerate(ratios):
        b = f"blk.{layer}."
        mixed_streams(m, layer, streams)
        m.norm(b + "attn_norm", width)
        m.matrix(b + "attn_q_a", rank, width)
        m.norm(b + "attn_q_a_norm", rank)
        m.matrix(b + "attn_q_b", m.heads * head, rank)
        m.matrix(b + "attn_kv", head, width)
        m.norm(b + "attn_kv_norm", head)
        m.tensors[b + "attn_sinks.weight"] = m.rng.normal(0, 1, m.heads)
        m.matrix(b + "attn_output_a", groups * 10, m.heads * head // groups)
        m.matrix(b + "attn_output_b", width, groups * 10, gain=2.0)
        if block:
            indexed = block == 4
            compressor(b + "attn_compressor_", 2 * head if indexed else head, block)
            m.norm(b + "attn_compressor_norm", head)
            if indexed:
                compressor(b + "indexer_compressor_", 22, block)
                m.norm(b + "indexer_compressor_norm", 11)
                m.matrix(b + "indexer.attn_q_b", 7 * 11, rank, gain=1.5)
                m.matrix(b + "indexer.proj", 7, width, gain=1.5)
        shared_experts(m, layer, 6, 14, 1)
        if layer < 2:
            del m.tensors[b + "exp_probs_b.bias"]
            ids = [m.rng.permutation(6)[:used] for _ in range(72)]
            m.tensors[b + "ffn_gate_tid2eid.weight"] = np.array(ids, np.int32)
    for part, size in (("base", streams), ("scale", 1)):
        m.tensors[f"output_hc_{part}.weight"] = m.rng.normal(0.5, 0.5, size)
    m.matrix("output_hc_fn", streams, streams * width, gain=1.5)
    return m


def dots3note(name):
    arch, rank = "dots3note", 16
    full, sliding = (14, 6, 8, 12), (10, 6, 6, 9)  # latent, rope, nope, value
    m = Builder(name, arch, 30, 4, 3, 1, 20, feed_forward_length=38, rope__freq_base=5000.0,
                rope__freq_base_swa=300.0, attention__q_lora_rank=rank, expert_count=6,
                attention__layer_norm_rms_epsilon=1e-3, expert_used_count=2, expert_shared_count=1,
                expert_feed_forward_length=14, expert_gating_func=2, expert_weights_norm=True,
                expert_weights_scale=1.7, leading_dense_block_count=1,
                attention__sliding_window=7, attention__kv_lora_rank_swa=10,
                attention__sliding_window_pattern=[False, True, True, False],
                attention__key_length_swa=16, attention__value_length_swa=10,
                attention__key_length_mla_swa=12, attention__value_length_mla_swa=9,
                attention__indexer__top_k=9, attention__indexer__head_count=5,
                attention__indexer__key_length=11,
                attention__indexer__types=[True, False, False, True])
    m.metadata[f"{arch}.attention.head_count"] = [3, 4, 4, 3]
    latent_keys(m, *full)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        slides = layer in (1, 2)
        m.heads = 4 if slides else 3
        m.norm(b + "attn_norm", m.width)
        latent_attention(m, layer, *(sliding if slides else full))
        m.norm(b + "attn_k_norm", 6)
        m.matrix(b + "attn_gate", m.heads, m.width, gain=2.0)
        if not slides:
            slot_index(m, layer, 5, 11, rank)
        if layer == 0:
            m.feed_forward(layer, 38)
        else:
            shared_experts(m, layer, 6, 14, 1)
    return m


def glm5_next(name):
    """Blocks that are chosen by the third and taken over by the fifth layer, a shorter text than all of
    the last one's."""
    arch, streams, rank, sizes, block = "glm5-next", 3, 16, (14, 0, 8, 12), 6
    kinds = [0, 0, 1, 0, 1, 1]
    m = Builder(name, arch, 30, len(kinds), 3, kinds, 14, feed_forward_length=38, kda__head_dim=10,
                kda__gate_lower_bound=-3.0, ssm__conv_kernel=4, attention__q_lora_rank=rank,
                attention__indexer__top_k=4 * block, attention__indexer__head_count=5,
                attention__indexer__key_length=11, attention__indexer__kpool=block,
                attention__indexer__kpool_select_tail=True,
                attention__indexer__types=[True, True, True, True, False, True],
                hyper_connection__count=streams, hyper_connection__sinkhorn_iterations=4,
                hyper_connection__epsilon=1e-3, expert_count=6, expert_used_count=2,
                expert_shared_count=1, expert_feed_forward_length=14, expert_weights_norm=True,
                expert_weights_scale=1.7, leading_dense_block_count=1,
                swiglu_clamp_exp=[0.5] * len(kinds), swiglu_clamp_shexp=[0.6] * len(kinds))
    latent_keys(m, *sizes)
    m.embedding()
    for layer, kind in enumerate(kinds):
        b = f"blk.{layer}."
        mixed_streams(m, layer, streams)
        m.norm(b + "attn_norm", m.width)
        if kind:
            latent_attention(m, layer, *sizes)
            if layer != 4:
                slot_index(m, layer, 5, 11, rank)
                m.matrix(b + "indexer_compressor_gate", 11, m.width, gain=1.5)
                m.tensors[b + "indexer_compressor_ape.weight"] = m.rng.normal(0, 1, (block, 11))
        else:
            kimi_delta(m, layer, 10, "fg")
            m.tensors[b + "ssm_a"] = m.tensors[b + "ssm_a"][:, 0]
        if layer == 0:
            m.feed_forward(layer, 38)
        else:
            shared_experts(m, layer, 6, 14, 1)
    return m
