"""Makes the tiny random models of tests/data/golden and their exact logits:
python3 -m tests.golden.reference.make_golden DIRECTORY [NAME…]

Every configuration is awkward on purpose: odd sizes, windows shorter than the sequence, factors
that are not 1, biases, and RoPE mixes that lie between two pairs.
"""

import json
import pathlib
import sys
import zlib

import numpy as np

from . import gguf
from .model import Model

TOKENS = 48
VOCABULARY = 72


class Builder:
    """Metadata and tensors of one model; `a` is the architecture's prefix."""

    def __init__(self, name, arch, width, layers, heads, kv_heads, head_dim, context=256, **keys):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.width, self.layers, self.heads = width, layers, heads
        self.kv_heads, self.head_dim = kv_heads, head_dim
        self.tensors = {}
        self.metadata = {
            "general.architecture": arch,
            "general.name": name,
            f"{arch}.block_count": layers,
            f"{arch}.context_length": context,
            f"{arch}.embedding_length": width,
            f"{arch}.attention.head_count": heads,
            f"{arch}.attention.head_count_kv": kv_heads,
            f"{arch}.attention.key_length": head_dim,
            f"{arch}.attention.value_length": head_dim,
            f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
            f"{arch}.rope.dimension_count": head_dim,
            f"{arch}.vocab_size": VOCABULARY,
        }
        self.metadata |= {f"{arch}.{key.replace('__', '.')}": v for key, v in keys.items()}
        self.metadata |= {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.pre": "default",
            "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>"] + [f"t{i}" for i in
                                                                 range(3, VOCABULARY)],
            "tokenizer.ggml.scores": [0.0] * VOCABULARY,
            "tokenizer.ggml.token_type": [2, 3, 3] + [1] * (VOCABULARY - 3),
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
        }

    def matrix(self, name, n, k, copies=0, gain=1.0):
        shape = (copies, n, k) if copies else (n, k)
        self.tensors[name + ".weight"] = self.rng.normal(0, gain / np.sqrt(k), shape)

    def norm(self, name, n):
        self.tensors[name + ".weight"] = self.rng.normal(1, 0.2, n)

    def bias(self, name, *shape, spread=0.3):
        self.tensors[name + ".bias"] = self.rng.normal(0, spread, shape)

    def embedding(self, tied=False, spread=1.0):
        self.tensors["token_embd.weight"] = self.rng.normal(0, spread, (VOCABULARY, self.width))
        self.norm("output_norm", self.width)
        if not tied:
            self.matrix("output", VOCABULARY, self.width, gain=2.0)

    def attention(self, layer, bias="", norms=True):
        b = f"blk.{layer}."
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        if norms:
            self.norm(b + "attn_norm", self.width)
        for part, n in (("q", q), ("k", kv), ("v", kv)):
            self.matrix(f"{b}attn_{part}", n, self.width, gain=1.5)
            if part in bias:
                self.bias(f"{b}attn_{part}", n)
        self.matrix(b + "attn_output", self.width, q)
        if "o" in bias:
            self.bias(b + "attn_output", self.width)

    def feed_forward(self, layer, inner, norms=True, fused=False, suffix=""):
        b = f"blk.{layer}.ffn_"
        if norms:
            self.norm(b + "norm", self.width)
        if not fused:
            self.matrix(f"{b}gate{suffix}", inner, self.width)
        self.matrix(f"{b}up{suffix}", inner * (2 if fused else 1), self.width)
        self.matrix(f"{b}down{suffix}", self.width, inner)

    def experts(self, layer, count, inner):
        b = f"blk.{layer}.ffn_"
        self.matrix(b + "gate_inp", count, self.width, gain=2.0)
        self.matrix(b + "gate_exps", inner, self.width, count)
        self.matrix(b + "up_exps", inner, self.width, count)
        self.matrix(b + "down_exps", self.width, inner, count)


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


def plain_layers(m, inner, bias="", head_norms=False):
    """Pre-norm attention, then a gated feed-forward. head_norms: of queries and keys, by head."""
    for layer in range(m.layers):
        m.attention(layer, bias=bias)
        if head_norms:
            m.norm(f"blk.{layer}.attn_q_norm", m.head_dim)
            m.norm(f"blk.{layer}.attn_k_norm", m.head_dim)
        if m.metadata.get(m.metadata["general.architecture"] + ".expert_count"):
            m.norm(f"blk.{layer}.ffn_norm", m.width)
            m.experts(layer, 5, inner)
        else:
            m.feed_forward(layer, inner)
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
    if arch == "qwen3moe":
        keys |= {"expert_count": 5, "expert_used_count": 3, "expert_feed_forward_length": 14}
    m = Builder(name, arch, 30, 2, 4, 2, 10 if arch == "qwen2" else 18, **keys)
    m.metadata[f"{arch}.attention.layer_norm_rms_epsilon"] = 1e-6
    m.embedding()
    return plain_layers(m, 14 if arch == "qwen3moe" else 38,
                        bias="qkv" if arch == "qwen2" else "", head_norms=arch != "qwen2")


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
    """-v3: the tensors and keys of files made today; -v2, -lite: of files before April 2025."""
    v3, lite = "v3" in name, "lite" in name
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
    if lite:
        keys |= {"expert_shared_count": 2, "expert_weights_scale": 1.0}
    else:
        keys |= {"attention__q_lora_rank": q_latent}
    if "v2" in name:
        keys |= {"expert_group_count": 4, "expert_group_used_count": 2, "expert_gating_func": 1}
    m = Builder(name, "deepseek2", 28, 2 if lite else 3, heads, 1 if v3 else heads, 0, **keys)
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
        if layer == 0:
            m.feed_forward(layer, 42)
            continue
        m.norm(b + "ffn_norm", m.width)
        m.experts(layer, 8, 9)
        if v3:
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


MODELS = {
    "smollm3-f32": smollm3, "olmo2-f32": olmo2, "olmo3-f32": olmo3, "granite-f32": granite,
    "granitemoe-f32": granitemoe, "glm4-f32": glm4, "gpt-oss-f32": gpt_oss,
    "gpt-oss-mxfp4": gpt_oss, "phi3-long-f32": phi3, "phi3-short-f32": phi3,
    "phi3-f32": phi3, "llama-f32": llama, "llama-odd-f32": llama, "llama-tied-f32": llama,
    "llama-f16": llama, "llama-bf16": llama, "llama3-f32": llama, "mixtral-f32": llama,
    "qwen2-f32": qwen, "qwen3-f32": qwen, "qwen3moe-f32": qwen, "gemma2-f32": gemma,
    "gemma3-f32": gemma, "llama-yarn-f32": llama, "llama-linear-f32": llama, "deepseek2-v3-f32": deepseek2,
    "deepseek2-v2-f32": deepseek2, "deepseek2-lite-f32": deepseek2, "seed-oss-f32": seed_oss,
}


def make(name, directory):
    m = MODELS[name](name)
    stem = pathlib.Path(directory) / name
    tokens = [1] + m.rng.integers(3, VOCABULARY, TOKENS - 1).tolist()
    gguf.write(f"{stem}.gguf", m.metadata, m.tensors)
    logits = Model(f"{stem}.gguf").logits(tokens)  # of what the file holds, rounded to float32
    logits.astype("<f4").tofile(f"{stem}.f32")
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
