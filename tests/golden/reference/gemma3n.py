"""Gemma 3n in float64, from the papers on AltUp and LAuReL and what `transformers` computes.
Shapes as in layers.py; streams are a list of (tokens, width)."""

import numpy as np

from .gemma4 import attend, per_layer_inputs
from .layers import gelu_tanh, rms_norm


def logits(model, tokens):
    """`model`: model.Model."""
    t = model.tensors
    x = t["token_embd.weight"][tokens] * np.float64(np.float32(np.sqrt(model.width)))
    inputs = per_layer_inputs(model, tokens, x, model.key("embedding_length_per_layer_input"))
    streams = [x] + [as_large(x @ matrix.T, x) for matrix in t["altup_proj.weight"]]
    stored = {}
    for layer in range(model.layers):
        streams = add_layer(model, streams, inputs[:, layer], layer, stored)
    back = [as_large(stream @ matrix.T, streams[0])
            for stream, matrix in zip(streams[1:], t["altup_unembd_proj.weight"])]
    x = (streams[0] + sum(back)) / len(streams)
    x = rms_norm(x, t["output_norm.weight"], model.eps) @ t.get("output.weight", t["token_embd.weight"]).T
    cap = model.key("final_logit_softcapping")
    return cap * np.tanh(x / cap)


def as_large(x, like):
    power = lambda v: np.mean(v * v, axis=-1, keepdims=True)
    return x * np.sqrt(power(like) / np.maximum(power(x), 1e-5))


def add_layer(model, streams, inputs, layer, stored):
    b, t = f"blk.{layer}.", model.tensors
    norm = lambda x, name: rms_norm(x, t[b + name + ".weight"], model.eps)
    chosen = lambda x: np.tanh(model.linear(norm(x, "altup_router_norm") / model.width,
                                            b + "altup_router"))
    mix = model.linear(chosen(streams[0]), b + "altup_predict_coef")
    mix = mix.reshape(-1, len(streams), len(streams))
    predicted = [own + sum(mix[:, j, i, None] * stream for i, stream in enumerate(streams))
                 for j, own in enumerate(streams)]
    normed = norm(predicted[0], "attn_norm")
    low_rank = model.linear(model.linear(normed, b + "laurel_l"), b + "laurel_r")
    beside = normed + norm(low_rank, "laurel_post_norm")
    h = predicted[0] + norm(attend(model, normed, layer, stored), "post_attention_norm")
    h = (h + beside) / np.sqrt(2)
    h = h + norm(feed_forward(model, norm(h, "ffn_norm"), layer), "post_ffw_norm")
    change = h - predicted[0]
    shares = 1 + model.linear(chosen(h), b + "altup_correct_coef")
    corrected = [own + change * shares[:, j, None] for j, own in enumerate(predicted)]
    gate = model.linear(corrected[0] * t[b + "altup_correct_scale.weight"], b + "inp_gate")
    more = norm(model.linear(gelu_tanh(gate) * inputs, b + "proj"), "post_norm")
    return [corrected[0]] + [stream + more for stream in corrected[1:]]


def feed_forward(model, x, layer):
    part = lambda name: f"blk.{layer}.ffn_{name}"
    gate = model.linear(x, part("gate"))
    scale = model.key("activation_sparsity_scale")[layer]
    if np.isfinite(scale):
        least = np.mean(gate, axis=-1) + scale * np.std(gate, axis=-1)
        gate = np.maximum(gate - least[:, None], 0)
    return model.linear(gelu_tanh(gate) * model.linear(x, part("up")), part("down"))
