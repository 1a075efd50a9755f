"""Variants of the golden models: keys and lengths that these do not have, against the reference,
and files that describe a model which cannot be (exit 3 and a message that names what is wrong)."""

import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf, make_golden  # noqa: E402
from tests.golden.reference.model import Model, nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)


def load(tmp_path, name, change, tokens=(1, 2, 3)):
    builder = make_golden.MODELS[name](name)
    change(builder)
    path = tmp_path / "model.gguf"
    gguf.write(path, builder.metadata, builder.tensors)
    return subprocess.run([os.environ["INFER_BIN"], "eval", "-m", path,
                           "--tokens", ",".join(map(str, tokens)),
                           "--logits", tmp_path / "out.f32"], capture_output=True, text=True)


@pytest.mark.parametrize("name, alias", [("qwen2-f32", "qwen2vl"), ("qwen3-f32", "qwen3vl"),
                                         ("qwen3moe-f32", "qwen3vlmoe")])
def test_text_of_models_that_see(tmp_path, name, alias):
    """It has one position where an image has three, so it is computed as in the models beside them."""
    def rename(m):
        arch = m.metadata["general.architecture"]
        for key in [key for key in m.metadata if key.startswith(arch + ".")]:
            m.metadata[alias + key.removeprefix(arch)] = m.metadata.pop(key)
        m.metadata["general.architecture"] = alias
        m.metadata[alias + ".rope.dimension_sections"] = [2, 2, 1, 0]

    assert load(tmp_path, name, lambda m: None).returncode == 0
    plain = (tmp_path / "out.f32").read_bytes()
    done = load(tmp_path, name, rename)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.f32").read_bytes() == plain


def setting(key, value):
    return lambda m: m.metadata.__setitem__(f"{m.metadata['general.architecture']}.{key}", value)


def without(tensor):
    return lambda m: m.tensors.pop(tensor)


def without_key(key):
    return lambda m: m.metadata.pop(f"{m.metadata['general.architecture']}.{key}")


