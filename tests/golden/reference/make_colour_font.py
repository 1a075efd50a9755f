"""Writes tests/data/fonts/colours.ttf: python3 -m tests.golden.reference.make_colour_font FOLDER

U+1F600 and U+2705 are a red rectangle with a blue one in it (tables COLR and CPAL). Needs fontTools.
"""

import pathlib
import sys

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen


def rectangle(left, bottom, right, top):
    pen = TTGlyphPen(None)
    pen.moveTo((left, bottom))
    for point in ((left, top), (right, top), (right, bottom)):
        pen.lineTo(point)
    pen.closePath()
    return pen.glyph()


def main(folder):
    glyphs = {
        ".notdef": TTGlyphPen(None).glyph(),
        "picture": rectangle(0, 0, 1000, 800),
        "outer": rectangle(0, 0, 1000, 800),
        "inner": rectangle(250, 200, 750, 600),
    }
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(list(glyphs))
    builder.setupCharacterMap({0x1F600: "picture", 0x2705: "picture"})
    builder.setupGlyf(glyphs)
    metrics = {name: (1200, 0) for name in glyphs}
    builder.setupHorizontalMetrics(metrics | {"inner": (1200, 250)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Colours", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost(keepGlyphNames=False)
    builder.setupCOLR({"picture": [("outer", 0), ("inner", 1)]})
    builder.setupCPAL([[(1, 0, 0, 1), (0, 0, 1, 1)]])
    builder.updateHead(created=0, modified=0)
    builder.font.recalcTimestamp = False
    builder.save(pathlib.Path(folder) / "colours.ttf")


if __name__ == "__main__":
    main(sys.argv[1])
