"""The layer that predicts the token after the next one (multi-token prediction), in float64."""

import numpy as np

from . import recurrent
from .layers import layer_norm


def block(m, x, layer):
    b = f"blk.{layer}."
    if m.arch in recurrent.FAMILIES:
        attend = lambda h: recurrent.attend(m, h, layer)
        feed = lambda h: (recurrent.experts if m.has(b + "ffn_gate_inp")
                          else recurrent.feed_forward)(m, h, b)
    else:
        attend = lambda h: (m.attend_latent if m.arch == "deepseek2" else m.attend)(h, layer)
        feed = lambda h: (m.experts if m.has(b + "ffn_gate_inp") else m.feed_forward)(h, layer)
    x = x + attend(m.norm(x, b + "attn_norm"))
    after = "ffn_norm" if m.has(b + "ffn_norm") else "post_attention_norm"
    return x + feed(m.norm(x, b + after))


def logits(m, tokens):
    """Of each token with the hidden state before it, zeros before the first: what the layer says of
    the token that follows."""
    layer = m.layers
    name = f"blk.{layer}.nextn."
    hidden = m.hidden(tokens)
    before = np.concatenate([np.zeros((1, m.width)), hidden[:-1]])
    table = name + "embed_tokens" if m.has(name + "embed_tokens") else "token_embd"
    x = np.concatenate([m.norm(m.tensors[table + ".weight"][tokens], name + "enorm"),
                        m.norm(before, name + "hnorm")], axis=1)
    x = block(m, m.linear(x, name + "eh_proj"), layer)
    if m.has(name + "shared_head_norm") and m.arch == "nemotron_h_moe":
        x = layer_norm(x, m.tensors[name + "shared_head_norm.weight"],
                       m.key("attention.layer_norm_epsilon"))
    else:
        own = m.has(name + "shared_head_norm")
        x = m.norm(x, name + "shared_head_norm" if own else "output_norm")
    own = m.has(name + "shared_head_head")
    return m.linear(x, name + "shared_head_head" if own else
                    "output" if m.has("output") else "token_embd")
