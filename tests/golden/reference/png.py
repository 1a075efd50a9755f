"""PNG files of RGB pixels, uncompressed and without filters: what any zlib writes is the same."""

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def encode(rgb):
    """The file of an array (height, width, 3) of bytes."""
    height, width, _ = rgb.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rgb.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 0))
            + _chunk(b"IEND", b""))


def decode(data):
    """The pixels of a file that encode() made."""
    width, height = struct.unpack_from(">II", data, 16)
    length, = struct.unpack_from(">I", data, 33)
    lines = np.frombuffer(zlib.decompress(data[41:41 + length]), np.uint8)
    lines = lines.reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def blocks(width, height, seed, side=6):
    """Squares of random colours."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(0, 256, (-(-height // side), -(-width // side), 3), dtype=np.uint8)
    return colours.repeat(side, 0).repeat(side, 1)[:height, :width]
