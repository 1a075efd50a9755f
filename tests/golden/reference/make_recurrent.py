"""Tiny models of families with recurrent layers, for make_golden.py."""

import numpy as np

from .builder import VOCABULARY, Builder


def conv1d(m, name, channels, taps, bias=False):
    m.tensors[name + ".weight"] = m.rng.normal(0, 0.6, (channels, taps))
    if bias:
        m.bias(name, channels)


def decays(m, b, heads):
    """Half-lives from less than a token to some tens."""
    m.tensors[b + "ssm_a"] = -np.exp(m.rng.uniform(-2.5, 1.0, heads))
    m.tensors[b + "ssm_dt.bias"] = m.rng.normal(-1, 1.0, heads)


def head_norms(m, layer):
    m.norm(f"blk.{layer}.attn_q_norm", m.head_dim)
    m.norm(f"blk.{layer}.attn_k_norm", m.head_dim)


def lfm2(name):
    arch = name.removesuffix("-f32")
    kinds = [0, 2, 0, 0, 2]
    m = Builder(name, arch, 30, 5, 6, kinds, 10, feed_forward_length=38, shortconv__l_cache=3,
                rope__freq_base=5000.0)
    if arch == "lfm2moe":
        m.metadata |= {f"{arch}.expert_count": 5, f"{arch}.expert_used_count": 2,
                       f"{arch}.expert_feed_forward_length": 14, f"{arch}.expert_gating_func": 2,
                       f"{arch}.leading_dense_block_count": 2,
                       f"{arch}.expert_weights_scale": 1.3}
    m.tensors["token_embd.weight"] = m.rng.normal(0, 0.7, (VOCABULARY, 30))
    m.norm("token_embd_norm", 30)
    for layer, m.kv_heads in enumerate(kinds):
        b = f"blk.{layer}."
        if m.kv_heads:
            m.attention(layer)
            head_norms(m, layer)
        else:
            m.norm(b + "attn_norm", 30)
            m.matrix(b + "shortconv.in_proj", 90, 30, gain=1.5)
            conv1d(m, b + "shortconv.conv", 30, 3)
            m.matrix(b + "shortconv.out_proj", 30, 30)
        if arch == "lfm2moe" and layer >= 2:
            m.norm(b + "ffn_norm", 30)
            m.experts(layer, 5, 14)
            m.bias(b + "exp_probs_b", 5)
        else:
            m.feed_forward(layer, 38)
    return m


def delta_net(m, layer, key_heads, heads, dim, taps):
    arch = m.metadata["general.architecture"]
    b = f"blk.{layer}."
    channels = (2 * key_heads + heads) * dim
    m.norm(b + "attn_norm", m.width)
    m.matrix(b + "attn_qkv", channels, m.width, gain=1.5)
    m.matrix(b + "attn_gate", heads * dim, m.width, gain=1.5)
    for part in ("ba",) if arch == "qwen3next" else ("beta", "alpha"):
        m.matrix(b + "ssm_" + part, 2 * heads if part == "ba" else heads, m.width, gain=1.5)
    conv1d(m, b + "ssm_conv1d", channels, taps)
    decays(m, b, heads)
    m.norm(b + "ssm_norm", dim)
    m.matrix(b + "ssm_out", m.width, heads * dim)


