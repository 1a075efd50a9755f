"""The parts of a transformer in float64, on whole sequences. Shapes: x (tokens, width), heads
(tokens, heads, head_dim), weights (out, in)."""

import math

import numpy as np


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, eps):
    """Ba et al. 2016, without a bias."""
    x = x - np.mean(x, axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def silu(x):
    return x * sigmoid(x)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def gelu(x):
    """With the exact distribution function of the normal distribution."""
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def swiglu(gate, up):
    return silu(gate) * up


def geglu(gate, up):
    return gelu_tanh(gate) * up


def swiglu_oai(gate, up, alpha=1.702, limit=7.0):
    """gpt-oss: OpenAI's published reference, `swiglu` in gpt_oss/torch/model.py."""
    gate = np.minimum(gate, limit)
    up = np.clip(up, -limit, limit)
    return gate * sigmoid(alpha * gate) * (up + 1)


def xielu(x, alpha_p, alpha_n, beta, eps):
    """Huang & Schlag 2024."""
    softplus = lambda a: np.log1p(np.exp(a))
    positive, negative = softplus(alpha_p), beta + softplus(alpha_n)
    below = negative * (np.expm1(np.minimum(x, eps)) - x)
    return np.where(x > 0, positive * x * x, below) + beta * x


def inverse_frequencies(dims, base, factors=None):
    frequencies = base ** (-np.arange(0, dims, 2) / dims)
    return frequencies if factors is None else frequencies / factors


def yarn_frequencies(dims, base, factor, original, beta_fast, beta_slow, rounding, factors=None,
                     extrapolation=1.0):
    """NTK-by-parts interpolation (Peng et al. 2023, section 3.2): dimensions that turn more than
    beta_fast times over the original context stay, those below beta_slow are stretched in full.
    extrapolation: what the authors' code calls extrapolation_factor, the share that stays."""
    extrapolated = inverse_frequencies(dims, base, factors)
    interpolated = extrapolated / factor

    def dimension_of(rotations):
        return dims * np.log(original / (rotations * 2 * np.pi)) / (2 * np.log(base))

    low, high = dimension_of(beta_fast), dimension_of(beta_slow)
    if rounding:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    kept = (1 - np.clip((np.arange(dims // 2) - low) / (high - low), 0, 1)) * extrapolation
    return interpolated * (1 - kept) + extrapolated * kept


def yarn_magnitude(factor, multiplier=1.0):
    """The attention temperature (section 3.4), with DeepSeek's multiplier."""
    return 1.0 if factor <= 1 else 0.1 * multiplier * np.log(factor) + 1.0


def rotate(heads, frequencies, interleaved, magnitude=1.0):
    """Rotary position embedding of the first 2·len(frequencies) elements of each head, as products
    of complex numbers (Su et al. 2021)."""
    pairs = len(frequencies)
    angles = np.arange(heads.shape[0])[:, None] * frequencies[None, :]
    turn = (magnitude * np.exp(1j * angles))[:, None, :]
    rotated = heads.copy()
    if interleaved:
        z = (heads[..., 0:2 * pairs:2] + 1j * heads[..., 1:2 * pairs:2]) * turn
        rotated[..., 0:2 * pairs:2], rotated[..., 1:2 * pairs:2] = z.real, z.imag
    else:
        z = (heads[..., :pairs] + 1j * heads[..., pairs:2 * pairs]) * turn
        rotated[..., :pairs], rotated[..., pairs:2 * pairs] = z.real, z.imag
    return rotated


def choose(q, k, weights, count):
    """Which tokens a query sees: the count best of those up to its own, by small queries (tokens,
    heads, dim) and keys (tokens, dim). → (tokens, tokens)."""
    scores = np.einsum("qh,qhk->qk", weights, np.maximum(np.einsum("qhd,kd->qhk", q, k), 0))
    chosen = np.zeros(scores.shape, bool)
    for row, own in enumerate(scores):
        chosen[row, np.argsort(-own[:row + 1], kind="stable")[:count]] = True
    return chosen


def choose_blocks(q, k, count, block):
    """The same for each head apart, in blocks of so many tokens: count of them, the query's own always
    among these. A block is worth the best of its tokens. → (heads, tokens, tokens)."""
    scores = np.einsum("qhd,kd->hqk", q, k)
    chosen = np.zeros(scores.shape, bool)
    for row in range(len(q)):
        own = row // block
        worth = scores[:, row, :own * block].reshape(len(scores), own, block).max(axis=-1, initial=-np.inf)
        for head, best in enumerate(np.argsort(-worth, axis=-1, kind="stable")[:, :count - 1]):
            for b in [*best, own]:
                chosen[head, row, b * block:(b + 1) * block] = True
    return chosen


def alibi_slopes(heads, most):
    """Press et al. 2022, and the authors' code for numbers of heads that are no powers of two."""
    power = 2 ** int(np.log2(heads))
    slopes = lambda n: 2.0 ** (-most * np.arange(1, n + 1) / n)
    return np.concatenate([slopes(power), slopes(2 * power)[0::2][:heads - power]])


def attention(q, k, v, scale, window=0, softcap=0.0, sinks=None, chunk=0, ahead=None, chosen=None,
              slopes=None):
    """Causal attention; kv heads are repeated for their group. chunk: what lies before the last
    multiple of it is not seen. ahead: (tokens, tokens), what is seen although it lies behind;
    chosen: what is seen alone, also (kv heads, tokens, tokens). slopes: of biases by distance. → (tokens, heads · value_dim)."""
    tokens, heads, _ = q.shape
    k = np.repeat(k, heads // k.shape[1], axis=1)
    v = np.repeat(v, heads // v.shape[1], axis=1)
    scores = np.einsum("qhd,khd->hqk", q, k) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    back = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    if slopes is not None:
        scores = scores - slopes[:, None, None] * np.abs(back)
    visible = back >= 0
    if ahead is not None:
        visible |= ahead
    if chosen is not None and chosen.ndim == 3:
        chosen = np.repeat(chosen, heads // len(chosen), axis=0)
    if chosen is not None:
        visible = visible & chosen
    if window:
        visible &= back < window
    if chunk:
        part = np.arange(tokens) // chunk
        visible &= part[:, None] == part[None, :]
    scores = np.where(visible, scores, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(sinks[:, None, None], (heads, tokens, 1))
        scores = np.concatenate([scores, column], axis=-1)
    weights = softmax(scores)[..., :tokens]
    return np.einsum("hqk,khd->qhd", weights, v).reshape(tokens, -1)


def sparse_mix(logits, used, margin):
    """(ids, weights), each (tokens, used): SparseMixer (Liu et al. 2024) without its noise. A weight is a
    softmax over what is left of the experts, without those that are far behind the best one."""
    left = logits.copy()
    ids, weights = [], []
    for _ in range(used):
        best = left.max(axis=-1, keepdims=True)
        chosen = left.argmax(axis=-1)[:, None]
        far = (best - logits) / np.maximum(np.abs(logits), best) > margin
        ids.append(chosen)
        weights.append(np.take_along_axis(softmax(np.where(far, -np.inf, left)), chosen, axis=-1))
        np.put_along_axis(left, chosen, -np.inf, axis=-1)
    return np.concatenate(ids, axis=-1), np.concatenate(weights, axis=-1)


def route(logits, used, gating, bias=None, normalise=False, scale=1.0, groups=1, groups_used=1,
          group_best=2):
    """(ids, weights), each (tokens, used). gating: "softmax", "sigmoid", "softmax_of_chosen".
    group_best: a group is worth the sum of so many of its best scores (DeepSeek-V2, section 2.2.2:
    one; DeepSeek-V3, section 2.1.2: two)."""
    probs = {"softmax": softmax, "sigmoid": sigmoid,
             "softmax_of_chosen": lambda x: x}[gating](logits)
    scores = probs if bias is None else probs + bias
    if groups > 1:
        grouped = scores.reshape(len(scores), groups, -1)
        worth = np.sort(grouped, axis=-1)[..., -group_best:].sum(axis=-1)
        out = np.argsort(-worth, axis=-1, kind="stable")[:, groups_used:]
        grouped = grouped.copy()
        np.put_along_axis(grouped, out[..., None], -np.inf, axis=1)
        scores = grouped.reshape(scores.shape)
    ids = np.argsort(-scores, axis=-1, kind="stable")[:, :used]
    weights = np.take_along_axis(probs, ids, axis=-1)
    if gating == "softmax_of_chosen":
        weights = softmax(weights)
    if normalise:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return ids, weights * scale