@pytest.mark.parametrize("name, change, named", [
    ("deepseek2-v3-f32", without_key("attention.kv_lora_rank"), "attention.kv_lora_rank"),
    ("deepseek2-v3-f32", setting("attention.kv_lora_rank", 21), "attn_kv_a_mqa"),
    ("deepseek2-v3-f32", setting("attention.key_length_mla", 8), "8 rotated elements"),
    ("deepseek2-v3-f32", setting("attention.value_length_mla", 13), "attn_v_b"),
    ("mistral4-f32", setting("attention.key_length_mla", 17), "temperature_scale"),
    ("mistral4-f32", setting("attention.temperature_length", 0), "temperature_length"),
    ("deepseek2-v3-f32", setting("expert_group_count", 3), "groups"),
    ("deepseek2-v3-f32", setting("expert_group_used_count", 1), "groups"),
    ("deepseek2-v3-f32", setting("expert_gating_func", 5), "expert_gating_func"),
    ("deepseek2-v3-f32", without("blk.1.attn_v_b.weight"), "blk.1.attn_v_b.weight"),
    ("deepseek2-v2-f32", without("blk.2.attn_kv_b.weight"), "blk.2.attn_kv_b.weight"),
    ("deepseek2-lite-f32", without("blk.1.ffn_up_shexp.weight"), "blk.1.ffn_up_shexp"),
    ("gpt-oss-f32", without("blk.1.ffn_gate_exps.weight"), "blk.1.ffn_gate_exps.weight"),
    ("granite-f32", setting("logit_scale", 0.0), "logit_scale"),
    ("llama-f32", without_key("attention.head_count"), "attention.head_count"),
    ("step35-f32", setting("attention.head_count", [6, 6, 6, 4]), "attn_q"),
    ("step35-f32", setting("attention.head_count", [4, 6, 5, 4]), "do not divide 5 heads"),
    ("step35-f32", setting("attention.head_count", [4, 6]), "expected 4 values"),
    ("step35-f32", setting("swiglu_clamp_exp", [1.0, 2.0]), "swiglu_clamp_exp"),
    ("step35-f32", setting("swiglu_clamp_shexp", [-1.0] * 4), "swiglu_clamp_shexp"),
    ("step35-f32", setting("rope.dimension_count", 6), "multiple of 4"),
    ("step35-f32", setting("rope.dimension_count_swa", 7), "even number"),
    ("step35-f32", lambda m: m.tensors.update({"rope_freqs.weight": m.rng.uniform(1, 2, 3)}),
     "rope_freqs"),
    ("glm4-f32", setting("rope.dimension_sections", [1, 2]), "rope.dimension_sections"),
    ("glm4moe-f32", setting("rope.dimension_sections", [1, 2]), "rope.dimension_sections"),
    ("llama-yarn-f32", setting("rope.scaling.factor", 0.0), "rope.scaling.factor"),
    ("llama-yarn-f32", setting("rope.scaling.type", "spiral"), "'spiral'"),
    ("llama-yarn-f32", setting("rope.scaling.type", "longrope"), "'longrope'"),
    ("bailingmoe3-f32", setting("kda.gate_lower_bound", 1.5), "kda.gate_lower_bound"),
    ("bailingmoe3-f32", without_key("kda.gate_lower_bound"), "kda.gate_lower_bound"),
    ("bailingmoe3-f32", setting("kda.safe_gate", False), "kda.safe_gate"),
    ("bailingmoe3-f32", setting("swiglu_clamp_exp", [0.5, 0.5]), "swiglu_clamp_exp"),
    ("bailingmoe3-f32", without("blk.1.attn_gate.weight"), "blk.1.attn_gate.weight"),
    ("minimax-01-f32", setting("attention.recurrent_layers", [True, False]), "recurrent_layers"),
    ("hy_v4-f32", setting("hyper_connection.count", 1), "hyper_connection.count"),
    ("hy_v4-f32", setting("hyper_connection.count", 4), "hc_attn_fn"),
    ("hy_v4-f32", without("blk.1.hc_ffn_scale.weight"), "blk.1.hc_ffn_scale.weight"),
    ("hy_v4-f32", setting("attention.indexer.types", [False, True, True, True]), "first layer"),
    ("hy_v4-f32", setting("attention.indexer.key_length", 6), "attention.indexer.key_length"),
    ("hy_v4-f32", setting("rope.scaling.type", "yarn"), "yarn"),
    ("deepseek4-f32", setting("attention.sliding_window", 0), "attention.sliding_window"),
    ("deepseek4-f32", setting("attention.head_count_kv", 2), "one key-value head"),
    ("deepseek4-f32", setting("attention.value_length", 12), "attention.value_length"),
    ("deepseek4-f32", setting("attention.output_group_count", 3), "in 3 groups"),
    ("deepseek4-f32", setting("attention.output_lora_rank", 9), "attn_output_a"),
    ("deepseek4-f32", setting("attention.compress_ratios", [0, 4]), "compress_ratios"),
    ("deepseek4-f32", setting("attention.compress_ratios", [0, 4, 6, 70, -4]), "compress_ratios"),
    ("deepseek4-f32", setting("attention.compress_ratios", [0, 5, 6, 70, 4]), "attn_compressor_ape"),
    ("deepseek4-f32", setting("attention.compress_rope_freq_base", 0.5), "compress_rope_freq_base"),
    ("deepseek4-f32", setting("attention.indexer.key_length", 6), "attention.indexer.key_length"),
    ("deepseek4-f32", setting("rope.dimension_count", 16), "rope.dimension_count"),
    ("deepseek4-f32", setting("expert_gating_func", 2), "expert_gating_func"),
    ("deepseek4-f32", setting("hash_layer_count", 5), "hash_layer_count"),
    ("deepseek4-f32", setting("hash_layer_count", 1), "ffn_gate_tid2eid"),
    ("deepseek4-f32", without("blk.1.ffn_gate_tid2eid.weight"), "ffn_gate_tid2eid"),
    ("deepseek4-f32", lambda m: m.tensors.update(
        {"blk.0.ffn_gate_tid2eid.weight": m.rng.normal(0, 1, (72, 2))}), "ffn_gate_tid2eid"),
    ("deepseek4-f32", setting("hyper_connection.count", 9), "hyper_connection.count"),
    ("deepseek4-f32", setting("hyper_connection.sinkhorn_iterations", 0), "sinkhorn_iterations"),
    ("deepseek4-f32", without("blk.2.attn_compressor_gate.weight"), "attn_compressor_gate"),
    ("deepseek4-f32", without("output_hc_scale.weight"), "output_hc_scale"),
    ("dots3note-f32", without_key("attention.kv_lora_rank_swa"), "attention.kv_lora_rank_swa"),
    ("dots3note-f32", setting("attention.key_length_mla_swa", 6), "attention.key_length_mla_swa"),
    ("dots3note-f32", setting("attention.sliding_window", 0), "attention.sliding_window"),
    ("dots3note-f32", without("blk.0.indexer.proj.weight"), "blk.0.indexer.proj.weight"),
    ("glm5-next-f32", setting("attention.indexer.kpool", 1), "attention.indexer.kpool"),
    ("glm5-next-f32", setting("attention.indexer.kpool", 5), "whole blocks of 5"),
    ("glm5-next-f32", setting("attention.indexer.kpool", 8), "indexer_compressor_ape"),
    ("glm5-next-f32", setting("attention.indexer.kpool_select_tail", False), "kpool_select_tail"),
    ("glm5-next-f32", setting("attention.indexer.types", [True, True, False, True, True, True]),
     "attention.indexer.types"),
    ("glm5-next-f32", setting("attention.indexer.key_length", 12), "indexer"),
    ("glm5-next-f32", setting("rope.dimension_count", 8), "rotated elements"),
    ("glm5-next-f32", setting("hyper_connection.count", 9), "hyper_connection.count"),
    ("glm5-next-f32", setting("kda.gate_lower_bound", 2.0), "kda.gate_lower_bound"),
    ("glm5-next-f32", without("blk.2.indexer_compressor_gate.weight"), "indexer_compressor_gate"),
    ("glm5-next-f32", without("blk.1.hc_ffn_scale.weight"), "hc_ffn_scale"),
    ("kimi-k3-f32", setting("activation.situ_beta", 0.0), "situ_beta"),
    ("kimi-k3-f32", without_key("attn_res_block_size"), "attn_res_block_size"),
    ("grok-f32", setting("expert_count", 0), "expert_"),
    ("grok-f32", without("blk.1.attn_output_norm.weight"), "attn_output_norm"),
    ("plamo3-f32", setting("attention.sliding_window_pattern", [True]), "sliding_window_pattern"),
    ("plamo2-f32", setting("ssm.time_step_rank", 7), "do not divide"),
    ("plamo2-f32", without("blk.1.attn_q_norm.weight"), "blk.1.attn_q_norm.weight"),
    ("mamba-f32", without("blk.1.ssm_a"), "blk.1.ssm_a"),
    ("mamba-f32", setting("ssm.state_size", 8), "ssm_x"),
    ("mamba-f32", setting("ssm.conv_kernel", 1), "ssm.conv_kernel"),
    ("jamba-f32", setting("ssm.inner_size", 61), "ssm_in"),
    ("kimi-k3-f32", without("blk.1.ffn_res_score.weight"), "blk.1.ffn_res_score.weight"),
    ("kimi-k3-f32", setting("expert_latent_length", 17), "ffn_routed_down"),
    ("kimi-k3-f32", setting("kda.gate_lower_bound", 2.0), "kda.gate_lower_bound"),
    ("minimax-01-f32", without("blk.0.attn_norm_2.weight"), "blk.0.attn_norm_2.weight"),
    ("qwen4exp-f32", setting("hyper_connection.count", 1), "hyper_connection.count"),
    ("qwen4exp-f32", setting("hyper_connection.count", 2), "hc_attn_norm"),
    ("qwen4exp-f32", without_key("hyper_connection.low_rank"), "hyper_connection.low_rank"),
    ("qwen4exp-f32", setting("hyper_connection.low_rank", 11), "hc_attn_down"),
    ("qwen4exp-f32", without("blk.4.hc_ffn_inject.weight"), "blk.4.hc_ffn_inject.weight"),
    ("qwen4exp-f32", without("output_hc_norm.weight"), "output_hc_norm.weight"),
    ("qwen4exp-f32", setting("attention.indexer.top_k", 3), "attention.indexer.top_k"),
    ("qwen4exp-f32", setting("attention.indexer.top_k", 14), "compress_ratios"),
    ("qwen4exp-f32", setting("attention.indexer.key_length", 4), "attention.indexer.key_length"),
    ("qwen4exp-f32", setting("attention.indexer.head_count", 0), "attention.indexer.head_count"),
    ("qwen4exp-f32", setting("attention.compress_ratios", [0, 0, 4, 0, 0, 2]), "compress_ratios"),
    ("qwen4exp-f32", setting("attention.compress_ratios", [4, 4]), "compress_ratios"),
    ("qwen4exp-f32", setting("attention.compress_ratios", [0, 0, -4, 0, 0, 4]), "compress_ratios"),
    ("qwen4exp-f32", without("blk.2.indexer.k_norm.weight"), "blk.2.indexer.k_norm.weight"),
    ("qwen4exp-f32", setting("ple.layers", [1, 3]), "ple.layers"),
    ("qwen4exp-f32", setting("ple.layers", [6]), "ple.layers"),
    ("qwen4exp-f32", setting("ple.layers", [2]), "ple.layers"),
    ("qwen4exp-f32", setting("ple.ngram_size", 1), "ple.ngram_size"),
    ("qwen4exp-f32", setting("ple.ngram_size", 9), "ple.ngram_size"),
    ("qwen4exp-f32", setting("ple.ngram_size", 4), "ple.layer_multipliers"),
    ("qwen4exp-f32", setting("ple.heads_per_ngram", 3), "ple.head_offsets"),
    ("qwen4exp-f32", setting("ple.conv_kernel", 7), "ple.conv_kernel"),
    ("qwen4exp-f32", setting("ple.conv_kernel", 3), "ple_conv1d"),
    ("qwen4exp-f32", setting("ple.head_vocab_sizes", [101, 0, 107, 109]), "ple.head_vocab_sizes"),
    ("qwen4exp-f32", setting("ple.head_vocab_sizes", [101, 103, 107, 115]), "ple.head_offsets"),
    ("qwen4exp-f32", setting("ple.head_offsets", [0, 101, 204, 2 ** 63 - 1]), "ple.head_offsets"),
    ("qwen4exp-f32", setting("ple.head_offsets", [0, 101, 204, 2 ** 64 - 1]), "ple.head_offsets"),
    ("qwen4exp-f32", setting("ple.eos_token_id", 72), "ple.eos_token_id"),
    ("qwen4exp-f32", without_key("ple.eos_token_id"), "ple.eos_token_id"),
    ("qwen4exp-f32", setting("embedding_length_per_layer_input", 16), "per_layer_token_embd"),
    ("qwen4exp-f32", without("per_layer_token_embd.weight"), "per_layer_token_embd.weight"),
    ("qwen4exp-f32", without("blk.1.ple_norm_conv.weight"), "blk.1.ple_norm_conv.weight"),
])
def test_what_is_wrong_is_named(tmp_path, name, change, named):
    done = load(tmp_path, name, change)
    assert done.returncode == 3, done.stderr
    assert named in done.stderr


