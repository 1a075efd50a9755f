"""A model that sees, in float64: the vision tower of Qwen3-VL, and the text model with it.

Written from Bai et al. 2025 (Qwen3-VL), Wang et al. 2024 (Qwen2-VL: M-RoPE) and what Hugging Face's
`transformers` computes. Tensor and key names are those of llama.cpp's converter. Arrays of patches
are (rows, columns, width) of the image's grid.
"""

import math

import numpy as np

from . import gguf
from .layers import gelu_tanh, inverse_frequencies, softmax
from .model import Model

MERGER_EPS = 1e-6
THETA = 10000.0


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def fit(width, height, unit, least, most):
    """The size that an image is scaled to (`smart_resize`): of whole units, within limits."""
    columns, rows = (round(side / unit) * unit for side in (width, height))
    if columns * rows > most:
        by = math.sqrt(width * height / most)
        columns, rows = (max(unit, math.floor(s / by / unit) * unit) for s in (width, height))
    elif columns * rows < least:
        by = math.sqrt(least / (width * height))
        columns, rows = (math.ceil(s * by / unit) * unit for s in (width, height))
    return columns, rows


class Tower:
    projector, usual_merged = "qwen3vl_merger", None
    merged_key = "spatial_merge_size"

    def __init__(self, path):
        self.metadata, self.tensors = gguf.read(path)
        assert self.metadata["clip.projector_type"] == self.projector
        self.patch = self.key("patch_size")
        self.merged = self.key(self.merged_key, self.usual_merged)
        self.heads = self.key("attention.head_count")
        self.eps = self.key("attention.layer_norm_epsilon")
        self.layers = self.key("block_count")
        self.unit = self.patch * self.merged

    def key(self, name, default=None):
        value = self.metadata.get("clip.vision." + name, default)
        assert value is not None, name
        return value

    def linear(self, x, name):
        weight = self.tensors[name + ".weight"]
        y = x @ weight.reshape(len(weight), -1).T
        return y + self.tensors[name + ".bias"] if name + ".bias" in self.tensors else y

    def norm(self, x, name, eps):
        x = x - np.mean(x, axis=-1, keepdims=True)
        x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def patches(self, rgb):
        """(rows, columns, 3 · patch · patch) of an image (height, width, 3) of whole units."""
        x = (np.asarray(rgb, np.float64) / 255 - self.key("image_mean")) / self.key("image_std")
        rows, columns = (side // self.patch for side in x.shape[:2])
        x = x.reshape(rows, self.patch, columns, self.patch, 3)
        return x.transpose(0, 2, 4, 1, 3).reshape(rows, columns, -1)

    def places(self, rows, columns):
        """The square of learned positions, stretched so that its corners are those of the grid."""
        table = self.tensors["v.position_embd.weight"]
        side = round(math.sqrt(len(table)))
        table = table.reshape(side, side, -1)

        def shares(n):
            """(n, side): between the two places around each of n points, linear."""
            points = np.linspace(0, side - 1, n)
            return np.maximum(0, 1 - np.abs(points[:, None] - np.arange(side)[None, :]))

        return np.einsum("ra,cb,abw->rcw", shares(rows), shares(columns), table)

    def turns(self, rows, columns, head):
        """Complex (rows · columns, head / 2): the first half by row, the second by column."""
        frequencies = inverse_frequencies(head // 2, THETA)
        row, column = np.mgrid[:rows, :columns].reshape(2, -1, 1)
        return np.exp(1j * np.concatenate([row * frequencies, column * frequencies], axis=1))

    def attend(self, x, name):
        """Every patch sees all others."""
        rows, columns, width = x.shape
        qkv = self.linear(x.reshape(rows * columns, -1), name + "attn_qkv")
        q, k, v = qkv.reshape(rows * columns, 3, self.heads, -1).transpose(1, 2, 0, 3)
        half = q.shape[-1] // 2
        turns = self.turns(rows, columns, 2 * half)

        def turned(heads):
            z = (heads[..., :half] + 1j * heads[..., half:]) * turns
            return np.concatenate([z.real, z.imag], axis=-1)

        scores = turned(q) @ turned(k).transpose(0, 2, 1) / math.sqrt(2 * half)
        mixed = (softmax(scores) @ v).transpose(1, 0, 2).reshape(rows, columns, width)
        return self.linear(mixed, name + "attn_out")

    def merge(self, x):
        """(results, merged · merged · width): squares of patches, row by row."""
        rows, columns = (side // self.merged for side in x.shape[:2])
        x = x.reshape(rows, self.merged, columns, self.merged, -1)
        return x.transpose(0, 2, 1, 3, 4).reshape(rows * columns, -1)

    def results(self, rgb):
        """(rows, columns, parts): the grid of results, and (results, width) for the embeddings and
        each of the layers that images are added behind."""
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        kernels = ["v.patch_embd.weight", "v.patch_embd.weight.1"]  # a still image: two equal ones
        embedded = sum(x @ self.tensors[name].reshape(len(self.tensors[name]), -1).T
                       for name in kernels if name in self.tensors)
        x = embedded + self.tensors["v.patch_embd.bias"] + self.places(rows, columns)
        deep = []
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            x = x + self.attend(self.norm(x, b + "ln1", self.eps), b)
            h = gelu_tanh(self.linear(self.norm(x, b + "ln2", self.eps), b + "ffn_up"))
            x = x + self.linear(h, b + "ffn_down")
            d = f"v.deepstack.{layer}."
            if d + "norm.weight" in self.tensors:  # its norm is over the merged patches
                h = gelu(self.linear(self.norm(self.merge(x), d + "norm", MERGER_EPS), d + "fc1"))
                deep.append(self.linear(h, d + "fc2"))
        h = gelu(self.linear(self.merge(self.norm(x, "v.post_ln", MERGER_EPS)), "mm.0"))
        return rows // self.merged, columns // self.merged, [self.linear(h, "mm.2"), *deep]


class SeeingModel(Model):
    """The text model of Qwen3-VL. `images` of its functions: arrays (height, width, 3) of bytes."""

    def __init__(self, path, tower):
        super().__init__(path)
        self.tower = Tower(tower)
        self.image_token = self.metadata["tokenizer.ggml.tokens"].index("<|image_pad|>")
        # Of the run: (rows, 3), and which rows are tokens or the last ones of images.
        self.positions, self.ends = None, None

    def rope(self, heads, layer):
        """Interleaved M-RoPE: pairs 1, 4, … turn with the row and 2, 5, … with the column, as many
        of them as the sections say; the others with the place in the text."""
        frequencies, _ = self.rotation(layer)
        pairs = len(frequencies)
        axis = np.zeros(pairs, int)
        for which in (1, 2):
            axis[which:3 * self.key("rope.dimension_sections")[which]:3] = which
        turn = np.exp(1j * self.positions[:, axis] * frequencies)[:, None, :]
        z = (heads[..., :pairs] + 1j * heads[..., pairs:]) * turn
        return np.concatenate([z.real, z.imag], axis=-1)

    def place(self, tokens, images):
        """Embeddings with images in their places, and what is added behind the first layers."""
        seen = [self.tower.results(image) for image in images]
        x, positions, added, at = [], [], [], 0
        deep = len(seen[0][2]) - 1 if seen else 0
        for token in tokens:
            if token != self.image_token:
                x.append(self.tensors["token_embd.weight"][token][None])
                positions.append([[at] * 3])
                added.append(np.zeros((deep, 1, self.width)))
                at += 1
                continue
            rows, columns, parts = seen.pop(0)
            x.append(parts[0])
            added.append(np.reshape(parts[1:], (deep, rows * columns, self.width)))
            row, column = np.mgrid[:rows, :columns].reshape(2, -1)
            positions.append(at + np.stack([0 * row, row, column], axis=1))
            at += max(rows, columns)
        assert not seen
        self.positions = np.concatenate(positions)
        self.ends = np.cumsum([len(rows) for rows in x]) - 1
        return np.concatenate(x), np.concatenate(added, axis=1)

    def hidden(self, tokens, images=()):
        x, added = self.place(tokens, images)
        for layer in range(self.layers):
            b = f"blk.{layer}."
            x = x + self.attend(self.norm(x, b + "attn_norm"), layer)
            x = x + self.feed_forward(self.norm(x, b + "ffn_norm"), layer)
            if layer < len(added):
                x = x + added[layer]
        return self.norm(x, "output_norm")

    def all_logits(self, tokens, images=()):
        """(rows, vocabulary): one row for each token of text, and for each result of an image."""
        return self.linear(self.hidden(tokens, images), "output")

    def logits(self, tokens, images=()):
        """(len(tokens), vocabulary): of an image those after its last result."""
        return self.all_logits(tokens, images)[self.ends]
