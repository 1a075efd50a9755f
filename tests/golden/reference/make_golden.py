"""Makes the tiny random models of tests/data/golden and their exact logits:
python3 -m tests.golden.reference.make_golden DIRECTORY [NAME…]

Every configuration is awkward on purpose: odd sizes, windows shorter than the sequence, factors
that are not 1, biases, and RoPE mixes that lie between two pairs.
"""

import json
import pathlib
import sys

import numpy as np

from . import gguf, head, recurrent
from .builder import LONG, TOKENS, VOCABULARY, Builder
from .make_alibi import baichuan, bloom, falcon_rw, jais, mpt, refact
from .make_earlier import arctic, codeshell, hrm_text, maple, nanbeige, openelm, plamo, qwen as qwen1, smallthinker
from .make_experts import (afmoe, bailingmoe2, cohere2moe, dots1, exaone_moe, glm4moe, hy_v3, minimax_m2,
                           minimax_m3, step35)
from .make_heads import HEADS, add_heads, mimo2_attention
from .make_layer_norms import dbrx, falcon, gpt2, gptneox, nemotron, orion, phi2, phimoe, stablelm, starcoder2
from .make_newer import (bailingmoe, deci, granite_swa, grok, jais2, laguna, maincoder, mellum, pangu,
                         plamo3, plm, spark, xverse)
from .make_plain import bitnet, chatglm, deepseek, exaone, minicpm, minicpm3, olmo, plain_layers
from .make_recurrent import (bailingmoe3, falcon_h1, granitehybrid, jamba, kimi_k3, kimi_linear, lfm2,
                             mamba2_alone, mamba_alone, plamo2, minimax_01, nemotron_h, qwen35, qwen4exp)
from .make_streams import deepseek4, dots3note, glm5_next, hy_v4
from .model import Model


def smollm3(name):
    m = Builder(name, "smollm3", 30, 4, 6, 2, 10, feed_forward_length=38, rope__freq_base=5000.0)
    m.embedding(tied=True, spread=0.7)
    for layer in range(m.layers):
        m.attention(layer)
        m.feed_forward(layer, 38)
    return m


def olmo2(name, **keys):
    layers = 4 if keys else 2
    m = Builder(name, "olmo2", 30, layers, 4, 2, 10, feed_forward_length=42,
                rope__freq_base=10000.0, **keys)
    m.metadata["olmo2.attention.layer_norm_rms_epsilon"] = 1e-3
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer, norms=False)
        m.norm(b + "attn_q_norm", m.heads * m.head_dim)
        m.norm(b + "attn_k_norm", m.kv_heads * m.head_dim)
        m.norm(b + "post_attention_norm", m.width)
        m.feed_forward(layer, 42, norms=False)
        m.norm(b + "post_ffw_norm", m.width)
    return m


def olmo3(name):
    return olmo2(name, attention__sliding_window=7,
                 attention__sliding_window_pattern=[True, True, True, False],
                 rope__scaling__type="yarn", rope__scaling__factor=8.0,
                 rope__scaling__original_context_length=64,
                 rope__scaling__yarn_attn_factor=1.2079441541679836,
                 rope__scaling__yarn_beta_fast=8.0, rope__scaling__yarn_beta_slow=0.5)


def granite(name):
    m = Builder(name, "granite", 34, 2, 6, 3, 14, feed_forward_length=46, embedding_scale=12.0,
                residual_scale=0.22, attention__scale=0.05, logit_scale=8.5)
    m.embedding(tied=True, spread=0.3)
    for layer in range(m.layers):
        m.attention(layer)
        m.feed_forward(layer, 46)
    return m


def granitemoe(name):
    m = Builder(name, "granitemoe", 34, 2, 4, 2, 10, feed_forward_length=18, expert_count=6,
                expert_used_count=3, expert_shared_feed_forward_length=22, embedding_scale=6.0,
                residual_scale=0.4, attention__scale=0.11, logit_scale=3.0)
    m.embedding(spread=0.3)
    for layer in range(m.layers):
        m.attention(layer)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 6, 18)
        m.feed_forward(layer, 22, norms=False, suffix="_shexp")
    return m


def glm4(name):
    m = Builder(name, "glm4", 30, 2, 6, 2, 14, feed_forward_length=42, rope__dimension_count=6)
    m.metadata["glm4.attention.layer_norm_rms_epsilon"] = 1.5625e-7
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer, bias="qkv")
        m.norm(f"blk.{layer}.post_attention_norm", m.width)
        m.feed_forward(layer, 42, fused=True)
        m.norm(f"blk.{layer}.post_ffw_norm", m.width)
    return m


