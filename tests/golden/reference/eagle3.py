"""An EAGLE-3 head (Li et al. 2025) in float64, on whole sequences. The names of tensors and keys are
those of llama.cpp's converter.

    python3 -m tests.golden.reference.eagle3 tests/data/golden tests/data/heads

makes random heads for the tiny models, their exact logits and what they draft."""

import json
import pathlib
import sys
import zlib

import numpy as np

from . import gguf
from .layers import attention, inverse_frequencies, rms_norm, rotate, swiglu
from .model import Model

LAYERS = 3  # of the main model, whose hidden states the head takes
DRAFTED = 4


class Head:
    """`main`: the model that it drafts for."""

    def __init__(self, path, main):
        self.metadata, self.tensors = gguf.read(path)
        self.main = main
        self.eps = self.key("attention.layer_norm_rms_epsilon")
        self.heads = self.key("attention.head_count")
        self.head_dim = self.key("attention.key_length")

    def key(self, name, default=None):
        value = self.metadata.get("eagle3." + name, default)
        assert value is not None, name
        return value

    def of_either(self, name):
        """The head's own tensor, or the main model's."""
        return self.tensors[name] if name in self.tensors else self.main.tensors.get(name)

    def norm(self, x, name):
        return rms_norm(x, self.tensors[name + ".weight"], self.eps)

    def linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T

    def features(self):
        """(tokens, width) of the main model's last run."""
        layers = self.key("target_layers")
        x = np.concatenate([self.main.entered[layer] for layer in layers], axis=1)
        if self.key("norm_before_fc", False):
            x = self.norm(x, "enc.output_norm")
        return self.linear(x, "fc")

    def step(self, tokens, features):
        """(logits, features for the next token) of pairs of a token and the features of the position
        before it."""
        b = "blk.0."
        token = self.norm(self.of_either("token_embd.weight")[tokens], b + "attn_norm")
        normed = self.norm(features, b + "attn_norm_2")
        x = normed if self.key("norm_before_residual", False) else features
        both = np.concatenate([token, normed], axis=1)
        q, k, v = (self.linear(both, b + "attn_" + part).reshape(len(tokens), -1, self.head_dim)
                   for part in "qkv")
        frequencies = inverse_frequencies(self.head_dim, self.key("rope.freq_base", 10000.0),
                                          self.tensors.get("rope_freqs.weight"))
        q, k = (rotate(heads, frequencies, True) for heads in (q, k))
        x = x + self.linear(attention(q, k, v, self.head_dim ** -0.5), b + "attn_output")
        h = self.norm(x, b + "ffn_norm")
        gate, up = (self.linear(h, b + "ffn_" + part) for part in ("gate", "up"))
        x = x + self.linear(swiglu(gate, up), b + "ffn_down")
        output = self.of_either("output.weight")
        if output is None:
            output = self.main.tensors["token_embd.weight"]
        return self.norm(x, "output_norm") @ output.T, x

    def draft(self, tokens, features, count):
        """The most probable `count` tokens after these, one after another."""
        tokens, features = list(tokens[1:]), features[:len(tokens) - 1]
        drafted = []
        while len(drafted) < count:
            logits, made = self.step(tokens, features)
            best = int(np.argmax(logits[-1]))
            drafted.append(int(self.tensors["d2t"][best]) if "d2t" in self.tensors else best)
            tokens.append(drafted[-1])
            features = np.concatenate([features, made[-1:]])
        return drafted


# By main model: the head's width, 0 for that of the main model; layers of the main model; whether it
# has a table of tokens and an output of its own; rows of that output, 0 for all tokens; other keys.
HEADS = {
    "llama-f32": (0, [2, 0, 1], False, True, 40, {}),
    "qwen35-f32": (36, [1, 2, 4], True, True, 0,
                   {"norm_before_fc": True, "norm_before_residual": True}),
    "gemma4-f32": (0, [0, 2, 1], False, False, 0, {"norm_before_residual": True}),
    "nemotron_h_moe-f32": (28, [3, 1, 3], True, True, 51, {"norm_before_fc": True}),
}


def make(name, models, directory):
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 3)
    main = Model(pathlib.Path(models) / f"{name}.gguf")
    tokens = json.loads((pathlib.Path(models) / f"{name}.json").read_text())["tokens"]
    vocabulary = len(main.tensors["token_embd.weight"])
    width, layers, table, output, rows, keys = HEADS[name]
    width = width or main.width
    heads, kv_heads, head_dim, inner = 4, 2, 10, 38
    metadata = {
        "general.architecture": "eagle3", "eagle3.block_count": 1, "eagle3.context_length": 64,
        "eagle3.embedding_length": width, "eagle3.feed_forward_length": inner,
        "eagle3.attention.head_count": heads, "eagle3.attention.head_count_kv": kv_heads,
        "eagle3.attention.key_length": head_dim, "eagle3.attention.value_length": head_dim,
        "eagle3.attention.layer_norm_rms_epsilon": 1e-5, "eagle3.rope.freq_base": 5e5,
        "eagle3.target_layers": layers, "eagle3.target_hidden_size": main.width,
    } | {"eagle3." + key: value for key, value in keys.items()}
    tensors = {}

    def matrix(part, n, k, gain=1.0):
        tensors[part + ".weight"] = rng.normal(0, gain / np.sqrt(k), (n, k))

    def norm(part, n):
        tensors[part + ".weight"] = rng.normal(1, 0.2, n)

    if table:
        tensors["token_embd.weight"] = rng.normal(0, 1, (vocabulary, width))
    matrix("fc", width, LAYERS * main.width, 2.0)
    if keys.get("norm_before_fc"):
        norm("enc.output_norm", LAYERS * main.width)
    for part in ("attn_norm", "attn_norm_2", "ffn_norm"):
        norm("blk.0." + part, width)
    for part, n in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        matrix("blk.0.attn_" + part, n * head_dim, 2 * width, 1.5)
    matrix("blk.0.attn_output", width, heads * head_dim)
    matrix("blk.0.ffn_gate", inner, width)
    matrix("blk.0.ffn_up", inner, width)
    matrix("blk.0.ffn_down", width, inner)
    norm("output_norm", width)
    if keys.get("norm_before_fc"):
        tensors["rope_freqs.weight"] = rng.uniform(1.0, 8.0, head_dim // 2)
    if output:
        matrix("output", rows or vocabulary, width, 2.0)
    if rows:
        tensors["d2t"] = np.sort(rng.choice(vocabulary, rows, replace=False)).astype(np.int64)
    stem = pathlib.Path(directory) / f"eagle3-{name}"
    gguf.write(f"{stem}.gguf", metadata, tensors)
    head = Head(f"{stem}.gguf", main)  # of what the file holds, rounded to float32
    main.logits(tokens)
    features = head.features()
    logits, _ = head.step(tokens[1:], features[:-1])
    logits.astype("<f4").tofile(f"{stem}.f32")
    lengths = (2, 3, 20, 21, 23, 31, 40)
    drafts = {str(n): head.draft(tokens[:n], features, DRAFTED) for n in lengths}
    pathlib.Path(f"{stem}.json").write_text(json.dumps({"model": name, "drafts": drafts}) + "\n")
    return logits


def main():
    for name in sys.argv[3:] or HEADS:
        print(f"{name:20} logits of spread {make(name, *sys.argv[1:3]).std():.3g}")


if __name__ == "__main__":
    main()