def indexed(block, count):
    """Blocks of so many tokens, and how many tokens are chosen."""
    return lambda m: (
        setting("attention.compress_ratios", [0, 0, block, 0, 0, block])(m),
        setting("attention.indexer.top_k", count)(m))


def without_ngrams(m):
    for key in [key for key in m.metadata if ".ple." in key]:
        m.metadata.pop(key)
    for name in [name for name in m.tensors if ".ple_" in name or name.startswith("per_layer")]:
        m.tensors.pop(name)


def halved(tensor):
    """A tensor as BF16, as some writers store it."""
    return lambda m: m.tensors.__setitem__(tensor, gguf.Bf16(m.tensors[tensor]))


def direct_queries(m):
    """As V2-Lite in today's files: no projection of the queries through a small vector."""
    m.metadata.pop("deepseek2.attention.q_lora_rank")
    for layer in range(m.layers):
        for part in ("q_a", "q_a_norm", "q_b"):
            m.tensors.pop(f"blk.{layer}.attn_{part}.weight")
        m.matrix(f"blk.{layer}.attn_q", m.heads * (10 + 8), m.width)


@pytest.mark.parametrize("name, change, count", [
    ("granite-f32", setting("attention.scale", 0.2), 150),
    ("deepseek2-v3-f32", lambda m: None, 150),  # pages of 64 tokens and more
    ("deepseek2-v2-f32", lambda m: None, 150),
    ("gpt-oss-f32", setting("attention.sliding_window", 70), 150),
    ("olmo3-f32", setting("attention.sliding_window", 64), 150),
    ("deepseek2-v3-f32", direct_queries, 40),
    ("deepseek2-v3-f32", without_key("expert_gating_func"), 40),
    ("deepseek2-v3-f32", without_key("rope.scaling.yarn_log_multiplier"), 40),
    ("deepseek2-v3-f32", setting("rope.scaling.type", "none"), 40),
    ("deepseek2-v3-f32", setting("expert_group_used_count", 4), 40),
    ("llama-yarn-f32", setting("rope.scaling.yarn_log_multiplier", 0.6), 40),
    ("llama-yarn-f32", setting("rope.scaling.yarn_ext_factor", -1.0), 40),
    ("qwen4exp-f32", lambda m: None, 150),
    ("qwen4exp-f32", indexed(0, 12), 150),  # queries see all
    ("qwen4exp-f32", indexed(1, 9), 150),  # single tokens are chosen
    ("qwen4exp-f32", indexed(7, 21), 150),  # blocks across pages of the cache
    ("qwen4exp-f32", indexed(70, 70), 150),  # and longer than these
    ("qwen4exp-f32", without_ngrams, 40),
    ("qwen4exp-f32", halved("blk.1.ple_conv1d.weight"), 40),
    ("qwen4exp-f32", halved("per_layer_token_embd.weight"), 40),
])
def test_variant_agrees_with_the_reference(tmp_path, name, change, count):
    tokens = [1] + [3 + i * i % 67 for i in range(count - 1)]
    done = load(tmp_path, name, change, tokens)
    assert done.returncode == 0, done.stderr
    exact = Model(tmp_path / "model.gguf").logits(tokens)
    assert nmse(np.fromfile(tmp_path / "out.f32", "<f4").reshape(exact.shape), exact) <= 1e-12


