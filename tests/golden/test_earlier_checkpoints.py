"""Hugging Face directories of further families whose classes transformers lacks: converted, they are
what GGUF has."""

import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.test_own_code_checkpoints import (  # noqa: E402
    ATTENTION, FEED_FORWARD, GOLDEN, HEAD_NORMS, NORMS, Directory, as_llama, halves, infer)

ENDS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
GPT2_ENDS = {"token_embd": "transformer.wte", "output_norm": "transformer.ln_f", "output": "lm_head"}

GPT2_NORMS = {"attn_norm": "ln_1", "ffn_norm": "ln_2"}


def as_gpt2(d, **more):
    """GPT-2's names of the configuration, and where its layers lie."""
    d.tensors = {key.replace("model.layers.", "transformer.h."): x for key, x in d.tensors.items()}
    for here, there in (("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head"),
                        ("hidden_size", "n_embd"), ("max_position_embeddings", "n_positions")):
        d.config[there] = d.config.pop(here)
    for key in ("num_key_value_heads", "intermediate_size", "rms_norm_eps", "rope_theta"):
        d.config.pop(key)
    return more


def jais(folder, **changes):
    """Factors of the embedding and of the output stand in the configuration, slopes among the tensors."""
    d = Directory("jais-f32")
    d.tensors["transformer.wte.weight"] = d.left.pop("token_embd.weight") / 4
    d.tensors["lm_head.weight"] = d.left.pop("output.weight") * 2
    d.tensors["transformer.relative_pe.slopes"] = 2.0 ** (-7 * np.arange(1, 7) / 4)
    for layer in range(d.layers):
        for part in ("attn_qkv", "attn_output", "ffn_up", "ffn_gate", "ffn_down"):
            d.left[f"blk.{layer}.{part}.weight"] = d.left[f"blk.{layer}.{part}.weight"].T
    d.rename({"output_norm": "transformer.ln_f"})
    d.rename(GPT2_NORMS | {"attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj",
                           "ffn_up": "mlp.c_fc", "ffn_gate": "mlp.c_fc2", "ffn_down": "mlp.c_proj"},
             range(d.layers))
    d.save(folder, "JAISLMHeadModel", **as_gpt2(
        d, n_inner=38, layer_norm_epsilon=1e-4, activation_function="swiglu", embeddings_scale=4.0,
        width_scale=0.5, position_embedding_type="alibi", alibi_scaling=None) | changes)


def refact(folder, **changes):
    d = Directory("refact-f32")
    for layer in range(d.layers):
        at = f"model.layers.{layer}."
        for name, parts in (("attn.kv", ("attn_k", "attn_v")),
                            ("mlp.gate_up_proj", ("ffn_gate", "ffn_up"))):
            d.tensors[at + name + ".weight"] = np.concatenate(
                [d.left.pop(f"blk.{layer}.{part}.weight") for part in parts])
    d.rename(GPT2_ENDS)
    d.rename(GPT2_NORMS | {"attn_q": "attn.q", "attn_output": "attn.c_proj", "ffn_down": "mlp.c_proj"},
             range(d.layers))
    d.save(folder, "GPTRefactForCausalLM", **as_gpt2(d, layer_norm_epsilon=1e-5) | changes)


def baichuan(folder, **changes):
    d = Directory("baichuan-f32")
    for layer in range(d.layers):
        q, k, v = (d.left.pop(f"blk.{layer}.attn_{part}.weight") for part in "qkv")
        d.tensors[f"model.layers.{layer}.self_attn.W_pack.weight"] = np.concatenate(
            [halves(q, d.heads), halves(k, d.heads), v])
    d.rename(ENDS)
    d.rename(NORMS | FEED_FORWARD | {"attn_output": "self_attn.o_proj"}, range(d.layers))
    d.save(folder, "BaichuanForCausalLM", **changes)


