"""Models that cut images into tiles, in float64: the towers of Idefics3 and SmolVLM, of
LFM2-VL, of InternVL, of LLaVA 1.6 and, uncut, of LLaVA 1.5, and their text models with images.

Written from Laurençon et al. 2024 (Idefics3), Zhai et al. 2023 and Tschannen et al. 2025 (SigLIP), Chen
et al. 2024 (InternVL) and what Hugging Face's `transformers` computes. Tensor and key names are those of llama.cpp's converter.
"""

import math

import numpy as np

from .layers import gelu_tanh
from .model import Model
from .resize import resize
from .towers import PlacedModel, mix
from .vision import Tower, gelu


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
        if "v.pre_ln.weight" in self.tensors:
            x = self.norm(x, "v.pre_ln", self.eps)
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


def closest_grid(width, height, least, most, side):
    """(columns, rows) of tiles: the closest form; of equal ones the largest that is not twice the
    image."""
    form, best, least_difference = width / height, (1, 1), math.inf
    for tiles in range(least, most + 1):
        for columns in range(1, tiles + 1):
            if tiles % columns:
                continue
            difference = abs(form - columns / (tiles // columns))
            fills = width * height > 0.5 * side * side * tiles
            if difference < least_difference or difference == least_difference and fills:
                best, least_difference = (columns, tiles // columns), difference
    return best


class Lfm2Tower(TiledTower):
    projector = "lfm2"

    def fit(self, width, height):
        """The size of a picture of a whole image."""
        unit = self.unit
        least, most = (self.key(f"image_{end}_pixels") for end in ("min", "max"))
        sides = [max(unit, round(length / unit) * unit) for length in (width, height)]
        if sides[0] * sides[1] > most:
            by = math.sqrt(width * height / most)
            sides = [max(unit, math.floor(length / by / unit) * unit)
                     for length in (width, height)]
        elif sides[0] * sides[1] < least:
            by = math.sqrt(least / (width * height))
            sides = [math.ceil(length * by / unit) * unit for length in (width, height)]
        return sides

    def grid(self, width, height):
        """(columns, rows) of tiles; 1 and 1: an image is not cut."""
        sides = [max(self.patch, round(length / self.unit) * self.unit)
                 for length in (width, height)]
        if sides[0] * sides[1] <= 2 * self.key("image_max_pixels"):
            return 1, 1
        return closest_grid(width, height, self.key("preproc_min_tiles"),
                            self.key("preproc_max_tiles"), self.key("preproc_image_size"))

    def pictures(self, rgb):
        height, width = rgb.shape[:2]
        columns, rows = self.grid(width, height)
        whole = resize(rgb, *self.fit(width, height), "bilinear")
        if columns * rows == 1:
            return [whole], [["<|image_start|>"], ["<|image_end|>"]]
        side = self.key("preproc_image_size")
        texts = [[f"<|img_row_{row + 1}_col_{column + 1}|>"]
                 for row in range(rows) for column in range(columns)]
        texts[0].insert(0, "<|image_start|>")
        tiles = tiles_of(resize(rgb, columns * side, rows * side, "bilinear"), side)
        return tiles + [whole], texts + [["<|img_thumbnail|>"], ["<|image_end|>"]]

    def places(self, rows, columns):
        """Learned positions resampled by a triangle, which is widened when there are fewer."""
        table = self.tensors["v.position_embd.weight"]
        side = round(math.sqrt(len(table)))

        def shares(n):
            centers = (np.arange(n) + 0.5) * side / n - 0.5
            distances = np.abs(np.arange(side)[None] - centers[:, None]) / max(1, side / n)
            share = np.maximum(0, 1 - distances)
            return share / share.sum(axis=1, keepdims=True)

        return np.einsum("ra,cb,abw->rcw", shares(rows), shares(columns),
                         table.reshape(side, side, -1)).reshape(rows * columns, -1)

    def results(self, rgb):
        rows, columns = (length // self.patch for length in rgb.shape[:2])
        x = self.norm(self.encoded(rgb, self.places(rows, columns)), "v.post_ln", self.eps)
        x = self.merge(x)
        if "mm.input_norm.weight" in self.tensors:
            x = self.norm(x, "mm.input_norm", 1e-5)
        return self.linear(gelu(self.linear(x, "mm.1")), "mm.2")


class InternVlTower(TiledTower):
    projector, act = "internvl", staticmethod(gelu)

    def grid(self, width, height, most=None):
        return closest_grid(width, height, self.key("preproc_min_tiles"),
                            most or self.key("preproc_max_tiles"), self.key("image_size"))

    def pictures(self, rgb):
        side = self.key("image_size")
        columns, rows = self.grid(rgb.shape[1], rgb.shape[0])
        tiles = tiles_of(resize(rgb, columns * side, rows * side, "bicubic"), side)
        if len(tiles) > 1:
            tiles.append(resize(rgb, side, side, "bicubic"))
        return tiles, [["<img>"]] + [[]] * (len(tiles) - 1) + [["</img>"]]

    def results(self, rgb):
        places = self.tensors["v.position_embd.weight"]
        x = self.encoded(rgb, places[1:], places[0] + self.tensors["v.class_embd"])
        x = self.norm(self.merge(x), "mm.model.mlp.0", 1e-5)
        return self.linear(gelu(self.linear(x, "mm.model.mlp.1")), "mm.model.mlp.3")


class LlavaTower(TiledTower):
    projector, usual_merged = "mlp", 1

    @staticmethod
    def act(x):
        return x / (1 + np.exp(-1.702 * x))

    def pictures(self, rgb):
        """The middle of an image."""
        side, shorter = self.key("image_size"), min(rgb.shape[:2])
        rows, columns = (int(side * length / shorter) for length in rgb.shape[:2])
        top, left = (rows - side) // 2, (columns - side) // 2
        whole = resize(rgb, columns, rows, "bicubic")
        return [whole[top:top + side, left:left + side]], [[], []]

    def results(self, rgb):
        places = self.tensors["v.position_embd.weight"]
        x = self.encoded(rgb, places[1:], places[0] + self.tensors["v.class_embd"])
        return self.linear(gelu(self.linear(x, "mm.0")), "mm.2")


class LlavaNextTower(LlavaTower):
    """A picture of all, and the tiles of a grid that the image is fitted into."""

    def grids(self):
        """(width, height) in pixels."""
        sides = self.key("image_grid_pinpoints")
        return list(zip(sides[::2], sides[1::2]))

    def grid(self, width, height, grids=None):
        """Where most of the image's pixels are kept; of equals, where least is left empty."""
        def worth(grid):
            scale = min(grid[0] / width, grid[1] / height)
            kept = min(int(width * scale) * int(height * scale), width * height)
            return kept, kept - grid[0] * grid[1]
        best = max(grids or self.grids(), key=worth)  # the first of equals
        return best if worth(best)[0] else None

    def whole(self, rgb):
        return resize(rgb, self.key("image_size"), self.key("image_size"), "bicubic")

    def rows(self, rgb, grids=None):
        """(rows, width), or of no grid, if grids is empty."""
        side, across = self.key("image_size"), self.key("image_size") // self.patch
        newline = self.tensors["model.image_newline"].reshape(1, -1)
        first = self.results(self.whole(rgb)).reshape(across * across, -1)
        height, width = rgb.shape[:2]
        best = None if grids == [] else self.grid(width, height, grids)
        if best is None:
            return np.concatenate([first, newline])
        scale = [best[i] / n for i, n in enumerate((width, height))]
        if scale[0] < scale[1]:
            size = best[0], min(best[1], math.ceil(height * scale[0]))
        else:
            size = min(best[0], math.ceil(width * scale[1])), best[1]
        canvas = np.zeros((best[1], best[0], 3), np.uint8)
        left, top = ((best[i] - size[i]) // 2 for i in (0, 1))
        canvas[top:top + size[1], left:left + size[0]] = resize(rgb, *size, "bicubic")
        tiles = [self.results(tile) for tile in tiles_of(canvas, side)]
        columns, lines = best[0] // side, best[1] // side
        cells = np.concatenate([np.concatenate(tiles[line * columns:(line + 1) * columns], 1)
                                for line in range(lines)])
        high, wide = cells.shape[:2]
        if width / height > wide / high:
            off = (high - int(round(height * (wide / width), 7))) // 2
            cells = cells[off:high - off]
        else:
            off = (wide - int(round(width * (high / height), 7))) // 2
            cells = cells[:, off:wide - off]
        return np.concatenate([first, *(x for line in cells for x in (line, newline))])


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


class Llava(TiledModel):
    tower_class = LlavaTower


class LlavaNext(PlacedModel):
    tower_class, image_token = LlavaNextTower, "<image>"

    def rows(self, image):
        return self.tower.rows(image)


class Lfm2(TiledModel):
    tower_class = Lfm2Tower


class InternVl(TiledModel):
    tower_class, image_token = InternVlTower, "<IMG_CONTEXT>"