def qwen35(name):
    arch = name.removesuffix("-f32")
    m = Builder(name, arch, 30, 4, 4, 2, 12, feed_forward_length=38, rope__freq_base=5000.0,
                rope__dimension_count=6, rope__dimension_sections=[1, 1, 1, 0],
                full_attention_interval=3, ssm__conv_kernel=4, ssm__state_size=10,
                ssm__group_count=2, ssm__time_step_rank=6, ssm__inner_size=60)
    if arch != "qwen35":
        m.metadata |= {f"{arch}.expert_count": 5, f"{arch}.expert_used_count": 2,
                       f"{arch}.expert_feed_forward_length": 14,
                       f"{arch}.expert_shared_feed_forward_length": 18}
    if arch == "qwen35moe":
        m.metadata[f"{arch}.attention.recurrent_layers"] = [True, True, False, True]
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        if layer == 2:
            m.attention(layer)
            m.matrix(b + "attn_q", 2 * m.heads * m.head_dim, m.width, gain=1.5)
            head_norms(m, layer)
        else:
            delta_net(m, layer, 2, 6, 10, 4)
        m.norm(b + "post_attention_norm", m.width)
        if arch == "qwen35":
            m.feed_forward(layer, 38, norms=False)
        else:
            m.experts(layer, 5, 14)
            m.feed_forward(layer, 18, norms=False, suffix="_shexp")
            m.matrix(b + "ffn_gate_inp_shexp", 1, m.width, gain=2.0)
    return m


def hyper_connection(m, name, streams, rank, injects=True):
    """What mixes the streams for a part and shares out what it makes."""
    width = streams * m.width
    m.norm(name + "_norm", width)
    m.matrix(name + "_down", rank, width, gain=2.0 * streams)
    m.matrix(name + "_up", width, rank, gain=1.5)
    if injects:
        m.matrix(name + "_inject", streams, width, gain=streams)


def ngrams(m, layer, streams, sizes, width, taps):
    b = f"blk.{layer}."
    found, wide = width * len(sizes), streams * m.width
    m.tensors["per_layer_token_embd.weight"] = m.rng.normal(0, 0.8, (sum(sizes) + 5, width))
    m.matrix(b + "ple_key", wide, found, gain=1.5)
    m.matrix(b + "ple_value", m.width, found, gain=1.2)
    for part in ("key", "query", "conv"):
        m.norm(b + "ple_norm_" + part, wide)
    conv1d(m, b + "ple_conv1d", wide, taps)


def qwen4exp(name):
    """The last of several blocks of attention ends within a block of tokens, and few of them are
    seen. Norms of streams lie in one row, or in a row for each stream."""
    arch = "qwen4exp"
    streams, sizes, index = 3, [101, 103, 107, 109], 14
    m = Builder(name, arch, 30, 6, 4, 2, 12, feed_forward_length=14, rope__freq_base=5000.0,
                rope__dimension_count=6, rope__dimension_sections=[1, 1, 1, 0],
                full_attention_interval=3, ssm__conv_kernel=4, ssm__state_size=10,
                ssm__group_count=2, ssm__time_step_rank=6, ssm__inner_size=60, expert_count=5,
                expert_used_count=2, expert_feed_forward_length=14,
                expert_shared_feed_forward_length=18, hyper_connection__count=streams,
                hyper_connection__low_rank=10, attention__indexer__head_count=3,
                attention__indexer__key_length=index, attention__indexer__top_k=12,
                attention__compress_ratios=[0, 0, 4, 0, 0, 4], ple__layers=[1],
                ple__ngram_size=3, ple__heads_per_ngram=2, ple__conv_kernel=4,
                ple__layer_multipliers=[90071992547409931, 60129542144000777, 123456789012345677],
                ple__head_offsets=[0, 101, 204, 311], ple__head_vocab_sizes=sizes,
                ple__eos_token_id=31, embedding_length_per_layer_input=8)
    m.embedding()
    del m.tensors["output_norm.weight"]
    for layer in range(m.layers):
        b = f"blk.{layer}."
        for part in ("attn", "ffn"):
            hyper_connection(m, f"{b}hc_{part}", streams, 10)
        if layer % 3 == 2:
            m.attention(layer, norms=False)
            m.matrix(b + "attn_q", 2 * m.heads * m.head_dim, m.width, gain=1.5)
            head_norms(m, layer)
            m.matrix(b + "indexer.q_proj", 3 * index, m.width, gain=1.5)
            m.matrix(b + "indexer.k_proj", index, m.width, gain=1.5)
            m.norm(b + "indexer.q_norm", index)
            m.norm(b + "indexer.k_norm", index)
        else:
            delta_net(m, layer, 2, 6, 10, 4)
            del m.tensors[b + "attn_norm.weight"]
        if layer == 1:
            ngrams(m, layer, streams, sizes, 8, 4)
        m.experts(layer, 5, 14)
        m.feed_forward(layer, 18, norms=False, suffix="_shexp")
        m.matrix(b + "ffn_gate_inp_shexp", 1, m.width, gain=2.0)
    hyper_connection(m, "output_hc", streams, 10, injects=False)
    for norm in ("blk.1.ple_norm_query", "blk.3.hc_ffn_norm"):
        m.tensors[norm + ".weight"] = m.tensors[norm + ".weight"].reshape(streams, m.width)
    return m


