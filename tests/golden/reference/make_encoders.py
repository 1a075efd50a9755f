"""Tiny random encoders that transformers does not have, as GGUF files, and their vectors or scores of
some texts in float64: Jina 2 (ALiBi, GEGLU), its reranker, and Nomic with experts. The formulas are
those of the papers and of the models' own code; llama.cpp's files of the reranker have one matrix
behind the first token, and the score is the hyperbolic tangent of its row.

    python3 -m tests.golden.reference.make_encoders tests/data/embed
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

from . import gguf

WORDS = "the cat sits outside man plays guitar love pasta new movie is great how tall".split()
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + ["\u2581" + word for word in WORDS]
TEXTS = ["the cat sits outside", "", "how tall is the new man " * 12, "love pasta",
         "the cat plays guitar outside the movie " * 20]
QUERY = "how tall is the cat"
WIDTH, LAYERS, FEED_FORWARD, CONTEXT = 24, 3, 40, 256
EXPERTS, USED, EVERY = 4, 2, 2


def ids_of(text):
    return [2] + [TOKENS.index("\u2581" + word) for word in text.split()] + [3]


def layer_norm(x, weight, bias, eps=1e-12):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + eps) * weight + bias


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def slopes(heads):
    """Of the paper's code: for other numbers than powers of two, the odd ones of twice as many."""
    def of_power(n):
        first = 2 ** (-2 ** -(math.log2(n) - 3))
        return [first * first ** i for i in range(n)]
    if math.log2(heads).is_integer():
        return of_power(heads)
    n = 2 ** math.floor(math.log2(heads))
    return of_power(n) + slopes(2 * n)[0::2][:heads - n]


def rotate(x, base):
    """x [tokens, heads, dim], halves of the head together."""
    half = x.shape[-1] // 2
    angles = np.outer(np.arange(len(x)), base ** (-np.arange(half) / half))[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles),
                           a * np.sin(angles) + b * np.cos(angles)], -1)