def gpt_oss(name):
    width = inner = 32 if name.endswith("mxfp4") else 30
    m = Builder(name, "gpt-oss", width, 2, 6, 2, 16, feed_forward_length=inner,
                attention__sliding_window=9, expert_count=4, expert_used_count=2,
                expert_feed_forward_length=inner, rope__freq_base=150000.0,
                rope__scaling__type="yarn", rope__scaling__factor=32.0,
                rope__scaling__original_context_length=4096)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer, bias="qkvo")
        m.tensors[b + "attn_sinks.weight"] = m.rng.normal(0, 2, m.heads)
        m.norm(b + "post_attention_norm", width)
        m.experts(layer, 4, inner)
        m.tensors[b + "ffn_up_exps.weight"] *= 4  # so that the limits are met
        m.tensors[b + "ffn_gate_exps.weight"] *= 4
        m.bias(b + "ffn_gate_inp", 4)
        m.bias(b + "ffn_gate_exps", 4, inner)
        m.bias(b + "ffn_up_exps", 4, inner)
        m.bias(b + "ffn_down_exps", 4, width)
        if name.endswith("mxfp4"):
            for part in ("gate", "up", "down"):
                key = f"{b}ffn_{part}_exps.weight"
                m.tensors[key] = gguf.Mxfp4.random(m.rng, m.tensors[key].shape)
    return m


def phi3(name):
    """-long, -short: LongRoPE, by whether the context exceeds the original one."""
    long, scaled = name.startswith("phi3-long"), name != "phi3-f32"
    keys = {"rope__scaling__original_context_length": 32 if long else 128,
            "rope__scaling__attn_factor": 1.19} if scaled else {}
    m = Builder(name, "phi3", 30, 2, 4, 2, 12, context=2048 if long else 128,
                feed_forward_length=44, rope__dimension_count=10, attention__sliding_window=21,
                **keys)
    m.embedding()
    if scaled:
        m.tensors["rope_factors_short.weight"] = m.rng.uniform(1.0, 1.5, 5)
        m.tensors["rope_factors_long.weight"] = m.rng.uniform(2.0, 30.0, 5)
    for layer in range(m.layers):
        m.norm(f"blk.{layer}.attn_norm", m.width)
        m.matrix(f"blk.{layer}.attn_qkv", (4 + 2 * 2) * 12, m.width, gain=1.5)
        m.matrix(f"blk.{layer}.attn_output", m.width, 4 * 12)
        m.feed_forward(layer, 44, fused=True)
    return m


def llama(name):
    """-f16, -bf16: matrices of that type, with rows of whole 32s. -odd: three query heads to one of
    keys. -tied: the embedding is the output. llama3: factors for RoPE. mixtral: experts."""
    if name in ("llama-f16", "llama-bf16"):
        m = plain_layers(Builder(name, "llama", 64, 2, 4, 2, 16, feed_forward_length=96), 96)
        m.embedding()
        rounded = np.float16 if name == "llama-f16" else gguf.Bf16
        for key, value in m.tensors.items():
            if value.ndim == 2:
                m.tensors[key] = rounded(value)
        return m
    heads, kv_heads = (3, 1) if "odd" in name else (4, 2)
    keys = {"feed_forward_length": 42}
    if "mixtral" in name:
        keys |= {"expert_count": 5, "expert_used_count": 2}
    if "linear" in name:
        keys |= {"rope__scaling__type": "linear", "rope__scaling__factor": 3.5}
    if "yarn" in name:
        keys |= {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0,
                 "rope__scaling__original_context_length": 32,
                 "rope__scaling__yarn_beta_fast": 4.0, "rope__scaling__yarn_beta_slow": 0.5,
                 "rope__scaling__yarn_ext_factor": 0.8, "rope__scaling__attn_factor": 0.9}
    if "linear" in name or "yarn" in name:
        heads, kv_heads = 3, 1
    if name.startswith("llama3"):
        keys |= {"rope__freq_base": 500000.0}
    m = Builder(name, "llama", 30, 2, heads, kv_heads, 12, **keys)
    m.embedding(tied="tied" in name, spread=0.7 if "tied" in name else 1.0)
    if name.startswith("llama3"):
        m.tensors["rope_freqs.weight"] = m.rng.uniform(1.0, 8.0, 6)
    return plain_layers(m, 42)


