"""Makes the samples of this folder with Pillow: python3 make.py FOLDER. README.md says what they are."""

import io
import pathlib
import random
import struct
import sys
import zlib

from PIL import Image, ImageOps

WIDTH, HEIGHT = 13, 7
SIZES = [(1, 1), (1, 23), (41, 1), (5, 3), (6, 23), (41, 4), (14, 31), (50, 9), (40, 24), (60, 30)]
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(kind, depth, seed, interlaced=False, chunks=b"", colours=0, after=b""):
    """A file of random values, which Pillow cannot write in all of these kinds."""
    values = random.Random(seed)
    most = colours or 1 << depth
    pixels = [[[values.randrange(most) for _ in range(CHANNELS[kind])] for _ in range(WIDTH)]
              for _ in range(HEIGHT)]
    rows = b""
    for left, top, across, down in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        for row in pixels[top::down]:
            samples = [sample for pixel in row[left::across] for sample in pixel]
            if not samples:
                continue
            bits = "".join(format(sample, f"0{depth}b") for sample in samples)
            bits += "0" * (-len(bits) % 8)
            rows += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, kind, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunks +
            chunk(b"IDAT", zlib.compress(rows, 9)) + after + chunk(b"IEND", b""))


def palette(colours, seed):
    return chunk(b"PLTE", random.Random(seed).randbytes(3 * colours))


def exif(orientation, order="<"):
    """The field of the orientation and one before it."""
    return ((b"II*\0" if order == "<" else b"MM\0*") +
            struct.pack(order + "IH", 8, 2) +
            struct.pack(order + "HHII", 0x0100, 4, 1, WIDTH) +
            struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0) +
            struct.pack(order + "I", 0))


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_files():
    for depth in (1, 2, 4, 8, 16):
        yield f"grey{depth}.png", png(GREY, depth, depth)
    for depth in (1, 2, 4, 8):
        yield f"palette{depth}.png", png(PALETTE, depth, 10 + depth, chunks=palette(min(1 << depth, 40), depth),
                                         colours=min(1 << depth, 40))
    for depth in (8, 16):
        yield f"grey_alpha{depth}.png", png(GREY_ALPHA, depth, 20 + depth)
        yield f"rgb{depth}.png", png(RGB, depth, 30 + depth)
        yield f"rgb_alpha{depth}.png", png(RGB_ALPHA, depth, 40 + depth)
    yield "grey_transparent.png", png(GREY, 2, 60, chunks=chunk(b"tRNS", struct.pack(">H", 2)))
    yield "rgb_transparent.png", png(RGB, 8, 61, chunks=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    yield "palette_transparent.png", png(PALETTE, 4, 62, chunks=palette(16, 62) +
                                         chunk(b"tRNS", bytes([0, 128, 255, 7])))
    yield "palette_short.png", png(PALETTE, 4, 63, chunks=palette(9, 63))
    yield "interlaced_grey2.png", png(GREY, 2, 70, interlaced=True)
    yield "interlaced_palette4.png", png(PALETTE, 4, 71, interlaced=True, chunks=palette(16, 71))
    yield "interlaced_rgb8.png", png(RGB, 8, 72, interlaced=True)
    yield "interlaced_rgb_alpha16.png", png(RGB_ALPHA, 16, 73, interlaced=True)
    yield "gamma.png", png(RGB, 8, 74, chunks=chunk(b"gAMA", struct.pack(">I", 30000)))
    yield "text.png", png(GREY, 1, 75, chunks=chunk(b"tEXt", b"Comment\0text"))
    yield "exif6.png", png(GREY, 8, 76, chunks=chunk(b"eXIf", exif(6, ">")))
    yield "exif_after.png", png(GREY, 8, 77, after=chunk(b"eXIf", exif(8)))


def jpeg_files(smooth):
    for name, sampling in ("444", 0), ("422", 1), ("420", 2):
        yield f"colours{name}.jpg", saved(smooth, "JPEG", quality=85, subsampling=sampling)
    yield "progressive.jpg", saved(smooth, "JPEG", quality=85, progressive=True)
    yield "restarts.jpg", saved(smooth, "JPEG", quality=85, subsampling=0, restart_marker_blocks=1)
    yield "rgb.jpg", saved(smooth, "JPEG", quality=85, keep_rgb=True)
    yield "grey.jpg", saved(smooth.convert("L"), "JPEG", quality=85)
    yield "grey_progressive.jpg", saved(smooth.convert("L"), "JPEG", quality=85, progressive=True)
    four = Image.merge("CMYK", [*smooth.split(), smooth.convert("L").transpose(Image.FLIP_LEFT_RIGHT)])
    cmyk = saved(four, "JPEG", quality=85)
    yield "cmyk.jpg", cmyk
    # The last byte of Adobe's marker says that the values are YCCK.
    at = cmyk.index(b"Adobe") + 11
    yield "ycck.jpg", cmyk[:at] + b"\2" + cmyk[at + 1:]
    for orientation in range(1, 9):
        data = b"Exif\0\0" + exif(orientation, "<>"[orientation % 2])
        yield f"exif{orientation}.jpg", saved(smooth.convert("L"), "JPEG", quality=60, exif=data)


def webp_files(smooth):
    alpha = smooth.copy()
    alpha.putalpha(smooth.convert("L").point(lambda value: max(value - 90, 0)))
    yield "lossy.webp", saved(smooth, "WEBP", quality=80)
    yield "lossy_alpha.webp", saved(alpha, "WEBP", quality=80)
    yield "lossless.webp", saved(smooth, "WEBP", lossless=True)
    yield "lossless_alpha.webp", saved(alpha, "WEBP", lossless=True, exact=True)
    yield "exif.webp", saved(smooth, "WEBP", quality=50, exif=b"Exif\0\0" + exif(5))
    frames = [smooth, smooth.transpose(Image.FLIP_TOP_BOTTOM)]
    yield "animation.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=60)
    animation = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    # A larger canvas, in which the first frame lies 4 to the right and 2 down.
    at = animation.index(b"VP8X") + 8
    animation = bytearray(animation)
    animation[at + 4] += 6
    animation[at + 7] += 4
    at = animation.index(b"ANMF") + 8
    animation[at] = 2
    animation[at + 3] = 1
    yield "animation_placed.webp", bytes(animation)


def pixels(data):
    """What the engine is to decode."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode == "I;16":  # Pillow would take all values above 255 as white.
        return Image.frombytes("L", image.size, image.tobytes()[1::2]).convert("RGB")
    return image.convert("RGB")


def main():
    folder = pathlib.Path(sys.argv[1])
    smooth = Image.new("RGB", (WIDTH, HEIGHT))
    smooth.putdata([(20 * x, 36 * y, 255 - 12 * x - 9 * y) if x != y else (250, 240, 10)
                    for y in range(HEIGHT) for x in range(WIDTH)])
    for name, data in [*png_files(), *jpeg_files(smooth), *webp_files(smooth)]:
        (folder / name).write_bytes(data)
        (folder / f"{name}.ppm").write_bytes(saved(pixels(data), "PPM"))
    noise = Image.frombytes("RGB", (41, 23), bytes(value if value % 3 else value // 128 * 255
                                                   for value in random.Random(80).randbytes(41 * 23 * 3)))
    resized = folder / "resized"
    resized.mkdir(exist_ok=True)
    (resized / "source.ppm").write_bytes(saved(noise, "PPM"))
    for name, resample in FILTERS.items():
        results = [saved(noise.resize(size, resample), "PPM") for size in SIZES]
        (resized / f"{name}.ppm").write_bytes(b"".join(results))


main()
