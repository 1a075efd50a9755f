"""Families with recurrent layers in float64: the mixers token by token as their papers have them
(LFM2: Liquid AI 2025; gated delta nets: Yang et al. 2024; Kimi delta attention: Kimi Team 2025;
Mamba: Gu & Dao 2023; Mamba-2: Dao & Gu 2024; lightning attention: Qin et al. 2024), and what their models do around them."""

import numpy as np

from .layers import attention, rms_norm, rotate, route, sigmoid, silu, softplus, swiglu

FAMILIES = {"lfm2", "lfm2moe", "qwen35", "qwen35moe", "qwen3next", "granitehybrid", "nemotron_h",
            "nemotron_h_moe", "falcon-h1", "kimi-linear", "mamba", "mamba2", "bailingmoe3", "minimax-01", "jamba", "plamo2"}
FALCON_EPS = 1e-6  # of Falcon Mamba's norms without weights


def causal_conv(x, weight, bias=0.0):
    """x (tokens, channels), weight (channels, taps): the last tap is that of the token itself."""
    taps = weight.shape[1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
    return sum(weight[:, j] * padded[j:j + len(x)] for j in range(taps)) + bias


def short_conv(m, x, b):
    before, after, value = np.split(m.linear(x, b + "shortconv.in_proj"), 3, axis=1)
    mixed = causal_conv(before * value, m.tensors[b + "shortconv.conv.weight"])
    return m.linear(after * mixed, b + "shortconv.out_proj")


def unit(a):
    return a / np.sqrt(np.sum(a * a, axis=-1, keepdims=True) + 1e-6)


def kimi_delta(m, x, b):
    """Like a gated delta net, with a decay for each channel of a key."""
    tokens, heads, dim = len(x), m.heads, m.key("kda.head_dim")

    def mixed(part):
        weight = m.tensors[f"{b}ssm_conv1d_{part}.weight"].reshape(heads * dim, -1)
        return silu(causal_conv(m.linear(x, b + "attn_" + part), weight)).reshape(tokens, heads, dim)

    q, k, v = unit(mixed("q")) / np.sqrt(dim), unit(mixed("k")), mixed("v")
    def projected(part):  # by one matrix or two
        if m.has(f"{b}ssm_{part}"):
            return m.linear(x, f"{b}ssm_{part}")
        y = m.linear(x, f"{b}ssm_{part}_a")
        return m.linear(y, f"{b}ssm_{part}_b") if m.has(f"{b}ssm_{part}_b") else y

    step = (projected("f") + m.tensors[b + "ssm_dt.bias"]).reshape(tokens, heads, dim)
    rate = m.tensors[b + "ssm_a"].reshape(heads, 1)
    bound = m.key("kda.gate_lower_bound", 0.0)
    decay = np.exp(bound * sigmoid(np.abs(rate) * step) if bound else rate * softplus(step))
    beta = sigmoid(m.linear(x, b + "ssm_beta"))
    out = np.zeros_like(v)
    state = np.zeros((heads, dim, dim))
    for t in range(tokens):
        state = decay[t][:, :, None] * state
        change = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", state, k[t]))
        state = state + k[t][:, :, None] * change[:, None, :]
        out[t] = np.einsum("hkv,hk->hv", state, q[t])
    gate = projected("g").reshape(tokens, heads, dim)
    out = rms_norm(out, m.tensors[b + "ssm_norm.weight"], m.eps) * sigmoid(gate)
    return m.linear(out.reshape(tokens, -1), b + "attn_output")


def delta_net(m, x, b):
    tokens = len(x)
    dim, heads = m.key("ssm.state_size"), m.key("ssm.time_step_rank")
    key_heads = m.key("ssm.group_count")
    u = silu(causal_conv(m.linear(x, b + "attn_qkv"), m.tensors[b + "ssm_conv1d.weight"]))
    q, k, v = np.split(u, [key_heads * dim, 2 * key_heads * dim], axis=1)
    q = unit(q.reshape(tokens, key_heads, dim)) / np.sqrt(dim)
    k = unit(k.reshape(tokens, key_heads, dim))
    v = v.reshape(tokens, heads, dim)
    if m.arch == "qwen3next":
        both = m.linear(x, b + "ssm_ba").reshape(tokens, key_heads, 2, -1)
        beta, step = (both[:, :, i].reshape(tokens, heads) for i in range(2))
        served = np.repeat(np.arange(key_heads), heads // key_heads)
    else:
        beta, step = m.linear(x, b + "ssm_beta"), m.linear(x, b + "ssm_alpha")
        served = np.arange(heads) % key_heads
    beta = sigmoid(beta)
    decay = np.exp(m.tensors[b + "ssm_a"] * softplus(step + m.tensors[b + "ssm_dt.bias"]))
    out = np.zeros_like(v)
    state = np.zeros((heads, dim, dim))
    for t in range(tokens):
        state *= decay[t][:, None, None]
        key, query = k[t][served], q[t][served]
        change = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", state, key))
        state += key[:, :, None] * change[:, None, :]
        out[t] = np.einsum("hkv,hk->hv", state, query)
    gate = m.linear(x, b + "attn_gate").reshape(tokens, heads, dim)
    opened = sigmoid if m.arch == "qwen4exp" else silu
    out = rms_norm(out, m.tensors[b + "ssm_norm.weight"], m.eps) * opened(gate)
    return m.linear(out.reshape(tokens, -1), b + "ssm_out")


def lightning(m, x, layer):
    """Linear attention whose state decays by a constant of the head and the layer."""
    b, tokens, heads = f"blk.{layer}.", len(x), m.heads
    qkv = silu(m.linear(x, b + "attn_qkv")).reshape(tokens, heads, 3, -1)
    share = 1 - layer / (m.layers - 1 + 1e-5) + 1e-5
    decay = np.exp(-share * 2.0 ** (-8 * np.arange(1, heads + 1) / heads))
    out = np.zeros((tokens, heads, qkv.shape[3]))
    state = np.zeros((heads, qkv.shape[3], qkv.shape[3]))
    for t in range(tokens):
        q, k, v = qkv[t].swapaxes(0, 1)
        state = decay[:, None, None] * state + k[:, :, None] * v[:, None, :]
        out[t] = np.einsum("hkv,hk->hv", state, q)
    normed = rms_norm(out.reshape(tokens, -1), m.tensors[b + "attn_norm_2.weight"], 1e-6)
    return m.linear(normed * sigmoid(m.linear(x, b + "attn_gate")), b + "attn_output")


def mamba_parts(m, x, b, rank, size):
    """What the steps are made of, and what is written and read along."""
    x = m.linear(x, b + "ssm_x")
    if m.arch == "plamo2":
        x = np.roll(x, rank, axis=1)
    parts = np.split(x, [rank, rank + size], axis=1)
    for i, name in enumerate(("dt", "b", "c")):
        weight = m.tensors.get(f"{b}ssm_{name}_norm.weight", m.tensors.get(f"{b}ssm_{name}_norm"))
        if weight is not None:
            parts[i] = rms_norm(parts[i], weight, m.eps)
        elif m.key("ssm.dt_b_c_rms", False):
            parts[i] = rms_norm(parts[i], 1.0, FALCON_EPS)
    return parts


def mamba(m, x, b):
    inner, size = m.key("ssm.inner_size"), m.key("ssm.state_size")
    mixed, gate = np.split(m.linear(x, b + "ssm_in"), 2, axis=1)
    mixed = silu(causal_conv(mixed, m.tensors[b + "ssm_conv1d.weight"],
                             m.tensors.get(b + "ssm_conv1d.bias", 0.0)))
    low, write, read = mamba_parts(m, mixed, b, m.key("ssm.time_step_rank"), size)
    step = softplus(m.linear(low, b + "ssm_dt"))
    out = np.zeros_like(mixed)
    state = np.zeros((inner, size))
    for t in range(len(x)):
        state = (np.exp(step[t][:, None] * m.tensors[b + "ssm_a"]) * state +
                 (step[t] * mixed[t])[:, None] * write[t])
        out[t] = state @ read[t] + m.tensors[b + "ssm_d"] * mixed[t]
    return m.linear(out * silu(gate), b + "ssm_out")


def plamo2(m, x, b):
    """Its channels are in heads, which have a step and a decay each."""
    tokens, size, heads = len(x), m.key("ssm.state_size"), m.key("ssm.time_step_rank")
    gate, mixed = np.split(m.linear(x, b + "ssm_in").reshape(tokens, heads, -1), 2, axis=2)
    mixed = silu(causal_conv(mixed.reshape(tokens, -1), m.tensors[b + "ssm_conv1d.weight"]))
    low, write, read = mamba_parts(m, mixed, b, max(64, m.width // 16), size)
    step = softplus(m.linear(low, b + "ssm_dt"))
    mixed = mixed.reshape(tokens, heads, -1)
    out = np.zeros_like(mixed)
    state = np.zeros((*mixed.shape[1:], size))
    for t in range(tokens):
        state = (np.exp(step[t] * m.tensors[b + "ssm_a"])[:, None, None] * state +
                 (step[t][:, None] * mixed[t])[:, :, None] * write[t])
        out[t] = state @ read[t] + m.tensors[b + "ssm_d"][:, None] * mixed[t]
    return m.linear((out * silu(gate)).reshape(tokens, -1), b + "ssm_out")


def mamba2(m, x, b):
    tokens = len(x)
    inner, size = m.key("ssm.inner_size"), m.key("ssm.state_size")
    heads, groups = m.key("ssm.time_step_rank"), m.key("ssm.group_count")
    gate, mixed, step = np.split(m.linear(x, b + "ssm_in"),
                                 [inner, 2 * inner + 2 * groups * size], axis=1)
    mixed = silu(causal_conv(mixed, m.tensors[b + "ssm_conv1d.weight"],
                             m.tensors[b + "ssm_conv1d.bias"]))
    value, write, read = np.split(mixed, [inner, inner + groups * size], axis=1)
    value = value.reshape(tokens, heads, -1)
    write, read = (np.repeat(a.reshape(tokens, groups, size), heads // groups, axis=1)
                   for a in (write, read))
    step = softplus(step + m.tensors[b + "ssm_dt.bias"])
    decay = np.exp(step * m.tensors[b + "ssm_a"][:, 0])
    out = np.zeros_like(value)
    state = np.zeros((heads, value.shape[2], size))
    for t in range(tokens):
        state = (decay[t][:, None, None] * state +
                 (step[t][:, None] * value[t])[:, :, None] * write[t][:, None, :])
        out[t] = (np.einsum("hpn,hn->hp", state, read[t]) +
                  m.tensors[b + "ssm_d"] * value[t])
    out = out.reshape(tokens, inner) * silu(gate)
    if m.has(b + "ssm_norm"):
        out = rms_norm(out.reshape(tokens, groups, -1), m.tensors[b + "ssm_norm.weight"], m.eps)
    return m.linear(out.reshape(tokens, inner), b + "ssm_out")


def attend(m, x, layer):
    b = f"blk.{layer}."
    tokens, dim = len(x), m.head_dim
    kv_heads = m.per_layer("attention.head_count_kv", layer)
    gated = m.arch.startswith("qwen3")
    heads = m.per_layer("attention.head_count", layer)
    if m.has(b + "attn_qkv"):
        qkv = m.linear(x, b + "attn_qkv").reshape(tokens, -1, dim)
        q, k, v = np.split(qkv, [heads, heads + kv_heads], axis=1)
    else:
        q = m.linear(x, b + "attn_q").reshape(tokens, heads, -1)
        q, gate = q[..., :dim], q[..., dim:]
        k, v = (m.linear(x, b + "attn_" + part).reshape(tokens, kv_heads, dim) for part in "kv")
    if m.has(b + "attn_q_norm"):
        q, k = m.norm(q, b + "attn_q_norm"), m.norm(k, b + "attn_k_norm")
    if m.arch not in ("nemotron_h", "nemotron_h_moe", "jamba") and m.key("rope.scaling.finetuned", True):
        frequencies, magnitude = m.rotation(layer)
        turn = lambda a: rotate(a, frequencies, m.arch == "granitehybrid", magnitude)
        q, k = turn(q), turn(k)
    mixed = attention(q, k, v, m.key("attention.scale", dim ** -0.5), 0, 0.0, None, 0)
    if gated:
        mixed = mixed * sigmoid(gate).reshape(tokens, -1)
    return m.linear(mixed, b + "attn_output")


def mixer(m, x, layer):
    b = f"blk.{layer}."
    if m.arch == "falcon-h1":
        return attend(m, x, layer) + mamba2(m, x, b)
    if m.arch == "minimax-01" and m.has(b + "attn_qkv"):
        return lightning(m, x, layer)
    if m.has(b + "attn_kv_a_mqa"):
        return m.attend_latent(x, layer)
    if m.has(b + "ssm_f_a"):
        return kimi_delta(m, x, b)
    if m.has(b + "attn_q") or m.arch == "plamo2" and m.has(b + "attn_qkv"):
        return attend(m, x, layer)
    if m.has(b + "shortconv.in_proj"):
        return short_conv(m, x, b)
    if m.has(b + "attn_qkv"):
        return delta_net(m, x, b)
    if m.arch == "plamo2":
        return plamo2(m, x, b)
    return mamba(m, x, b) if m.has(b + "ssm_x") else mamba2(m, x, b)


def feed_forward(m, x, b, suffix=""):
    part = lambda name: f"{b}ffn_{name}{suffix}"
    up = m.linear(x, part("up"))
    if m.has(part("gate")):
        return m.linear(swiglu(m.linear(x, part("gate")), up), part("down"))
    if m.arch == "plamo2":
        return m.linear(swiglu(*np.split(up, 2, axis=1)), part("down"))
    return m.linear(np.maximum(up, 0) ** 2, part("down"))


def experts(m, x, b):
    if m.arch == "bailingmoe3":
        return m.experts(x, int(b.split(".")[1]))
    nemotron = m.arch == "nemotron_h_moe"
    sigmoids = nemotron or m.arch in ("lfm2moe", "kimi-linear")
    ids, weights = route(m.linear(x, b + "ffn_gate_inp"), used=m.key("expert_used_count"),
                         gating="sigmoid" if sigmoids else "softmax",
                         bias=m.tensors.get(b + "exp_probs_b.bias"),
                         normalise=m.key("expert_weights_norm", m.arch != "jamba"),
                         scale=m.key("expert_weights_scale", 1.0))
    taken = m.linear(x, b + "ffn_latent_down") if m.has(b + "ffn_latent_down") else x
    weight = lambda name, e: m.tensors[f"{b}ffn_{name}_exps.weight"][e]
    out = np.zeros_like(taken)
    for t, row in enumerate(taken):
        for e, share in zip(ids[t], weights[t]):
            up = weight("up", e) @ row
            hidden = np.maximum(up, 0) ** 2 if nemotron else swiglu(weight("gate", e) @ row, up)
            out[t] += share * (weight("down", e) @ hidden)
    if m.has(b + "ffn_latent_up"):
        out = m.linear(out, b + "ffn_latent_up")
    if m.has(b + "ffn_down_shexp"):
        shared = feed_forward(m, x, b, "_shexp")
        if m.has(b + "ffn_gate_inp_shexp"):
            shared = shared * sigmoid(x @ m.tensors[b + "ffn_gate_inp_shexp.weight"].reshape(-1, 1))
        out = out + shared
    return out


def hidden(m, tokens):
    x = m.embed(tokens)
    scale = m.key("residual_scale", 1.0)
    m.entered = []
    for layer in range(m.layers):
        m.entered.append(x)
        b = f"blk.{layer}."
        feed = lambda h: experts(m, h, b) if m.has(b + "ffn_gate_inp") else feed_forward(m, h, b)
        h = m.norm(x, b + "attn_norm")
        if m.arch.startswith("nemotron") or m.arch in ("mamba", "mamba2"):  # one part to a block
            alone = m.has(b + "ffn_up") or m.has(b + "ffn_gate_inp")
            x = x + (feed(h) if alone else mixer(m, h, layer))
            continue
        if m.arch == "minimax-01":  # residuals are what the parts take
            h = m.norm(scale * h + mixer(m, h, layer), b + "ffn_norm")
            x = scale * h + feed(h)
            continue
        if m.arch == "plamo2":
            x = x + m.norm(mixer(m, h, layer), b + "post_attention_norm")
            x = x + m.norm(feed(m.norm(x, b + "ffn_norm")), b + "post_ffw_norm")
            continue
        x = x + scale * mixer(m, h, layer)
        after = "post_attention_norm" if m.arch.startswith("qwen3") else "ffn_norm"
        h = rms_norm(x, m.tensors.get(b + after + ".weight", m.tensors.get(b + after)), m.eps)
        x = x + scale * feed(h)
    m.entered.append(x)
    return m.norm(x, "token_embd_norm" if m.arch.startswith("lfm2") else "output_norm")


def logits(m, tokens):
    return (m.linear(hidden(m, tokens), "output" if m.has("output") else "token_embd") /
            m.key("logit_scale", 1.0))