def qwen(name):
    """Qwen2 has biases, Qwen3 norms of heads that are wider than the model divided by their number."""
    arch = name.split("-")[0]
    keys = {"feed_forward_length": 38, "rope__freq_base": 1e6}
    second, routed = arch.startswith("qwen2"), arch.endswith("moe")
    if routed:
        keys |= {"expert_count": 5, "expert_used_count": 3, "expert_feed_forward_length": 14}
    if arch == "qwen2moe":
        keys["expert_shared_feed_forward_length"] = 22
    m = Builder(name, arch, 30, 2, 4, 2, 10 if second else 18, **keys)
    m.metadata[f"{arch}.attention.layer_norm_rms_epsilon"] = 1e-6
    m.embedding()
    plain_layers(m, 14 if routed else 38, bias="qkv" if second else "", head_norms=not second)
    for layer in range(m.layers if arch == "qwen2moe" else 0):
        m.feed_forward(layer, 22, norms=False, suffix="_shexp")
        m.matrix(f"blk.{layer}.ffn_gate_inp_shexp", 1, m.width)
    return m


def olmoe(name):
    m = Builder(name, "olmoe", 30, 2, 4, 2, 10, feed_forward_length=14, expert_count=5,
                expert_used_count=3)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        m.norm(f"blk.{layer}.attn_q_norm", m.heads * m.head_dim)
        m.norm(f"blk.{layer}.attn_k_norm", m.kv_heads * m.head_dim)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 5, 14)
    return m


def gemma1(name):
    m = Builder(name, "gemma", 30, 2, 4, 1, 14, feed_forward_length=38)
    m.embedding(tied=True, spread=0.3)
    return plain_layers(m, 38)


def gemma(name):
    arch = name.split("-")[0]
    third = arch == "gemma3"  # norms of heads and two bases of RoPE in place of soft caps
    keys = {"rope__freq_base": 1e6} if third else {"attn_logit_softcapping": 5.0,
                                                   "final_logit_softcapping": 3.0}
    m = Builder(name, arch, 30, 7 if third else 4, 4, 2, 14, feed_forward_length=38,
                attention__sliding_window=9, **keys)
    m.embedding(tied=True, spread=0.3)
    for layer in range(m.layers):
        m.attention(layer)
        if third:
            m.norm(f"blk.{layer}.attn_q_norm", m.head_dim)
            m.norm(f"blk.{layer}.attn_k_norm", m.head_dim)
        m.norm(f"blk.{layer}.post_attention_norm", m.width)
        m.feed_forward(layer, 38)
        m.norm(f"blk.{layer}.post_ffw_norm", m.width)
    return m


def deepseek2(name):
    """-v3: the tensors and keys of files made today; -v2, -lite: of files before April 2025. -flash:
    of GLM-4.7-Flash, without the gating, and a last block that predicts further tokens. mistral4:
    softmax, and queries that grow. deepseek32: an index chooses what queries see. glm-dsa: a layer
    takes what the one before has chosen."""
    mistral, shared = name.startswith("mistral4"), name.startswith("glm-dsa")
    sparse = shared or name.startswith("deepseek32")
    v3, lite = mistral or sparse or "v3" in name or "flash" in name, "lite" in name
    heads, nope, rope, value, latent, q_latent = 3, 10, 8, 14, 22, 18
    keys = {"feed_forward_length": 42, "leading_dense_block_count": 1, "expert_count": 8,
            "expert_used_count": 3, "expert_feed_forward_length": 9, "expert_shared_count": 1,
            "expert_weights_scale": 2.5, "rope__dimension_count": rope,
            "attention__kv_lora_rank": latent, "rope__scaling__type": "yarn",
            "rope__scaling__factor": 40.0, "rope__scaling__original_context_length": 4096,
            "rope__scaling__yarn_log_multiplier": 0.1}
    if v3:
        keys |= {"expert_weights_norm": True, "expert_gating_func": 2, "expert_group_count": 4,
                 "expert_group_used_count": 2, "attention__key_length": latent + rope,
                 "attention__value_length": latent, "attention__key_length_mla": nope + rope,
                 "attention__value_length_mla": value}
    else:
        keys |= {"attention__key_length": nope + rope, "attention__value_length": value,
                 "expert_weights_scale": 1.7, "rope__scaling__yarn_log_multiplier": 0.0707}
    if "flash" in name:
        keys = {key: value for key, value in keys.items()
                if key != "expert_gating_func" and "group" not in key and "scaling" not in key}
        # So large that the norms that have an epsilon of their own show.
        keys |= {"nextn_predict_layers": 1, "attention__layer_norm_rms_epsilon": 1e-3}
    if mistral:
        keys = {key: value for key, value in keys.items()
                if key not in ("expert_gating_func", "expert_weights_norm") and "group" not in key}
        keys |= {"attention__temperature_scale": 0.3, "rope__scaling__factor": 4.0,
                 "rope__scaling__original_context_length": 8}
    if sparse:
        keys |= {"attention__indexer__top_k": 9, "attention__indexer__head_count": 7,
                 "attention__indexer__key_length": 18}
    if shared:
        keys |= {"attention__indexer__types": [True, False, True]}
    if lite:
        keys |= {"expert_shared_count": 2, "expert_weights_scale": 1.0}
    else:
        keys |= {"attention__q_lora_rank": q_latent}
    if "v2" in name:
        keys |= {"expert_group_count": 4, "expert_group_used_count": 2, "expert_gating_func": 1}
    arch = name.removesuffix("-f32") if mistral or sparse else "deepseek2"
    m = Builder(name, arch, 28, 2 if lite else 3, heads, 1 if v3 else heads, 0, **keys)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        if lite:
            m.matrix(b + "attn_q", heads * (nope + rope), m.width, gain=1.5)
        else:
            m.matrix(b + "attn_q_a", q_latent, m.width)
            m.norm(b + "attn_q_a_norm", q_latent)
            m.matrix(b + "attn_q_b", heads * (nope + rope), q_latent)
        m.matrix(b + "attn_kv_a_mqa", latent + rope, m.width)
        m.norm(b + "attn_kv_a_norm", latent)
        if v3:
            m.matrix(b + "attn_k_b", latent, nope, heads)
            m.matrix(b + "attn_v_b", value, latent, heads)
        else:
            m.matrix(b + "attn_kv_b", heads * (nope + value), latent)
        m.matrix(b + "attn_output", m.width, heads * value)
        if sparse and not (shared and layer == 1):
            m.matrix(b + "indexer.attn_q_b", 7 * 18, q_latent)
            m.matrix(b + "indexer.attn_k", 18, m.width)
            m.norm(b + "indexer.k_norm", 18)
            m.bias(b + "indexer.k_norm", 18)
            m.matrix(b + "indexer.proj", 7, m.width)
        if layer == 0:
            m.feed_forward(layer, 42)
            continue
        m.norm(b + "ffn_norm", m.width)
        m.experts(layer, 8, 9)
        if v3 and not mistral:
            m.bias(b + "exp_probs_b", 8, spread=0.1)
        m.feed_forward(layer, 9 * keys["expert_shared_count"], norms=False, suffix="_shexp")
    return m


