"""Models that cut images into tiles, in float64: the tower of Idefics3 and SmolVLM, and its text model
with images.

Written from Laurençon et al. 2024 (Idefics3), Zhai et al. 2023 (SigLIP) and what Hugging Face's
`transformers` computes. Tensor and key names are those of llama.cpp's converter.
"""

import math

import numpy as np

from .layers import gelu_tanh
from .model import Model
from .resize import resize
from .towers import PlacedModel, mix
from .vision import Tower


def tiles_of(rgb, side):
    """Squares of a picture, row by row."""
    rows, columns = (length // side for length in rgb.shape[:2])
    cut = np.asarray(rgb).reshape(rows, side, columns, side, 3).transpose(0, 2, 1, 3, 4)
    return list(cut.reshape(rows * columns, side, side, 3))


class TiledTower(Tower):
    """An encoder over the pictures that an image is cut into. (rows, columns, width) of squares."""
    merged_key, usual_merged = "projector.scale_factor", 2

    def encoded(self, rgb, places, first=None):
        """(rows, columns, width) of a picture's patches. `first`: a row before them."""
        x = self.patches(rgb)
        rows, columns = x.shape[:2]
        x = self.linear(x.reshape(rows * columns, -1), "v.patch_embd") + places
        if first is not None:
            x = np.concatenate([first.reshape(1, -1), x])
        for layer in range(self.layers):
            b = f"v.blk.{layer}."
            scales = [self.tensors.get(f"{b}ls{i}.weight", 1.0) for i in (1, 2)]
            h = self.norm(x, b + "ln1", self.eps)
            q, k, v = (self.linear(h, b + part) for part in ("attn_q", "attn_k", "attn_v"))
            q, k, v = (part.reshape(len(h), self.heads, -1) for part in (q, k, v))
            x = x + scales[0] * self.linear(mix(q, k, v, q.shape[-1] ** -0.5), b + "attn_out")
            h = self.act(self.linear(self.norm(x, b + "ln2", self.eps), b + "ffn_up"))
            x = x + scales[1] * self.linear(h, b + "ffn_down")
        return x[-rows * columns:].reshape(rows, columns, -1)

    act = staticmethod(gelu_tanh)


class Idefics3Tower(TiledTower):
    projector = "idefics3"

    def sizes(self, width, height, edge):
        """(width, height) as an image is scaled to first, and (columns, rows) of tiles."""
        side, wide = self.key("image_size"), width >= height
        form = width / height
        shorter = int(edge / form) if wide else int(edge * form)
        shorter = max(1, shorter + shorter % 2)
        first = (edge, shorter) if wide else (shorter, edge)
        columns, rows = (max(1, math.ceil(length / side)) for length in first)
        return first, (columns, rows)

    def pictures(self, rgb):
        """Of an image, with the texts before each and after all."""
        side, edge = self.key("image_size"), self.key("preproc_image_size")
        first, (columns, rows) = self.sizes(rgb.shape[1], rgb.shape[0], edge)
        rgb = resize(resize(rgb, *first, "lanczos"), columns * side, rows * side, "lanczos")
        fake = "<fake_token_around_image>"
        if columns * rows == 1:
            return [rgb], [[fake, "<global-img>"], [fake]]
        texts = [["Ċ"] * (column == 0 < row) + [fake, f"<row_{row + 1}_col_{column + 1}>"]
                 for row in range(rows) for column in range(columns)]
        return tiles_of(rgb, side) + [resize(rgb, side, side, "lanczos")], texts + [
            ["Ċ", "Ċ", fake, "<global-img>"], [fake]]

    def results(self, rgb):
        x = self.norm(self.encoded(rgb, self.tensors["v.position_embd.weight"]), "v.post_ln",
                      self.eps)
        return self.linear(self.merge(x), "mm.model.fc")


class TiledModel(PlacedModel):
    """Its tower says which pictures an image is cut into, and which tokens stand around them."""
    image_token = "<image>"

    def rows(self, image):
        pictures, texts = self.tower.pictures(image)
        rows = []
        for i, text in enumerate(texts):
            rows += [Model.embed(self, [self.words(word)]) for word in text]
            if i < len(pictures):
                rows.append(self.tower.results(pictures[i]).reshape(-1, self.width))
        return np.concatenate(rows)


class Idefics3(TiledModel):
    tower_class = Idefics3Tower
