"""DFlash heads (Chen et al. 2026) and DSpark's in float64, on whole sequences. The names of tensors and
keys are those of llama.cpp's converter.

    python3 -m tests.golden.reference.dflash tests/data/golden tests/data/heads

makes random heads for the tiny models, the exact logits of their blocks and what they draft."""

import json
import pathlib
import sys
import zlib

import numpy as np

from . import gguf
from .layers import attention, geglu, inverse_frequencies, rms_norm, rotate, swiglu
from .model import Model

LENGTHS = (2, 3, 20, 21, 23, 31, 40)


class Head:
    """`main`: the model that it drafts for, after a run."""

    def __init__(self, path, main):
        self.metadata, self.tensors = gguf.read(path)
        self.main = main
        self.eps = self.key("attention.layer_norm_rms_epsilon")
        self.rows = self.key("block_size")
        self.spark = "markov_w1.weight" in self.tensors
        self.from_first = self.spark and self.key("sample_from_anchor", True)

    def key(self, name, default=None):
        value = self.metadata.get("dflash." + name, default)
        assert value is not None, name
        return value

    def of_either(self, name):
        """The head's own tensor, or the main model's."""
        return self.tensors[name] if name in self.tensors else self.main.tensors.get(name)

    def norm(self, x, name):
        return rms_norm(x, self.tensors[name + ".weight"], self.eps)

    def linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T

    def states(self):
        """(tokens, width) of the main model's last run."""
        x = np.concatenate([self.main.entered[layer] for layer in self.key("target_layers")], axis=1)
        return self.norm(self.linear(x, "fc"), "enc.output_norm")

    def attend(self, x, states, layer):
        """Of the rows of the block alone."""
        b = f"blk.{layer}."
        head = self.key("attention.key_length")
        split = lambda y: y.reshape(len(y), -1, head)
        both = np.concatenate([states, x])
        q = split(self.linear(np.concatenate([np.zeros_like(states), x]), b + "attn_q"))
        k = split(self.linear(both, b + "attn_k"))
        if b + "attn_v.weight" in self.tensors:
            v = split(self.linear(both, b + "attn_v"))
        else:
            v = rms_norm(k, 1.0, self.eps)
        frequencies = inverse_frequencies(self.key("rope.dimension_count", head),
                                          self.key("rope.freq_base", 10000.0),
                                          self.tensors.get("rope_freqs.weight"))
        q = rotate(self.norm(q, b + "attn_q_norm"), frequencies, False)
        k = rotate(self.norm(k, b + "attn_k_norm"), frequencies, False)
        ahead = np.zeros((len(both), len(both)), bool)
        if not self.key("attention.causal", False):
            ahead[len(states):, len(states):] = True
        slides = self.key("attention.sliding_window_pattern", [False] * (layer + 1))[layer]
        window = self.key("attention.sliding_window") if slides else 0
        made = attention(q, k, v, self.key("attention.scale", head ** -0.5), window=window,
                         sinks=self.tensors.get(b + "attn_sinks.weight"), ahead=ahead)
        return (self.linear(made[len(states):], b + "attn_output")
                * self.key("attention.value_scale", 1.0))

    def block(self, tokens, states):
        """The logits of the rows behind these tokens, of which the last is the block's first.
        `states`: of the tokens before it."""
        mask = self.metadata["tokenizer.ggml.mask_token_id"]
        x = self.of_either("token_embd.weight")[[tokens[-1]] + [mask] * (self.rows - 1)]
        x = x * self.key("embedding_scale", 1.0)
        glu = geglu if self.key("hidden_activation", "silu").startswith("gelu") else swiglu
        for layer in range(self.key("block_count")):
            b = f"blk.{layer}."
            behind = lambda y, name: self.norm(y, b + name) if b + name + ".weight" in self.tensors else y
            x = x + behind(self.attend(self.norm(x, b + "attn_norm"), states, layer),
                           "post_attention_norm")
            h = self.norm(x, b + "ffn_norm")
            h = self.linear(glu(self.linear(h, b + "ffn_gate"), self.linear(h, b + "ffn_up")),
                            b + "ffn_down")
            x = x + behind(h, "post_ffw_norm")
            x = x * self.tensors.get(b + "layer_output_scale.weight", 1.0)
        output = self.of_either("output.weight")
        if output is None:
            output = self.of_either("token_embd.weight")
        logits = self.norm(x, "output_norm") @ output.T
        if not self.spark:
            logits = logits * self.key("logit_scale", 1.0)
            cap = self.key("final_logit_softcapping", 0.0)
            logits = cap * np.tanh(logits / cap) if cap else logits
        return logits

    def draft(self, tokens, logits):
        """The most probable tokens of a block with these logits, one after the other."""
        last, drafted = tokens[-1], []
        for row in logits[0 if self.from_first else 1:]:
            if self.spark:
                row = row + self.linear(self.tensors["markov_w1.weight"][last], "markov_w2")
            last = int(np.argmax(row))
            last = int(self.tensors["d2t"][last]) if "d2t" in self.tensors else last
            drafted.append(last)
        return drafted