def mamba2(m, layer, heads, head, size, groups, norm=True):
    b = f"blk.{layer}."
    inner = heads * head
    channels = inner + 2 * groups * size
    m.matrix(b + "ssm_in", inner + channels + heads, m.width, gain=1.5)
    conv1d(m, b + "ssm_conv1d", channels, 4, bias=True)
    decays(m, b, heads)
    m.tensors[b + "ssm_a"] = m.tensors[b + "ssm_a"][:, None]
    m.tensors[b + "ssm_d"] = m.rng.normal(1, 0.3, (heads, 1))
    if norm:
        m.tensors[b + "ssm_norm.weight"] = m.rng.normal(1, 0.2, (groups, inner // groups))
    m.matrix(b + "ssm_out", m.width, inner)


def mamba2_keys(arch, heads, head, size, groups):
    return {f"{arch}.ssm.conv_kernel": 4, f"{arch}.ssm.state_size": size,
            f"{arch}.ssm.group_count": groups, f"{arch}.ssm.inner_size": heads * head,
            f"{arch}.ssm.time_step_rank": heads}


def mixers_alone(name, arch):
    m = Builder(name, arch, 30, 3, 0, 0, 10, context=1 << 20, feed_forward_length=0)
    for key in ("attention.key_length", "attention.value_length", "attention.head_count_kv",
                "rope.dimension_count"):
        del m.metadata[f"{arch}.{key}"]
    return m


def mamba(m, layer, inner, size, rank, norms=False):
    b = f"blk.{layer}."
    m.matrix(b + "ssm_in", 2 * inner, m.width, gain=1.5)
    conv1d(m, b + "ssm_conv1d", inner, 4, bias=True)
    m.matrix(b + "ssm_x", rank + 2 * size, inner, gain=1.5)
    if norms:
        m.norm(b + "ssm_dt_norm", rank)
        m.norm(b + "ssm_b_norm", size)
        m.norm(b + "ssm_c_norm", size)
    m.matrix(b + "ssm_dt", inner, rank)
    m.bias(b + "ssm_dt", inner, spread=1.0)
    m.tensors[b + "ssm_a"] = -np.exp(m.rng.uniform(-2.5, 1.0, (inner, size)))
    m.tensors[b + "ssm_d"] = m.rng.normal(1, 0.3, inner)
    m.matrix(b + "ssm_out", m.width, inner)


def mamba_keys(arch, inner, size, rank):
    return {f"{arch}.ssm.conv_kernel": 4, f"{arch}.ssm.state_size": size,
            f"{arch}.ssm.inner_size": inner, f"{arch}.ssm.time_step_rank": rank}


def mamba_alone(name):
    """-norms: of steps and what is written and read, and an output of its own."""
    normed = "norms" in name
    m = mixers_alone(name, "mamba")
    m.metadata |= mamba_keys("mamba", 60, 9, 7) | {"mamba.ssm.dt_b_c_rms": normed}
    m.embedding(tied=not normed, spread=0.7)
    for layer in range(m.layers):
        m.norm(f"blk.{layer}.attn_norm", m.width)
        mamba(m, layer, 60, 9, 7)
    return m


def jamba(name):
    """Attention without positions in one layer, experts in every other one."""
    kinds = [0, 2, 0, 0]
    m = Builder(name, "jamba", 30, 4, 6, kinds, 5, feed_forward_length=14, expert_count=5,
                expert_used_count=2)
    m.metadata["jamba.attention.layer_norm_rms_epsilon"] = 1e-3
    m.metadata |= mamba_keys("jamba", 60, 9, 7)
    m.embedding()
    for layer, m.kv_heads in enumerate(kinds):
        if m.kv_heads:
            m.attention(layer)
        else:
            m.norm(f"blk.{layer}.attn_norm", m.width)
            mamba(m, layer, 60, 9, 7, norms=True)
        if layer % 2 == 0:
            m.feed_forward(layer, 14)
            continue
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 5, 14)
    return m


def plamo2(name):
    """Norms are named without an ending where files do so."""
    kinds = [0, 2, 0, 2]
    m = Builder(name, "plamo2", 30, 4, [3 * n for n in kinds], kinds, 10, feed_forward_length=38,
                rope__freq_base=5000.0)
    heads, size, rank = 5, 9, 64
    m.metadata |= mamba_keys("plamo2", 10 * heads, size, heads) | {"plamo2.ssm.group_count": 0}
    m.embedding(tied=True, spread=0.7)
    for layer, m.kv_heads in enumerate(kinds):
        b = f"blk.{layer}."
        m.heads = 3 * m.kv_heads
        m.norm(b + "attn_norm", m.width)
        if m.kv_heads:
            m.attention(layer, norms=False)
            parts = [m.tensors.pop(f"{b}attn_{part}.weight") for part in "qkv"]
            m.tensors[b + "attn_qkv.weight"] = np.concatenate(parts)
            for part, count in (("q", m.heads), ("k", m.kv_heads)):
                m.tensors[f"{b}attn_{part}_norm.weight"] = m.rng.normal(1, 0.2, (count, 10))
        else:
            m.matrix(b + "ssm_in", 20 * heads, m.width, gain=1.5)
            conv1d(m, b + "ssm_conv1d", 10 * heads, 4)
            m.matrix(b + "ssm_x", rank + 2 * size, 10 * heads, gain=1.5)
            for part, n in (("dt", rank), ("b", size), ("c", size)):
                m.tensors[f"{b}ssm_{part}_norm"] = m.rng.normal(1, 0.2, n)
            m.matrix(b + "ssm_dt", heads, rank)
            decays(m, b, heads)
            m.tensors[b + "ssm_d"] = m.rng.normal(1, 0.3, heads)
            m.matrix(b + "ssm_out", m.width, 10 * heads)
        m.feed_forward(layer, 38, fused=True)
        for part in ("post_attention_norm", "post_ffw_norm"):
            m.tensors[b + part] = m.rng.normal(1, 0.2, m.width)
    return m


def mamba2_alone(name):
    """-groups: vectors shared by several heads, and an output of its own."""
    arch, groups = "mamba2", 2 if "groups" in name else 1
    m = mixers_alone(name, arch)
    m.metadata |= mamba2_keys(arch, 6, 8, 9, groups)
    m.embedding(tied=groups == 1, spread=0.7)
    for layer in range(m.layers):
        m.norm(f"blk.{layer}.attn_norm", m.width)
        mamba2(m, layer, 6, 8, 9, groups)
    return m


def granitehybrid(name):
    arch = "granitehybrid"
    kinds = [0, 2, 0]
    m = Builder(name, arch, 28, 3, 4, kinds, 8, feed_forward_length=14, embedding_scale=7.0,
                residual_scale=0.3, attention__scale=0.21, logit_scale=2.5, expert_count=4,
                expert_used_count=2, expert_shared_feed_forward_length=18,
                rope__scaling__finetuned=False)
    m.metadata |= mamba2_keys(arch, 6, 7, 9, 1)
    m.embedding(tied=True, spread=0.2)
    for layer, m.kv_heads in enumerate(kinds):
        if m.kv_heads:
            m.attention(layer)
        else:
            m.norm(f"blk.{layer}.attn_norm", m.width)
            mamba2(m, layer, 6, 7, 9, 1)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 4, 14)
        m.feed_forward(layer, 18, norms=False, suffix="_shexp")
    return m