def test_granite_without_position_embedding(tmp_path):
    """rope.scaling.finetuned false: the order of the tokens before the last makes no difference."""
    def one_layer(m):
        setting("rope.scaling.finetuned", False)(m)
        setting("block_count", 1)(m)
        m.tensors = {name: x for name, x in m.tensors.items() if not name.startswith("blk.") or name.startswith("blk.0.")}

    last = []
    for tokens in ((5, 9, 30, 44, 7), (44, 30, 9, 5, 7)):
        done = load(tmp_path, "granite-f32", one_layer, tokens)
        assert done.returncode == 0, done.stderr
        last.append(np.fromfile(tmp_path / "out.f32", "<f4").reshape(5, -1)[-1])
    assert nmse(last[0], last[1]) < 1e-10


def joined_projections(m):
    """As older files of Qwen3-Next: attn_qkv and attn_gate in one, by key head."""
    get = lambda key: m.metadata[f"qwen3next.ssm.{key}"]
    heads, dim = get("group_count"), get("state_size")
    values = get("time_step_rank") // heads * dim
    for name in [n for n in m.tensors if n.endswith("attn_qkv.weight")]:
        gate = m.tensors.pop(name.replace("attn_qkv", "attn_gate"))
        q, k, v = np.split(m.tensors.pop(name), [heads * dim, 2 * heads * dim])
        parts = [part.reshape(heads, -1, part.shape[-1]) for part in (q, k, v, gate)]
        assert parts[2].shape[1] == values
        m.tensors[name.replace("attn_qkv", "ssm_in")] = (
            np.concatenate(parts, axis=1).reshape(-1, gate.shape[-1]))


