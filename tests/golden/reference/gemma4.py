"""Gemma 4 in float64, from the model card and what `transformers` computes. Shapes as in
layers.py."""

import numpy as np

from .layers import attention, geglu, gelu_tanh, inverse_frequencies, rms_norm, rotate, route


def logits(model, tokens):
    """`model`: model.Model."""
    t, eps = model.tensors, model.eps
    norm = lambda x, name: rms_norm(x, t[name], eps)
    x = model.embed(tokens)
    per_layer = model.key("embedding_length_per_layer_input", 0)
    inputs = per_layer_inputs(model, tokens, x, per_layer) if per_layer else None
    stored = model.stored = {}  # keys and values by layer
    model.entered = []
    for layer in range(model.layers):
        model.entered.append(x)
        b = f"blk.{layer}."
        h = attend(model, norm(x, b + "attn_norm.weight"), layer, stored)
        x = x + norm(h, b + "post_attention_norm.weight")
        h = model.linear(geglu(*(model.linear(norm(x, b + "ffn_norm.weight"), b + part)
                                 for part in ("ffn_gate", "ffn_up"))), b + "ffn_down")
        if b + "ffn_gate_inp.weight" in t:
            h = (norm(h, b + "post_ffw_norm_1.weight") +
                 norm(experts(model, x, layer), b + "post_ffw_norm_2.weight"))
        x = x + norm(h, b + "post_ffw_norm.weight")
        if per_layer:
            gate = gelu_tanh(model.linear(x, b + "inp_gate")) * inputs[:, layer]
            x = x + norm(model.linear(gate, b + "proj"), b + "post_norm.weight")
        x = x * t.get(b + "layer_output_scale.weight", 1.0)
    model.entered.append(x)
    x = norm(x, "output_norm.weight") @ t.get("output.weight", t["token_embd.weight"]).T
    cap = model.key("final_logit_softcapping")
    return cap * np.tanh(x / cap)


def per_layer_inputs(model, tokens, x, width):
    """(tokens, layers, width)."""
    shape = (len(tokens), model.layers, width)
    own = model.tensors["per_layer_token_embd.weight"][tokens].reshape(shape) * np.sqrt(width)
    made = (model.linear(x, "per_layer_model_proj") / np.sqrt(model.width)).reshape(shape)
    made = rms_norm(made, model.tensors["per_layer_proj_norm.weight"], model.eps)
    return (own + made) / np.sqrt(2)


def attend(model, x, layer, stored):
    b, t = f"blk.{layer}.", model.tensors
    sliding = model.key("attention.sliding_window_pattern")
    slides = sliding[layer]
    of_kind = lambda name: model.key(name + "_swa", model.key(name)) if slides else model.key(name)
    head = of_kind("attention.key_length")
    factors = None if slides else t.get("rope_freqs.weight")
    dims = model.key("rope.dimension_count_swa", head) if slides else model.rope_dims
    frequencies = inverse_frequencies(dims, of_kind("rope.freq_base"), factors)
    heads = lambda v: v.reshape(len(x), -1, head)
    turn = lambda v, name: rotate(rms_norm(v, t[name], model.eps), frequencies, False)
    q = turn(heads(model.linear(x, b + "attn_q")), b + "attn_q_norm.weight")
    own = model.layers - model.key("attention.shared_kv_layers", 0)
    source = layer
    if layer < own:
        k = v = heads(model.linear(x, b + "attn_k"))
        if b + "attn_v.weight" in t:
            v = heads(model.linear(x, b + "attn_v"))
        stored[layer] = turn(k, b + "attn_k_norm.weight"), rms_norm(v, 1.0, model.eps)
    else:  # the last one of its kind that stores any
        source = max(other for other in range(own) if sliding[other] == slides)
    k, v = stored[source]
    window = model.key("attention.sliding_window") if slides else 0
    # Images see themselves in layers with a window alone.
    ahead = model.ahead if slides else None
    return model.linear(attention(q, k, v, 1.0, window, ahead=ahead), b + "attn_output")


def experts(model, x, layer):
    """The router takes x under a norm without weights, scaled by element and by 1/√width."""
    b, t = f"blk.{layer}.", model.tensors
    scale = t[b + "ffn_gate_inp.scale"] / np.sqrt(model.width)
    scores = model.linear(rms_norm(x, scale, model.eps), b + "ffn_gate_inp")
    ids, weights = route(scores, model.key("expert_used_count"), "softmax", normalise=True)
    x = rms_norm(x, t[b + "pre_ffw_norm_2.weight"], model.eps)
    if b + "ffn_gate_up_exps.weight" in t:
        gates, ups = np.split(t[b + "ffn_gate_up_exps.weight"], 2, axis=1)
    else:
        gates, ups = t[b + "ffn_gate_exps.weight"], t[b + "ffn_up_exps.weight"]
    downs = t[b + "ffn_down_exps.weight"]
    downs = downs * t.get(b + "ffn_down_exps.scale", np.ones(len(downs)))[:, None, None]
    out = np.zeros_like(x)
    for i, row in enumerate(x):
        for e, weight in zip(ids[i], weights[i]):
            out[i] += weight * downs[e] @ geglu(gates[e] @ row, ups[e] @ row)
    return out
