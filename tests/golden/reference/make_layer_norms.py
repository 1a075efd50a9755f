"""Tiny models of families whose norms are LayerNorms with biases, for make_golden.py."""

from .builder import Builder


def normed(name, arch, width, *sizes, feed_forward_length, **keys):
    """A builder whose epsilon is that of LayerNorm."""
    m = Builder(name, arch, width, *sizes, feed_forward_length=feed_forward_length,
                attention__layer_norm_epsilon=1e-4, **keys)
    del m.metadata[f"{arch}.attention.layer_norm_rms_epsilon"]
    return m


def norm(m, name):
    m.norm(name, m.width)
    m.bias(name, m.width)


def embedding(m, **how):
    m.embedding(**how)
    m.bias("output_norm", m.width)


def attention(m, layer, bias="qkvo"):
    m.attention(layer, bias=bias)
    m.bias(f"blk.{layer}.attn_norm", m.width)


def fused_attention(m, layer, bias=True):
    """Queries, keys and values in one matrix."""
    b = f"blk.{layer}."
    rows = (m.heads + 2 * m.kv_heads) * m.head_dim
    m.matrix(b + "attn_qkv", rows, m.width, gain=1.5)
    m.matrix(b + "attn_output", m.width, m.heads * m.head_dim)
    if bias:
        m.bias(b + "attn_qkv", rows)
        m.bias(b + "attn_output", m.width)


def plain_feed_forward(m, layer, inner, bias=True):
    for part, n, k in (("ffn_up", inner, m.width), ("ffn_down", m.width, inner)):
        m.matrix(f"blk.{layer}.{part}", n, k)
        if bias:
            m.bias(f"blk.{layer}.{part}", n)


def starcoder2(name):
    m = normed(name, "starcoder2", 30, 2, 6, 2, 10, feed_forward_length=38,
               attention__sliding_window=21)
    embedding(m, tied=True, spread=0.7)
    for layer in range(m.layers):
        attention(m, layer)
        norm(m, f"blk.{layer}.ffn_norm")
        plain_feed_forward(m, layer, 38)
    return m


def stablelm(name):
    """-12b: norms of heads, and both parts side by side on one norm."""
    large = "12b" in name
    m = normed(name, "stablelm", 40, 3, 4, 2, 10, feed_forward_length=38, rope__dimension_count=4,
               use_parallel_residual=large)
    embedding(m)
    for layer in range(m.layers):
        attention(m, layer, bias="" if large else "qkv")
        if large:
            for part, heads in (("q", m.heads), ("k", m.kv_heads)):
                m.tensors[f"blk.{layer}.attn_{part}_norm.weight"] = m.rng.normal(
                    1, 0.2, (heads, m.head_dim))
        else:
            norm(m, f"blk.{layer}.ffn_norm")
        m.feed_forward(layer, 38, norms=False)
    return m


def phimoe(name):
    """Behind the original context, with the factors for long ones."""
    m = Builder(name, "phimoe", 40, 3, 4, 2, 10, context=2048, feed_forward_length=14,
                rope__scaling__original_context_length=32, rope__scaling__attn_factor=1.24,
                attention__sliding_window=21, expert_count=6, expert_used_count=2)
    m.metadata["phimoe.attention.layer_norm_rms_epsilon"] = 1e-4
    embedding(m)
    m.bias("output", 72)
    m.tensors["rope_factors_short.weight"] = m.rng.uniform(1.0, 1.5, 5)
    m.tensors["rope_factors_long.weight"] = m.rng.uniform(2.0, 30.0, 5)
    for layer in range(m.layers):
        attention(m, layer)
        norm(m, f"blk.{layer}.ffn_norm")
        m.experts(layer, 6, 14)
    return m


def nemotron(name):
    m = normed(name, "nemotron", 30, 2, 6, 2, 10, feed_forward_length=38, rope__dimension_count=4)
    embedding(m)
    for layer in range(m.layers):
        attention(m, layer, bias="")
        norm(m, f"blk.{layer}.ffn_norm")
        plain_feed_forward(m, layer, 38, bias=False)
    return m


def phi2(name):
    m = normed(name, "phi2", 40, 3, 4, 4, 10, feed_forward_length=38, rope__dimension_count=4)
    embedding(m)
    m.bias("output", 72)
    for layer in range(m.layers):
        attention(m, layer)
        plain_feed_forward(m, layer, 38)
    return m


def gptneox(name):
    """-sequential: one part behind the other."""
    m = normed(name, "gptneox", 40, 3, 4, 4, 10, feed_forward_length=38, rope__dimension_count=4,
               use_parallel_residual="sequential" not in name)
    embedding(m)
    for layer in range(m.layers):
        norm(m, f"blk.{layer}.attn_norm")
        fused_attention(m, layer)
        norm(m, f"blk.{layer}.ffn_norm")
        plain_feed_forward(m, layer, 38)
    return m


def falcon(name):
    """One key-value head and one norm; -40b: several, and a norm for each part."""
    large = "40b" in name
    m = normed(name, "falcon", 60, 2, 6, 3 if large else 1, 10, feed_forward_length=38)
    embedding(m, tied=not large, spread=0.7)
    for layer in range(m.layers):
        norm(m, f"blk.{layer}.attn_norm")
        if large:
            norm(m, f"blk.{layer}.attn_norm_2")
        fused_attention(m, layer, bias=False)
        plain_feed_forward(m, layer, 38, bias=False)
    return m


def gpt2(name):
    """Of StarCoder all heads share a key."""
    arch = name.removesuffix("-f32")
    m = normed(name, arch, 40, 3, 4, 4 if arch == "gpt2" else 1, 10, 320, feed_forward_length=38)
    for key in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        del m.metadata[f"{arch}.{key}"]
    embedding(m, tied=True, spread=0.7)
    m.tensors["position_embd.weight"] = m.rng.normal(0, 0.5, (320, m.width))
    for layer in range(m.layers):
        norm(m, f"blk.{layer}.attn_norm")
        fused_attention(m, layer)
        norm(m, f"blk.{layer}.ffn_norm")
        plain_feed_forward(m, layer, 38)
    return m


def orion(name):
    m = normed(name, "orion", 36, 3, 6, 2, 6, feed_forward_length=38)
    embedding(m)
    for layer in range(m.layers):
        norm(m, f"blk.{layer}.attn_norm")
        m.attention(layer, norms=False)
        norm(m, f"blk.{layer}.ffn_norm")
        m.feed_forward(layer, 38, norms=False)
    return m


def dbrx(name):
    """Without biases."""
    m = normed(name, "dbrx", 36, 3, 6, 2, 6, feed_forward_length=14, rope__freq_base=5e5,
               attention__clamp_kqv=0.8, expert_count=5, expert_used_count=2)
    m.metadata["dbrx.attention.layer_norm_epsilon"] = 1e-5
    m.embedding()
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        m.matrix(b + "attn_qkv", (6 + 2 * 2) * 6, m.width, gain=1.5)
        m.matrix(b + "attn_output", m.width, 36)
        m.norm(b + "attn_output_norm", m.width)
        m.experts(layer, 5, 14)
    return m
