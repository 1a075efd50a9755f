"""Reads and writes files of safetensors."""

import json

import numpy as np

KINDS = {"f4": "F32", "f2": "F16", "f8": "F64", "u1": "U8", "i1": "I8", "i4": "I32", "i8": "I64"}


def write(path, tensors):
    """`tensors`: name → array."""
    header, data = {}, b""
    for name, x in tensors.items():
        raw = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": KINDS[x.dtype.str[1:]], "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    kinds = {name: kind for kind, name in KINDS.items()}
    tensors = {}
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], "<" + kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors
