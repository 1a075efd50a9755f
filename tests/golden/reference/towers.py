"""More models that see, in float64: the towers of Gemma 3, of Pixtral and Mistral Small 3.1, and of
Gemma 4, and their text models with images.

Written from Gemma Team 2025 (Gemma 3), Zhai et al. 2023 (SigLIP), Agrawal et al. 2024 (Pixtral) and
what Hugging Face's `transformers` computes. Tensor and key names are those of llama.cpp's
converter. Shapes: patches (rows · columns, width), row by row; heads (patches, heads, head).
"""

import math

import numpy as np

from .layers import geglu, gelu_tanh, inverse_frequencies, rms_norm, silu, softmax
from .model import Model
from .vision import Tower, gelu


def mix(q, k, v, scale):
    """Every patch sees all others: (patches, width)."""
    q, k, v = (heads.transpose(1, 0, 2) for heads in (q, k, v))
    mixed = softmax(q @ k.transpose(0, 2, 1) * scale) @ v
    return mixed.transpose(1, 0, 2).reshape(q.shape[1], -1)


def means(x, rows, columns, side):
    """Of squares of patches."""
    return x.reshape(rows // side, side, columns // side, side, -1).mean((1, 3)).reshape(
        rows * columns // side ** 2, -1)


class Gemma3Tower(Tower):
    projector, merged_key, usual_merged = "gemma3", "projector.scale_factor", 4

    def results(self, rgb):
        """(lines, width of text): the grid's lines, each with its results."""
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        x = self.linear(x.reshape(rows * columns, -1), "v.patch_embd")
        x = x + self.tensors["v.position_embd.weight"]
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            h = self.norm(x, b + "ln1", self.eps)
            q, k, v = (self.linear(h, b + part).reshape(len(h), self.heads, -1)
                       for part in ("attn_q", "attn_k", "attn_v"))
            x = x + self.linear(mix(q, k, v, q.shape[-1] ** -0.5), b + "attn_out")
            h = gelu_tanh(self.linear(self.norm(x, b + "ln2", self.eps), b + "ffn_up"))
            x = x + self.linear(h, b + "ffn_down")
        x = means(self.norm(x, "v.post_ln", self.eps), rows, columns, self.merged)
        x = rms_norm(x, self.tensors["mm.soft_emb_norm.weight"], self.eps)
        x = x @ self.tensors["mm.input_projection.weight"]  # stored as (in, out)
        return x.reshape(rows // self.merged, columns // self.merged, -1)


class PixtralTower(Tower):
    projector, usual_merged = "pixtral", 1

    @staticmethod
    def fit(width, height, unit, edge):
        """The size that an image is scaled to: `edge` at most, then up to whole units."""
        ratio = max(width / edge, height / edge, 1)
        return [math.ceil(math.floor(side / ratio) / unit) * unit for side in (width, height)]

    def rms(self, x, name):
        return rms_norm(x, self.tensors[name + ".weight"], self.eps)

    def turned(self, heads, rows, columns):
        """Neighbours are a pair. The first half of the pairs turns with the row at the frequencies
        0, 2, …, the second with the column at 1, 3, …"""
        base = self.metadata.get("clip.rope.freq_base", 10000.0)
        frequencies = inverse_frequencies(heads.shape[-1], base)
        row, column = np.mgrid[:rows, :columns].reshape(2, -1, 1)
        angles = np.concatenate([row * frequencies[::2], column * frequencies[1::2]], axis=1)
        z = (heads[..., ::2] + 1j * heads[..., 1::2]) * np.exp(1j * angles)[:, None, :]
        return np.stack([z.real, z.imag], axis=-1).reshape(heads.shape)

    def results(self, rgb):
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        x = self.rms(self.linear(x.reshape(rows * columns, -1), "v.patch_embd"), "v.pre_ln")
        activation = silu if self.metadata.get("clip.use_silu") else gelu
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            h = self.rms(x, b + "ln1")
            q, k, v = (self.linear(h, b + part).reshape(len(h), self.heads, -1)
                       for part in ("attn_q", "attn_k", "attn_v"))
            q, k = self.turned(q, rows, columns), self.turned(k, rows, columns)
            x = x + self.linear(mix(q, k, v, q.shape[-1] ** -0.5), b + "attn_out")
            h = self.rms(x, b + "ln2")
            h = activation(self.linear(h, b + "ffn_gate")) * self.linear(h, b + "ffn_up")
            x = x + self.linear(h, b + "ffn_down")
        if "mm.input_norm.weight" in self.tensors:
            x = self.rms(x, "mm.input_norm")
        if self.merged > 1:  # each element of the square's patches, then the next element
            rows, columns, side = rows // self.merged, columns // self.merged, self.merged
            x = x.reshape(rows, side, columns, side, -1).transpose(0, 2, 4, 1, 3)
            x = self.linear(x.reshape(rows * columns, -1), "mm.patch_merger")
        x = self.linear(gelu(self.linear(x, "mm.1")), "mm.2")
        return x.reshape(rows, columns, -1)


class Gemma4Tower(Tower):
    projector, merged_key, usual_merged = "gemma4v", "projector.scale_factor", 3

    @staticmethod
    def fit(width, height, unit, most):
        """The size that an image is scaled to: about its form, and so many units at most."""
        factor = math.sqrt(most * unit * unit / (width * height))
        columns, rows = (math.floor(factor * side / unit) for side in (width, height))
        if rows == 0:
            rows, columns = 1, min(width // height, most)
        elif columns == 0:
            rows, columns = min(height // width, most), 1
        return columns * unit, rows * unit

    def rms(self, x, name):
        return rms_norm(x, self.tensors[name + ".weight"], self.eps)

    def patches(self, rgb):
        """Values from -1 to 1, whatever the file says."""
        self.metadata |= {"clip.vision.image_mean": [0.5] * 3, "clip.vision.image_std": [0.5] * 3}
        return super().patches(rgb)

    def product(self, x, name):
        def held(x, which):
            least, most = (self.tensors.get(f"{name}.{which}_{end}", sign * np.inf)
                           for end, sign in (("min", -1), ("max", 1)))
            return np.clip(x, least, most)
        return held(self.linear(held(x, "input"), name), "output")

    @staticmethod
    def turned(heads, rows, columns):
        """The first half of a head turns with the column, the second with the row."""
        row, column = np.mgrid[:rows, :columns].reshape(2, -1)

        def turned_by(half, places):
            pairs = half.shape[-1] // 2
            angles = places[:, None] * inverse_frequencies(2 * pairs, 100.0)
            z = (half[..., :pairs] + 1j * half[..., pairs:]) * np.exp(1j * angles)[:, None, :]
            return np.concatenate([z.real, z.imag], axis=-1)

        first, second = np.split(heads, 2, axis=-1)
        return np.concatenate([turned_by(first, column), turned_by(second, row)], axis=-1)

    def results(self, rgb):
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        row, column = np.mgrid[:rows, :columns].reshape(2, -1)
        table = self.tensors["v.position_embd.weight"]
        x = self.linear(x.reshape(rows * columns, -1), "v.patch_embd")
        x = x + table[0][column] + table[1][row]
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            h = self.rms(x, b + "ln1")
            q, k, v = (self.product(h, b + part).reshape(len(h), self.heads, -1)
                       for part in ("attn_q", "attn_k", "attn_v"))
            q = self.turned(self.rms(q, b + "attn_q_norm"), rows, columns)
            k = self.turned(self.rms(k, b + "attn_k_norm"), rows, columns)
            h = self.product(mix(q, k, rms_norm(v, 1.0, self.eps), 1.0), b + "attn_out")
            x = x + self.rms(h, b + "attn_post_norm")
            h = self.rms(x, b + "ln2")
            h = geglu(self.product(h, b + "ffn_gate"), self.product(h, b + "ffn_up"))
            x = x + self.rms(self.product(h, b + "ffn_down"), b + "ffn_post_norm")
        x = means(x, rows, columns, self.merged) * np.sqrt(x.shape[-1])
        x = (x - self.tensors.get("v.std_bias", 0.0)) * self.tensors.get("v.std_scale", 1.0)
        x = self.linear(rms_norm(x, 1.0, self.eps), "mm.input_projection")
        return x.reshape(rows // self.merged, columns // self.merged, -1)


class PlacedModel(Model):
    """A text model in which each row of an image has a place like that of a token. `images` of its
    functions: arrays (height, width, 3) of bytes."""
    tower_class, image_token, line_token = None, None, None
    keeps_token = False  # the image follows its token, else it takes the token's place

    def __init__(self, path, tower):
        super().__init__(path)
        self.tower = self.tower_class(tower)
        self.words = self.metadata["tokenizer.ggml.tokens"].index
        # Of the run: embeddings of its rows, and which are tokens or the last ones of images.
        self.placed, self.ends = None, None

    def embed(self, tokens):
        return self.placed

    def sees_ahead(self):
        """Whether rows of an image see each other."""
        return False

    def rows(self, image):
        """(rows, width): of an image in the prompt."""
        grid = self.tower.results(image)
        if not self.line_token:
            return grid.reshape(-1, self.width)
        between = self.tower.tensors.get("v.token_embd.img_break")
        if between is None:
            between = self.tensors["token_embd.weight"][self.words(self.line_token)]
        lines = [np.concatenate([line, between.reshape(1, -1)]) for line in grid]
        return np.concatenate(lines)[:-1]  # none behind the last line

    def place(self, tokens, images):
        """Tokens of all rows: 0 for those of images."""
        left, mark = list(images), self.words(self.image_token)
        placed, ids, of = [], [], []
        for token in tokens:
            shows = token == mark and len(images) > 0
            if not shows or self.keeps_token:
                placed.append(super().embed([token]))
                ids.append([token])
                of.append([-1])
            if shows:
                placed.append(self.rows(left.pop(0)))
                ids.append([0] * len(placed[-1]))
                of.append([len(left)] * len(placed[-1]))
        assert not left
        self.placed, of = np.concatenate(placed), np.concatenate(of)
        self.ends = np.cumsum([len(part) for part in ids]) - 1
        together = (of[:, None] == of[None, :]) & (of[:, None] >= 0)
        self.ahead = together if self.sees_ahead() else None
        return np.concatenate(ids)

    def all_logits(self, tokens, images=()):
        """(rows, vocabulary): one row for each token, and for each row of an image."""
        return super().logits(self.place(tokens, images))

    def logits(self, tokens, images=()):
        """Of an image those after its last row."""
        return self.all_logits(tokens, images)[self.ends]


class Gemma3(PlacedModel):
    tower_class, image_token, keeps_token = Gemma3Tower, "<start_of_image>", True

    def sees_ahead(self):
        return True


class Mistral3(PlacedModel):
    tower_class, image_token, line_token = PixtralTower, "[IMG]", "[IMG_BREAK]"


class Gemma4(PlacedModel):
    tower_class, image_token = Gemma4Tower, "<|image|>"

    def sees_ahead(self):
        """The larger models', which have no inputs of their own for each layer."""
        return not self.key("embedding_length_per_layer_input", 0)
