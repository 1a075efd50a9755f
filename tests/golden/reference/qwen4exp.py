"""Qwen3.8-Flash-Next in float64: several residual streams, attention to blocks of tokens that an
index chooses, and what a table holds for the last tokens (Qwen Team 2026; hyper-connections: Zhu et
al. 2024; n-grams: Cheng et al. 2026)."""

import numpy as np

from . import recurrent
from .layers import attention, rms_norm, rotate, sigmoid, silu


def stream_norm(m, x, name):
    """x (tokens, streams, width); every stream by itself."""
    return rms_norm(x, m.tensors[name + ".weight"].reshape(x.shape[1:]), m.eps)


def mix(m, x, name):
    """(what a part takes of the streams, what each stream gets of what it makes)."""
    streams = x.shape[1]
    normed = stream_norm(m, x, name + "_norm")
    flat = normed.reshape(len(x), -1)
    gate = sigmoid(m.linear(silu(m.linear(flat, name + "_down") / streams), name + "_up"))
    taken = np.mean(gate.reshape(x.shape) * normed, axis=1)
    if not m.has(name + "_inject"):
        return taken, None
    return taken, 2 * sigmoid(m.linear(flat, name + "_inject") / streams)


def ngram_rows(m, tokens):
    """(tokens, heads): rows of the table, by exact integers of 64 bits."""
    longest, each = m.key("ple.ngram_size"), m.key("ple.heads_per_ngram")
    multipliers, end = m.key("ple.layer_multipliers"), m.key("ple.eos_token_id")
    offsets, sizes = m.key("ple.head_offsets"), m.key("ple.head_vocab_sizes")
    rows = []
    for t in range(len(tokens)):
        seen = [int(tokens[t])]
        for back in range(1, longest):
            hidden = t - back < 0 or end in tokens[t - back:t]
            seen.append(end if hidden else int(tokens[t - back]))
        found = []
        for n in range(2, longest + 1):
            mixed = 0
            for j in range(n):
                mixed ^= seen[j] * multipliers[j] % 2 ** 64
            for h in range((n - 2) * each, (n - 1) * each):
                found.append(mixed % sizes[h] + offsets[h])
        rows.append(found)
    return np.array(rows)


def add_ngrams(m, x, tokens, b):
    streams, width = x.shape[1:]
    found = m.tensors["per_layer_token_embd.weight"][ngram_rows(m, tokens)].reshape(len(x), -1)
    keys = stream_norm(m, m.linear(found, b + "ple_key").reshape(x.shape), b + "ple_norm_key")
    queries = stream_norm(m, x, b + "ple_norm_query")
    met = np.sum(keys * queries, axis=-1) / np.sqrt(width)
    gates = sigmoid(np.sign(met) * np.sqrt(np.maximum(np.abs(met), 1e-6)))
    value = gates[:, :, None] * m.linear(found, b + "ple_value")[:, None, :]
    normed = stream_norm(m, value, b + "ple_norm_conv").reshape(len(x), -1)
    weight, dilation = m.tensors[b + "ple_conv1d.weight"], m.key("ple.ngram_size")
    mixed = np.zeros_like(normed)
    for j in range(weight.shape[1]):
        back = (weight.shape[1] - 1 - j) * dilation
        if back < len(x):
            mixed[back:] += weight[:, j] * normed[:len(x) - back]
    return x + value + silu(mixed).reshape(x.shape)


def chosen(m, x, layer):
    """Which tokens a query sees, (tokens, tokens), or None: all up to its own."""
    ratio = m.key("attention.compress_ratios")[layer]
    if not ratio:
        return None
    b = f"blk.{layer}.indexer."
    q = m.linear(x, b + "q_proj").reshape(len(x), m.key("attention.indexer.head_count"), -1)
    frequencies, magnitude = m.rotation(layer)
    q = rotate(m.norm(q, b + "q_norm"), frequencies, False, magnitude)
    raw = m.linear(x, b + "k_proj")
    blocks = len(x) // ratio
    pooled = raw[:blocks * ratio].reshape(blocks, ratio, -1).mean(axis=1)
    keys = np.zeros_like(raw)
    keys[:blocks * ratio:ratio] = m.norm(pooled, b + "k_norm")  # at a block's first token
    keys = rotate(keys[:, None], frequencies, False, magnitude)[:blocks * ratio:ratio, 0]
    seen = np.zeros((len(x), len(x)), bool)
    for t in range(len(x)):
        complete = (t + 1) // ratio
        scores = np.maximum(q[t] @ keys[:complete].T, 0).sum(axis=0)
        best = np.argsort(-scores, kind="stable")[:m.key("attention.indexer.top_k") // ratio]
        for block in best:
            seen[t, block * ratio:(block + 1) * ratio] = True
        seen[t, complete * ratio:t + 1] = True
    return seen


def attend(m, x, layer):
    b = f"blk.{layer}."
    tokens, dim = len(x), m.head_dim
    q = m.linear(x, b + "attn_q").reshape(tokens, m.heads, -1)
    q, gate = q[..., :dim], q[..., dim:]
    k, v = (m.linear(x, b + "attn_" + part).reshape(tokens, -1, dim) for part in "kv")
    frequencies, magnitude = m.rotation(layer)
    q, k = (rotate(m.norm(heads, f"{b}attn_{part}_norm"), frequencies, False, magnitude)
            for heads, part in ((q, "q"), (k, "k")))
    mixed = attention(q, k, v, dim ** -0.5, chosen=chosen(m, x, layer))
    return m.linear(mixed * sigmoid(gate).reshape(tokens, -1), b + "attn_output")


def logits(m, tokens):
    x = np.repeat(m.embed(tokens)[:, None, :], m.key("hyper_connection.count"), axis=1)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        if m.has(b + "ple_key"):
            x = add_ngrams(m, x, tokens, b)
        taken, shares = mix(m, x, b + "hc_attn")
        made = (attend(m, taken, layer) if m.has(b + "attn_q")
                else recurrent.delta_net(m, taken, b))
        x = x + shares[:, :, None] * made[:, None, :]
        taken, shares = mix(m, x, b + "hc_ffn")
        x = x + shares[:, :, None] * recurrent.experts(m, taken, b)[:, None, :]
    return m.linear(mix(m, x, "output_hc")[0], "output")
