"""Writes a trained model as GGUF: python3 export.py main OUT FILE.gguf. Equal weights give equal
bytes."""

import argparse
import json
import struct
from pathlib import Path

import numpy as np
import torch

from corpus.render import CHAT_TEMPLATE, SPECIAL
from model import SHAPES
from vocabulary import PRE

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_F32, TENSOR_Q8_0 = 0, 8
ALIGNMENT = 32
BLOCK = 32  # values of a block of Q8_0
CONTROL, NORMAL = 3, 1

DESCRIPTIONS = {
    "main": (
        "infer demo",
        (
            "A very small chat model in English, trained from scratch on text that "
            "a program made up, so that infer works without a download."
        ),
    ),
    "draft": ("infer demo draft", "Drafts tokens for infer demo; the same vocabulary."),
}


class Integers(list):
    """An array of i32, also where its elements look like something else."""


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(v):
    """A metadata value with its type before it."""
    if isinstance(v, bool):
        return struct.pack("<I?", BOOL, v)
    if isinstance(v, int):
        return struct.pack("<II", U32, v)
    if isinstance(v, float):
        return struct.pack("<If", F32, v)
    if isinstance(v, str):
        return struct.pack("<I", STRING) + string(v)
    if isinstance(v, Integers):
        return struct.pack("<IIQ", ARRAY, I32, len(v)) + struct.pack(f"<{len(v)}i", *v)
    return struct.pack("<IIQ", ARRAY, STRING, len(v)) + b"".join(map(string, v))


def q8_0_codes(x):
    """(scales f16 [blocks, 1], codes i8 [blocks, 32]) of a matrix."""
    blocks = np.ascontiguousarray(x, np.float32).reshape(-1, BLOCK)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    safe = np.where(scales == 0, np.float32(1), scales.astype(np.float32))
    return scales, np.clip(np.rint(blocks / safe), -127, 127).astype(np.int8)


def q8_0_values(x):
    """What is left of a matrix after Q8_0."""
    scales, codes = q8_0_codes(x)
    return (codes * scales.astype(np.float32)).reshape(x.shape)


def q8_0_bytes(x):
    scales, codes = q8_0_codes(x)
    return np.concatenate([scales.view(np.uint8), codes.view(np.uint8)], axis=1).tobytes()


def neighbours(rows, head_dim):
    """Rows of Q or K from pairs (i, i + head_dim / 2) to neighbours (2i, 2i + 1)."""
    heads = rows.reshape(-1, 2, head_dim // 2, rows.shape[1])
    return heads.swapaxes(1, 2).reshape(rows.shape)


def tensors(state, shape):
    """GGUF name → array, in the order of the file."""
    get = {k: v.float().numpy() for k, v in state.items()}.__getitem__
    result = {"token_embd.weight": get("embedding"), "output_norm.weight": get("norm")}
    q_rows, kv_rows = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for i in range(shape.layers):
        part = f"blocks.{i}."
        q, k, v = np.split(get(part + "qkv"), [q_rows, q_rows + kv_rows])
        gate, up = np.split(get(part + "gate_up"), 2)
        for name, array in [
            ("attn_norm", get(part + "attn_norm")),
            ("attn_q", neighbours(q, shape.head_dim)),
            ("attn_k", neighbours(k, shape.head_dim)),
            ("attn_v", v),
            ("attn_output", get(part + "output")),
            ("ffn_norm", get(part + "ffn_norm")),
            ("ffn_gate", gate),
            ("ffn_up", up),
            ("ffn_down", get(part + "down")),
        ]:
            result[f"blk.{i}.{name}.weight"] = array
    return result


def metadata(size, shape, vocabulary):
    name, description = DESCRIPTIONS[size]
    ids = vocabulary["model"]["vocab"]
    tokens = sorted(ids, key=ids.get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in vocabulary["model"]["merges"]]
    return {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": name,
        "general.description": description,
        "general.author": "The infer authors",
        "general.license": "mit",
        "general.file_type": 7,
        "general.quantization_version": 2,
        "general.sampling.temp": 0.3,
        "general.sampling.top_p": 0.95,
        "general.sampling.min_p": 0.05,
        "llama.vocab_size": shape.vocabulary,
        "llama.context_length": shape.context,
        "llama.embedding_length": shape.width,
        "llama.block_count": shape.layers,
        "llama.feed_forward_length": shape.feed_forward,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.attention.key_length": shape.head_dim,
        "llama.attention.value_length": shape.head_dim,
        "llama.attention.layer_norm_rms_epsilon": shape.eps,
        "llama.rope.dimension_count": shape.head_dim,
        "llama.rope.freq_base": shape.rope_base,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": PRE,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": Integers(CONTROL if t in SPECIAL else NORMAL for t in tokens),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": ids["<|endoftext|>"],
        "tokenizer.ggml.eos_token_id": ids["<|endoftext|>"],
        "tokenizer.ggml.eot_token_id": ids["<|im_end|>"],
        "tokenizer.ggml.padding_token_id": ids["<|endoftext|>"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def write(path, keys, arrays):
    out = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(arrays), len(keys)))
    for key, v in keys.items():
        out += string(key) + value(v)
    data = bytearray()
    for name, array in arrays.items():
        matrix = array.ndim == 2
        out += string(name) + struct.pack(f"<I{array.ndim}Q", array.ndim, *reversed(array.shape))
        out += struct.pack("<IQ", TENSOR_Q8_0 if matrix else TENSOR_F32, len(data))
        data += q8_0_bytes(array) if matrix else array.astype("<f4").tobytes()
        data += bytes(-len(data) % ALIGNMENT)
    out += bytes(-len(out) % ALIGNMENT)
    path.write_bytes(out + data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=SHAPES)
    parser.add_argument("out", type=Path)
    parser.add_argument("file", type=Path)
    args = parser.parse_args()
    shape = SHAPES[args.size]
    state = torch.load(args.out / f"{args.size}.pt")["model"]
    vocabulary = json.loads((args.out / "vocabulary.json").read_text(encoding="utf-8"))
    write(args.file, metadata(args.size, shape, vocabulary), tensors(state, shape))
    print(f"{args.file}: {args.file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