def seed_oss(name):
    m = Builder(name, "seed_oss", 30, 2, 6, 3, 10, feed_forward_length=38,
                rope__freq_base=1e7)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer, bias="qkv")
        m.norm(f"blk.{layer}.post_attention_norm", m.width)
        m.feed_forward(layer, 38, norms=False)
    return m


def arcee(name):
    """AFM-4.5B: YaRN over Llama's attention."""
    m = Builder(name, "arcee", 30, 3, 6, 2, 10, feed_forward_length=46, rope__freq_base=1e4,
                rope__scaling__type="yarn", rope__scaling__factor=20.0,
                rope__scaling__original_context_length=16)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.matrix(f"blk.{layer}.ffn_up", 46, m.width)
        m.matrix(f"blk.{layer}.ffn_down", m.width, 46)
    return m


def command_r(name):
    """Command R+ with norms of heads; cohere2 with windows."""
    arch = name.removesuffix("-f32")
    keys = {"attention__sliding_window": 7} if arch == "cohere2" else {}
    m = Builder(name, arch, 30, 5 if keys else 2, 4, 2, 10, feed_forward_length=38,
                logit_scale=0.3, attention__layer_norm_epsilon=1e-4, **keys)
    del m.metadata[f"{arch}.attention.layer_norm_rms_epsilon"]
    m.embedding(tied=True, spread=0.7)
    for layer in range(m.layers):
        m.attention(layer)
        if not keys:
            for part, heads in (("q", m.heads), ("k", m.kv_heads)):
                name = f"blk.{layer}.attn_{part}_norm.weight"
                m.tensors[name] = m.rng.normal(1, 0.2, (heads, m.head_dim))
        m.feed_forward(layer, 38, norms=False)
    return m


def ernie4_5(name):
    """-moe: after a dense layer, experts with a bias on their choice, and shared ones."""
    arch = name.removesuffix("-f32")
    routed = arch == "ernie4_5-moe"
    keys = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 14,
            "expert_shared_count": 2, "expert_shared_feed_forward_length": 28,
            "leading_dense_block_count": 1, "interleave_moe_layer_step": 1} if routed else {}
    if arch == "paddleocr":
        keys["rope__dimension_sections"] = [2, 2, 1, 0]
    m = Builder(name, arch, 30, 2, 6, 2, 10, feed_forward_length=38, rope__freq_base=5e5, **keys)
    m.embedding(tied=True, spread=0.7)
    for layer in range(m.layers):
        m.attention(layer)
        if not routed or layer == 0:
            m.feed_forward(layer, 38)
            continue
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 5, 14)
        m.bias(f"blk.{layer}.exp_probs_b", 5, spread=0.1)
        m.feed_forward(layer, 28, norms=False, suffix="_shexp")
    return m


def hunyuan(name):
    arch = name.removesuffix("-f32")
    keys = {"expert_count": 5, "expert_used_count": 3, "expert_feed_forward_length": 14,
            "expert_shared_feed_forward_length": 22} if arch == "hunyuan-moe" else {}
    m = Builder(name, arch, 30, 2, 6, 2, 10, feed_forward_length=38, rope__freq_base=27777.0,
                **keys)
    m.embedding(tied=True, spread=0.7)
    plain_layers(m, 14 if keys else 38, head_norms=True)
    for layer in range(m.layers if keys else 0):
        m.feed_forward(layer, 22, norms=False, suffix="_shexp")
    return m


def apertus(name):
    m = Builder(name, "apertus", 30, 2, 6, 2, 10, feed_forward_length=38, rope__freq_base=5e5)
    m.metadata |= {"xielu.alpha_p": [0.4, -0.3], "xielu.alpha_n": [-1.1, -0.2],
                   "xielu.beta": [0.5, 0.37], "xielu.eps": [-1e-6, -0.125]}
    m.embedding()
    m.tensors["rope_freqs.weight"] = m.rng.uniform(1.0, 8.0, 5)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        m.norm(b + "ffn_norm", m.width)
        m.matrix(b + "ffn_up", 38, m.width)
        m.matrix(b + "ffn_down", m.width, 38)
    return m


def internlm2(name):
    m = Builder(name, "internlm2", 36, 2, 6, 2, 6, feed_forward_length=38, rope__freq_base=1e6)
    m.embedding()
    return plain_layers(m, 38, bias="qkv")


def muse_glimmer(name):
    m = Builder(name, "muse-glimmer", 30, 5, 4, 2, 12, feed_forward_length=38,
                attention__sliding_window=7, logit_scale=0.6, final_logit_softcapping=9.0)
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        m.matrix(b + "attn_gate", m.heads * m.head_dim, m.width)
        m.norm(b + "post_attention_norm", m.width)
        m.feed_forward(layer, 38)
        m.norm(b + "post_ffw_norm", m.width)
    return m


def mimo(name):
    m = Builder(name, "mimo", 34, 3, 4, 2, 8, feed_forward_length=46, rope__freq_base=64e4)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer, bias="qkv")
        m.feed_forward(layer, 46)
    return m


def mimo2(name):
    """Full and sliding layers with different numbers of key-value heads; the first layer is dense, and
    one has q, k and v in one."""
    sliding, kv_heads = [False, True, True, False], [2, 3, 3, 1]
    m = Builder(name, "mimo2", 30, 4, 6, kv_heads, 12, feed_forward_length=38,
                rope__dimension_count=6, rope__freq_base=5e6, rope__freq_base_swa=1e4,
                attention__sliding_window=7, attention__sliding_window_pattern=sliding,
                attention__value_scale=0.7, expert_count=6, expert_used_count=2,
                expert_feed_forward_length=14, expert_gating_func=2, expert_weights_norm=True)
    m.metadata["mimo2.attention.value_length"] = 10
    m.embedding()
    for layer in range(m.layers):
        mimo2_attention(m, layer, kv_heads[layer], sliding[layer])
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        if layer == 0:
            m.feed_forward(layer, 38, norms=False)
            continue
        m.experts(layer, 6, 14)
        m.bias(f"blk.{layer}.exp_probs_b", 6, spread=0.1)
    parts = [m.tensors.pop(f"blk.2.attn_{part}.weight") for part in "qkv"]
    m.tensors["blk.2.attn_qkv.weight"] = np.concatenate(parts)
    return m


def mistral3(name):
    m = Builder(name, "mistral3", 30, 2, 6, 2, 12, feed_forward_length=38,
                attention__temperature_scale=0.3, rope__scaling__type="yarn",
                rope__scaling__factor=4.0, rope__scaling__original_context_length=16,
                rope__scaling__yarn_beta_fast=4.0, rope__scaling__yarn_beta_slow=0.5,
                rope__scaling__yarn_log_multiplier=1.0)
    m.embedding(tied=True, spread=0.7)
    return plain_layers(m, 38)


def exaone4(name):
    """-32b: with windows, and without RoPE in every fourth layer."""
    keys = {"attention__sliding_window": 7} if "32b" in name else {}
    m = Builder(name, "exaone4", 30, 5 if keys else 2, 4, 2, 10, feed_forward_length=38,
                rope__freq_base=1e6, **keys)
    m.embedding()
    m.tensors["rope_freqs.weight"] = m.rng.uniform(1.0, 8.0, 5)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.attention(layer, norms=False)
        m.norm(b + "attn_q_norm", m.head_dim)
        m.norm(b + "attn_k_norm", m.head_dim)
        m.norm(b + "post_attention_norm", m.width)
        m.feed_forward(layer, 38, norms=False)
        m.norm(b + "post_ffw_norm", m.width)
    return m