def nemotron_h(name):
    arch = name.removesuffix("-f32")
    routed = arch == "nemotron_h_moe"
    kinds = "ME*ME" if routed else "M-M*-"
    m = Builder(name, arch, 30, 5, 4, [2 if kind == "*" else 0 for kind in kinds], 10,
                feed_forward_length=[38 if kind in "-E" else 0 for kind in kinds],
                attention__layer_norm_epsilon=1e-4)
    del m.metadata[f"{arch}.attention.layer_norm_rms_epsilon"]
    m.metadata |= mamba2_keys(arch, 6, 8, 9, 2)
    latent = 12
    if routed:
        m.metadata |= {f"{arch}.expert_count": 6, f"{arch}.expert_used_count": 2,
                       f"{arch}.expert_feed_forward_length": 14,
                       f"{arch}.expert_shared_feed_forward_length": 18,
                       f"{arch}.expert_weights_norm": True, f"{arch}.expert_weights_scale": 2.5,
                       f"{arch}.moe_latent_size": latent}
    m.embedding()
    for layer, kind in enumerate(kinds):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        if kind == "M":
            mamba2(m, layer, 6, 8, 9, 2)
        elif kind == "*":
            m.kv_heads = 2
            m.attention(layer, norms=False)
        elif kind == "-":
            m.matrix(b + "ffn_up", 38, m.width)
            m.matrix(b + "ffn_down", m.width, 38)
        else:
            m.matrix(b + "ffn_gate_inp", 6, m.width, gain=2.0)
            m.bias(b + "exp_probs_b", 6)
            m.matrix(b + "ffn_latent_down", latent, m.width)
            m.matrix(b + "ffn_latent_up", m.width, latent)
            m.matrix(b + "ffn_up_exps", 14, latent, 6)
            m.matrix(b + "ffn_down_exps", latent, 14, 6)
            m.matrix(b + "ffn_up_shexp", 18, m.width)
            m.matrix(b + "ffn_down_shexp", m.width, 18)
    return m


