"""DeepSeek-V4 in float64: attention to the last tokens and to means of blocks of tokens, on a residual
whose streams are mixed by a matrix with sums of 1 (DeepSeek-AI 2026; hyper-connections: Xie et al.
2026; Sinkhorn & Knopp 1967)."""

import numpy as np

from .layers import inverse_frequencies, rms_norm, sigmoid, silu, softmax, softplus, yarn_frequencies


def mix(m, x, name):
    """(what a part takes of the streams, what each gets of what it makes, how streams are mixed)."""
    n, eps = x.shape[1], m.key("hyper_connection.epsilon")
    y = rms_norm(x.reshape(len(x), -1), 1.0, m.eps) @ m.tensors[name + "_fn.weight"].T
    base, scale = (m.tensors[f"{name}_{part}.weight"].reshape(-1) for part in ("base", "scale"))
    take = sigmoid(y[:, :n] * scale[0] + base[:n]) + eps
    taken = np.einsum("ts,tsw->tw", take, x)
    if y.shape[1] == n:
        return taken, None, None
    shares = 2 * sigmoid(y[:, n:2 * n] * scale[1] + base[n:2 * n])
    matrix = softmax((y[:, 2 * n:] * scale[2] + base[2 * n:]).reshape(-1, n, n)) + eps
    for turn in range(m.key("hyper_connection.sinkhorn_iterations")):
        if turn:
            matrix = matrix / (matrix.sum(axis=2, keepdims=True) + eps)
        matrix = matrix / (matrix.sum(axis=1, keepdims=True) + eps)
    return taken, shares, matrix


def give(x, made, shares, matrix):
    return shares[:, :, None] * made[:, None, :] + np.einsum("tji,tjw->tiw", matrix, x)


def frequencies(m, in_blocks):
    dims = m.key("rope.dimension_count")
    if not in_blocks:
        return inverse_frequencies(dims, m.key("rope.freq_base"))
    base = m.key("attention.compress_rope_freq_base")
    if m.key("rope.scaling.type", "none") != "yarn":
        return inverse_frequencies(dims, base)
    return yarn_frequencies(dims, base, m.key("rope.scaling.factor"),
                            m.key("rope.scaling.original_context_length"),
                            m.key("rope.scaling.yarn_beta_fast"),
                            m.key("rope.scaling.yarn_beta_slow"), True)


def turn(m, x, positions, in_blocks, back=False):
    """Neighbours among the last elements of x (rows, …, dim), turned by the rows' positions."""
    angles = positions[:, None] * frequencies(m, in_blocks)[None, :]
    factor = np.exp((-1j if back else 1j) * angles)
    factor = factor.reshape(factor.shape[:1] + (1,) * (x.ndim - 2) + factor.shape[1:])
    still = x.shape[-1] - 2 * factor.shape[-1]
    z = (x[..., still::2] + 1j * x[..., still + 1::2]) * factor
    turned = x.copy()
    turned[..., still::2], turned[..., still + 1::2] = z.real, z.imag
    return turned


def pool(m, x, b, dim, block, overlaps):
    """(blocks, dim): the means of whole blocks by gates of each element. With overlap they also have
    the first half of what the tokens of the block before give, and the second of their own."""
    value, gate = m.linear(x, b + "kv"), m.linear(x, b + "gate")
    gate = gate + m.tensors[b + "ape.weight"][np.arange(len(x)) % block]
    means = []
    for first in range(0, len(x) - block + 1, block):
        own, before = slice(first, first + block), slice(first - block, first)
        values, gates = value[own], gate[own]
        if overlaps:
            values, gates = values[:, dim:], gates[:, dim:]
            if first:
                values = np.concatenate([value[before, :dim], values])
                gates = np.concatenate([gate[before, :dim], gates])
        means.append((softmax(gates.T).T * values).sum(axis=0))
    means = rms_norm(np.array(means).reshape(-1, dim), m.tensors[b + "norm.weight"], m.eps)
    return turn(m, means, np.arange(len(means)) * block, True)