def llama4(name):
    m = Builder(name, "llama4", 30, 5, 6, 2, 10, feed_forward_length=38, rope__freq_base=5e5,
                attention__sliding_window=9, attention__temperature_length=7,
                attention__temperature_scale=0.3, expert_count=5, expert_used_count=1,
                expert_feed_forward_length=14, interleave_moe_layer_step=2)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        if layer % 2 == 0:
            m.feed_forward(layer, 38, norms=False)
            continue
        m.experts(layer, 5, 14)
        m.feed_forward(layer, 14, norms=False, suffix="_shexp")
    return m


def gemma4(name):
    """Embeddings for every layer, and layers that share keys and values; -moe: experts, and values
    that are the keys in the layers without a window."""
    moe = "moe" in name
    wide, narrow, layers, heads = 16, 10, 4 if moe else 6, 3 if moe else 4
    sliding = [layer % 3 != 2 for layer in range(layers)]
    kv_heads = [3 if slides else 1 for slides in sliding] if moe else 2
    keys = {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 14,
            "feed_forward_length": 38} if moe else {
        "embedding_length_per_layer_input": 10, "attention__shared_kv_layers": 2,
        "feed_forward_length": [38] * 4 + [46] * 2}
    m = Builder(name, "gemma4", 30, layers, heads, kv_heads, wide, attention__sliding_window=7,
                attention__sliding_window_pattern=sliding, attention__key_length_swa=narrow,
                attention__value_length_swa=narrow, rope__dimension_count_swa=narrow,
                rope__freq_base=1e6, rope__freq_base_swa=1e4, final_logit_softcapping=5.0, **keys)
    m.embedding(tied=True, spread=0.3)
    m.tensors["rope_freqs.weight"] = np.array([1.0] * 3 + [1e30] * 5)
    own = layers - keys.get("attention__shared_kv_layers", 0)
    per_layer = keys.get("embedding_length_per_layer_input", 0)
    if per_layer:
        table = (VOCABULARY, per_layer * layers)
        m.tensors["per_layer_token_embd.weight"] = m.rng.normal(0, 0.5, table)
        m.matrix("per_layer_model_proj", per_layer * layers, m.width)
        m.norm("per_layer_proj_norm", per_layer)
    for layer in range(layers):
        b = f"blk.{layer}."
        head = narrow if sliding[layer] else wide
        kv = (kv_heads[layer] if moe else kv_heads) * head
        m.norm(b + "attn_norm", m.width)
        m.matrix(b + "attn_q", heads * head, m.width, gain=1.5)
        m.norm(b + "attn_q_norm", head)
        m.tensors[b + "attn_q_norm.weight"] *= 0.4  # scores are not scaled
        m.matrix(b + "attn_output", m.width, heads * head)
        if layer < own:
            m.matrix(b + "attn_k", kv, m.width, gain=1.5)
            m.norm(b + "attn_k_norm", head)
            if not moe or sliding[layer]:
                m.matrix(b + "attn_v", kv, m.width, gain=1.5)
        m.norm(b + "post_attention_norm", m.width)
        m.feed_forward(layer, 38 if moe else keys["feed_forward_length"][layer])
        m.norm(b + "post_ffw_norm", m.width)
        m.tensors[b + "layer_output_scale.weight"] = m.rng.uniform(0.7, 1.3, 1)
        if per_layer:
            m.matrix(b + "inp_gate", per_layer, m.width)
            m.matrix(b + "proj", m.width, per_layer)
            m.norm(b + "post_norm", m.width)
        if moe:
            m.experts(layer, 5, 14)
            for part in ("post_ffw_norm_1", "post_ffw_norm_2", "pre_ffw_norm_2"):
                m.norm(b + part, m.width)
            m.tensors[b + "ffn_gate_inp.scale"] = m.rng.normal(1, 0.2, m.width)
            m.tensors[b + "ffn_down_exps.scale"] = m.rng.normal(1, 0.2, 5)
            if layer == 0:  # both in one, as files made today have them
                both = [m.tensors.pop(f"{b}ffn_{part}_exps.weight") for part in ("gate", "up")]
                m.tensors[b + "ffn_gate_up_exps.weight"] = np.concatenate(both, axis=1)
    return m


