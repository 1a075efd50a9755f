"""Models that see, in float64: the towers of GLM-OCR, PaddleOCR-VL and EXAONE 4.5, and their text
models with images.

Written from GLM-V Team 2025, Cui et al. 2025, Bai et al. 2025 and what Hugging Face's `transformers`
computes. Tensor and key names are those of llama.cpp's converter.
"""

import math

import numpy as np

from .layers import gelu_tanh, rms_norm, silu, softmax
from .towers import PlacedModel
from .vision import Tower, fit, gelu
from .whole_towers import AxesModel, Glm4vTower, Glm5vTower


class GlmOcrTower(Glm4vTower):
    """No learned places, and heads of queries and keys have a norm."""
    attend = Glm5vTower.attend

    def embedded(self, x):
        return x


class GlmOcr(AxesModel):
    tower_class, image_token = GlmOcrTower, "<|image|>"


def linear_shares(places, n):
    """(n, places): what points between the ends of a row take of the places on both sides of them,
    by their distance from the middles of these; the ends are repeated."""
    shares = np.zeros((n, places))
    for i in range(n):
        centre = min(max((i + 0.5) * places / n - 0.5, 0), places - 1)
        left = min(math.floor(centre), places - 1)
        shares[i, left] += 1 - (centre - left)
        shares[i, min(left + 1, places - 1)] += centre - left
    return shares


class GroupedTower(Tower):
    """Heads of keys and values may be fewer than those of queries."""

    def heads_of(self, x, name):
        """Queries, keys and values: (heads, patches, head)."""
        if name + "attn_qkv.weight" in self.tensors:
            head = x.shape[-1] // self.heads
            every = self.linear(x, name + "attn_qkv").reshape(len(x), -1, head)
            kept = (every.shape[1] - self.heads) // 2
            parts = np.split(every, [self.heads, self.heads + kept], axis=1)
        else:
            parts = [self.linear(x, name + part).reshape(len(x), self.heads, -1)
                     for part in ("attn_q", "attn_k", "attn_v")]
        return [np.repeat(part, self.heads // part.shape[1], axis=1).transpose(1, 0, 2)
                for part in parts]

    def attend(self, x, name, windows=None):
        """windows: (patches), which one each of them sees; None: they see all."""
        rows, columns, width = x.shape
        q, k, v = self.heads_of(x.reshape(rows * columns, -1), name)
        half = q.shape[-1] // 2
        turns = self.turns(rows, columns, 2 * half)

        def turned(heads):
            z = (heads[..., :half] + 1j * heads[..., half:]) * turns
            return np.concatenate([z.real, z.imag], axis=-1)

        scores = turned(q) @ turned(k).transpose(0, 2, 1) / math.sqrt(2 * half)
        if windows is not None:
            scores = np.where(windows[:, None] == windows[None, :], scores, -np.inf)
        mixed = (softmax(scores) @ v).transpose(1, 0, 2).reshape(rows, columns, width)
        return self.linear(mixed, name + "attn_out")


class PaddleOcrTower(GroupedTower):
    projector, usual_merged = "paddleocr", 2

    @staticmethod
    def fit(width, height, unit, least, most):
        """A side shorter than a result is enlarged first."""
        if height < unit:
            width, height = round(width * unit / height), unit
        if width < unit:
            width, height = unit, round(height * unit / width)
        return fit(width, height, unit, least, most)

    def places(self, rows, columns):
        table = self.tensors["v.position_embd.weight"]
        side = round(math.sqrt(len(table)))
        return np.einsum("ra,cb,abw->rcw", linear_shares(side, rows), linear_shares(side, columns),
                         table.reshape(side, side, -1))

    def results(self, rgb):
        x = self.linear(self.patches(rgb), "v.patch_embd")
        rows, columns = x.shape[:2]
        x = x + self.places(rows, columns)
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            x = x + self.attend(self.norm(x, b + "ln1", self.eps), b)
            h = gelu_tanh(self.linear(self.norm(x, b + "ln2", self.eps), b + "ffn_up"))
            x = x + self.linear(h, b + "ffn_down")
        x = self.merge(self.norm(self.norm(x, "v.post_ln", self.eps), "mm.input_norm", 1e-5))
        x = self.linear(gelu(self.linear(x, "mm.1")), "mm.2")
        return x.reshape(rows // self.merged, columns // self.merged, -1)


class PaddleOcr(AxesModel):
    tower_class, image_token = PaddleOcrTower, "<|IMAGE_PLACEHOLDER|>"


class Exaone45Tower(GroupedTower):
    """As Qwen2.5-VL's, with fewer heads of keys and values."""
    projector, usual_merged = "exaone4_5", 2

    def windows(self, rows, columns, layer):
        period = self.key("n_wa_pattern", 0)
        if not period or (layer + 1) % period == 0:
            return None
        across = self.key("window_size") // self.patch
        row, column = np.mgrid[:rows, :columns].reshape(2, -1)
        return row // across * columns + column // across

    def results(self, rgb):
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        kernels = ["v.patch_embd.weight", "v.patch_embd.weight.1"]  # a still image: two equal ones
        x = sum(x @ self.tensors[name].reshape(len(self.tensors[name]), -1).T for name in kernels)
        norm = lambda x, name: rms_norm(x, self.tensors[name + ".weight"], self.eps)
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            x = x + self.attend(norm(x, b + "ln1"), b, self.windows(rows, columns, layer))
            h = norm(x, b + "ln2")
            h = silu(self.linear(h, b + "ffn_gate")) * self.linear(h, b + "ffn_up")
            x = x + self.linear(h, b + "ffn_down")
        x = gelu(self.linear(self.merge(norm(x, "v.post_ln")), "mm.0"))
        return self.linear(x, "mm.2").reshape(rows // self.merged, columns // self.merged, -1)


class Exaone45(PlacedModel):
    tower_class, image_token = Exaone45Tower, "<|image_pad|>"
