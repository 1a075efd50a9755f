"""Directories in the form in which models were published, where it is not the one that transformers
writes: the same logits to the bit."""

import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("safetensors.torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.test_checkpoints import evaluate, rewritten, saved  # noqa: E402


def renamed(config, names):
    for old, new in names.items():
        if old in config:
            config[new] = config.pop(old)


def ling3(config):
    config["architectures"] = ["BailingMoeV3ForCausalLM"]
    config["head_dim"] = config.pop("linear_head_dim")
    for key in ("layer_types", "mlp_layer_types", "linear_num_heads", "linear_conv_kernel_dim"):
        config.pop(key, None)
    config |= {"no_kda_lora": True, "kda_safe_gate": True, "rope_theta": 6000000.0,
               "gated_attention_proj_granularity_type": "head_wise", "score_function": "sigmoid",
               "num_nextn_predict_layers": 1, "moe_shared_expert_intermediate_size": 20}
    config.pop("rope_parameters")
    return config


def minimax_01(config):
    config["architectures"] = ["MiniMaxText01ForCausalLM"]
    config["attn_type_list"] = [int(kind == "full_attention") for kind in config.pop("layer_types")]
    for part, published in (("full_attn", "full_attention"), ("linear_attn", "linear_attention"),
                            ("mlp", "mlp")):
        for which in ("alpha", "beta"):
            config[f"layernorm_{published}_{which}"] = config.pop(f"{part}_{which}_factor")
    config |= {"postnorm": True, "shared_intermediate_size": 0,
               "rope_theta": config.pop("rope_parameters")["rope_theta"]}
    return config


def dots3note(config):
    rope, sliding = config.pop("rope_parameters"), config.pop("per_layer_config")["1"]
    config |= {f"swa_{key}": value for key, value in sliding.items()}
    config |= {"use_dsa": True, "swa_q_lora_rank": config["q_lora_rank"],
               "swa_qk_rope_head_dim": config["qk_rope_head_dim"],
               "rope_theta": rope["indexed_attention"]["rope_theta"],
               "swa_rope_theta": rope["sliding_attention"]["rope_theta"],
               "first_k_dense_replace": config.pop("mlp_layer_types").count("dense")}
    config["layer_types"] = [kind.replace("indexed", "full") for kind in config["layer_types"]]
    renamed(config, {"sliding_window": "sliding_window_size",
                     "shared_experts_intermediate_size": "moe_shared_expert_intermediate_size"})
    return config


@pytest.mark.parametrize("name, published", [
    ("bailingmoe3", ling3), ("minimax-01-heads", minimax_01), ("dots3note", dots3note)])
def test_the_configuration(name, published, tmp_path):
    saved(name, tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", published)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


def test_names_of_hunyuan_4(tmp_path):
    saved("hy_v4", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")

    def published(tensors):
        changes = {".hc_pre.hc_attn_layer.hc_": ".hc_attn_layer.hc_pre.hc_",
                   ".hc_pre.hc_mlp_layer.hc_": ".hc_mlp_layer.hc_pre.hc_",
                   "hc_pre.hc_head.": "hc_head.", "mlp.linear_gate": "mlp.gate_proj",
                   "experts.linear_gate": "experts.gate_proj"}
        for old, new in changes.items():
            assert any(old in name for name in tensors)
            tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
        return tensors
    rewritten(tmp_path / "m", change_tensors=published)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


def test_limits_of_ling_3(tmp_path):
    saved("bailingmoe3", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    limits = {"expert_swiglu_limit_list": [None, 0.2, None, None],
              "share_expert_swiglu_limit_list": [None, None, 0.2, None]}
    for key, values in limits.items():
        rewritten(tmp_path / "m", lambda c: c.__setitem__(key, values))
        after = evaluate(tmp_path / "m", tmp_path / "logits")
        assert not np.array_equal(after, before)
        before = after


def minimax_m3(config):
    """Settings of the index in a section of their own, around it a model that also sees."""
    config["moe_layer_freq"] = [int(kind == "sparse") for kind in config.pop("mlp_layer_types")]
    freq = [int(kind == "minimax_m3_sparse") for kind in config.pop("layer_types")]
    config["sparse_attention_config"] = {
        "use_sparse_attention": True, "sparse_attention_freq": freq, "sparse_init_block": 0,
        "sparse_score_type": "max", **{there: config.pop(here) for here, there in (
            ("index_n_heads", "sparse_num_index_heads"), ("index_head_dim", "sparse_index_dim"),
            ("index_block_size", "sparse_block_size"), ("index_topk_blocks", "sparse_topk_blocks"),
            ("index_local_blocks", "sparse_local_block"))}}
    config |= {"hidden_act": "swigluoai", "use_gemma_norm": True, "use_qk_norm": True, "qk_norm_type": "per_head",
               "scoring_func": "sigmoid", "n_shared_experts": 1,
               "rope_theta": config.pop("rope_parameters")["rope_theta"]}
    return {"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl",
            "text_config": config, "vision_config": {}}


def test_names_of_minimax_m3(tmp_path):
    saved("minimax-m3", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")

    def published(tensors):
        named = {}
        for name, tensor in tensors.items():
            name = "language_model." + name.replace("indexer.", "index_")
            if "mlp.experts." in name:
                stem = name.split("mlp.")[0] + "block_sparse_moe.experts."
                for e, expert in enumerate(tensor):
                    parts = expert.chunk(2) if "gate_up" in name else [expert]
                    for part, which in zip(parts, ("w1", "w3") if "gate_up" in name else ("w2",)):
                        named[f"{stem}{e}.{which}.weight"] = part.clone()
                continue
            name = name.replace("mlp.gate.e_score", "block_sparse_moe.e_score")
            for part in ("gate.", "shared_experts."):
                name = name.replace("mlp." + part, "block_sparse_moe." + part)
            if "gate_up_proj" in name:
                for part, rows in zip(("gate_proj", "up_proj"), tensor.chunk(2)):
                    named[name.replace("gate_up_proj", part)] = rows.clone()
                continue
            named[name] = tensor
        for name in ("patch_merge_mlp.linear_1.weight", "multi_modal_projector.linear_1.weight"):
            named[name] = tensors["lm_head.weight"].clone()
        return named
    rewritten(tmp_path / "m", minimax_m3, published)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)
