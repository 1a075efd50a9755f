"""GLM-5-Next in float64: Kimi delta attention, and latent attention without positions, whose queries see
blocks of tokens that an index chooses by means of its keys; on streams as DeepSeek-V4's, whose mean
leaves the last layer (Z.ai 2026)."""

import numpy as np

from . import deepseek4, recurrent
from .layers import attention, layer_norm, route, softmax


def seen(m, x, latent, layer):
    """(tokens, tokens): the tokens of the best blocks that have ended, and those behind the last of
    them. A layer without an index takes what the last one has chosen."""
    b = f"blk.{layer}."
    if not m.key("attention.indexer.types", [True] * m.layers)[layer]:
        return m.last_chosen
    tokens, block = len(x), m.key("attention.indexer.kpool")
    heads = m.key("attention.indexer.head_count")
    q = m.linear(latent, b + "indexer.attn_q_b").reshape(tokens, heads, -1)
    k = layer_norm(m.linear(x, b + "indexer.attn_k"), m.tensors[b + "indexer.k_norm.weight"], 1e-6)
    k = k + m.tensors[b + "indexer.k_norm.bias"]
    gate = m.linear(x, b + "indexer_compressor_gate")
    gate = gate + m.tensors[b + "indexer_compressor_ape.weight"][np.arange(tokens) % block]
    count = tokens // block
    whole = lambda a: a[:count * block].reshape(count, block, -1)
    means = np.sum(softmax(whole(gate).swapaxes(1, 2)).swapaxes(1, 2) * whole(k), axis=1)
    scores = np.einsum("qh,qhk->qk", m.linear(x, b + "indexer.proj"),
                       np.maximum(np.einsum("qhd,kd->qhk", q, means), 0))
    visible = np.zeros((tokens, tokens), bool)
    for row, own in enumerate(scores):
        ended = (row + 1) // block
        for best in np.argsort(-own[:ended], kind="stable")[:m.key("attention.indexer.top_k") // block]:
            visible[row, best * block:(best + 1) * block] = True
        visible[row, ended * block:row + 1] = True
    m.last_chosen = visible
    return visible


def latent_attention(m, x, layer):
    b, tokens = f"blk.{layer}.", len(x)
    low = m.norm(m.linear(x, b + "attn_q_a"), b + "attn_q_a_norm")
    chosen = seen(m, x, low, layer)
    q = m.linear(low, b + "attn_q_b").reshape(tokens, m.heads, -1)
    latent = m.norm(m.linear(x, b + "attn_kv_a_mqa"), b + "attn_kv_a_norm")
    k = np.einsum("tl,hln->thn", latent, m.tensors[b + "attn_k_b.weight"])
    v = np.einsum("tl,hvl->thv", latent, m.tensors[b + "attn_v_b.weight"])
    mixed = attention(q, k, v, 1 / np.sqrt(q.shape[2]), chosen=chosen)
    return m.linear(mixed, b + "attn_output")


def feed_forward(m, x, layer):
    b = f"blk.{layer}.ffn_"
    limit, shared_limit = (m.key(f"swiglu_clamp_{kind}")[layer] for kind in ("exp", "shexp"))

    def dense(suffix):
        gate, up = (m.linear(x, b + part + suffix) for part in ("gate", "up"))
        return m.linear(deepseek4.gated(gate, up, shared_limit), b + "down" + suffix)

    if not m.has(b + "gate_inp"):
        return dense("")
    ids, weights = route(m.linear(x, b + "gate_inp"), m.key("expert_used_count"), "sigmoid",
                         m.tensors[f"blk.{layer}.exp_probs_b.bias"], m.key("expert_weights_norm"),
                         m.key("expert_weights_scale"))
    weight = lambda name, e: m.tensors[f"{b}{name}_exps.weight"][e]
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        for e, share in zip(ids[t], weights[t]):
            made = deepseek4.gated(weight("gate", e) @ row, weight("up", e) @ row, limit)
            out[t] += share * (weight("down", e) @ made)
    return out + dense("_shexp")


def logits(m, tokens):
    x = np.repeat(m.embed(tokens)[:, None, :], m.key("hyper_connection.count"), axis=1)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        taken, shares, matrix = deepseek4.mix(m, x, b + "hc_attn")
        taken = m.norm(taken, b + "attn_norm")
        made = (recurrent.kimi_delta(m, taken, b) if m.has(b + "ssm_f_a")
                else latent_attention(m, taken, layer))
        x = deepseek4.give(x, made, shares, matrix)
        taken, shares, matrix = deepseek4.mix(m, x, b + "hc_ffn")
        made = feed_forward(m, m.norm(taken, b + "ffn_norm"), layer)
        x = deepseek4.give(x, made, shares, matrix)
    return m.linear(m.norm(x.mean(axis=1), "output_norm"), "output")
