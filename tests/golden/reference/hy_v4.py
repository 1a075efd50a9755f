"""Hunyuan 4 in float64: latent attention with sinks and gates, on a residual of several streams
(Tencent 2026; hyper-connections: Zhu et al. 2024, here without a mix among the streams)."""

import numpy as np

from .layers import rms_norm, sigmoid


def mix(m, x, name):
    """(what a part takes of the streams, what each stream gets of what it makes)."""
    streams = x.shape[1]
    least, magnitude = m.key("hyper_connection.epsilon"), m.key("hyper_connection.magnitude")
    mixed = rms_norm(x.reshape(len(x), -1), 1.0, m.eps) @ m.tensors[name + "_fn.weight"].T
    base, scale = (m.tensors[f"{name}_{part}.weight"].reshape(-1) for part in ("base", "scale"))
    gates = sigmoid(mixed * np.repeat(scale, streams) + base)
    taken = np.einsum("ts,tsw->tw", gates[:, :streams] + least, x)
    return taken, magnitude * gates[:, streams:] + least


def logits(m, tokens):
    x = np.repeat(m.embed(tokens)[:, None, :], m.key("hyper_connection.count"), axis=1)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        taken, shares = mix(m, x, b + "hc_attn")
        made = m.attend_latent(m.norm(taken, b + "attn_norm"), layer)
        x = x + shares[:, :, None] * made[:, None, :]
        taken, shares = mix(m, x, b + "hc_ffn")
        feed = m.experts if m.has(b + "ffn_gate_inp") else m.feed_forward
        x = x + shares[:, :, None] * feed(m.norm(taken, b + "ffn_norm"), layer)[:, None, :]
    return m.linear(m.norm(mix(m, x, "output_hc")[0], "output_norm"), "output")
