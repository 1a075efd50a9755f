"""More models that see, in float64: the towers of GLM-4.1V and GLM-5.3-Flash, of Kimi-VL and Kimi K2.5, and of Llama 4,
and their text models with images.

Written from GLM-V Team 2025, Kimi Team 2025, Meta AI's model card of Llama 4 and what Hugging Face's `transformers` computes. Tensor and key names are
those of llama.cpp's converter.
"""

import math

import numpy as np

from .layers import gelu_tanh, inverse_frequencies, layer_norm, rms_norm, silu
from .resize import resize
from .tiled_towers import TiledModel, tiles_of
from .towers import PlacedModel, mix
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

    def embedded(self, x):
        return self.rms(x, "v.norm_embd") + self.places(*x.shape[:2])

    def limited(self, x, gate, up):
        return silu(self.linear(x, gate)) * self.linear(x, up)

    def results(self, rgb):
        """(rows, columns, width of text)."""
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        kernels = ["v.patch_embd.weight", "v.patch_embd.weight.1"]  # a still image: two equal ones
        x = sum(x @ self.tensors[name].reshape(len(self.tensors[name]), -1).T for name in kernels)
        x = self.embedded(x + self.tensors["v.patch_embd.bias"])
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            x = x + self.attend(self.rms(x, b + "ln1"), b)
            h = self.limited(self.rms(x, b + "ln2"), b + "ffn_gate", b + "ffn_up")
            x = x + self.linear(h, b + "ffn_down")
        x = self.rms(x, "v.post_ln")
        rows, columns = rows // self.merged, columns // self.merged
        x = x.reshape(rows, self.merged, columns, self.merged, -1).transpose(0, 2, 4, 1, 3)
        x = self.linear(x.reshape(rows * columns, -1), "mm.patch_merger")
        x = layer_norm(self.linear(x, "mm.model.fc"), self.tensors["mm.post_norm.weight"], 1e-5)
        x = gelu(x + self.tensors["mm.post_norm.bias"])
        x = self.limited(x, "mm.gate", "mm.up")
        return self.linear(x, "mm.down").reshape(rows, columns, -1)


class Glm5vTower(Glm4vTower):
    projector = "glm5v"

    def limited(self, x, gate, up):
        limit = self.key("swiglu_clamp")
        gate = np.minimum(self.linear(x, gate), limit)
        return silu(gate) * np.clip(self.linear(x, up), -limit, limit)

    def attend(self, x, name):
        rows, columns, width = x.shape
        qkv = self.linear(x.reshape(rows * columns, -1), name + "attn_qkv")
        q, k, v = qkv.reshape(rows * columns, 3, self.heads, -1).transpose(1, 0, 2, 3)
        half = q.shape[-1] // 2
        turns = self.turns(rows, columns, 2 * half)[:, None, :]

        def turned(heads, part):
            heads = rms_norm(heads, self.tensors[f"{name}attn_{part}_norm.weight"], self.eps)
            z = (heads[..., :half] + 1j * heads[..., half:]) * turns
            return np.concatenate([z.real, z.imag], axis=-1)

        mixed = mix(turned(q, "q"), turned(k, "k"), v, (2 * half) ** -0.5)
        return self.linear(mixed, name + "attn_out").reshape(rows, columns, width)

    def embedded(self, x):
        return x

    def filled(self, rgb):
        """With black, up to whole results."""
        up = [-side % self.unit for side in rgb.shape[:2]]
        return np.pad(rgb, ((0, up[0]), (0, up[1]), (0, 0)))

    def results(self, rgb):
        return super().results(self.filled(rgb))


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


class Glm5Next(PlacedModel):
    tower_class, image_token = Glm5vTower, "<|image|>"