def falcon_h1(name):
    arch = "falcon-h1"
    m = Builder(name, arch, 30, 3, 4, 2, 10, feed_forward_length=38, rope__freq_base=5000.0)
    m.metadata |= mamba2_keys(arch, 6, 8, 9, 2)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        mamba2(m, layer, 6, 8, 9, 2, norm=layer != 1)
        m.feed_forward(layer, 38)
        m.tensors[b + "ffn_norm"] = m.tensors.pop(b + "ffn_norm.weight")  # as files call it
    return m


def latent_keys(m, latent, rope, nope, value):
    arch = m.metadata["general.architecture"]
    m.metadata |= {f"{arch}.attention.kv_lora_rank": latent,
                   f"{arch}.attention.key_length_mla": nope + rope,
                   f"{arch}.attention.value_length_mla": value,
                   f"{arch}.rope.dimension_count": rope, f"{arch}.attention.value_length": latent}


def latent_attention(m, layer, latent, rope, nope, value):
    b = f"blk.{layer}."
    arch = m.metadata["general.architecture"]
    rank = m.metadata.get(f"{arch}.attention.q_lora_rank", 0)
    if rank:
        m.matrix(b + "attn_q_a", rank, m.width, gain=1.5)
        m.norm(b + "attn_q_a_norm", rank)
        m.matrix(b + "attn_q_b", m.heads * (nope + rope), rank, gain=1.5)
    else:
        m.matrix(b + "attn_q", m.heads * (nope + rope), m.width, gain=1.5)
    m.matrix(b + "attn_kv_a_mqa", latent + rope, m.width, gain=1.5)
    m.norm(b + "attn_kv_a_norm", latent)
    m.matrix(b + "attn_k_b", latent, nope, m.heads)
    m.matrix(b + "attn_v_b", value, latent, m.heads)
    m.matrix(b + "attn_output", m.width, m.heads * value)


