"""A small GGUF v3 reader and writer for the reference models: F32, F16, BF16, MXFP4, I32, I64 and (only
read) Q8_0.

Arrays have numpy's order of dimensions, the reverse of the file's: a weight [k, n] is (n, k) here.
"""

import struct

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
SCALARS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?",
           U64: "Q", I64: "q", F64: "d"}
ALIGNMENT = 32
TENSOR_F32, TENSOR_F16, TENSOR_Q8_0, TENSOR_I32, TENSOR_I64, TENSOR_BF16, TENSOR_MXFP4 = 0, 1, 8, 26, 27, 30, 39

# FP4 E2M1 by code (OCP Microscaling Formats 1.0, section 5.3.3).
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


class Mxfp4:
    """Blocks of 32 values: an exponent byte (2^(e − 127)), then 16 bytes; byte j holds value j in
    its low and value j + 16 in its high half."""

    def __init__(self, blocks, shape):
        self.blocks = blocks  # u8 (n, 17)
        self.shape = shape

    @staticmethod
    def random(rng, shape, low_exponent=120, high_exponent=123):
        n = int(np.prod(shape)) // 32
        blocks = rng.integers(0, 256, (n, 17), dtype=np.uint8)
        blocks[:, 0] = rng.integers(low_exponent, high_exponent, n)
        return Mxfp4(blocks, shape)

    def values(self):
        scale = np.exp2(self.blocks[:, :1].astype(np.float64) - 127)
        codes = np.concatenate([self.blocks[:, 1:] & 15, self.blocks[:, 1:] >> 4], axis=1)
        return (E2M1[codes] * scale).reshape(self.shape)


class Bf16:
    """The upper halves of float32 values, rounded to nearest, ties to even."""

    def __init__(self, values):
        bits = np.asarray(values, "<f4").view("<u4").astype(np.uint64)
        self.halves = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
        self.shape = self.halves.shape

    @staticmethod
    def values(halves):
        return (halves.astype("<u4") << 16).view("<f4").astype(np.float64)


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _type_of(value):
    return {bool: BOOL, int: U32, float: F32, str: STRING, list: ARRAY}[type(value)]


def _value(value, kind):
    if kind == STRING:
        return _string(value)
    if kind != ARRAY:
        return struct.pack("<" + SCALARS[kind], value)
    item = _type_of(value[0])
    if item == U32:
        item = U64 if max(value) >= 2 ** 31 else I32
    return struct.pack("<IQ", item, len(value)) + b"".join(_value(v, item) for v in value)


def _tensor(tensor):
    """(type number, bytes)."""
    if isinstance(tensor, Mxfp4):
        return TENSOR_MXFP4, tensor.blocks.tobytes()
    if isinstance(tensor, Bf16):
        return TENSOR_BF16, tensor.halves.tobytes()
    if tensor.dtype == np.float16:
        return TENSOR_F16, tensor.astype("<f2").tobytes()
    if tensor.dtype == np.int32:
        return TENSOR_I32, tensor.astype("<i4").tobytes()
    if tensor.dtype == np.int64:
        return TENSOR_I64, tensor.astype("<i8").tobytes()
    return TENSOR_F32, np.asarray(tensor, "<f4").tobytes()


