"""Models that see, in float64, whose towers keep an image's form and whose rows of images may have a
row and a column as position: GLM-4.1V.

Written from GLM-V Team 2025 and what Hugging Face's `transformers` computes. Tensor and key names are
those of llama.cpp's converter.
"""

import math

import numpy as np

from .layers import layer_norm, rms_norm, silu
from .towers import PlacedModel
from .vision import Tower, fit, gelu


def cubic_shares(places, n):
    """(n, places): what points between the ends of a row take of its places, by the cubic
    convolution of Keys 1981 with a = -0.75; the ends are repeated."""
    def kernel(x):
        x = abs(x)
        if x <= 1:
            return 1.25 * x ** 3 - 2.25 * x ** 2 + 1
        return -0.75 * (x ** 3 - 5 * x ** 2 + 8 * x - 4) if x < 2 else 0.0

    shares = np.zeros((n, places))
    for i in range(n):
        centre = (i + 0.5) * places / n - 0.5
        for place in range(math.floor(centre) - 1, math.floor(centre) + 3):
            shares[i, min(max(place, 0), places - 1)] += kernel(centre - place)
    return shares


class Glm4vTower(Tower):
    projector, usual_merged = "glm4v", 2

    @staticmethod
    def fit(width, height, unit, least, most):
        """A side shorter than a result is enlarged first."""
        if min(width, height) < unit:
            scale = max(unit / height, unit / width)
            width, height = int(width * scale), int(height * scale)
        return fit(width, height, unit, least, most)

    def rms(self, x, name):
        return rms_norm(x, self.tensors[name + ".weight"], self.eps)

    def places(self, rows, columns):
        table = self.tensors["v.position_embd.weight"]
        side = round(math.sqrt(len(table)))
        return np.einsum("ra,cb,abw->rcw", cubic_shares(side, rows), cubic_shares(side, columns),
                         table.reshape(side, side, -1))

    def results(self, rgb):
        """(rows, columns, width of text)."""
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        kernels = ["v.patch_embd.weight", "v.patch_embd.weight.1"]  # a still image: two equal ones
        x = sum(x @ self.tensors[name].reshape(len(self.tensors[name]), -1).T for name in kernels)
        x = self.rms(x + self.tensors["v.patch_embd.bias"], "v.norm_embd")
        x = x + self.places(rows, columns)
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            x = x + self.attend(self.rms(x, b + "ln1"), b)
            h = self.rms(x, b + "ln2")
            h = silu(self.linear(h, b + "ffn_gate")) * self.linear(h, b + "ffn_up")
            x = x + self.linear(h, b + "ffn_down")
        x = self.rms(x, "v.post_ln")
        rows, columns = rows // self.merged, columns // self.merged
        x = x.reshape(rows, self.merged, columns, self.merged, -1).transpose(0, 2, 4, 1, 3)
        x = self.linear(x.reshape(rows * columns, -1), "mm.patch_merger")
        x = layer_norm(self.linear(x, "mm.model.fc"), self.tensors["mm.post_norm.weight"], 1e-5)
        x = gelu(x + self.tensors["mm.post_norm.bias"])
        x = silu(self.linear(x, "mm.gate")) * self.linear(x, "mm.up")
        return self.linear(x, "mm.down").reshape(rows, columns, -1)


class AxesModel(PlacedModel):
    """Pairs of RoPE turn with the place in the text, the row or the column, so many of each one after
    the other. What follows an image goes on from its larger side."""

    def place(self, tokens, images):
        ids = super().place(tokens, images)
        grids = [self.tower.results(image).shape[:2] for image in images]
        mark, at, positions = self.words(self.image_token), 0, []
        for token in tokens:
            if token == mark and grids:
                rows, columns = grids.pop(0)
                row, column = np.mgrid[:rows, :columns].reshape(2, -1)
                positions.append(at + np.stack([0 * row, row, column], axis=1))
                at += max(rows, columns)
            else:
                positions.append([[at] * 3])
                at += 1
        self.positions = np.concatenate(positions)
        return ids

    def rope(self, heads, layer):
        frequencies, _ = self.rotation(layer)
        pairs = len(frequencies)
        axis = np.repeat([0, 1, 2], self.key("rope.dimension_sections")[:3])
        turn = np.exp(1j * self.positions[:, axis] * frequencies)[:, None, :]
        z = (heads[..., :pairs] + 1j * heads[..., pairs:2 * pairs]) * turn
        return np.concatenate([z.real, z.imag, heads[..., 2 * pairs:]], axis=-1)


class Glm4v(AxesModel):
    tower_class, image_token = Glm4vTower, "<|image|>"