class KimiTower(Tower):
    projector, merged_key = "kimik25", "projector.scale_factor"

    def places(self, rows, columns):
        table = self.tensors["v.position_embd.weight"]
        if table.ndim == 2:
            side = round(math.sqrt(len(table)))
            table = table.reshape(side, side, -1)
        return np.einsum("ra,cb,abw->rcw", cubic_shares(table.shape[0], rows),
                         cubic_shares(table.shape[1], columns), table)

    def turned(self, heads, rows, columns):
        """Neighbours are a pair. The first half of the pairs turns with the column, the second with
        the row, at the same frequencies."""
        row, column = np.mgrid[:rows, :columns].reshape(2, -1, 1)
        frequencies = inverse_frequencies(heads.shape[-1] // 2, 10000.0)
        angles = np.concatenate([column * frequencies, row * frequencies], axis=1)
        z = (heads[..., ::2] + 1j * heads[..., 1::2]) * np.exp(1j * angles)[:, None, :]
        return np.stack([z.real, z.imag], axis=-1).reshape(heads.shape)

    def qkv(self, x, b):
        return np.split(self.linear(x, b + "attn_qkv"), 3, axis=1)

    def filled(self, rgb):
        """With black, up to whole results."""
        up = [-side % self.unit for side in rgb.shape[:2]]
        return np.pad(rgb, ((0, up[0]), (0, up[1]), (0, 0)))

    def fit(self, width, height, most):
        """The size that an image is scaled to, before it is filled up."""
        patches = [max(1, side // self.patch) for side in (width, height)]
        scale = min(1, math.sqrt(most / (patches[0] * patches[1])), *(
            512 * self.patch / side for side in (width, height)))
        return [max(1, int(side * scale)) for side in (width, height)]

    def results(self, rgb):
        x = self.patches(self.filled(rgb))
        rows, columns = x.shape[:2]
        x = self.linear(x.reshape(rows * columns, -1), "v.patch_embd")
        x = x + self.places(rows, columns).reshape(rows * columns, -1)
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            q, k, v = (part.reshape(len(x), self.heads, -1)
                       for part in self.qkv(self.norm(x, b + "ln1", self.eps), b))
            q, k = self.turned(q, rows, columns), self.turned(k, rows, columns)
            x = x + self.linear(mix(q, k, v, q.shape[-1] ** -0.5), b + "attn_out")
            h = gelu_tanh(self.linear(self.norm(x, b + "ln2", self.eps), b + "ffn_up"))
            x = x + self.linear(h, b + "ffn_down")
        x = self.norm(self.norm(x, "v.post_ln", self.eps), "mm.input_norm", 1e-5)
        x = gelu(self.linear(self.merge(x.reshape(rows, columns, -1)), "mm.1"))
        return self.linear(x, "mm.2").reshape(rows // self.merged, columns // self.merged, -1)


class KimiVlTower(KimiTower):
    projector = "kimivl"

    def turned(self, heads, rows, columns):
        """Pairs turn with the column and the row by turns."""
        count, number, head = heads.shape
        halves = heads.reshape(count, number, head // 4, 2, 2).swapaxes(2, 3)
        turned = super().turned(halves.reshape(heads.shape), rows, columns)
        return turned.reshape(count, number, 2, head // 4, 2).swapaxes(2, 3).reshape(heads.shape)

    def qkv(self, x, b):
        return [self.linear(x, b + part) for part in ("attn_q", "attn_k", "attn_v")]


class KimiK25(PlacedModel):
    tower_class, image_token = KimiTower, "<|media_pad|>"


class KimiVl(PlacedModel):
    tower_class, image_token = KimiVlTower, "<|media_pad|>"


def bfloat16(x):
    """The nearest numbers of 8 bits; of two equally near ones the even one."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(np.float32).astype(np.float64)


class Llama4Tower(KimiTower):
    projector = "llama4"

    def grids(self, most):
        """(rows, columns): by form, in the order in which these come with ever less tiles."""
        forms = {}
        for tiles in range(most, 0, -1):
            for rows in range(1, tiles + 1):
                if tiles % rows == 0:
                    forms.setdefault(rows / (tiles // rows), []).append((rows, tiles // rows))
        return [grid for form in forms.values() for grid in form]

    def grid(self, width, height, most=None):
        side, grids = self.key("image_size"), self.grids(most or self.key("preproc_max_tiles"))
        scales = [min(np.float32(rows * side) / np.float32(height),
                      np.float32(columns * side) / np.float32(width)) for rows, columns in grids]
        larger = [scale for scale in scales if scale >= 1]
        best = min(larger) if larger else max(scales)
        return min((grid for grid, scale in zip(grids, scales) if scale == best),
                   key=lambda grid: grid[0] * grid[1])

    def fitted(self, width, height, canvas):
        """(width, height) of an image in a canvas: what is enlarged grows to one tile's side."""
        side = self.key("image_size")
        limits = [min(max(length, side), most) for length, most in zip((width, height), canvas)]
        across, down = limits[0] / width, limits[1] / height
        if across < down:
            return limits[0], max(1, min(math.floor(height * across), limits[1]))
        return max(1, min(math.floor(width * down), limits[0])), limits[1]

    def pictures(self, rgb):
        side = self.key("image_size")
        height, width = rgb.shape[:2]
        rows, columns = self.grid(width, height)
        inner = self.fitted(width, height, (columns * side, rows * side))
        canvas = np.zeros((rows * side, columns * side, 3), np.uint8)
        canvas[:inner[1], :inner[0]] = resize(rgb, *inner, "bilinear")
        tiles = tiles_of(canvas, side)
        if len(tiles) == 1:
            return tiles, [["<|image_start|>", "<|image|>"], ["<|image_end|>"]]
        texts = [["<|image_start|>"]] + [
            ["<|tile_y_separator|>" if i % columns == 0 else "<|tile_x_separator|>"]
            for i in range(1, len(tiles))]
        return tiles + [resize(rgb, side, side, "bilinear")], texts + [
            ["<|tile_y_separator|>", "<|image|>"], ["<|image_end|>"]]

    def patches(self, rgb):
        """Of values as bfloat16 has them."""
        mean, deviation = self.key("image_mean"), self.key("image_std")
        share = bfloat16(np.asarray(rgb, np.float32) * np.float32(1 / 255))
        x = bfloat16(bfloat16(share - bfloat16(mean)) / bfloat16(deviation))
        rows, columns = (side // self.patch for side in x.shape[:2])
        x = x.reshape(rows, self.patch, columns, self.patch, 3)
        return x.transpose(0, 2, 4, 1, 3).reshape(rows, columns, -1)

    def turned(self, heads, rows, columns):
        """The class token, the last one, is not turned; places begin at 1."""
        whole = np.zeros((rows + 1, columns + 1, *heads.shape[1:]))
        whole[1:, 1:] = heads[:-1].reshape(rows, columns, *heads.shape[1:])
        turned = super().turned(whole.reshape(-1, *heads.shape[1:]), rows + 1, columns + 1)
        turned = turned.reshape(whole.shape)[1:, 1:].reshape(-1, *heads.shape[1:])
        return np.concatenate([turned, heads[-1:]])

    def qkv(self, x, b):
        return [self.linear(x, b + part) for part in ("attn_q", "attn_k", "attn_v")]

    def results(self, rgb):
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        x = self.linear(x.reshape(rows * columns, -1), "v.patch_embd")
        x = np.concatenate([x, self.tensors["v.class_embd"].reshape(1, -1)])
        x = self.norm(x + self.tensors["v.position_embd.weight"], "v.pre_ln", self.eps)
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            q, k, v = (part.reshape(len(x), self.heads, -1)
                       for part in self.qkv(self.norm(x, b + "ln1", self.eps), b))
            q, k = self.turned(q, rows, columns), self.turned(k, rows, columns)
            x = x + self.linear(mix(q, k, v, q.shape[-1] ** -0.5), b + "attn_out")
            h = gelu(self.linear(self.norm(x, b + "ln2", self.eps), b + "ffn_up"))
            x = x + self.linear(h, b + "ffn_down")
        x = self.merge(self.norm(x, "v.post_ln", self.eps)[:-1].reshape(rows, columns, -1))
        x = gelu(self.linear(gelu(self.linear(x, "mm.model.mlp.1")), "mm.model.mlp.2"))
        return self.linear(x, "mm.model.fc")


class Llama4(TiledModel):
    tower_class, image_token = Llama4Tower, "<|image|>"