def qwen(folder, **changes):
    d = Directory("qwen-f32")
    d.rename(GPT2_ENDS)
    d.rename(GPT2_NORMS | {"attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.w1",
                           "ffn_gate": "mlp.w2", "ffn_down": "mlp.c_proj"}, range(d.layers))
    d.tensors = {key.replace("model.layers.", "transformer.h."): x for key, x in d.tensors.items()}
    d.config["layer_norm_epsilon"] = d.config.pop("rms_norm_eps")
    d.save(folder, "QWenLMHeadModel", **{"kv_channels": 6, "rotary_pct": 1.0} | changes)


def codeshell(folder, **changes):
    d = Directory("codeshell-f32")
    d.rename(GPT2_ENDS)
    d.rename(GPT2_NORMS | {"attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj",
                           "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}, range(d.layers))
    d.save(folder, "CodeShellForCausalLM", **as_gpt2(
        d, n_inner=38, layer_norm_epsilon=1e-4, activation_function="gelu_pytorch_tanh",
        num_query_groups=2, position_embedding_type="rope", rope_theta=5000.0) | changes)


def plamo(folder, **changes):
    """Heads that share a key lie far from each other."""
    d = Directory("plamo-f32")
    group = d.heads // d.kv_heads
    for layer in range(d.layers):
        at = f"blk.{layer}.attn_"
        q = d.left[at + "q.weight"].reshape(d.kv_heads, group, -1, 36)
        d.left[at + "q.weight"] = q.swapaxes(0, 1).reshape(36, 36)
        out = d.left[at + "output.weight"].reshape(36, d.kv_heads, group, -1)
        d.left[at + "output.weight"] = out.swapaxes(1, 2).reshape(36, 36)
    d.rename(ENDS)
    d.rename(ATTENTION | FEED_FORWARD | {"attn_norm": "norm"}, range(d.layers))
    d.tensors = {key.replace("model.layers.", "model.layers.layers."): x for key, x in d.tensors.items()}
    for key in ("num_key_value_heads", "max_position_embeddings", "rope_theta"):
        d.config.pop(key)
    d.save(folder, "PlamoForCausalLM", **{"n_shared_head": group} | changes)


def openelm(folder, **changes):
    d = Directory("openelm-f32")
    for layer in range(d.layers):
        d.tensors[f"transformer.layers.{layer}.ffn.proj_1.weight"] = np.concatenate(
            [d.left.pop(f"blk.{layer}.ffn_{part}.weight") for part in ("gate", "up")])
    d.rename({"token_embd": "transformer.token_embeddings", "output_norm": "transformer.norm"})
    d.rename({"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "attn_qkv": "attn.qkv_proj",
              "attn_q_norm": "attn.q_norm", "attn_k_norm": "attn.k_norm",
              "attn_output": "attn.out_proj", "ffn_down": "ffn.proj_2"}, range(d.layers))
    d.tensors = {key.replace("model.layers.", "transformer.layers."): x for key, x in d.tensors.items()}
    heads, keys = d.heads, d.kv_heads
    d.config = {}
    d.save(folder, "OpenELMForCausalLM", **{
        "num_transformer_layers": 3, "model_dim": 36, "num_query_heads": heads, "num_kv_heads": keys,
        "head_dim": 10, "max_context_length": 256, "rope_freq_constant": 10000,
        "activation_fn_name": "swish", "ffn_with_glu": True, "normalize_qk_projections": True,
        "normalization_layer_name": "rms_norm", "share_input_output_layers": True} | changes)


def put_experts(d, there, names):
    for layer in range(d.layers):
        for here, name in names.items():
            for e, x in enumerate(d.left.pop(f"blk.{layer}.ffn_{here}_exps.weight")):
                d.tensors[f"model.layers.{layer}.{there}.{e}.{name}.weight"] = x


def smallthinker(name, folder, **changes):
    d = Directory(name)
    windows = "windows" in name
    put_experts(d, "block_sparse_moe.experts", {part: part for part in ("gate", "up", "down")})
    d.rename(ENDS)
    d.rename(NORMS | ATTENTION | {"ffn_gate_inp": "block_sparse_moe.primary_router"}, range(d.layers))
    layout = [int(layer % 4 != 0) if windows else 0 for layer in range(d.layers)]
    d.config.pop("intermediate_size")
    d.save(folder, "SmallThinkerForCausalLM", **{
        "head_dim": 6, "moe_ffn_hidden_size": 14, "moe_num_primary_experts": 5,
        "moe_num_active_primary_experts": 2, "moe_primary_router_apply_softmax": windows,
        "moe_enable_early_router": True, "sliding_window_layout": layout, "sliding_window_size": 7,
        "rope_layout": layout if windows else [1] * d.layers} | changes)


def nanbeige(folder, **changes):
    d = Directory("nanbeige-f32")
    as_llama(d)
    d.save(folder, "NanbeigeForCausalLM", **{"num_loops": 3} | changes)


def arctic(folder, **changes):
    d = Directory("arctic-f32")
    for layer in range(d.layers):
        for part, heads in (("q", d.heads), ("k", d.kv_heads)):
            x = f"blk.{layer}.attn_{part}.weight"
            d.left[x] = halves(d.left[x], heads)
    put_experts(d, "block_sparse_moe.experts", {"gate": "w1", "up": "w3", "down": "w2"})
    d.rename(ENDS)
    d.rename(ATTENTION | {
        "attn_norm": "input_layernorm", "ffn_norm": "residual_layernorm",
        "ffn_norm_exps": "post_attention_layernorm", "ffn_gate": "residual_mlp.w1",
        "ffn_up": "residual_mlp.w3", "ffn_down": "residual_mlp.w2",
        "ffn_gate_inp": "block_sparse_moe.gate"}, range(d.layers))
    d.save(folder, "ArcticForCausalLM", **{
        "num_local_experts": 5, "num_experts_per_tok": 2, "use_residual": True,
        "parallel_attn_mlp_res": True, "moe_layer_frequency": 1} | changes)


def maple(folder, **changes):
    """The limits of the golden model are others than all such models have."""
    d = Directory("maple-f32")
    put_experts(d, "mlp.experts", {part: part + "_proj" for part in ("gate", "up", "down")})
    d.rename(ENDS)
    d.rename(NORMS | ATTENTION | HEAD_NORMS | {"ffn_gate_inp": "mlp.gate"}, range(d.layers))
    d.config.pop("intermediate_size")
    d.save(folder, "MapleForCausalLM", **{
        "head_dim": 12, "partial_rotary_factor": 0.5, "moe_intermediate_size": 14, "num_experts": 5,
        "num_experts_per_tok": 2, "sliding_window": 7, "nope_on_global_attention": True,
        "layer_types": ["sliding_attention"] * 2 + ["full_attention", "sliding_attention"]} | changes)


def plamo3(name, folder, **changes):
    """Its norms are held less a number."""
    d = Directory(name)
    for layer in range(d.layers):
        for part, less in (("attention", 5 ** -1), ("ffw", 5 ** -1.5)):
            x = d.left.pop(f"blk.{layer}.post_{part}_norm")
            d.left[f"blk.{layer}.post_{part}_norm.weight"] = np.float32(x - less)
    for key in [key for key in d.left if key.endswith("_norm.weight") and "post_" not in key]:
        d.left[key] = np.float32(d.left[key] - 1)
    d.rename(ENDS)
    d.rename({"attn_norm": "pre_mixer_norm", "ffn_norm": "pre_mlp_norm", "attn_qkv": "mixer.qkv_proj",
              "attn_q_norm": "mixer.q_norm", "attn_k_norm": "mixer.k_norm",
              "attn_output": "mixer.o_proj", "post_attention_norm": "post_mixer_norm",
              "post_ffw_norm": "post_mlp_norm", "ffn_up": "mlp.gate_up_proj",
              "ffn_down": "mlp.down_proj"}, range(d.layers))
    d.tensors = {key.replace("model.layers.", "model.layers.layers."): x for key, x in d.tensors.items()}
    windows = {} if "plain" in name else {
        "window_size": 7, "rope_local_theta": 700.0,
        "layer_types": ["sliding_attention" if slides else "full_attention"
                        for slides in d.key("attention.sliding_window_pattern")]}
    d.save(folder, "Plamo3ForCausalLM", **{"head_dim": 10, **windows, **changes})


def plamo2(folder, **changes):
    """The same; the mixers' vectors have names of their own."""
    d = Directory("plamo2-f32")
    less = {"attn_norm": 1, "ffn_norm": 1, "post_attention_norm": 5 ** -1, "post_ffw_norm": 5 ** -1.5}
    for layer in range(d.layers):
        b, at = f"blk.{layer}.", f"model.layers.{layer}.mixer."
        for here, there in (("ssm_d", "D"), ("ssm_dt.bias", "dt_bias"), ("ssm_dt_norm", "dt_norm_weight"),
                            ("ssm_b_norm", "B_norm_weight"), ("ssm_c_norm", "C_norm_weight"),
                            ("attn_q_norm.weight", "q_weight"), ("attn_k_norm.weight", "k_weight")):
            if b + here in d.left:
                d.tensors[at + there] = d.left.pop(b + here)
        if b + "ssm_a" in d.left:
            d.tensors[at + "A_log"] = np.log(-d.left.pop(b + "ssm_a"))
            conv = d.left.pop(b + "ssm_conv1d.weight")
            d.tensors[at + "conv1d.weight"] = conv[:, None]
        for norm, part in less.items():
            kind = ".weight" if b + norm + ".weight" in d.left else ""
            d.left[b + norm + ".weight"] = np.float32(d.left.pop(b + norm + kind) - part)
    d.left["output_norm.weight"] = np.float32(d.left["output_norm.weight"] - 1)
    d.rename(ENDS)
    d.rename({"attn_norm": "pre_mixer_norm", "ffn_norm": "pre_mlp_norm", "attn_qkv": "mixer.qkv_proj",
              "attn_output": "mixer.o_proj", "post_attention_norm": "post_mixer_norm",
              "post_ffw_norm": "post_mlp_norm", "ffn_up": "mlp.gate_up_proj",
              "ffn_down": "mlp.down_proj", "ssm_in": "mixer.in_proj", "ssm_x": "mixer.bcdt_proj",
              "ssm_dt": "mixer.dt_proj", "ssm_out": "mixer.out_proj"}, range(d.layers))
    d.tensors = {key.replace("model.layers.", "model.layers.layers."): x for key, x in d.tensors.items()}
    d.save(folder, "Plamo2ForCausalLM", **{
        "num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size_per_head": 10,
        "mamba_num_heads": 5, "mamba_d_state": 9, "mamba_d_conv": 4, "mamba_step": 2,
        "tie_word_embeddings": True} | changes)


FAMILIES = {"plamo2-f32": plamo2, "jais-f32": jais, "refact-f32": refact, "baichuan-f32": baichuan, "qwen-f32": qwen,
            "codeshell-f32": codeshell, "plamo-f32": plamo, "openelm-f32": openelm,
            "smallthinker-f32": lambda *a, **k: smallthinker("smallthinker-f32", *a, **k),
            "smallthinker-windows-f32": lambda *a, **k: smallthinker("smallthinker-windows-f32", *a, **k),
            "arctic-f32": arctic, "maple-f32": maple, "nanbeige-f32": nanbeige,
            "plamo3-f32": lambda *a, **k: plamo3("plamo3-f32", *a, **k),
            "plamo3-plain-f32": lambda *a, **k: plamo3("plamo3-plain-f32", *a, **k)}


@pytest.mark.parametrize("name", FAMILIES)
def test_converted_as_gguf_has_it(name, tmp_path):
    FAMILIES[name](tmp_path / "m")
    done = infer("convert", tmp_path / "m", tmp_path / "out.gguf")
    assert done.returncode == 0, done.stderr
    metadata, tensors = gguf.read(tmp_path / "out.gguf")
    wanted_metadata, wanted = gguf.read(GOLDEN / f"{name}.gguf")
    assert tensors.keys() == wanted.keys()
    for key, x in wanted.items():
        rounded = name.startswith("plamo") and ("norm" in key or key.endswith("ssm_a"))
        assert np.allclose(tensors[key], x, rtol=1e-6 if rounded else 0, atol=0), key
    arch = wanted_metadata["general.architecture"]
    for key, value in wanted_metadata.items():
        limit = key.endswith("swiglu_clamp_exp")  # that of Maple is always 7
        if key.startswith(arch + ".") and key in metadata and not limit:
            assert metadata[key] == pytest.approx(value), key


@pytest.mark.parametrize("name, changes, named", [
    ("jais-f32", {"position_embedding_type": "learned"}, "position_embedding_type"),
    ("jais-f32", {"alibi_scaling": {"factor": 2}}, "alibi_scaling"),
    ("jais-f32", {"scale_qk_dot_by_d": False}, "scale_qk_dot_by_d"),
    ("jais-f32", {"activation_function": "gelu"}, "gelu"),
    ("refact-f32", {"multi_query": False}, "multi_query"),
    ("baichuan-f32", {"hidden_act": "gelu"}, "gelu"),
    ("qwen-f32", {"kv_channels": 12}, "kv_channels"),
    ("codeshell-f32", {"position_embedding_type": "learned"}, "position_embedding_type"),
    ("codeshell-f32", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "RoPE scaling"),
    ("plamo-f32", {"n_shared_head": 4}, "heads"),
    ("openelm-f32", {"num_kv_heads": [2, 2]}, "num_kv_heads"),
    ("openelm-f32", {"ffn_with_glu": False}, "ffn_with_glu"),
    ("smallthinker-windows-f32", {"rope_layout": [1] * 6}, "rope_layout"),
    ("smallthinker-f32", {"moe_enable_early_router": False}, "moe_enable_early_router"),
    ("smallthinker-f32", {"moe_layer_layout": [1, 0]}, "layers without experts"),
    ("arctic-f32", {"moe_layer_frequency": 2}, "moe_layer_frequency"),
    ("arctic-f32", {"parallel_attn_mlp_res": False}, "parallel_attn_mlp_res"),
    ("maple-f32", {"nope_on_global_attention": False}, "nope_on_global_attention"),
    ("maple-f32", {"layer_types": ["full_attention"] * 3}, "layer_types"),
    ("plamo3-f32", {"layer_types": ["full_attention"] * 3}, "layer_types"),
    ("plamo3-f32", {"hidden_act": "gelu"}, "gelu"),
    ("plamo2-f32", {"hidden_act": "gelu"}, "gelu"),
    ("plamo2-f32", {"mamba_enabled": False}, "mamba_enabled"),
    ("plamo2-f32", {"mamba_step": 3}, "mixer"),
])
def test_what_cannot_be_had_is_named(name, changes, named, tmp_path):
    FAMILIES[name](tmp_path / "m", **changes)
    done = infer("plan", "-m", tmp_path / "m", "-c", "64")
    assert done.returncode == 3, done.stderr
    assert named in done.stderr


def test_the_output_of_baichuan_2_has_rows_of_length_1(tmp_path):
    baichuan(tmp_path / "m")
    d = Directory("baichuan-f32")
    rows = d.left["output.weight"]
    from tests.golden.reference import safetensors
    from tests.golden.test_head_checkpoints import write
    tensors = safetensors.read(tmp_path / "m" / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = np.resize(np.float32(rows * 3), (125696, rows.shape[1]))
    write(tmp_path / "m" / "model.safetensors", tensors)
    done = infer("convert", tmp_path / "m", tmp_path / "out.gguf")
    assert done.returncode == 0, done.stderr
    found = gguf.read(tmp_path / "out.gguf")[1]
    wanted = tensors["lm_head.weight"] / np.linalg.norm(tensors["lm_head.weight"], axis=1, keepdims=True)
    assert np.allclose(found["output.weight"], wanted, atol=1e-7)
    assert np.array_equal(found["token_embd.weight"], tensors["model.embed_tokens.weight"])