def kimi_delta(m, layer, dim, narrow):
    """narrow: the projections that go through a narrow layer."""
    b, heads = f"blk.{layer}.", m.heads
    for part in "qkv":
        m.matrix(b + "attn_" + part, heads * dim, m.width, gain=1.5)
        m.tensors[f"{b}ssm_conv1d_{part}.weight"] = m.rng.normal(0, 0.6, (heads * dim, 1, 4))
    for part in "fg":
        m.matrix(f"{b}ssm_{part}_a", dim if part in narrow else heads * dim, m.width, gain=1.5)
        if part in narrow:
            m.matrix(f"{b}ssm_{part}_b", heads * dim, dim, gain=1.5)
    m.matrix(b + "ssm_beta", heads, m.width, gain=1.5)
    decays(m, b, heads)
    m.tensors[b + "ssm_a"] = m.tensors[b + "ssm_a"][:, None]
    m.tensors[b + "ssm_dt.bias"] = m.rng.normal(-1, 1.0, heads * dim)
    m.norm(b + "ssm_norm", dim)
    m.matrix(b + "attn_output", m.width, heads * dim)


def kimi_linear(name):
    arch = "kimi-linear"
    heads, dim, latent, rope, nope, value = 3, 10, 14, 6, 8, 12
    kinds = [0, 0, heads, 0, heads]
    m = Builder(name, arch, 30, 5, heads, kinds, latent + rope, feed_forward_length=38,
                attention__kv_lora_rank=latent, attention__key_length_mla=nope + rope,
                attention__value_length_mla=value, rope__dimension_count=rope, kda__head_dim=dim,
                ssm__conv_kernel=4, expert_count=6, expert_used_count=2, expert_shared_count=1,
                expert_feed_forward_length=14, expert_gating_func=2, expert_weights_norm=True,
                expert_weights_scale=1.7, leading_dense_block_count=1)
    m.metadata[f"{arch}.attention.value_length"] = latent
    m.embedding()
    for layer, kind in enumerate(kinds):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        if kind:
            latent_attention(m, layer, latent, rope, nope, value)
        else:
            kimi_delta(m, layer, dim, "fg")
        if layer == 0:
            m.feed_forward(layer, 38)
        else:
            m.norm(b + "ffn_norm", m.width)
            m.experts(layer, 6, 14)
            m.bias(b + "exp_probs_b", 6)
            m.feed_forward(layer, 14, norms=False, suffix="_shexp")
    return m


def bailingmoe3(name):
    """-narrow: queries through a narrow layer, groups of experts, limits in some layers."""
    arch, narrow = "bailingmoe3", "narrow" in name
    sizes = (14, 6, 8, 12)
    kinds = [0, 1, 0, 0, 1]
    m = Builder(name, arch, 30, 5, 3, kinds, 20, feed_forward_length=38, rope__freq_base=5000.0,
                kda__head_dim=10, kda__safe_gate=True, kda__gate_lower_bound=-3.0,
                ssm__conv_kernel=4, expert_count=8, expert_used_count=3, expert_shared_count=1,
                expert_feed_forward_length=14, expert_shared_feed_forward_length=18,
                expert_gating_func=2, expert_weights_norm=True, expert_weights_scale=1.7,
                leading_dense_block_count=1)
    if narrow:
        m.metadata |= {f"{arch}.attention.q_lora_rank": 16, f"{arch}.expert_group_count": 4,
                       f"{arch}.expert_group_used_count": 2,
                       f"{arch}.swiglu_clamp_exp": [0.0, 0.4, 0.0, 0.3, 0.0],
                       f"{arch}.swiglu_clamp_shexp": [0.0, 0.0, 0.3, 0.4, 0.0]}
    latent_keys(m, *sizes)
    m.embedding()
    for layer, kind in enumerate(kinds):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        if kind:
            latent_attention(m, layer, *sizes)
            m.matrix(b + "attn_gate", m.heads, m.width, gain=2.0)
        else:
            kimi_delta(m, layer, 10, "")
            m.tensors[b + "ssm_a"] = -m.tensors[b + "ssm_a"]
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        m.norm(b + "ffn_norm", m.width)
        m.experts(layer, 8, 14)
        m.bias(b + "exp_probs_b", 8)
        m.feed_forward(layer, 18, norms=False, suffix="_shexp")
    return m