def write(path, metadata, tensors):
    """metadata: key → bool, int, float, str or a list of one of these. tensors: name → an array
    (float16 is written as F16, int32 and int64 as I32 and I64, all else as F32), Bf16 or Mxfp4."""
    out = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        kind = _type_of(value)
        out += _string(key) + struct.pack("<I", kind) + _value(value, kind)
    data = bytearray()
    for name, tensor in tensors.items():
        kind, raw = _tensor(tensor)
        out += _string(name) + struct.pack("<I", len(tensor.shape))
        out += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        out += struct.pack("<IQ", kind, len(data))
        data += raw + bytes(-len(raw) % ALIGNMENT)
    out += bytes(-len(out) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(out + data)


class _Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, fmt):
        values = struct.unpack_from("<" + fmt, self.data, self.at)
        self.at += struct.calcsize("<" + fmt)
        return values[0] if len(values) == 1 else values

    def string(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.take(SCALARS[kind])
        item, count = self.take("IQ")
        return [self.value(item) for _ in range(count)]


def _write_keys(path, to, added, keys_of):
    """Writes the file with its tensors, of any type, and other keys: as many more as `added` says."""
    with open(path, "rb") as file:
        cursor = _Cursor(file.read())
    magic, version, tensor_count, key_count = cursor.take("4sIQQ")
    out = struct.pack("<4sIQQ", magic, version, tensor_count, key_count + added) + keys_of(cursor, key_count)
    begin = cursor.at
    for _ in range(tensor_count):
        cursor.string()
        for _ in range(cursor.take("I")):
            cursor.take("Q")
        cursor.take("IQ")
    out += cursor.data[begin:cursor.at]
    data = cursor.data[-(-cursor.at // ALIGNMENT) * ALIGNMENT:]
    with open(to, "wb") as file:
        file.write(out + bytes(-len(out) % ALIGNMENT) + data)


def _key(name, value, kind):
    return _string(name) + struct.pack("<I", kind) + _value(value, kind)


def add_metadata(path, to, metadata):
    """Writes the file with more keys."""
    def keys_of(cursor, count):
        begin = cursor.at
        for _ in range(count):
            cursor.string()
            cursor.value(cursor.take("I"))
        new = b"".join(_key(name, value, _type_of(value)) for name, value in metadata.items())
        return cursor.data[begin:cursor.at] + new

    _write_keys(path, to, len(metadata), keys_of)


def change_metadata(path, to, changes):
    """Writes the file with other values; `changes`: key → a function of the value."""
    def keys_of(cursor, count):
        out = b""
        for _ in range(count):
            begin = cursor.at
            name = cursor.string()
            kind = cursor.take("I")
            value = cursor.value(kind)
            out += _key(name, changes[name](value), kind) if name in changes else cursor.data[begin:cursor.at]
        return out

    _write_keys(path, to, 0, keys_of)


def read(path):
    """(metadata, tensors as float64, int32 or int64). Raises KeyError on a tensor of another type."""
    with open(path, "rb") as file:
        cursor = _Cursor(file.read())
    _, _, tensor_count, key_count = cursor.take("4sIQQ")
    metadata = {}
    for _ in range(key_count):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.take("I"))
    places = []
    for _ in range(tensor_count):
        name = cursor.string()
        shape = [cursor.take("Q") for _ in range(cursor.take("I"))][::-1]
        places.append((name, shape, *cursor.take("IQ")))
    alignment = metadata.get("general.alignment", ALIGNMENT)
    start = -(-cursor.at // alignment) * alignment
    tensors = {}
    for name, shape, kind, offset in places:
        count = int(np.prod(shape))
        at = start + offset
        if kind == TENSOR_MXFP4:
            blocks = np.frombuffer(cursor.data, np.uint8, count // 32 * 17, at).reshape(-1, 17)
            tensors[name] = Mxfp4(blocks, shape).values()
        elif kind == TENSOR_Q8_0:
            blocks = np.frombuffer(cursor.data, np.uint8, count // 32 * 34, at).reshape(-1, 34)
            scales = blocks[:, :2].copy().view("<f2").astype(np.float64)
            tensors[name] = (scales * blocks[:, 2:].view(np.int8)).reshape(shape)
        elif kind == TENSOR_BF16:
            halves = np.frombuffer(cursor.data, "<u2", count, at)
            tensors[name] = Bf16.values(halves).reshape(shape)
        else:
            dtype = {TENSOR_F32: "<f4", TENSOR_F16: "<f2", TENSOR_I32: "<i4",
                     TENSOR_I64: "<i8"}[kind]
            flat = np.frombuffer(cursor.data, dtype, count, at).reshape(shape)
            tensors[name] = flat if kind in (TENSOR_I32, TENSOR_I64) else flat.astype(np.float64)
    return metadata, tensors
