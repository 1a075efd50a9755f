"""Tiny models of families whose scores have biases by distance, for make_golden.py."""

from .builder import Builder
from .make_layer_norms import embedding, fused_attention, norm, normed, plain_feed_forward
from .make_plain import plain_layers


def without_rope(m):
    """Their files have no keys of RoPE, nor of heads."""
    arch = m.metadata["general.architecture"]
    for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        del m.metadata[f"{arch}.{key}"]
    return m


def bloom(name):
    """Six heads: no power of two."""
    m = without_rope(normed(name, "bloom", 36, 3, 6, 6, 6, feed_forward_length=38))
    embedding(m, tied=True, spread=0.7)
    norm(m, "token_embd_norm")
    for layer in range(m.layers):
        norm(m, f"blk.{layer}.attn_norm")
        fused_attention(m, layer)
        norm(m, f"blk.{layer}.ffn_norm")
        plain_feed_forward(m, layer, 38)
    return m


def mpt(name):
    """-norms: LayerNorms of queries and keys, and biases; few keys."""
    other = "norms" in name
    m = without_rope(normed(name, "mpt", 40, 3, 4, 2 if other else 4, 10, feed_forward_length=38,
                            attention__max_alibi_bias=6.0 if other else 8.0,
                            attention__clamp_kqv=0.7))
    m.embedding(tied=not other, spread=0.7)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        fused_attention(m, layer, bias=other)
        if other:
            for part, heads in (("q", 4), ("k", 2)):
                m.norm(f"{b}attn_{part}_norm", heads * 10)
                m.bias(f"{b}attn_{part}_norm", heads * 10)
        m.norm(b + "ffn_norm", m.width)
        plain_feed_forward(m, layer, 38, bias=other)
    return m


def jais(name):
    m = without_rope(normed(name, "jais", 36, 3, 6, 6, 6, feed_forward_length=38,
                            attention__max_alibi_bias=7.0))
    embedding(m)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        norm(m, b + "attn_norm")
        fused_attention(m, layer)
        norm(m, b + "ffn_norm")
        m.feed_forward(layer, 38, norms=False)
        for part, n in (("gate", 38), ("up", 38), ("down", m.width)):
            m.bias(f"{b}ffn_{part}", n)
    return m


def refact(name):
    """Its width follows from the model's: a multiple of 256."""
    m = without_rope(Builder(name, "refact", 24, 2, 4, 1, 6, feed_forward_length=256))
    m.embedding()
    return plain_layers(m, 256)


def baichuan(name):
    """-13b: with biases in place of RoPE."""
    keys = {"attention__max_alibi_bias": 8.0} if "13b" in name else {}
    m = Builder(name, "baichuan", 36, 3, 6, 6, 6, feed_forward_length=38, **keys)
    m.embedding()
    return plain_layers(m, 38)


def falcon_rw(name):
    m = normed(name, "falcon", 60, 2, 6, 6, 10, feed_forward_length=38,
               attention__max_alibi_bias=8.0)
    embedding(m, tied=True, spread=0.7)
    for layer in range(m.layers):
        norm(m, f"blk.{layer}.attn_norm")
        fused_attention(m, layer)
        norm(m, f"blk.{layer}.ffn_norm")
        plain_feed_forward(m, layer, 38)
    return m
