"""Layers that predict further tokens (multi-token prediction), in float64."""

import numpy as np

from . import model, recurrent
from .layers import layer_norm

# Architectures whose layers take and make hidden states before the last norm.
RAW = {"mimo", "mimo2", "step35"}


def block(m, x, layer):
    b = f"blk.{layer}."
    latent = m.arch in model.LATENT | {"bailingmoe3"}
    if latent:
        m.chosen = lambda *_: None  # it sees all tokens
    if m.arch in recurrent.FAMILIES:
        attend = lambda h: (m.attend_latent if latent else recurrent.attend)(*(
            (h, layer) if latent else (m, h, layer)))
        feed = lambda h: (recurrent.experts if m.has(b + "ffn_gate_inp")
                          else recurrent.feed_forward)(m, h, b)
    else:
        attend = lambda h: (m.attend_latent if latent else m.attend)(h, layer)
        feed = lambda h: (m.experts if m.has(b + "ffn_gate_inp") else m.feed_forward)(h, layer)
    if m.arch in model.PARALLEL:
        h = m.norm(x, b + "attn_norm")
        return x + attend(h) + feed(h)
    x = x + attend(m.norm(x, b + "attn_norm"))
    after = "ffn_norm" if m.has(b + "ffn_norm") else "post_attention_norm"
    return x + feed(m.norm(x, b + after))


def logits(m, tokens):
    """(heads · len(tokens), vocabulary): of each token with the hidden state before it, zeros before
    the first, what a layer says of the token that follows. The first layer takes hidden states of the
    model, each further one those of the layer before it."""
    raw = m.arch in RAW
    hidden = m.hidden(tokens)
    if raw:
        hidden = m.entered[-1]
    all = []
    for layer in range(m.layers, m.layers + m.key("nextn_predict_layers")):
        made, hidden = of_layer(m, tokens, hidden, layer, raw)
        all.append(made)
    return np.concatenate(all)


def of_layer(m, tokens, hidden, layer, raw):
    """Its logits, and the hidden states that it makes."""
    name = f"blk.{layer}.nextn."
    before = np.concatenate([np.zeros((1, m.width)), hidden[:-1]])
    table = name + "embed_tokens" if m.has(name + "embed_tokens") else "token_embd"
    parts = [m.norm(m.tensors[table + ".weight"][tokens], name + "enorm"),
             m.norm(before, name + "hnorm")]
    x = np.concatenate(parts[::-1] if m.arch == "mimo" else parts, axis=1)
    unnormed = block(m, m.linear(x, name + "eh_proj"), layer)
    if m.has(name + "shared_head_norm") and m.arch == "nemotron_h_moe":
        x = layer_norm(unnormed, m.tensors[name + "shared_head_norm.weight"],
                       m.key("attention.layer_norm_epsilon"))
    else:
        norms = [name + "shared_head_norm", f"blk.{layer}.layer_output_norm", "output_norm"]
        x = m.norm(unnormed, next(norm for norm in norms if m.has(norm)))
    own = m.has(name + "shared_head_head")
    made = m.linear(x, name + "shared_head_head" if own else
                    "output" if m.has("output") else "token_embd")
    return m.factor("logit_scale") * made if m.arch in model.PARALLEL else made, unnormed if raw else x
