"""Tiny random models of Hugging Face's transformers as GGUF files: the names, keys and changes of
layout are those that llama.cpp's converter makes. Needs torch and transformers."""

import math

import numpy as np
import torch
import transformers

from .make_golden import TOKENS, VOCABULARY, Builder

COMMON = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "original_max_position_embeddings": 4096}
LATENT = {"hidden_size": 28, "intermediate_size": 40, "moe_intermediate_size": 10,
          "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
          "n_routed_experts": 8, "num_experts_per_tok": 3, "first_k_dense_replace": 1,
          "kv_lora_rank": 18, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 12}
DENSE = {"hidden_size": 24, "intermediate_size": 38, "num_hidden_layers": 4,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
GRANITE = DENSE | {"embedding_multiplier": 7.0, "residual_multiplier": 0.3,
                   "attention_multiplier": 0.21, "logits_scaling": 2.5}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
        "short_factor": [1.0, 1.1, 1.3, 1.4], "long_factor": [1.2, 3.0, 9.0, 21.0]}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.4}
COHERE = DENSE | {
    "num_hidden_layers": 6, "head_dim": 10, "sliding_window": 7, "num_experts": 6,
    "num_experts_per_tok": 2, "num_shared_experts": 2, "expert_selection_fn": "sigmoid",
    "first_k_dense_replace": 1, "prefix_dense_intermediate_size": 46, "logit_scale": 0.6}
WIDE = DENSE | {"hidden_size": 40, "rope_parameters": PARTIAL}
FALCON = {"hidden_size": 60, "num_hidden_layers": 3, "num_attention_heads": 6,
          "ffn_hidden_size": 38, "max_position_embeddings": 256}

VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
          "num_attention_heads": 2}

GPT2 = {"n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 256}
MAMBA2 = {"hidden_size": 24, "num_hidden_layers": 3, "num_heads": 6, "head_dim": 8, "state_size": 9,
          "n_groups": 1, "expand": 2, "chunk_size": 16}
MAMBA = {"hidden_size": 24, "num_hidden_layers": 3, "state_size": 9}
JAMBA = DENSE | {"num_hidden_layers": 5, "mamba_d_state": 9, "mamba_dt_rank": 7, "num_experts": 5,
                 "num_experts_per_tok": 2, "attn_layer_period": 3, "attn_layer_offset": 1,
                 "rms_norm_eps": 1e-3}
MINICPM3 = {"hidden_size": 28, "intermediate_size": 40, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 14,
            "kv_lora_rank": 18, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "scale_emb": 7,
            "scale_depth": 0.9, "dim_model_base": 12, "max_position_embeddings": 256}

BAILING = {"hidden_size": 28, "intermediate_size": 40, "moe_intermediate_size": 10,
           "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
           "num_local_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2,
           "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1, "layer_group_size": 2,
           "kv_lora_rank": 18, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 12,
           "head_dim": 12, "max_position_embeddings": 256, "num_mtp_layers": 0}
MINIMAX = {"hidden_size": 24, "intermediate_size": 14, "num_hidden_layers": 3,
           "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 5,
           "max_position_embeddings": 256, "block_size": 16}

MINIMAX3 = DENSE | {
    "intermediate_size": 14, "dense_intermediate_size": 38, "shared_intermediate_size": 14,
    "head_dim": 12, "rotary_dim": 6, "num_local_experts": 5, "num_experts_per_tok": 2,
    "index_n_heads": 2, "index_head_dim": 10, "index_block_size": 5, "index_topk_blocks": 3,
    "layer_types": ["full_attention"] + 3 * ["minimax_m3_sparse"],
    "mlp_layer_types": ["dense"] + 3 * ["sparse"],
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e4, "partial_rotary_factor": 0.5}}

HUNYUAN4 = LATENT | {"q_lora_rank": 14, "index_topk": 9, "index_head_dim": 16, "index_n_heads": 7,
                     "indexer_types": ["full", "shared", "full"], "hc_mult": 3, "swiglu_limit": 0.5,
                     "max_position_embeddings": 256}

# A window and a choice smaller than the text, blocks of two kinds.
DEEPSEEK4 = {"hidden_size": 28, "moe_intermediate_size": 14, "num_hidden_layers": 4,
             "num_attention_heads": 4, "head_dim": 16, "partial_rotary_factor": 0.375,
             "q_lora_rank": 14, "o_groups": 2, "o_lora_rank": 10, "n_routed_experts": 6,
             "num_experts_per_tok": 2, "index_n_heads": 7, "index_head_dim": 12, "index_topk": 3,
             "hc_mult": 3, "hc_sinkhorn_iters": 5, "swiglu_limit": 0.7, "sliding_window": 7,
             "max_position_embeddings": 256,
             "layer_types": ["sliding_attention", "compressed_sparse_attention",
                             "heavily_compressed_attention", "compressed_sparse_attention"],
             "compress_rates": {"compressed_sparse_attention": 4,
                                "heavily_compressed_attention": 6},
             "mlp_layer_types": ["hash_moe", "hash_moe", "moe", "moe"],
             "rope_parameters": {**YARN, "factor": 4.0, "beta_fast": 8.0,
                                 "original_max_position_embeddings": 64}}

