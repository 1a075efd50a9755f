"""Models that see, in float64: the towers of GLM-OCR, PaddleOCR-VL, EXAONE 4.5 and
MiniCPM-V 4.6, and their text models with images.

Written from GLM-V Team 2025, Cui et al. 2025, Bai et al. 2025 and what Hugging Face's `transformers`
computes. Tensor and key names are those of llama.cpp's converter.
"""

import math

import numpy as np

from .layers import gelu_tanh, rms_norm, silu, softmax
from .resize import resize
from .tiled_towers import TiledModel, TiledTower
from .towers import PlacedModel, mix
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


class MiniCpmVTower(TiledTower):
    """Four patches, two by two, become one behind a layer of the encoder, and four of these a result;
    with a scale of 2 the first is left out."""
    projector, usual_merged = "minicpmv4_6", 4

    def cut(self, width, height):
        """(width, height) of the picture of it all, (columns, rows) of slices or nothing, and their
        (width, height)."""
        side = self.key("image_size")
        whole = lambda length, unit: max(round(length / unit) * unit, unit)

        def scaled(width, height, enlarged):
            if width * height > side * side or enlarged:
                form = width / height
                height = int(side / math.sqrt(form))
                width = int(height * form)
            return whole(width, self.unit), whole(height, self.unit)

        most = self.key("preproc_max_tiles", 9)
        about = min(math.ceil(width * height / (side * side)), most)
        if about <= 1:
            return scaled(width, height, True), None, None
        grids = [(count // rows, rows) for count in (about - 1, about, about + 1)
                 if 1 < count <= most for rows in range(1, count + 1) if count % rows == 0]
        off = lambda grid: abs(math.log(width / height) - math.log(grid[0] / grid[1]))
        least = min(map(off, grids))
        columns, rows = max((grid for grid in grids if off(grid) == least), key=lambda grid: grid[1])
        one = scaled(whole(width, columns) / columns, whole(height, rows) / rows, True)
        return scaled(width, height, False), (columns, rows), one

    def pictures(self, rgb):
        (width, height), grid, one = self.cut(*rgb.shape[1::-1])
        pictures, texts = [resize(rgb, width, height, "bicubic")], [["<image>"]]
        end = "</image>"
        if grid:
            columns, rows = grid
            large = resize(rgb, columns * one[0], rows * one[1], "bicubic")
            for i in range(rows * columns):
                texts.append([end] + ["Ċ"] * (i > 0 and i % columns == 0) + ["<slice>"])
                end = "</slice>"
                x, y = i % columns * one[0], i // columns * one[1]
                pictures.append(large[y:y + one[1], x:x + one[0]])
        return pictures, texts + [[end]]

    def block(self, x, b):
        h = self.norm(x, b + "ln1", self.eps)
        q, k, v = (self.linear(h, b + part).reshape(len(h), self.heads, -1)
                   for part in ("attn_q", "attn_k", "attn_v"))
        return x + self.linear(mix(q, k, v, q.shape[-1] ** -0.5), b + "attn_out")

    def squares(self, x):
        """(squares, 4, width) of (rows, columns, width)."""
        rows, columns, width = x.shape
        x = x.reshape(rows // 2, 2, columns // 2, 2, width).swapaxes(1, 2)
        return x.reshape(rows * columns // 4, 4, width)

    def results(self, rgb):
        x = self.linear(self.patches(rgb), "v.patch_embd")
        rows, columns, width = x.shape
        table = self.tensors["v.position_embd.weight"]
        side = round(math.sqrt(len(table)))
        down, across = (np.arange(n) * side // n for n in (rows, columns))
        x = (x + table[down[:, None] * side + across[None, :]]).reshape(rows * columns, width)
        merger = self.key("wa_layer_indexes", [-1])[0] if self.merged == 4 else -1
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            x = self.block(x, b)
            h = gelu_tanh(self.linear(self.norm(x, b + "ln2", self.eps), b + "ffn_up"))
            x = x + self.linear(h, b + "ffn_down")
            if layer == merger:
                b = "v.vit_merger."
                x = np.stack([self.block(square, b)
                              for square in self.squares(x.reshape(rows, columns, width))])
                h = self.norm(x.reshape(len(x), -1), b + "ds_ln", self.eps)
                h = self.linear(gelu_tanh(self.linear(h, b + "ds_ffn_up")), b + "ds_ffn_down")
                x, rows, columns = x.mean(1) + h, rows // 2, columns // 2
        x = self.squares(self.norm(x, "v.post_ln", self.eps).reshape(rows, columns, width))
        x = self.norm(x.reshape(len(x), -1), "mm.input_norm", 1e-6)
        x = self.linear(gelu(self.linear(x, "mm.up")), "mm.down")
        return x.reshape(rows // 2, columns // 2, -1)


class MiniCpmV(TiledModel):
    tower_class, image_token = MiniCpmVTower, "<|image_pad|>"


class DotsOcrTower(GroupedTower):
    projector, merged_key = "dots_ocr", "projector.scale_factor"

    def results(self, rgb):
        norm = lambda x, name: rms_norm(x, self.tensors[name + ".weight"], self.eps)
        x = norm(self.linear(self.patches(rgb), "v.patch_embd"), "v.pre_ln")
        rows, columns = x.shape[:2]
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            x = x + self.attend(norm(x, b + "ln1"), b)
            h = norm(x, b + "ln2")
            h = silu(self.linear(h, b + "ffn_gate")) * self.linear(h, b + "ffn_up")
            x = x + self.linear(h, b + "ffn_down")
        x = self.merge(self.norm(norm(x, "mm.post_norm"), "mm.input_norm", 1e-6))
        x = self.linear(gelu(self.linear(x, "mm.0")), "mm.2")
        return x.reshape(rows // self.merged, columns // self.merged, -1)


class DotsOcr(PlacedModel):
    tower_class, image_token = DotsOcrTower, "<|imgpad|>"
