"""Hugging Face directories whose configuration or tensors would make another model than the one that
the engine computes: exit code 3, and what it is that cannot be had."""

import os
import pathlib
import sys

import pytest

pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("safetensors.torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.test_checkpoints import infer, rewritten, saved  # noqa: E402


@pytest.mark.parametrize("name, change, named", [
    ("gemma2", lambda c: c.__setitem__("layer_types", ["full_attention"] * 4), "layer_types"),
    ("qwen2", lambda c: c.__setitem__("layer_types", ["sliding_attention"] * 4), "layer_types"),
    ("qwen3moe", lambda c: c.__setitem__("norm_topk_prob", False), "norm_topk_prob"),
    ("smollm3", lambda c: c.__setitem__("no_rope_layers", [1, 1, 1, 1]), "no_rope_layers"),
    ("gpt-oss", lambda c: c.__setitem__("swiglu_limit", 5.0), "swiglu_limit"),
    ("gpt-oss", lambda c: c["rope_parameters"].__setitem__("truncate", True), "truncate"),
    ("llama-yarn", lambda c: c["rope_parameters"].__setitem__("truncate", False), "truncate"),
    ("deepseek-v3", lambda c: c["rope_parameters"].__setitem__("mscale", 0.5), "mscale"),
    ("deepseek-v3", lambda c: c.__setitem__("rope_interleave", False), "rope_interleave"),
    ("deepseek-v3", lambda c: c.__setitem__("v_head_dim", 11), "kv_b_proj"),
    ("deepseek-v3", lambda c: c.__setitem__("n_routed_experts", 9), "experts.8.gate_proj"),
    ("deepseek-v3", lambda c: c.__setitem__("n_routed_experts", 7), "experts.7."),
    ("glm5-next", lambda c: c["text_config"].__setitem__("qk_rope_head_dim", 6), "qk_rope_head_dim"),
    ("glm5-next", lambda c: c["text_config"].__setitem__("index_kpool_always_select_tail", False),
     "kpool_select_tail"),
    ("glm5-next", lambda c: c["text_config"].__setitem__("index_topk", 13), "whole blocks of 4"),
    ("glm5-next", lambda c: c["text_config"]["layer_types"].__setitem__(1, "chunked"), "of type chunked"),
    ("glm5-next", lambda c: c["text_config"]["indexer_types"].__setitem__(1, "shared"),
     "attention.indexer.types"),
    ("glm5-next", lambda c: c["text_config"].__setitem__("swiglu_limit", 0.0), "swiglu_limit"),
    ("granitemoe", lambda c: c.pop("num_local_experts"), "num_local_experts"),
    ("cohere2moe", lambda c: c.__setitem__("layer_types", ["full_attention"] * 5), "layer_types"),
    ("cohere2moe", lambda c: c.__setitem__("mlp_layer_types", ["sparse"] * 5 + ["dense"]),
     "mlp_layer_types"),
    ("cohere2moe", lambda c: c.__setitem__("prefix_dense_sliding_window_pattern", 4), "prefix_dense"),
    ("cohere2moe", lambda c: c.__setitem__("expert_selection_fn", "top"), "expert_selection_fn"),
    ("cohere2moe", lambda c: c.__setitem__("shared_expert_combination_strategy", "sum"), "strategy"),
    ("bitnet", lambda c: c.__setitem__("quantization_config", {
        "quant_method": "bitnet", "quantization_mode": "online"}), "online"),
    ("bitnet", lambda c: c.__setitem__("quantization_config", {"quant_method": "quark"}), "quark"),
    ("phimoe", lambda c: c.__setitem__("router_jitter_noise", 0.02), "router_jitter_noise"),
    ("phimoe", lambda c: c["rope_parameters"].__setitem__("long_mscale", 1.3), "long_mscale"),
    ("phimoe", lambda c: c.__setitem__("num_experts_per_tok", 3), "num_experts_per_tok"),
    ("stablelm", lambda c: c.__setitem__("use_parallel_residual", True), "use_parallel_residual"),
    ("stablelm-12b", lambda c: c.__setitem__("num_attention_heads", 5), "heads"),
    ("phi2", lambda c: c.__setitem__("qk_layernorm", True), "qk_layernorm"),
    ("laguna", lambda c: c.__setitem__("moe_router_logit_softcapping", 3.0),
     "moe_router_logit_softcapping"),
    ("laguna", lambda c: c.__setitem__("moe_apply_router_weight_on_input", True),
     "moe_apply_router_weight_on_input"),
    ("laguna", lambda c: c.__setitem__("num_attention_heads_per_layer", [4, 6]),
     "num_attention_heads_per_layer"),
    ("laguna", lambda c: c["rope_parameters"]["sliding_attention"].__setitem__("rope_type", "yarn"),
     "sliding_attention"),
    ("mellum", lambda c: c.__setitem__("norm_topk_prob", False), "norm_topk_prob"),
    ("granite_swa", lambda c: c.__setitem__("layer_rope_theta", [0, 1e4, 2e4, 1e4]),
     "layer_rope_theta"),
    ("granite_swa", lambda c: c.__setitem__("layer_rope_theta", [0, 1e4]), "layer_rope_theta"),
    ("jais2", lambda c: c.__setitem__("hidden_act", "gelu"), "gelu"),
    ("youtu", lambda c: c.__setitem__("rope_interleave", False), "rope_interleave"),
    ("hy_v3", lambda c: c.__setitem__("hidden_act", "gelu"), "gelu"),
    ("hy_v3", lambda c: c.__setitem__("mlp_layer_types", ["dense", "sparse", "dense", "sparse"]),
     "mlp_layer_types"),
    ("gptneox", lambda c: c.__setitem__("hidden_act", "gelu_fast"), "gelu_fast"),
    ("gpt2", lambda c: c.__setitem__("activation_function", "relu"), "relu"),
    ("gpt2", lambda c: c.__setitem__("scale_attn_weights", False), "scale_attn_weights"),
    ("gpt2", lambda c: c.__setitem__("scale_attn_by_inverse_layer_idx", True),
     "scale_attn_by_inverse_layer_idx"),
    ("dbrx", lambda c: c["ffn_config"].__setitem__("moe_normalize_expert_weights", 2.0),
     "moe_normalize_expert_weights"),
    ("dbrx", lambda c: c["ffn_config"].__setitem__("ffn_act_fn", {"name": "gelu"}), "gelu"),
    ("starcoder", lambda c: c.__setitem__("multi_query", False), "multi_query"),
    ("starcoder", lambda c: c.__setitem__("activation_function", "gelu"), "gelu"),
    ("mamba2", lambda c: c.__setitem__("time_step_limit", [0.0, 0.1]), "time_step_limit"),
    ("mamba2", lambda c: c.__setitem__("hidden_act", "gelu"), "gelu"),
    ("mamba", lambda c: c.__setitem__("hidden_act", "relu"), "relu"),
    ("mamba", lambda c: c.__setitem__("state_size", 8), "A_log"),
    ("falcon-mamba", lambda c: c.__setitem__("mixer_rms_eps", 1e-5), "mixer_rms_eps"),
    ("jamba", lambda c: c.__setitem__("hidden_act", "gelu"), "gelu"),
    ("jamba", lambda c: c.__setitem__("attn_layer_offset", 3), "attn_layer_offset"),
    ("jamba", lambda c: c.__setitem__("expert_layer_offset", 2), "expert_layer_offset"),
    ("jamba", lambda c: c.__setitem__("attn_layer_period", 5), "layers.4.mamba"),
    ("bailingmoe3", lambda c: c.__setitem__("kda_safe_gate", False), "kda_safe_gate"),
    ("bailingmoe3", lambda c: c.__setitem__("no_kda_lora", False), "no_kda_lora"),
    ("bailingmoe3", lambda c: c.__setitem__("gated_attention_proj_granularity_type", "element_wise"),
     "gated_attention_proj_granularity_type"),
    ("bailingmoe3", lambda c: c["rope_parameters"].update(rope_type="yarn", factor=4.0), "RoPE scaling"),
    ("bailingmoe3", lambda c: c.__setitem__("layer_types", ["linear_attention"] * 5), "layer_types"),
    ("bailingmoe3", lambda c: c.__setitem__("score_function", "tanh"), "scoring_func"),
    ("hy_v4", lambda c: c["rope_parameters"].update(rope_type="yarn", factor=4.0), "RoPE scaling"),
    ("hy_v4", lambda c: c.__setitem__("indexer_types", ["shared"] * 3), "indexer_types"),
    ("hy_v4", lambda c: c.pop("indexer_types"), "indexer_types"),
    ("hy_v4", lambda c: c.__setitem__("hidden_act", "gelu"), "gelu"),
    ("hy_v4", lambda c: c.__setitem__("hc_mult", 2), "hc_attn_fn"),
    ("deepseek-v4", lambda c: c.__setitem__("scoring_func", "sigmoid"), "scoring_func"),
    ("deepseek-v4", lambda c: c.__setitem__("norm_topk_prob", False), "norm_topk_prob"),
    ("deepseek-v4", lambda c: c.__setitem__("layer_types", ["full_attention"] * 4), "full_attention"),
    ("deepseek-v4", lambda c: c.__setitem__("layer_types", ["sliding_attention"]), "layer_types"),
    ("deepseek-v4", lambda c: c.__setitem__("mlp_layer_types", ["moe", "hash_moe", "moe", "moe"]),
     "mlp_layer_types"),
    ("deepseek-v4", lambda c: c["rope_parameters"]["compress"].__setitem__("attention_factor", 1.3),
     "attention_factor"),
    ("deepseek-v4", lambda c: c["rope_parameters"]["main"].__setitem__("rope_type", "yarn"),
     "rope_parameters.main"),
    ("deepseek-v4", lambda c: c.__setitem__("swiglu_limit", 0), "swiglu_limit"),
    ("deepseek-v4", lambda c: c.__setitem__("hidden_act", "gelu"), "gelu"),
    ("deepseek-v4", lambda c: c.__setitem__("num_hidden_layers", 3), "layer_types"),
    ("dots3note", lambda c: c.__setitem__("layer_types", ["full_attention"] * 4), "layer_types"),
    ("dots3note", lambda c: c["per_layer_config"]["2"].__setitem__("v_head_dim", 12), "that differ"),
    ("dots3note", lambda c: c["rope_parameters"]["indexed_attention"].update(rope_type="yarn"),
     "RoPE scaling"),
    ("dots3note", lambda c: c.__setitem__("shared_experts_intermediate_size", 12), "shared_experts"),
    ("dots3note", lambda c: c.__setitem__("k_rope_only_layernorm", False), "k_rope_only_layernorm"),
    ("mpt", lambda c: c["attn_config"].__setitem__("alibi", False), "alibi"),
    ("mpt", lambda c: c["attn_config"].__setitem__("prefix_lm", True), "prefix_lm"),
    ("mpt", lambda c: c["attn_config"].__setitem__("softmax_scale", 0.1), "softmax_scale"),
    ("mpt", lambda c: c.__setitem__("expansion_ratio", 3), "expansion_ratio"),
    ("mpt", lambda c: c.__setitem__("logit_scale", 2.0), "logit_scale"),
    ("bloom", lambda c: c.__setitem__("apply_residual_connection_post_layernorm", True),
     "apply_residual_connection_post_layernorm"),
    ("bloom", lambda c: c.__setitem__("n_head", 5), "heads do not divide"),
    ("minimax-m3", lambda c: c.__setitem__("swiglu_limit", 5.0), "swiglu_limit"),
    ("minimax-m3", lambda c: c.__setitem__("layer_types", ["full_attention"] * 4), "layer_types"),
    ("minimax-m3", lambda c: c.__setitem__("layer_types", ["sliding_attention"] * 4), "layer_types"),
    ("minimax-m3", lambda c: c.__setitem__("index_local_blocks", 2), "local_blocks"),
    ("minimax-m3", lambda c: c.__setitem__("sparse_attention_config", {"sparse_init_block": 1}),
     "sparse_init_block"),
    ("minimax-m3", lambda c: c.__setitem__("use_gemma_norm", False), "use_gemma_norm"),
    ("minimax-01", lambda c: c.__setitem__("mlp_beta_factor", 0.5), "mlp_beta_factor"),
    ("minimax-01", lambda c: c.__setitem__("mlp_alpha_factor", 0.5), "mlp_alpha_factor"),
    ("minimax-01", lambda c: c.__setitem__("postnorm", False), "postnorm"),
    ("minimax-01", lambda c: c.__setitem__("sliding_window", 9), "sliding_window"),
    ("minimax-01", lambda c: c.__setitem__("layer_types", ["full_attention", "x", "full_attention"]),
     "layer_types"),
    ("gptneox", lambda c: c.__setitem__("num_attention_heads", 3), "heads do not divide"),
    ("falcon", lambda c: c.__setitem__("parallel_attn", False), "parallel_attn"),
    ("falcon-40b", lambda c: c.__setitem__("num_kv_heads", 4), "numbers of heads"),
    ("falcon-40b", lambda c: c.__setitem__("num_kv_heads", 3), "query_key_value"),
    ("llama", lambda c: c.__setitem__("architectures", ["OtherForCausalLM"]), "OtherForCausalLM"),
])
def test_what_cannot_be_had_is_named(name, change, named, tmp_path):
    saved(name, tmp_path / "m")
    rewritten(tmp_path / "m", lambda c: change(c) and None)
    folder, out = tmp_path / "m", tmp_path / "out.gguf"
    for command in (["plan", "-m", folder], ["convert", folder, out]):
        done = infer(*command)
        assert done.returncode == 3, done.stderr
        assert named in done.stderr
    assert not out.exists()