def default_scale(m):
    m.metadata.pop("granite.attention.scale")


@pytest.mark.parametrize("name, change, other", [
    ("qwen3next-f32", lambda m: None, joined_projections),
    ("granite-f32", default_scale, setting("attention.scale", 0.0)),
    ("laguna-f32", lambda m: None, without_key("attention.sliding_window_pattern")),
    ("laguna-elements-f32", lambda m: m.metadata.update({"laguna.expert_shared_count": 3}), lambda m: None),
    ("hy_v3-f32", lambda m: None, without_key("expert_shared_feed_forward_length")),
])
def test_two_forms_of_a_file_are_the_same_model(tmp_path, name, change, other):
    logits = []
    for form in (change, other):
        done = load(tmp_path, name, form, range(1, 20))
        assert done.returncode == 0, done.stderr
        logits.append((tmp_path / "out.f32").read_bytes())
    assert logits[0] == logits[1]


def test_biases_of_blocks_of_any_type(tmp_path):
    """llama.cpp's quantiser takes them for matrices."""
    def rounded(m):
        for name, tensor in m.tensors.items():
            if name.endswith("_ape.weight"):
                m.tensors[name] = tensor.astype(np.float16)

    tokens = [1] + [3 + i * i % 67 for i in range(20)]
    done = load(tmp_path, "deepseek4-f32", rounded, tokens)
    assert done.returncode == 0, done.stderr
    exact = Model(tmp_path / "model.gguf").logits(tokens)
    found = np.fromfile(tmp_path / "out.f32", "<f4").reshape(exact.shape)
    assert nmse(found, exact) <= 1e-10
