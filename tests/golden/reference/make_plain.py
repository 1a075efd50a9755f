"""Tiny models of families that are the plain decoder but for little, for make_golden.py."""

from .builder import Builder
from .make_layer_norms import fused_attention


def plain_layers(m, inner, bias="", head_norms=False):
    """Pre-norm attention, then a gated feed-forward. head_norms: of queries and keys, by head."""
    for layer in range(m.layers):
        m.attention(layer, bias=bias)
        if head_norms:
            m.norm(f"blk.{layer}.attn_q_norm", m.head_dim)
            m.norm(f"blk.{layer}.attn_k_norm", m.head_dim)
        if m.metadata.get(m.metadata["general.architecture"] + ".expert_count"):
            m.norm(f"blk.{layer}.ffn_norm", m.width)
            m.experts(layer, 5, inner)
        else:
            m.feed_forward(layer, inner)
    return m


def minicpm(name):
    """-long: LongRoPE beyond the original context, and the factors that files leave out."""
    long = "long" in name
    keys = {"rope__scaling__type": "longrope", "rope__scaling__attn_factor": 1.19,
            "rope__scaling__original_context_length": 32} if long else {
        "embedding_scale": 7.0, "residual_scale": 0.3, "logit_scale": 2.5}
    m = Builder(name, "minicpm", 30, 2, 6, 2, 10, feed_forward_length=38, **keys)
    m.embedding(tied=True, spread=0.3)
    if long:
        m.tensors["token_embd.weight"] *= 0.3
        m.tensors["rope_factors_short.weight"] = m.rng.uniform(1.0, 1.5, 5)
        m.tensors["rope_factors_long.weight"] = m.rng.uniform(2.0, 30.0, 5)
    return plain_layers(m, 38)


def minicpm3(name):
    """Keys and values as one matrix; -split: as two, with factors of RoPE for long contexts, and
    factors that files leave out."""
    split = "split" in name
    heads, nope, rope, value, latent, q_latent = 3, 10, 8, 10, 22, 18
    keys = {"rope__dimension_count": rope, "attention__q_lora_rank": q_latent,
            "attention__kv_lora_rank": latent, "attention__key_length": nope + rope}
    if split:
        keys |= {"attention__key_length": latent + rope, "attention__value_length": latent,
                 "attention__key_length_mla": nope + rope, "attention__value_length_mla": value,
                 "rope__scaling__type": "longrope", "rope__scaling__attn_factor": 1.19,
                 "rope__scaling__original_context_length": 32}
    else:
        keys |= {"embedding_scale": 7.0, "residual_scale": 0.3, "logit_scale": 2.5}
    m = Builder(name, "minicpm3", 30, 3, heads, 1 if split else heads, nope + rope,
                feed_forward_length=38, **keys)
    if not split:
        del m.metadata["minicpm3.attention.value_length"]  # the width of the model by heads
    m.embedding(tied=True, spread=0.1 if split else 0.3)
    if split:
        m.tensors["rope_factors_short.weight"] = m.rng.uniform(1.0, 1.5, rope // 2)
        m.tensors["rope_factors_long.weight"] = m.rng.uniform(2.0, 30.0, rope // 2)
    for layer in range(m.layers):
        b = f"blk.{layer}."
        m.norm(b + "attn_norm", m.width)
        m.matrix(b + "attn_q_a", q_latent, m.width)
        m.norm(b + "attn_q_a_norm", q_latent)
        m.matrix(b + "attn_q_b", heads * (nope + rope), q_latent, gain=1.5)
        m.matrix(b + "attn_kv_a_mqa", latent + rope, m.width, gain=1.5)
        m.norm(b + "attn_kv_a_norm", latent)
        if split:
            m.matrix(b + "attn_k_b", latent, nope, heads)
            m.matrix(b + "attn_v_b", value, latent, heads)
        else:
            m.matrix(b + "attn_kv_b", heads * (nope + value), latent)
        m.matrix(b + "attn_output", m.width, heads * value)
        m.feed_forward(layer, 38)
    return m


def olmo(name):
    """-clipped: queries, keys and values held within a limit that most of them reach; the output is
    a matrix of its own."""
    clipped = "clipped" in name
    keys = {"attention__clamp_kqv": 0.8} if clipped else {}
    m = Builder(name, "olmo", 30, 3, 6, 2 if clipped else 6, 10, feed_forward_length=38,
                attention__layer_norm_epsilon=1e-3, **keys)
    del m.metadata["olmo.attention.layer_norm_rms_epsilon"]
    m.embedding(tied=not clipped, spread=0.7)
    del m.tensors["output_norm.weight"]
    for layer in range(m.layers):
        m.attention(layer, norms=False)
        m.feed_forward(layer, 38, norms=False)
    return m


def exaone(name):
    m = Builder(name, "exaone", 36, 2, 6, 2, 6, feed_forward_length=38, rope__freq_base=5e5)
    m.embedding()
    return plain_layers(m, 38)


def bitnet(name):
    arch = name.removesuffix("-f32")
    m = Builder(name, arch, 40, 2, 4, 2, 10, feed_forward_length=38)
    m.embedding(tied=True, spread=0.7)
    plain_layers(m, 38)
    for layer in range(m.layers):
        m.norm(f"blk.{layer}.attn_sub_norm", 40)
        m.norm(f"blk.{layer}.ffn_sub_norm", 38)
    return m


def deepseek(name):
    m = Builder(name, "deepseek", 36, 3, 6, 2, 6, feed_forward_length=38,
                leading_dense_block_count=1, expert_count=6, expert_used_count=3,
                expert_feed_forward_length=14, expert_shared_count=2, expert_weights_scale=1.0)
    m.embedding()
    for layer in range(m.layers):
        m.attention(layer)
        if layer == 0:
            m.feed_forward(layer, 38)
            continue
        m.norm(f"blk.{layer}.ffn_norm", m.width)
        m.experts(layer, 6, 14)
        m.feed_forward(layer, 28, norms=False, suffix="_shexp")
    return m


def chatglm(name):
    m = Builder(name, "chatglm", 40, 3, 4, 2, 10, feed_forward_length=38, rope__dimension_count=4)
    m.embedding()
    for layer in range(m.layers):
        m.norm(f"blk.{layer}.attn_norm", m.width)
        fused_attention(m, layer)
        del m.tensors[f"blk.{layer}.attn_output.bias"]
        m.feed_forward(layer, 38, fused=True)
    return m