def gemma3n(name):
    """Of the gate more is kept than in published models, where the norm after it would have nothing
    but rounding if no element stood out."""
    width, head, layers, per_layer, rank = 30, 10, 6, 10, 6
    m = Builder(name, "gemma3n", width, layers, 4, 2, head, feed_forward_length=[38] * layers,
                attention__sliding_window=7, rope__freq_base=1e6, rope__freq_base_swa=1e4,
                attention__sliding_window_pattern=[layer % 3 != 2 for layer in range(layers)],
                attention__shared_kv_layers=2, embedding_length_per_layer_input=per_layer,
                altup__active_idx=0, altup__num_inputs=4, final_logit_softcapping=5.0,
                activation_sparsity_scale=[0.9, 0.3] + [float("-inf")] * (layers - 2))
    m.embedding(tied=True, spread=0.3)
    m.matrix("altup_proj", width, width, 3)
    m.matrix("altup_unembd_proj", width, width, 3)
    table = (VOCABULARY, per_layer * layers)
    m.tensors["per_layer_token_embd.weight"] = m.rng.normal(0, 0.5, table)
    m.matrix("per_layer_model_proj", per_layer * layers, width)
    m.norm("per_layer_proj_norm", per_layer)
    for layer in range(layers):
        b = f"blk.{layer}."
        m.attention(layer)
        for part, n in (("attn_q_norm", head), ("attn_k_norm", head),
                        ("post_attention_norm", width), ("post_ffw_norm", width),
                        ("post_norm", width), ("laurel_post_norm", width),
                        ("altup_router_norm", width), ("altup_correct_scale", width)):
            m.norm(b + part, n)
        m.feed_forward(layer, 38)
        for part, n, k in (("laurel_l", rank, width), ("laurel_r", width, rank),
                           ("inp_gate", per_layer, width), ("proj", width, per_layer),
                           ("altup_router", 4, width), ("altup_predict_coef", 16, 4),
                           ("altup_correct_coef", 4, 4)):
            m.matrix(b + part, n, k)
        m.tensors[b + "attn_q_norm.weight"] *= 0.4  # scores are not scaled
        m.tensors[b + "altup_router.weight"] *= width  # its input is divided by the width
        m.tensors[b + "altup_predict_coef.weight"] *= 0.3  # else rounding grows from layer to layer
        m.tensors[b + "altup_correct_coef.weight"] *= 0.3
    return m