# Blocks of few tokens, of which few are seen; a layer that takes over what another has chosen.
GLM5_NEXT = LATENT | {
    "num_hidden_layers": 5, "qk_rope_head_dim": 0, "q_lora_rank": 14, "moe_intermediate_size": 14,
    "n_routed_experts": 6, "num_experts_per_tok": 2, "index_topk": 12, "index_head_dim": 12,
    "index_n_heads": 7, "index_kpool": 4, "linear_head_dim": 10, "linear_num_heads": 4, "hc_mult": 3,
    "hc_sinkhorn_iters": 5, "swiglu_limit": 0.7, "linear_lower_bound": -3.0,
    "layer_types": ["linear_attention", "indexed_attention", "linear_attention",
                    "indexed_attention", "indexed_attention"],
    "indexer_types": ["full", "full", "full", "full", "shared"],
    "mlp_layer_types": ["dense"] + 4 * ["sparse"], "max_position_embeddings": 256}

# name → (configuration class, architecture's name in GGUF, arguments)
MODELS = {
    "llama-yarn": ("LlamaConfig", "llama", DENSE | {"rope_parameters": {
        **YARN, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0}}),
    "llama-yarn-factor": ("LlamaConfig", "llama", DENSE | {"rope_parameters": {
        **YARN, "factor": 4.0, "original_max_position_embeddings": 64, "attention_factor": 0.8}}),
    "llama-linear": ("LlamaConfig", "llama", DENSE | {"rope_parameters": {
        "rope_type": "linear", "rope_theta": 10000.0, "factor": 3.5}}),
    "smollm3": ("SmolLM3Config", "smollm3", DENSE),
    "olmo2": ("Olmo2Config", "olmo2", DENSE),
    "olmo3": ("Olmo3Config", "olmo2", DENSE | {"sliding_window": 7, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {**YARN, "factor": 8.0, "original_max_position_embeddings": 64,
                           "attention_factor": 1.2079441541679836}}}),
    "granite": ("GraniteConfig", "granite", GRANITE),
    "granitemoe": ("GraniteMoeConfig", "granitemoe",
                   GRANITE | {"num_local_experts": 5, "num_experts_per_tok": 3}),
    "granitemoeshared": ("GraniteMoeSharedConfig", "granitemoe",
                         GRANITE | {"num_local_experts": 5, "num_experts_per_tok": 3,
                                    "shared_intermediate_size": 14}),
    "glm4": ("Glm4Config", "glm4", DENSE | {"head_dim": 8, "attention_bias": True}),
    "gpt-oss": ("GptOssConfig", "gpt-oss",
                DENSE | {"head_dim": 16, "num_local_experts": 5, "num_experts_per_tok": 2,
                         "sliding_window": 9}),
    "phi3-short": ("Phi3Config", "phi3", DENSE | {
        "hidden_size": 64, "max_position_embeddings": 64, "original_max_position_embeddings": 64,
        "rope_parameters": {**LONG, "original_max_position_embeddings": 64}}),
    "phi3-long": ("Phi3Config", "phi3", DENSE | {
        "hidden_size": 64, "max_position_embeddings": 2048, "sliding_window": 20,
        "original_max_position_embeddings": 32,
        "rope_parameters": {**LONG, "original_max_position_embeddings": 32}}),
    "deepseek-v2": ("DeepseekV2Config", "deepseek2", LATENT | {
        "q_lora_rank": 14, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy",
        "routed_scaling_factor": 3.0, "n_shared_experts": 2,
        "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}}),
    "deepseek-v2-lite": ("DeepseekV2Config", "deepseek2", LATENT | {
        "q_lora_rank": None, "n_shared_experts": 2,
        "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}}),
    "deepseek-v3": ("DeepseekV3Config", "deepseek2", LATENT | {
        "q_lora_rank": 14, "n_group": 4, "topk_group": 2, "n_shared_experts": 1,
        "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
}

# Families whose tensors are only ever mapped by the engine itself.
CHECKPOINTS = {
    "llama": ("LlamaConfig", "llama", DENSE | {"attention_bias": True, "mlp_bias": True}),
    "llama-tied": ("LlamaConfig", "llama", DENSE | {"tie_word_embeddings": True}),
    "llama3": ("LlamaConfig", "llama", DENSE | {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "mistral": ("MistralConfig", "llama", DENSE | {"sliding_window": 7, "head_dim": 8}),
    "mixtral": ("MixtralConfig", "llama",
                DENSE | {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "starcoder2": ("Starcoder2Config", "starcoder2", DENSE | {"sliding_window": 7}),
    "qwen2": ("Qwen2Config", "qwen2", DENSE | {"rope_parameters": {
        **YARN, "factor": 4.0, "original_max_position_embeddings": 64}}),
    "qwen2moe": ("Qwen2MoeConfig", "qwen2moe", DENSE | {
        "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14,
        "shared_expert_intermediate_size": 22, "norm_topk_prob": False, "decoder_sparse_step": 1}),
    "olmoe": ("OlmoeConfig", "olmoe", DENSE | {
        "num_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 14,
        "norm_topk_prob": False}),
    "gemma": ("GemmaConfig", "gemma", DENSE | {"head_dim": 10, "num_key_value_heads": 1}),
    "qwen3": ("Qwen3Config", "qwen3", DENSE | {"head_dim": 10}),
    "qwen3moe": ("Qwen3MoeConfig", "qwen3moe", DENSE | {
        "head_dim": 10, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14,
        "norm_topk_prob": True}),
    "qwen3moe-mixed": ("Qwen3MoeConfig", "qwen3moe", DENSE | {
        "head_dim": 10, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14,
        "norm_topk_prob": True, "mlp_only_layers": [1]}),
    "gemma2": ("Gemma2Config", "gemma2", DENSE | {
        "head_dim": 10, "sliding_window": 7, "query_pre_attn_scalar": 13,
        "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}),
    "gemma2-uncapped": ("Gemma2Config", "gemma2", DENSE | {
        "head_dim": 10, "sliding_window": 7, "query_pre_attn_scalar": 10,
        "attn_logit_softcapping": None, "final_logit_softcapping": None}),
    "gemma3": ("Gemma3TextConfig", "gemma3", DENSE | {
        "num_hidden_layers": 7, "head_dim": 10, "sliding_window": 7, "query_pre_attn_scalar": 13,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 50000.0, "factor": 2.0}}}),
    "gemma3-yarn": ("Gemma3TextConfig", "gemma3", DENSE | {
        "num_hidden_layers": 7, "head_dim": 10, "sliding_window": 7, "query_pre_attn_scalar": 13,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {**YARN, "factor": 4.0, "original_max_position_embeddings": 64}}}),
    "olmo3-llama3": ("Olmo3Config", "olmo2", DENSE | {"sliding_window": 7, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 3000.0},
        "full_attention": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0,
                           "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 64}}}),
    "seed_oss": ("SeedOssConfig", "seed_oss", DENSE | {"head_dim": 8}),
    "arcee": ("ArceeConfig", "arcee", DENSE | {"mlp_bias": True, "rope_parameters": {
        **YARN, "factor": 20.0, "original_max_position_embeddings": 16, "mscale": 1.0}}),
    "dots1": ("Dots1Config", "dots1", DENSE | {
        "head_dim": 10, "moe_intermediate_size": 14, "n_routed_experts": 6, "n_shared_experts": 2,
        "num_experts_per_tok": 2, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
        "norm_topk_prob": True, "routed_scaling_factor": 1.5}),
    "afmoe": ("AfmoeConfig", "afmoe", DENSE | {
        "head_dim": 10, "moe_intermediate_size": 14, "num_experts": 6, "num_shared_experts": 2,
        "num_experts_per_tok": 2, "num_dense_layers": 1, "route_scale": 1.5, "sliding_window": 7,
        "mup_enabled": True}),
    "exaone-moe": ("ExaoneMoeConfig", "exaone-moe", DENSE | {
        "head_dim": 10, "moe_intermediate_size": 14, "num_experts": 6, "num_shared_experts": 1,
        "num_experts_per_tok": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
        "sliding_window": 7, "n_group": 1, "topk_group": 1}),
    "hy_v3": ("HYV3Config", "hy_v3", DENSE | {
        "head_dim": 10, "moe_intermediate_size": 14, "num_experts": 6, "num_experts_per_tok": 2,
        "router_scaling_factor": 1.5}),
    "laguna": ("LagunaConfig", "laguna", DENSE | {
        "head_dim": 10, "moe_intermediate_size": 14, "shared_expert_intermediate_size": 18,
        "num_experts": 6, "num_experts_per_tok": 2, "moe_routed_scaling_factor": 1.5,
        "sliding_window": 7, "num_attention_heads_per_layer": [4, 6, 6, 4],
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                        "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4,
                                  "partial_rotary_factor": 1.0},
            "full_attention": {**YARN, "rope_theta": 5e5, "factor": 8.0, "partial_rotary_factor": 0.6,
                               "original_max_position_embeddings": 64}}}),
    "laguna-elements": ("LagunaConfig", "laguna", DENSE | {
        "head_dim": 12, "moe_intermediate_size": 14, "shared_expert_intermediate_size": 14,
        "num_experts": 6, "num_experts_per_tok": 2, "gating": "per-element"}),
    "solar-open": ("SolarOpenConfig", "glm4moe", DENSE | {
        "head_dim": 10, "moe_intermediate_size": 14, "n_routed_experts": 6, "n_shared_experts": 1,
        "num_experts_per_tok": 2, "routed_scaling_factor": 1.5}),
    "youtu": ("YoutuConfig", "deepseek2", {
        "hidden_size": 28, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 14, "kv_lora_rank": 18,
        "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 12,
        "max_position_embeddings": 256}),
    "jais2": ("Jais2Config", "jais2", DENSE | {"layer_norm_eps": 1e-3}),
    "mellum": ("MellumConfig", "mellum", DENSE | {
        "head_dim": 10, "moe_intermediate_size": 14, "num_experts": 6, "num_experts_per_tok": 2,
        "sliding_window": 7, "layer_types": 3 * ["sliding_attention"] + ["full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {**YARN, "rope_theta": 5e5, "factor": 8.0,
                               "original_max_position_embeddings": 64}}}),
    "granite_swa": ("GraniteSWAConfig", "granite_swa", GRANITE | {
        "sliding_window": 7, "layer_rope_theta": [0, 5e4, 5e4, 5e4], "tie_word_embeddings": False}),
    "granitemoe_swa": ("GraniteMoeSWAConfig", "granite_swa", GRANITE | {
        "sliding_window": 7, "num_local_experts": 5, "num_experts_per_tok": 3,
        "shared_intermediate_size": 14}),
    "muse-glimmer": ("MuseGlimmerTextConfig", "muse-glimmer", DENSE | {
        "hidden_size": 40, "head_dim": 10, "sliding_window": 7, "qk_scale_factor": 1.7,
        "output_multiplier": 0.6, "final_logit_softcapping": 9.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}),
    "mimo2": ("MiMoV2FlashConfig", "mimo2", DENSE | {
        "head_dim": 12, "v_head_dim": 10, "sliding_window": 7, "attention_value_scale": 0.6,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                        "full_attention"],
        "moe_intermediate_size": 14, "n_routed_experts": 5, "num_experts_per_tok": 2,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base,
                                   "partial_rotary_factor": 0.5}
                            for kind, base in (("full_attention", 5e5),
                                               ("sliding_attention", 1e4))}}),
    "step35": ("Step3p7TextConfig", "step35", DENSE | {
        "hidden_size": 30, "head_dim": 12, "num_sliding_attention_heads": 6,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                        "full_attention"],
        "mlp_layer_types": ["dense"] + 3 * ["sparse"], "sliding_window": 7,
        "moe_intermediate_size": 14, "n_routed_experts": 5, "num_experts_per_tok": 2,
        "share_expert_dim": 18, "moe_router_scaling_factor": 1.7,
        "swiglu_limits": [0.0, 0.0, 0.7, 0.0], "swiglu_limits_shared": [0.8, 0.9, 0.0, 0.0],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4,
                                  "partial_rotary_factor": 1.0},
            "full_attention": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0,
                               "partial_rotary_factor": 0.5, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 64}}}),
    "stablelm": ("StableLmConfig", "stablelm", WIDE | {"use_qkv_bias": True}),
    "stablelm-12b": ("StableLmConfig", "stablelm", WIDE | {"qk_layernorm": True, "use_parallel_residual": True}),
    "phimoe": ("PhimoeConfig", "phimoe", DENSE | {
        "hidden_size": 40, "attention_bias": True, "lm_head_bias": True, "num_local_experts": 6,
        "sliding_window": 21, "rope_parameters": {
            **LONG, "partial_rotary_factor": 1.0, "short_factor": [1.0, 1.1, 1.3, 1.4, 1.6],
            "long_factor": [1.2, 3.0, 9.0, 21.0, 30.0], "short_mscale": 1.24, "long_mscale": 1.24,
            "original_max_position_embeddings": 256}}),
    "nemotron": ("NemotronConfig", "nemotron", WIDE),
    "phi2": ("PhiConfig", "phi2", WIDE | {"num_key_value_heads": 4}),
    "gptneox": ("GPTNeoXConfig", "gptneox", WIDE | {"num_key_value_heads": 4}),
    "gptneox-sequential": ("GPTNeoXConfig", "gptneox", WIDE | {"num_key_value_heads": 4, "use_parallel_residual": False}),
    "falcon": ("FalconConfig", "falcon", FALCON),
    "falcon-11b": ("FalconConfig", "falcon", FALCON | {
        "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}),
    "falcon-40b": ("FalconConfig", "falcon", FALCON | {
        "new_decoder_architecture": True, "num_kv_heads": 2, "tie_word_embeddings": False}),
    "bitnet": ("BitNetConfig", "bitnet-b1.58", DENSE),
    "cohere2moe": ("Cohere2MoeConfig", "cohere2moe", COHERE),
    "cohere2moe-softmax": ("Cohere2MoeConfig", "cohere2moe", COHERE | {
        "expert_selection_fn": "softmax", "num_shared_experts": 0, "rms_norm_eps": 1e-4,
        "first_k_dense_replace": 0}),
    "chatglm": ("GlmConfig", "chatglm", WIDE | {"head_dim": 10}),
    "mistral4": ("Mistral4Config", "mistral4", LATENT | {
        "q_lora_rank": 14, "n_shared_experts": 1, "rope_parameters": {
            **YARN, "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 1.0,
            "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}}),
    "deepseek-v32": ("DeepseekV32Config", "deepseek32", LATENT | {
        "q_lora_rank": 14, "n_group": 4, "topk_group": 2, "n_shared_experts": 1,
        "index_head_dim": 16, "index_n_heads": 7, "index_topk": 9,
        "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "glm-dsa": ("GlmMoeDsaConfig", "glm-dsa", LATENT | {
        "q_lora_rank": 14, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
        "num_hidden_layers": 5, "index_head_dim": 16, "index_n_heads": 7, "index_topk": 9,
        "indexer_types": ["full", "full", "shared", "shared", "full"],
        "max_position_embeddings": 256,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "olmo": ("OlmoConfig", "olmo", DENSE | {"tie_word_embeddings": True}),
    "olmo-clipped": ("OlmoConfig", "olmo", DENSE | {"clip_qkv": 0.4}),
    "gpt2": ("GPT2Config", "gpt2", GPT2),
    "gpt2-untied": ("GPT2Config", "gpt2", GPT2 | {"n_inner": 38, "tie_word_embeddings": False}),
    "bloom": ("BloomConfig", "bloom", {"hidden_size": 24, "n_layer": 3, "n_head": 4}),
    "bloom-3-heads": ("BloomConfig", "bloom", {
        "hidden_size": 24, "n_layer": 2, "n_head": 3, "layer_norm_epsilon": 1e-3}),
    "hrm_text": ("HrmTextConfig", "hrm_text", {
        "hidden_size": 36, "intermediate_size": 38, "num_hidden_layers": 2, "num_attention_heads": 3,
        "head_dim": 12, "H_cycles": 2, "L_cycles": 2, "embedding_scale": 3.0,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-4}),
    "mpt": ("MptConfig", "mpt", {"d_model": 24, "n_layers": 3, "n_heads": 4, "max_seq_len": 256}),
    "mpt-6-heads": ("MptConfig", "mpt", {
        "d_model": 24, "n_layers": 2, "n_heads": 6, "max_seq_len": 256, "tie_word_embeddings": False,
        "attn_config": {"clip_qkv": 0.6}}),
    # Of four heads and so few tokens biases are exact in bfloat16. "eager" adds them twice.
    "falcon-rw": ("FalconConfig", "falcon", FALCON | {
        "hidden_size": 64, "num_attention_heads": 4, "alibi": True, "bias": True, "parallel_attn": False,
        "multi_query": False}),
    "dbrx": ("DbrxConfig", "dbrx", {
        "d_model": 24, "n_heads": 4, "n_layers": 3, "max_seq_len": 256,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.6, "rope_theta": 1e4},
        "ffn_config": {"ffn_hidden_size": 14, "moe_num_experts": 5, "moe_top_k": 2}}),
    "starcoder": ("GPTBigCodeConfig", "starcoder", GPT2 | {"n_inner": 38}),
    "mamba": ("MambaConfig", "mamba", MAMBA | {"time_step_rank": 7}),
    "mamba-own": ("MambaConfig", "mamba", MAMBA | {
        "use_bias": True, "use_conv_bias": False, "expand": 3, "conv_kernel": 3,
        "tie_word_embeddings": False}),
    "falcon-mamba": ("FalconMambaConfig", "mamba", MAMBA | {
        "time_step_rank": 7, "layer_norm_epsilon": 1e-3}),
    "jamba": ("JambaConfig", "jamba", JAMBA),
    "jamba-dense": ("JambaConfig", "jamba", JAMBA | {
        "num_experts": 1, "num_experts_per_tok": 1, "attn_layer_period": 2,
        "mamba_dt_rank": "auto", "mamba_proj_bias": True, "mamba_conv_bias": False,
        "tie_word_embeddings": True}),
    "mamba2": ("Mamba2Config", "mamba2", MAMBA2),
    "mamba2-groups": ("Mamba2Config", "mamba2", MAMBA2 | {
        "n_groups": 2, "use_bias": True, "tie_word_embeddings": True}),
    "minicpm3": ("MiniCPM3Config", "minicpm3", MINICPM3),
    "minicpm3-long": ("MiniCPM3Config", "minicpm3", MINICPM3 | {
        "tie_word_embeddings": False, "v_head_dim": 12, "original_max_position_embeddings": 32,
        "max_position_embeddings": 256, "rope_parameters": {
            **LONG, "partial_rotary_factor": 1.0, "original_max_position_embeddings": 32}}),
    "kimi-linear": ("KimiLinearConfig", "kimi-linear", {
        "hidden_size": 28, "intermediate_size": 40, "moe_intermediate_size": 10,
        "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 4,
        "num_experts": 6, "num_experts_per_token": 2, "num_shared_experts": 1,
        "kv_lora_rank": 18, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 12,
        "routed_scaling_factor": 1.7, "model_max_length": 256, "first_k_dense_replace": 1,
        "linear_attn_config": {"head_dim": 12, "num_heads": 4, "short_conv_kernel_size": 4,
                               "full_attn_layers": [3, 5], "kda_layers": [1, 2, 4]}}),
    "bailingmoe3": ("BailingHybridConfig", "bailingmoe3", BAILING),
    "bailingmoe3-narrow": ("BailingHybridConfig", "bailingmoe3", BAILING | {
        "q_lora_rank": 14, "n_group": 1, "topk_group": 1, "kda_lower_bound": -2.0,
        "layer_types": ["linear_attention", "full_attention", "full_attention",
                        "linear_attention"]}),
    "minimax-01": ("MiniMaxConfig", "minimax-01", MINIMAX),
    "minimax-01-heads": ("MiniMaxConfig", "minimax-01", MINIMAX | {
        "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 10,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "full_attn_alpha_factor": 1.7, "linear_attn_alpha_factor": 1.7, "mlp_alpha_factor": 1.7}),
    "hy_v4": ("HYV4Config", "hy_v4", HUNYUAN4),
    "hy_v4-full": ("HYV4Config", "hy_v4", HUNYUAN4 | {
        "swiglu_limit": 50.0, "n_shared_experts": 2, "hc_magnitude": 1.3, "hc_eps": 1e-2,
        "index_topk": 48,
        "indexer_types": ["full"] * 3, "mlp_layer_types": ["dense", "dense", "sparse"]}),
    "deepseek-v4": ("DeepseekV4Config", "deepseek4", DEEPSEEK4),
    "glm5-next": ("Glm5NextTextConfig", "glm5-next", GLM5_NEXT),
    "dots3note": ("Dots3NoteTextConfig", "dots3note", LATENT | {
        "num_hidden_layers": 4, "q_lora_rank": 14, "head_dim": 18, "n_shared_experts": 2,
        "shared_experts_intermediate_size": 10, "index_topk": 9, "index_head_dim": 16,
        "index_n_heads": 7, "sliding_window": 7, "max_position_embeddings": 256,
        "layer_types": ["indexed_attention", "sliding_attention", "sliding_attention",
                        "indexed_attention"],
        "swa_num_attention_heads": 3, "swa_num_key_value_heads": 3, "swa_q_lora_rank": 14,
        "swa_kv_lora_rank": 20, "swa_head_dim": 14, "swa_qk_nope_head_dim": 6, "swa_v_head_dim": 10,
        "rope_theta": 8e4, "swa_rope_theta": 5e2}),
    "minimax-m3": ("MiniMaxM3VLTextConfig", "minimax-m3", MINIMAX3),
    "minimax-m3-few": ("MiniMaxM3VLTextConfig", "minimax-m3", MINIMAX3 | {
        "index_block_size": 8, "index_topk_blocks": 2, "mlp_layer_types": ["sparse"] * 4,
        "layer_types": ["minimax_m3_sparse", "full_attention"] * 2,
        "rms_norm_eps": 1e-4, "routed_scaling_factor": 1.3, "num_attention_heads": 3,
        "num_key_value_heads": 3, "index_n_heads": 3, "shared_intermediate_size": 18}),
    "qwen4exp": ("Qwen4ExpTextConfig", "qwen4exp", {
        "eos_token_id": [25, 2], "hidden_size": 24, "num_hidden_layers": 5,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 256,
        "moe_intermediate_size": 14, "shared_expert_intermediate_size": 18, "num_experts": 5,
        "num_experts_per_tok": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_key_head_dim": 10, "linear_value_head_dim": 10, "output_gate_type": "sigmoid",
        "layer_types": ["linear_attention", "indexed_attention", "linear_attention",
                        "full_attention", "linear_attention"],
        "hc_count": 3, "hc_lowrank": 8, "ple_layer_ids": [3], "ple_embed_dim": 20,
        "ngram_size": 3, "heads_per_ngram": 2, "ngram_vocab_size_base": 50,
        "make_ngram_vocab_size_divisible_by": 8, "split_ngram_parts": 7, "indexer_n_heads": 3,
        "indexer_kv_heads": 1, "indexer_head_dim": 10, "indexer_budget": 8,
        "indexer_compress_ratio": 4, "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5,
            "mrope_section": [1, 1, 1], "mrope_interleaved": True}}),
}

LAYER_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.sinks": "attn_sinks.weight", "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "post_self_attn_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm", "post_mlp_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up", "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
    "block_sparse_moe.router": "ffn_gate_inp", "mlp.experts": "exps",
    "block_sparse_moe.experts": "exps", "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp", "shared_mlp.input_linear": "shared_input",
    "shared_mlp.output_linear": "ffn_down_shexp",
}


def is_constant(key, tensor):
    """Whether it follows from the configuration: of hashes, or of lightning attention."""
    return not tensor.is_floating_point() or key.endswith(("slope_rate", "_decay"))


def random_model(name, **changes):
    """(configuration, model): random float32 values held and computed with in float64."""
    class_name, _, arguments = (MODELS | CHECKPOINTS)[name]
    config = getattr(transformers, class_name)(**(COMMON | arguments | changes))
    whole = class_name.removesuffix("Config")
    family = whole.removesuffix("Text")
    names = (whole + "ForCausalLM", family + "ForCausalLM", family + "LMHeadModel")
    model_class = next((getattr(transformers, name) for name in names if hasattr(transformers, name)), None)
    if model_class is None:  # it also sees
        config = getattr(transformers, family + "Config")(text_config=config, vision_config=VISION)
        model_class = getattr(transformers, family + "ForConditionalGeneration")
    model = model_class._from_config(
        config, attn_implementation="sdpa" if name == "falcon-rw" else "eager", experts_implementation="eager",
        dtype=torch.float64).eval()
    generator = torch.Generator().manual_seed(len(name))
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if key.endswith("tid2eid"):  # experts by token
                order = torch.rand(len(tensor), arguments["n_routed_experts"], generator=generator)
                tensor.copy_(order.argsort()[:, :tensor.shape[1]])
            if is_constant(key, tensor):
                continue
            value = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
            if "norm" in key and tensor.dim() == 1:
                value = 1 + 0.2 * value
            elif tensor.dim() == 1 or key.endswith("_bias"):
                value *= 0.2
            elif "embed_tokens" not in key:
                value *= 1.5 / math.sqrt(tensor.shape[-1])
            tensor.copy_(value)
    return config, model


def metadata_of(name, config):
    """A Builder with the keys that the converter writes."""
    _, arch, _ = MODELS[name]
    c = config
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    rope = c.rope_parameters.get("full_attention", c.rope_parameters)
    context = c.max_position_embeddings
    m = Builder(name, arch, c.hidden_size, c.num_hidden_layers, c.num_attention_heads,
                c.num_key_value_heads, head_dim, context, feed_forward_length=c.intermediate_size)
    key = lambda k, value: m.metadata.__setitem__(f"{arch}.{k}", value)
    key("attention.layer_norm_rms_epsilon", c.rms_norm_eps)
    key("rope.freq_base", float(rope["rope_theta"]))
    key("rope.dimension_count", int(head_dim * rope.get("partial_rotary_factor", 1.0)))
    if rope["rope_type"] in ("linear", "yarn"):
        key("rope.scaling.type", rope["rope_type"])
        key("rope.scaling.factor", rope["factor"])
    if rope["rope_type"] == "yarn":
        key("rope.scaling.original_context_length", rope["original_max_position_embeddings"])
        for there, here in (("attention_factor", "yarn_attn_factor"), ("beta_fast",) * 2,
                            ("beta_slow",) * 2):
            if there in rope:
                key("rope.scaling." + here.replace("beta", "yarn_beta"), rope[there])
    if rope["rope_type"] == "longrope":
        original = c.original_max_position_embeddings
        key("rope.scaling.original_context_length", original)
        scale = context / original
        key("rope.scaling.attn_factor",
            math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)
        for which in ("short", "long"):
            m.tensors[f"rope_factors_{which}.weight"] = np.array(rope[which + "_factor"])
    if getattr(c, "sliding_window", None) and arch in ("olmo2", "gpt-oss", "phi3"):
        if name != "olmo2":
            key("attention.sliding_window", c.sliding_window)
    if arch.startswith("granite"):
        key("embedding_scale", c.embedding_multiplier)
        key("residual_scale", c.residual_multiplier)
        key("attention.scale", c.attention_multiplier)
        key("logit_scale", c.logits_scaling)
    experts = getattr(c, "num_local_experts", None) or getattr(c, "n_routed_experts", None)
    if experts:
        key("expert_count", experts)
        key("expert_used_count", c.num_experts_per_tok)
    if arch == "gpt-oss":
        key("expert_feed_forward_length", c.intermediate_size)
    if getattr(c, "shared_intermediate_size", 0):
        key("expert_shared_feed_forward_length", c.shared_intermediate_size)
    if arch == "deepseek2":
        latent_keys(name, c, key)
    return m


def latent_keys(name, c, key):
    key("attention.head_count_kv", 1)
    key("leading_dense_block_count", c.first_k_dense_replace)
    if c.q_lora_rank:
        key("attention.q_lora_rank", c.q_lora_rank)
    key("attention.kv_lora_rank", c.kv_lora_rank)
    key("attention.key_length", c.kv_lora_rank + c.qk_rope_head_dim)
    key("attention.value_length", c.kv_lora_rank)
    key("attention.key_length_mla", c.qk_nope_head_dim + c.qk_rope_head_dim)
    key("attention.value_length_mla", c.v_head_dim)
    key("rope.dimension_count", c.qk_rope_head_dim)
    key("expert_feed_forward_length", c.moe_intermediate_size)
    key("expert_shared_count", c.n_shared_experts)
    key("expert_weights_scale", c.routed_scaling_factor)
    key("expert_weights_norm", bool(c.norm_topk_prob))
    key("expert_gating_func", 2 if name == "deepseek-v3" else 1)
    if c.n_group:
        key("expert_group_count", c.n_group)
        key("expert_group_used_count", c.topk_group)
    key("rope.scaling.yarn_log_multiplier", 0.1 * c.rope_parameters["mscale_all_dim"])


def permuted(weight, heads):
    """Rows of q or k from halves to neighbouring pairs."""
    halves = weight.reshape(heads, 2, -1, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def put(m, arch, config, b, part, kind, value):
    """One tensor of a layer, under its GGUF name or in the parts that files hold it in."""
    latent = arch == "deepseek2"
    if part == "exps":
        transposed = arch == "gpt-oss"  # (experts, in, out), gate and up in turns
        name, is_bias = kind.removesuffix("_bias"), kind.endswith("_bias")
        suffix = "_exps.bias" if is_bias else "_exps.weight"
        if transposed and not is_bias:
            value = value.swapaxes(1, 2)
        if name == "down_proj":
            m.tensors[f"{b}ffn_down{suffix}"] = value
            return
        gate, up = ((value[:, 0::2], value[:, 1::2]) if transposed else np.split(value, 2, axis=1))
        m.tensors[f"{b}ffn_gate{suffix}"] = gate
        m.tensors[f"{b}ffn_up{suffix}"] = up
    elif part == "shared_input":
        gate, up = np.split(value, 2)
        m.tensors[b + "ffn_gate_shexp.weight"], m.tensors[b + "ffn_up_shexp.weight"] = gate, up
    elif part == "attn_kv_b":
        value = value.reshape(config.num_attention_heads, -1, config.kv_lora_rank)
        m.tensors[b + "attn_k_b.weight"] = value[:, :config.qk_nope_head_dim].swapaxes(1, 2)
        m.tensors[b + "attn_v_b.weight"] = value[:, config.qk_nope_head_dim:]
    else:
        if part in ("attn_q", "attn_k") and arch in ("llama", "smollm3", "granite", "granitemoe"):
            heads = m.heads if part == "attn_q" else m.kv_heads
            value = permuted(value, heads)
        if latent or not part.endswith((".weight", ".bias")):
            part = part if part.endswith(".bias") else f"{part}.{kind}"
        m.tensors[b + part] = value


def build(name):
    """(Builder with metadata and tensors, tokens, logits of transformers)."""
    _, arch, _ = MODELS[name]
    config, model = random_model(name)
    m = metadata_of(name, config)
    names = dict(LAYER_NAMES)
    if arch == "olmo2":
        names["post_attention_layernorm"] = "post_attention_norm"
    if arch == "gpt-oss":
        names["post_attention_layernorm"] = "post_attention_norm"
    tops = {"model.embed_tokens.weight": "token_embd.weight",
            "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    for key, tensor in model.state_dict().items():
        value = tensor.numpy()
        if key in tops:
            if key != "lm_head.weight" or not config.tie_word_embeddings:
                m.tensors[tops[key]] = value
            continue
        _, _, layer, rest = key.split(".", 3)
        stem, _, kind = rest.rpartition(".")
        part = names.get(rest) or names[stem]
        put(m, arch, config, f"blk.{layer}.", part, kind, value)
    tokens = [1] + m.rng.integers(3, VOCABULARY, TOKENS - 1).tolist()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].numpy()
    return m, tokens, logits