def minimax_01(name):
    arch = "minimax-01"
    m = Builder(name, arch, 30, 5, 6, 2, 10, feed_forward_length=14, rope__freq_base=5000.0,
                rope__dimension_count=6, expert_count=5, expert_used_count=2, residual_scale=1.6,
                attention__recurrent_layers=[True, False, True, True, False])
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        if layer in (1, 4):
            m.attention(layer)
        else:
            m.norm(b + "attn_norm", m.width)
            m.matrix(b + "attn_qkv", 180, m.width, gain=1.5)
            m.norm(b + "attn_norm_2", 60)
            m.matrix(b + "attn_gate", 60, m.width, gain=1.5)
            m.matrix(b + "attn_output", m.width, 60)
        m.norm(b + "ffn_norm", m.width)
        m.experts(layer, 5, 14)
    return m


def kimi_k3(name):
    arch = "kimi-k3"
    sizes, narrow = (14, 6, 8, 12), 18
    kinds = [0, 1, 0, 1]
    m = Builder(name, arch, 30, 4, 3, kinds, 20, feed_forward_length=38, kda__head_dim=10,
                attention__q_lora_rank=16, kda__gate_lower_bound=-1.0, ssm__conv_kernel=4,
                expert_count=6, expert_used_count=3, expert_shared_count=2,
                expert_feed_forward_length=14, expert_gating_func=2, expert_weights_norm=True,
                expert_weights_scale=1.7, leading_dense_block_count=1, expert_latent_length=narrow,
                attn_res_block_size=2, activation__situ_beta=2.7, activation__situ_linear_beta=3.3)
    latent_keys(m, *sizes)
    m.embedding()
    score = lambda name: m.tensors.__setitem__(name + ".weight", m.rng.normal(0, 0.1, m.width))
    score("output_res_score")
    for layer, kind in enumerate(kinds):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        m.norm(b + "ffn_norm", m.width)
        score(b + "attn_res_score")
        score(b + "ffn_res_score")
        if kind:
            latent_attention(m, layer, *sizes)
            m.matrix(b + "attn_gate", m.heads * sizes[3], m.width, gain=1.5)
        else:
            kimi_delta(m, layer, 10, "f")
            m.tensors[b + "ssm_g.weight"] = m.tensors.pop(b + "ssm_g_a.weight")
            m.tensors[b + "ssm_a"] = m.tensors[b + "ssm_a"][:, 0]
        if layer == 0:
            m.feed_forward(layer, 38, norms=False)
            continue
        m.matrix(b + "ffn_gate_inp", 6, m.width, gain=2.0)
        m.bias(b + "exp_probs_b", 6, spread=0.1)
        m.matrix(b + "ffn_routed_down", narrow, m.width)
        m.matrix(b + "ffn_routed_up", m.width, narrow)
        if layer != 2:
            m.norm(b + "ffn_routed_norm", narrow)
        for part, n, k in (("gate", 14, narrow), ("up", 14, narrow), ("down", narrow, 14)):
            m.matrix(f"{b}ffn_{part}_exps", n, k, 6)
        m.feed_forward(layer, 28, norms=False, suffix="_shexp")
    return m
