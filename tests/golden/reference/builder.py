"""Metadata and random tensors of the tiny models of tests/data/golden."""

import zlib

import numpy as np

TOKENS = 48
LONG = 100  # more than a page of the cache holds: tokens of models with recurrent layers
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


def shared_experts(m, layer, experts, width, shared):
    """Experts with a bias on the choice, beside those that every token takes."""
    m.norm(f"blk.{layer}.ffn_norm", m.width)
    m.experts(layer, experts, width)
    m.bias(f"blk.{layer}.exp_probs_b", experts, spread=0.1)
    m.feed_forward(layer, shared * width, norms=False, suffix="_shexp")