GEMMA = {"embedding_scale": 5.5, "attention.scale": 1.0, "hidden_activation": "gelu_pytorch_tanh"}
# By main model: the head's width, 0 for that of the main model; layers of the main model; rows of a
# block; whether it has a table of tokens and an output of its own; rows of that output, 0 for all
# tokens; the rank of transitions, 0 for none; other keys.
HEADS = {
    "llama-f32": (0, [2, 0, 1], 6, False, False, 0, 0, {}),
    "qwen35-f32": (36, [1, 4], 5, True, True, 0, 0, {
        "attention.sliding_window": 9, "attention.sliding_window_pattern": [True, False],
        "attention.value_scale": 0.7, "final_logit_softcapping": 3.0, "logit_scale": 1.5}),
    "gemma4-f32": (0, [0, 2, 1], 4, False, False, 0, 7, GEMMA | {"sample_from_anchor": True}),
    "muse-glimmer-f32": (28, [3, 1, 2, 0], 7, True, True, 51, 6, {
        "sample_from_anchor": False, "attention.causal": True}),
}


def make(name, models, directory):
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 5)
    main = Model(pathlib.Path(models) / f"{name}.gguf")
    tokens = json.loads((pathlib.Path(models) / f"{name}.json").read_text())["tokens"]
    vocabulary = len(main.tensors["token_embd.weight"])
    width, layers, block, table, output, rows, rank, keys = HEADS[name]
    gemma = name.startswith("gemma4")
    width = width or main.width
    heads, kv_heads, head_dim, inner, blocks = 4, 2, 10, 38, 2
    metadata = {
        "general.architecture": "dflash", "dflash.block_count": blocks, "dflash.context_length": 64,
        "dflash.embedding_length": width, "dflash.feed_forward_length": inner,
        "dflash.attention.head_count": heads, "dflash.attention.head_count_kv": kv_heads,
        "dflash.attention.key_length": head_dim, "dflash.attention.value_length": head_dim,
        "dflash.attention.layer_norm_rms_epsilon": 1e-5, "dflash.rope.freq_base": 5e5,
        "dflash.target_layers": layers, "dflash.block_size": block,
        "tokenizer.ggml.mask_token_id": vocabulary - 2,
    } | {"dflash." + key: value for key, value in keys.items()}
    tensors = {}

    def matrix(part, n, k, gain=1.0):
        tensors[part + ".weight"] = rng.normal(0, gain / np.sqrt(k), (n, k))

    def norm(part, n):
        tensors[part + ".weight"] = rng.normal(1, 0.2, n)

    if table:
        tensors["token_embd.weight"] = rng.normal(0, 1, (vocabulary, width))
    matrix("fc", width, len(layers) * main.width, 2.0)
    norm("enc.output_norm", width)
    for layer in range(blocks):
        b = f"blk.{layer}."
        for part in ("attn_norm", "ffn_norm") + ("post_attention_norm", "post_ffw_norm") * gemma:
            norm(b + part, width)
        for part, n in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            if part != "v" or not gemma:
                matrix(f"{b}attn_{part}", n * head_dim, width, 1.5)
        for part in "qk":
            norm(f"{b}attn_{part}_norm", head_dim)
        matrix(b + "attn_output", width, heads * head_dim, 3.0)
        if "attention.sliding_window" in keys:
            tensors[b + "attn_sinks.weight"] = rng.normal(0, 2, heads)
        matrix(b + "ffn_gate", inner, width)
        matrix(b + "ffn_up", inner, width)
        matrix(b + "ffn_down", width, inner)
        if gemma:
            tensors[b + "layer_output_scale.weight"] = np.array([0.8 + 0.1 * layer])
    if gemma:
        tensors["rope_freqs.weight"] = np.array([1.0] * 3 + [1e30] * (head_dim // 2 - 3))
    norm("output_norm", width)
    if output:
        matrix("output", rows or vocabulary, width, 2.0)
    if rows:
        tensors["d2t"] = np.sort(rng.choice(vocabulary, rows, replace=False)).astype(np.int64)
    if rank:
        tensors["markov_w1.weight"] = rng.normal(0, 1, (vocabulary, rank))
        matrix("markov_w2", rows or vocabulary, rank, 1.5)
        tensors["conf_proj.weight"] = rng.normal(0, 0.1, (1, width + rank))
    stem = pathlib.Path(directory) / f"dflash-{name}"
    gguf.write(f"{stem}.gguf", metadata, tensors)
    head = Head(f"{stem}.gguf", main)  # of what the file holds, rounded to float32
    main.logits(tokens)
    states = head.states()
    made = {n: head.block(tokens[:n], states[:n - 1]) for n in LENGTHS}
    np.concatenate(list(made.values())).astype("<f4").tofile(f"{stem}.f32")
    drafts = {str(n): head.draft(tokens[:n], logits) for n, logits in made.items()}
    pathlib.Path(f"{stem}.json").write_text(json.dumps({"model": name, "drafts": drafts}) + "\n")
    return np.concatenate(list(made.values()))


def main():
    for name in sys.argv[3:] or HEADS:
        print(f"{name:20} logits of spread {make(name, *sys.argv[1:3]).std():.3g}")


if __name__ == "__main__":
    main()