MODELS = {
    "smollm3-f32": smollm3, "olmo2-f32": olmo2, "olmo3-f32": olmo3, "granite-f32": granite,
    "granitemoe-f32": granitemoe, "glm4-f32": glm4, "gpt-oss-f32": gpt_oss,
    "gpt-oss-mxfp4": gpt_oss, "phi3-long-f32": phi3, "phi3-short-f32": phi3,
    "phi3-f32": phi3, "llama-f32": llama, "llama-odd-f32": llama, "llama-tied-f32": llama,
    "llama-f16": llama, "llama-bf16": llama, "llama3-f32": llama, "mixtral-f32": llama,
    "qwen2-f32": qwen, "qwen3-f32": qwen, "qwen3moe-f32": qwen, "gemma2-f32": gemma,
    "qwen2moe-f32": qwen, "olmoe-f32": olmoe, "gemma-f32": gemma1,
    "gemma3-f32": gemma, "llama-yarn-f32": llama, "llama-linear-f32": llama, "deepseek2-v3-f32": deepseek2,
    "deepseek2-v2-f32": deepseek2, "deepseek2-lite-f32": deepseek2,
    "deepseek2-flash-f32": deepseek2, "deepseek32-f32": deepseek2, "glm-dsa-f32": deepseek2,
    "mistral4-f32": deepseek2,
    "seed-oss-f32": seed_oss,
    "arcee-f32": arcee,
    "dots1-f32": dots1, "bailingmoe2-f32": bailingmoe2, "internlm2-f32": internlm2,
    "minicpm-f32": minicpm, "minicpm-long-f32": minicpm,
    "minicpm3-f32": minicpm3, "minicpm3-split-f32": minicpm3,
    "gpt2-f32": gpt2, "olmo-f32": olmo, "olmo-clipped-f32": olmo, "starcoder2-f32": starcoder2,
    "stablelm-f32": stablelm, "stablelm-12b-f32": stablelm,
    "nemotron-f32": nemotron, "phi2-f32": phi2, "gptneox-f32": gptneox,
    "gptneox-sequential-f32": gptneox, "falcon-f32": falcon, "falcon-40b-f32": falcon,
    "phimoe-f32": phimoe,
    "exaone-f32": exaone, "deepseek-f32": deepseek, "chatglm-f32": chatglm,
    "bitnet-f32": bitnet, "bitnet-b1.58-f32": bitnet,
    "afmoe-f32": afmoe, "exaone-moe-f32": exaone_moe, "hy_v3-f32": hy_v3,
    "laguna-f32": laguna, "laguna-elements-f32": laguna, "mellum-f32": mellum,
    "granite_swa-f32": granite_swa, "granite_swa-moe-f32": granite_swa, "jais2-f32": jais2,
    "maincoder-f32": maincoder, "pangu-embedded-f32": pangu, "bailingmoe-f32": bailingmoe,
    "spark2_5-f32": spark, "plm-f32": plm, "deci-f32": deci,
    "starcoder-f32": gpt2, "orion-f32": orion, "dbrx-f32": dbrx, "xverse-f32": xverse,
    "bloom-f32": bloom, "mpt-f32": mpt, "mpt-norms-f32": mpt, "jais-f32": jais, "refact-f32": refact,
    "baichuan-f32": baichuan, "baichuan-13b-f32": baichuan, "falcon-rw-f32": falcon_rw,
    "qwen-f32": qwen1, "codeshell-f32": codeshell, "plamo-f32": plamo, "openelm-f32": openelm,
    "smallthinker-f32": smallthinker, "smallthinker-windows-f32": smallthinker, "arctic-f32": arctic,
    "hrm_text-f32": hrm_text, "maple-f32": maple, "nanbeige-f32": nanbeige, "nanbeige-skip-f32": nanbeige,
    "muse-glimmer-f32": muse_glimmer,
    "gemma3n-f32": gemma3n,
    "gemma4-f32": gemma4, "gemma4-moe-f32": gemma4,
    "llama4-f32": llama4,
    "exaone4-f32": exaone4, "exaone4-32b-f32": exaone4,
    "mistral3-f32": mistral3,
    "minimax-m2-f32": minimax_m2, "minimax-m3-f32": minimax_m3, "step35-f32": step35,
    "cohere2moe-f32": cohere2moe,
    "mimo-f32": mimo, "mimo2-f32": mimo2,
    "glm4moe-f32": glm4moe,
    "apertus-f32": apertus,
    "hunyuan-dense-f32": hunyuan, "hunyuan-moe-f32": hunyuan,
    "ernie4_5-f32": ernie4_5, "ernie4_5-moe-f32": ernie4_5, "paddleocr-f32": ernie4_5,
    "command-r-f32": command_r, "cohere2-f32": command_r,
    "lfm2-f32": lfm2, "lfm2moe-f32": lfm2,
    "qwen35-f32": qwen35, "qwen35moe-f32": qwen35, "qwen3next-f32": qwen35,
    "granitehybrid-f32": granitehybrid,
    "nemotron_h-f32": nemotron_h, "nemotron_h_moe-f32": nemotron_h,
    "falcon-h1-f32": falcon_h1, "mamba2-f32": mamba2_alone, "mamba2-groups-f32": mamba2_alone,
    "mamba-f32": mamba_alone, "mamba-norms-f32": mamba_alone, "jamba-f32": jamba, "plamo2-f32": plamo2,
    "kimi-linear-f32": kimi_linear, "kimi-k3-f32": kimi_k3,
    "bailingmoe3-f32": bailingmoe3, "bailingmoe3-narrow-f32": bailingmoe3,
    "minimax-01-f32": minimax_01,
    "hy_v4-f32": hy_v4, "dots3note-f32": dots3note, "deepseek4-f32": deepseek4,
    "glm5-next-f32": glm5_next,
    "plamo3-f32": plamo3, "plamo3-plain-f32": plamo3, "grok-f32": grok, "grok-1-f32": grok,
    "qwen4exp-f32": qwen4exp,
}


def make(name, directory):
    m = MODELS[name](name)
    stem = pathlib.Path(directory) / name
    long = recurrent.FAMILIES | {"qwen4exp", "kimi-k3", "deepseek4", "glm5-next"}
    count = LONG if m.metadata["general.architecture"] in long else TOKENS
    tokens = [1] + m.rng.integers(3, VOCABULARY, count - 1).tolist()
    add_heads(m, name)
    gguf.write(f"{stem}.gguf", m.metadata, m.tensors)
    exact = Model(f"{stem}.gguf")  # of what the file holds, rounded to float32
    logits = exact.logits(tokens)
    logits.astype("<f4").tofile(f"{stem}.f32")
    if name in HEADS:
        head.logits(exact, tokens).astype("<f4").tofile(f"{stem}.head.f32")
    pathlib.Path(f"{stem}.json").write_text(
        json.dumps({"tokens": tokens, "n_vocab": VOCABULARY}) + "\n")
    return logits


def main():
    directory = sys.argv[1]
    for name in sys.argv[2:] or MODELS:
        logits = make(name, directory)
        size = pathlib.Path(directory, name + ".gguf").stat().st_size
        print(f"{name:20} {size:7} bytes, logits of spread {logits.std():.3g}")


if __name__ == "__main__":
    main()