class Model:
    def __init__(self, name, architecture, heads):
        self.rng = np.random.default_rng(sum(name.encode()))
        self.architecture, self.heads = architecture, heads
        self.tensors = {}
        self.nomic = architecture == "nomic-bert-moe"
        self.matrix("token_embd", len(TOKENS), WIDTH)
        self.matrix("token_types", 2, WIDTH)
        self.norm("token_embd_norm")
        for i in range(LAYERS):
            for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
                self.linear(f"blk.{i}.{part}", WIDTH, WIDTH)
            if not self.nomic:
                for part in ("attn_q_norm", "attn_k_norm", "attn_norm_2"):
                    self.norm(f"blk.{i}.{part}")
            self.norm(f"blk.{i}.attn_output_norm")
            self.norm(f"blk.{i}.layer_output_norm")
            if self.has_experts(i):
                self.matrix(f"blk.{i}.ffn_gate_inp", EXPERTS, WIDTH)
                self.matrix(f"blk.{i}.ffn_up_exps", EXPERTS, FEED_FORWARD, WIDTH)
                self.matrix(f"blk.{i}.ffn_down_exps", EXPERTS, WIDTH, FEED_FORWARD)
                continue
            # Both halves in one, where Jina 2 has them.
            self.linear(f"blk.{i}.ffn_up", FEED_FORWARD * (1 if self.nomic else 2), WIDTH)
            self.linear(f"blk.{i}.ffn_down", WIDTH, FEED_FORWARD)

    def has_experts(self, layer):
        return self.nomic and layer % EVERY == 1

    def put(self, name, values):
        self.tensors[name] = values.astype(np.float32)

    def matrix(self, name, *shape):
        self.put(name + ".weight", self.rng.normal(0, 0.3, shape))

    def linear(self, name, rows, columns):
        self.matrix(name, rows, columns)
        self.put(name + ".bias", self.rng.normal(0, 0.2, rows))

    def norm(self, name):
        self.put(name + ".weight", self.rng.normal(1, 0.2, WIDTH))
        self.put(name + ".bias", self.rng.normal(0, 0.2, WIDTH))

    def get(self, name):
        return self.tensors[name].astype(np.float64)

    def product(self, x, name):
        return x @ self.get(name + ".weight").T + self.get(name + ".bias")

    def normed(self, x, name):
        return layer_norm(x, self.get(name + ".weight"), self.get(name + ".bias"))

    def attention(self, x, layer):
        q, k, v = (self.product(x, f"blk.{layer}.attn_{part}") for part in "qkv")
        if not self.nomic:
            q = self.normed(q, f"blk.{layer}.attn_q_norm")
            k = self.normed(k, f"blk.{layer}.attn_k_norm")
        q, k, v = (part.reshape(len(x), self.heads, -1) for part in (q, k, v))
        if self.nomic:
            q, k = rotate(q, 1000.0), rotate(k, 1000.0)
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        if not self.nomic:
            places = np.arange(len(x))
            far = np.abs(places[:, None] - places[None, :])
            scores = scores - np.array(slopes(self.heads))[:, None, None] * far
        mixed = np.einsum("hqk,khd->qhd", softmax(scores), v)
        return self.product(mixed.reshape(len(x), -1), f"blk.{layer}.attn_output")

    def feed_forward(self, x, layer):
        name = f"blk.{layer}.ffn_"
        if self.has_experts(layer):
            shares = softmax(x @ self.get(name + "gate_inp.weight").T)
            out = np.zeros_like(x)
            for row, share in enumerate(shares):
                for expert in np.argsort(-share, kind="stable")[:USED]:
                    up = self.get(name + "up_exps.weight")[expert] @ x[row]
                    down = self.get(name + "down_exps.weight")[expert] @ gelu(up)
                    out[row] += share[expert] * down
            return out
        up = self.product(x, name + "up")
        if self.nomic:
            return self.product(gelu(up), name + "down")
        return self.product(gelu(up[:, :FEED_FORWARD]) * up[:, FEED_FORWARD:], name + "down")

    def hidden(self, ids, types):
        x = self.get("token_embd.weight")[ids] + self.get("token_types.weight")[types]
        x = self.normed(x, "token_embd_norm")
        for layer in range(LAYERS):
            h = self.normed(x + self.attention(x, layer), f"blk.{layer}.attn_output_norm")
            if not self.nomic:
                h = self.normed(h + x, f"blk.{layer}.attn_norm_2")
            x = self.normed(h + self.feed_forward(h, layer), f"blk.{layer}.layer_output_norm")
        return x

    def vector(self, ids):
        mean = self.hidden(ids, [0] * len(ids)).mean(0)
        return mean / np.linalg.norm(mean)

    def score(self, query, text):
        first, second = ids_of(query), ids_of(text)[1:]
        x = self.hidden(first + second, [0] * len(first) + [1] * len(second))
        return float(np.tanh(self.product(x[:1], "cls"))[0, 0])

    def metadata(self):
        a = self.architecture + "."
        values = {"general.architecture": self.architecture, a + "context_length": CONTEXT,
                  a + "embedding_length": WIDTH, a + "block_count": LAYERS,
                  a + "feed_forward_length": FEED_FORWARD, a + "attention.head_count": self.heads,
                  a + "attention.layer_norm_epsilon": 1e-12, a + "attention.causal": False,
                  a + "pooling_type": 1}
        if self.nomic:
            values |= {a + "rope.freq_base": 1000.0, a + "expert_count": EXPERTS,
                       a + "expert_used_count": USED, a + "moe_every_n_layers": EVERY}
        return values | {
            "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": TOKENS,
            "tokenizer.ggml.token_type": [3, 2, 3, 3, 3] + [1] * len(WORDS),
            "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.seperator_token_id": 3,
            "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.padding_token_id": 0}


def make(folder, name, architecture, heads):
    model = Model(name, architecture, heads)
    metadata = model.metadata()
    if name.endswith("-rank"):
        model.linear("cls", 1, WIDTH)
        metadata[architecture + ".pooling_type"] = 4
        expected = {"query": QUERY, "scores": [model.score(QUERY, text) for text in TEXTS]}
    else:
        expected = {"vectors": [model.vector(ids_of(text)).tolist() for text in TEXTS]}
    folder.mkdir(parents=True, exist_ok=True)
    gguf.write(folder / "model.gguf", metadata, model.tensors)
    (folder / "expected.json").write_text(json.dumps({"texts": TEXTS} | expected))


if __name__ == "__main__":
    for wanted in (("jina-bert-v2", "jina-bert-v2", 4), ("jina-bert-v2-heads", "jina-bert-v2", 6),
                   ("jina-bert-v2-rank", "jina-bert-v2", 4),
                   ("nomic-bert-moe", "nomic-bert-moe", 4)):
        make(Path(sys.argv[1]) / wanted[0], *wanted)
