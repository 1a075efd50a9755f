"""Gemma 4's assistant in float64: a head that attends to the keys and values of its main model. The
names of tensors and keys are those of llama.cpp's converter.

    python3 -m tests.golden.reference.gemma4_assistant tests/data/golden tests/data/heads

makes random heads for the tiny models of Gemma 4, their exact logits and what they draft."""

import json
import pathlib
import sys
import zlib

import numpy as np

from . import gguf
from .layers import geglu, inverse_frequencies, rms_norm, rotate, softmax
from .model import Model

ARCH = "gemma4-assistant"
DRAFTED = 4
MAINS = ("gemma4-f32", "gemma4-moe-f32")


class Head:
    """`main`: the model that it drafts for, after a run."""

    def __init__(self, path, main):
        self.metadata, self.tensors = gguf.read(path)
        self.main = main
        self.heads = self.key("attention.head_count")

    def key(self, name):
        return self.metadata[f"{ARCH}.{name}"]

    def norm(self, x, name):
        return rms_norm(x, self.tensors[name + ".weight"], self.key("attention.layer_norm_rms_epsilon"))

    def linear(self, x, name):
        return self.tensors[name + ".weight"] @ x

    def attend(self, x, layer, position):
        """Sees the main model's keys before `position`."""
        b = f"blk.{layer}."
        slides = self.key("attention.sliding_window_pattern")[layer]
        swa = "_swa" if slides else ""
        head = self.key("attention.key_length" + swa)
        sliding = self.main.key("attention.sliding_window_pattern")
        keys, values = self.main.stored[max(other for other in self.main.stored
                                            if sliding[other] == slides)]
        factors = None if slides else self.tensors.get("rope_freqs.weight")
        frequencies = inverse_frequencies(self.key("rope.dimension_count" + swa),
                                          self.key("rope.freq_base" + swa), factors)
        q = self.norm(self.linear(x, b + "attn_q").reshape(self.heads, head), b + "attn_q_norm")
        turned = rotate(np.repeat(q[None], position + 1, axis=0), frequencies, False)[position]
        window = self.main.key("attention.sliding_window") if slides else position
        seen = slice(max(0, position - window), position)
        group = self.heads // keys.shape[1]
        out = []
        for h in range(self.heads):
            weights = softmax(keys[seen, h // group] @ turned[h])
            out.append(weights @ values[seen, h // group])
        return self.linear(np.concatenate(out), b + "attn_output")

    def step(self, token, hidden, position):
        """(logits, hidden state for the next token) of a token that is at `position` or drafted
        behind it."""
        scale = np.float64(np.float32(np.sqrt(self.main.width)))
        embedded = self.main.tensors["token_embd.weight"][token] * scale
        x = self.linear(np.concatenate([embedded, hidden]), "nextn.pre_projection")
        for layer in range(self.key("block_count")):
            b = f"blk.{layer}."
            x = x + self.norm(self.attend(self.norm(x, b + "attn_norm"), layer, position),
                              b + "post_attention_norm")
            h = self.norm(x, b + "ffn_norm")
            h = self.linear(geglu(self.linear(h, b + "ffn_gate"), self.linear(h, b + "ffn_up")),
                            b + "ffn_down")
            x = x + self.norm(h, b + "post_ffw_norm")
            x = x * self.tensors.get(b + "layer_output_scale.weight", 1.0)
        x = self.norm(x, "output_norm")
        return self.linear(x, "token_embd"), self.linear(x, "nextn.post_projection")

    def draft(self, tokens, states, count):
        """(what is drafted after these tokens, the logits of the first one)."""
        position = len(tokens) - 1
        token, hidden, drafted, first = tokens[-1], states[position - 1], [], None
        while len(drafted) < count:
            logits, hidden = self.step(token, hidden, position)
            first = logits if first is None else first
            token = int(np.argmax(logits))
            drafted.append(token)
        return drafted, first


def make(name, models, directory):
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 4)
    main = Model(pathlib.Path(models) / f"{name}.gguf")
    tokens = json.loads((pathlib.Path(models) / f"{name}.json").read_text())["tokens"]
    main.logits(tokens)
    states = rms_norm(main.entered[-1], main.tensors["output_norm.weight"], main.eps)
    sliding = main.key("attention.sliding_window_pattern")
    dims = {s: next(k for layer, (k, _) in main.stored.items() if sliding[layer] == s).shape[1:]
            for s in (True, False)}
    width, heads, inner, pattern = 22, 6, 26, [True, True, False]
    metadata = {
        "general.architecture": ARCH, f"{ARCH}.block_count": len(pattern),
        f"{ARCH}.nextn_predict_layers": len(pattern), f"{ARCH}.context_length": 256,
        f"{ARCH}.embedding_length": width, f"{ARCH}.embedding_length_out": main.width,
        f"{ARCH}.feed_forward_length": inner, f"{ARCH}.attention.head_count": heads,
        f"{ARCH}.attention.head_count_kv": 1,
        f"{ARCH}.attention.key_length": int(dims[False][1]),
        f"{ARCH}.attention.key_length_swa": int(dims[True][1]),
        f"{ARCH}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{ARCH}.attention.sliding_window_pattern": pattern,
        f"{ARCH}.rope.dimension_count": int(dims[False][1]),
        f"{ARCH}.rope.dimension_count_swa": int(dims[True][1]),
        f"{ARCH}.rope.freq_base": 1e6, f"{ARCH}.rope.freq_base_swa": 1e4,
    }
    tensors = {}

    def matrix(part, n, k, gain=1.0):
        tensors[part + ".weight"] = rng.normal(0, gain / np.sqrt(k), (n, k))

    def norm(part, n):
        tensors[part + ".weight"] = rng.normal(1, 0.2, n)

    tensors["token_embd.weight"] = rng.normal(0, 0.5, (len(main.tensors["token_embd.weight"]), width))
    norm("output_norm", width)
    matrix("nextn.pre_projection", width, 2 * main.width)
    matrix("nextn.post_projection", main.width, width)
    factors = np.ones(dims[False][1] // 2)
    factors[len(factors) // 2:] = 1e30
    tensors["rope_freqs.weight"] = factors
    for layer, slides in enumerate(pattern):
        b, head = f"blk.{layer}.", dims[slides][1]
        for part in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            norm(b + part, width)
        matrix(b + "attn_q", heads * head, width)
        norm(b + "attn_q_norm", head)
        matrix(b + "attn_output", width, heads * head)
        matrix(b + "ffn_gate", inner, width)
        matrix(b + "ffn_up", inner, width)
        matrix(b + "ffn_down", width, inner)
        tensors[b + "layer_output_scale.weight"] = np.array([0.8 + 0.1 * layer])
    stem = pathlib.Path(directory) / f"gemma4-assistant-{name}"
    gguf.write(f"{stem}.gguf", metadata, tensors)
    head = Head(f"{stem}.gguf", main)  # of what the file holds, rounded to float32
    lengths = (2, 3, 9, 20, 21, 23, 31, 40, 48)
    made = {n: head.draft(tokens[:n], states, DRAFTED) for n in lengths}
    np.concatenate([logits for _, logits in made.values()]).astype("<f4").tofile(f"{stem}.f32")
    pathlib.Path(f"{stem}.json").write_text(json.dumps(
        {"model": name, "drafts": {str(n): drafted for n, (drafted, _) in made.items()}}) + "\n")
    return made


def main():
    for name in sys.argv[3:] or MAINS:
        made = make(name, *sys.argv[1:3])
        print(name, np.std([logits for _, logits in made.values()]), made[20][0])


if __name__ == "__main__":
    main()
