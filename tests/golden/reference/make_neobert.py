"""Tiny random NeoBERTs (Le Breton et al. 2025) as Hugging Face directories, and their vectors and
scores of some texts in float64. transformers lacks the classes; the formulas are those of the
model's own code. The vocabulary is that of bert-mean.

    python3 -m tests.golden.reference.make_neobert tests/data/embed
"""

import json
import sys
from pathlib import Path

import numpy as np

from . import safetensors
from .layers import inverse_frequencies, rms_norm, rotate, softmax, swiglu
from .make_encoders import TEXTS, ids_of

QUERY = "how tall is the cat"
WIDTH, LAYERS, HEADS, INTERMEDIATE, EPS = 24, 3, 4, 56, 1e-3
INNER = 40  # two thirds of INTERMEDIATE, rounded up to whole eights
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
         "intermediate_size": INTERMEDIATE, "max_length": 256, "norm_eps": EPS, "pad_token_id": 0}


class NeoBert:
    def __init__(self, name, vocabulary, root, scores):
        rng = np.random.default_rng(sum(name.encode()))
        self.root, self.tensors = root, {}

        def put(name, *shape, mean=0.0, spread=0.3):
            self.tensors[name] = rng.normal(mean, spread, shape).astype(np.float32)

        put(root + "encoder.weight", vocabulary, WIDTH)
        put(root + "layer_norm.weight", WIDTH, mean=1.0, spread=0.2)
        for layer in range(LAYERS):
            at = f"{root}transformer_encoder.{layer}."
            for norm in ("attention_norm", "ffn_norm"):
                put(f"{at}{norm}.weight", WIDTH, mean=1.0, spread=0.2)
            for part, rows, columns in (("qkv", 3 * WIDTH, WIDTH), ("wo", WIDTH, WIDTH),
                                        ("ffn.w12", 2 * INNER, WIDTH), ("ffn.w3", WIDTH, INNER)):
                put(f"{at}{part}.weight", rows, columns)
        if scores:
            for part, rows in (("dense", WIDTH), ("classifier", 1)):
                put(part + ".weight", rows, WIDTH)
                put(part + ".bias", rows, spread=0.2)
        else:
            put("decoder.weight", vocabulary, WIDTH)  # fills in masked words
            put("decoder.bias", vocabulary)

    def get(self, name):
        return self.tensors[name].astype(np.float64)

    def hidden(self, ids):
        """(tokens, width), behind the last norm."""
        x = self.get(self.root + "encoder.weight")[ids]
        frequencies = inverse_frequencies(WIDTH // HEADS, 10000.0)
        for layer in range(LAYERS):
            weight = lambda part: self.get(f"{self.root}transformer_encoder.{layer}.{part}.weight")
            h = rms_norm(x, weight("attention_norm"), EPS)
            # Of each head those of queries, keys and values.
            q, k, v = np.split((h @ weight("qkv").T).reshape(len(ids), HEADS, -1), 3, axis=-1)
            q, k = (rotate(part, frequencies, interleaved=True) for part in (q, k))
            shares = softmax(np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1]))
            mixed = np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), WIDTH)
            x = x + mixed @ weight("wo").T
            h = rms_norm(x, weight("ffn_norm"), EPS)
            gate, up = np.split(h @ weight("ffn.w12").T, 2, axis=-1)
            x = x + swiglu(gate, up) @ weight("ffn.w3").T
        return rms_norm(x, self.get(self.root + "layer_norm.weight"), EPS)

    def vector(self, ids):
        first = self.hidden(ids)[0]
        return first / np.linalg.norm(first)

    def score(self, ids):
        first = self.hidden(ids)[0]
        first = np.tanh(self.get("dense.weight") @ first + self.get("dense.bias"))
        return (self.get("classifier.weight") @ first + self.get("classifier.bias"))[0]


def make(embed, name, checkpoint):
    """embed: the folder of all such directories."""
    vocabulary = json.loads((embed / "bert-mean" / "tokenizer.json").read_text())["model"]["vocab"]
    scores = checkpoint == "NeoBERTForSequenceClassification"
    root = "" if checkpoint == "NeoBERT" else "model."
    model = NeoBert(name, len(vocabulary), root, scores)
    folder = embed / name
    folder.mkdir(exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).write_text((embed / "bert-mean" / file).read_text())
    (folder / "config.json").write_text(json.dumps(
        {"architectures": [checkpoint], "model_type": "neobert"} | SIZES, indent=1))
    safetensors.write(folder / "model.safetensors", model.tensors)
    expected = {"texts": TEXTS}
    if scores:
        pairs = [ids_of(QUERY) + ids_of(text)[1:] for text in TEXTS]
        expected |= {"query": QUERY, "scores": [float(model.score(ids)) for ids in pairs]}
    else:
        expected |= {"vectors": [model.vector(ids_of(text)).tolist() for text in TEXTS]}
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    for wanted in (("neo-bert", "NeoBERTLMHead"),
                   ("neo-bert-rank", "NeoBERTForSequenceClassification")):
        make(Path(sys.argv[1]), *wanted)
