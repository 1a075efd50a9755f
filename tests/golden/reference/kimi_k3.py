"""Kimi K3 in float64: Kimi Linear's layers, a residual that attends to what it was before blocks of
layers, experts in a narrower space (Moonshot AI 2026)."""

import numpy as np

from . import recurrent
from .layers import rms_norm, route, sigmoid, softmax


def mix(m, x, kept, name):
    """The sum of all residuals, by a softmax over scores of their normalised forms."""
    if not kept:
        return x
    each = np.stack(kept + [x])
    scores = rms_norm(each, 1.0, m.eps) @ m.tensors[name + ".weight"]
    return np.einsum("nt,ntw->tw", softmax(scores.T).T, each)


def situ(m, gate, up):
    cap, up_cap = m.key("activation.situ_beta"), m.key("activation.situ_linear_beta")
    up = up_cap * np.tanh(up / up_cap) if up_cap else up
    return cap * np.tanh(gate / cap) * sigmoid(gate) * up


def feed_forward(m, x, b, suffix=""):
    part = lambda name: f"{b}ffn_{name}{suffix}"
    return m.linear(situ(m, m.linear(x, part("gate")), m.linear(x, part("up"))), part("down"))


def experts(m, x, b):
    ids, weights = route(m.linear(x, b + "ffn_gate_inp"), m.key("expert_used_count"), "sigmoid",
                         m.tensors[b + "exp_probs_b.bias"], m.key("expert_weights_norm"),
                         m.key("expert_weights_scale"))
    taken = m.linear(x, b + "ffn_routed_down")
    weight = lambda name, e: m.tensors[f"{b}ffn_{name}_exps.weight"][e]
    out = np.zeros_like(taken)
    for t, row in enumerate(taken):
        for e, share in zip(ids[t], weights[t]):
            hidden = situ(m, weight("gate", e) @ row, weight("up", e) @ row)
            out[t] += share * (weight("down", e) @ hidden)
    if m.has(b + "ffn_routed_norm"):
        out = m.norm(out, b + "ffn_routed_norm")
    return m.linear(out, b + "ffn_routed_up") + feed_forward(m, x, b, "_shexp")


def logits(m, tokens):
    x, kept = m.embed(tokens), []
    for layer in range(m.layers):
        b = f"blk.{layer}."
        begins = layer % m.key("attn_res_block_size") == 0
        taken = mix(m, x, kept, b + "attn_res_score")
        kept = kept + [x] if begins else kept
        made = recurrent.mixer(m, m.norm(taken, b + "attn_norm"), layer)
        x = made if begins else x + made
        taken = m.norm(mix(m, x, kept, b + "ffn_res_score"), b + "ffn_norm")
        x = x + (experts if m.has(b + "ffn_gate_inp") else feed_forward)(m, taken, b)
    return m.linear(m.norm(mix(m, x, kept, "output_res_score"), "output_norm"), "output")