def seen_blocks(m, x, latent, b, block):
    """(tokens, blocks): which blocks the queries see. Without an index all that have ended."""
    tokens = len(x)
    ended = (np.arange(tokens)[:, None] + 1) // block > np.arange(tokens // block)[None, :]
    if not m.has(b + "indexer.attn_q_b"):
        return ended
    heads, key = m.key("attention.indexer.head_count"), m.key("attention.indexer.key_length")
    q = m.linear(latent, b + "indexer.attn_q_b").reshape(tokens, heads, key)
    q = turn(m, q, np.arange(tokens), True)
    k = pool(m, x, b + "indexer_compressor_", key, block, True)
    met = np.maximum(np.einsum("qhd,kd->qhk", q, k), 0)
    scores = np.einsum("qh,qhk->qk", m.linear(x, b + "indexer.proj"), met)
    chosen = np.zeros_like(ended)
    for row, own in enumerate(scores):
        count = (row + 1) // block
        best = np.argsort(-own[:count], kind="stable")[:m.key("attention.indexer.top_k")]
        chosen[row, best] = True
    return chosen


def attend(m, x, layer):
    b, tokens, dim = f"blk.{layer}.", len(x), m.head_dim
    block = m.per_layer("attention.compress_ratios", layer)
    places = np.arange(tokens)
    latent = m.norm(m.linear(x, b + "attn_q_a"), b + "attn_q_a_norm")
    q = rms_norm(m.linear(latent, b + "attn_q_b").reshape(tokens, -1, dim), 1.0, m.eps)
    q = turn(m, q, places, block > 0)
    keys = m.norm(m.linear(x, b + "attn_kv"), b + "attn_kv_norm")
    keys = turn(m, keys, places, block > 0)
    back = places[:, None] - places[None, :]
    visible = (back >= 0) & (back < m.key("attention.sliding_window"))
    if block:
        overlaps = m.has(b + "indexer.attn_q_b")
        keys = np.concatenate([keys, pool(m, x, b + "attn_compressor_", dim, block, overlaps)])
        visible = np.concatenate([visible, seen_blocks(m, x, latent, b, block)], axis=1)
    scores = np.einsum("qhd,kd->qhk", q, keys) / np.sqrt(dim)
    scores = np.where(visible[:, None, :], scores, -np.inf)
    sinks = m.tensors[b + "attn_sinks.weight"]
    sinks = np.broadcast_to(sinks[None, :, None], scores.shape[:2] + (1,))
    weights = softmax(np.concatenate([scores, sinks], axis=2))[..., :-1]
    mixed = turn(m, np.einsum("qhk,kd->qhd", weights, keys), places, block > 0, back=True)
    groups = m.key("attention.output_group_count")
    low = m.tensors[b + "attn_output_a.weight"]
    low = low.reshape(groups, -1, low.shape[-1])
    mixed = np.einsum("qgk,grk->qgr", mixed.reshape(tokens, groups, -1), low)
    return m.linear(mixed.reshape(tokens, -1), b + "attn_output_b")


def gated(gate, up, limit):
    return silu(np.minimum(gate, limit)) * np.clip(up, -limit, limit)


def experts(m, x, tokens, layer):
    b = f"blk.{layer}.ffn_"
    gates = np.sqrt(softplus(m.linear(x, b + "gate_inp")))
    used = m.key("expert_used_count")
    if layer < m.key("hash_layer_count"):
        ids = m.tensors[b + "gate_tid2eid.weight"].astype(int)[tokens]
    else:
        scores = gates + m.tensors[f"blk.{layer}.exp_probs_b.bias"]
        ids = np.argsort(-scores, axis=1, kind="stable")[:, :used]
    weights = np.take_along_axis(gates, ids, axis=1)
    weights = m.key("expert_weights_scale") * weights / weights.sum(axis=1, keepdims=True)
    limit, shared_limit = (m.key(f"swiglu_clamp_{kind}")[layer] for kind in ("exp", "shexp"))
    weight = lambda name, e: m.tensors[f"{b}{name}_exps.weight"][e]
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        for e, share in zip(ids[t], weights[t]):
            out[t] += share * (weight("down", e) @ gated(weight("gate", e) @ row,
                                                         weight("up", e) @ row, limit))
    shared = gated(m.linear(x, b + "gate_shexp"), m.linear(x, b + "up_shexp"), shared_limit)
    return out + m.linear(shared, b + "down_shexp")


def logits(m, tokens):
    x = np.repeat(m.embed(tokens)[:, None, :], m.key("hyper_connection.count"), axis=1)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        taken, shares, matrix = mix(m, x, b + "hc_attn")
        x = give(x, attend(m, m.norm(taken, b + "attn_norm"), layer), shares, matrix)
        taken, shares, matrix = mix(m, x, b + "hc_ffn")
        x = give(x, experts(m, m.norm(taken, b + "ffn_norm"), tokens, layer), shares, matrix)
    return m.linear(m.norm(mix(m, x, "output_hc")[0], "output_norm"), "output")
