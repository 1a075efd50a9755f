"""Step 3.5 as published, with the layers that predict further tokens: converted it is what GGUF has,
and the program drafts with it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.test_head_checkpoints import same_model, write  # noqa: E402

GOLDEN = pathlib.Path(__file__).parents[1] / "data/golden"

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "attn_gate": "self_attn.g_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "ffn_gate_inp": "moe.gate", "ffn_gate_exps": "moe.gate_proj", "ffn_up_exps": "moe.up_proj",
         "ffn_down_exps": "moe.down_proj", "ffn_gate_shexp": "share_expert.gate_proj",
         "ffn_up_shexp": "share_expert.up_proj", "ffn_down_shexp": "share_expert.down_proj",
         "nextn.eh_proj": "eh_proj", "nextn.enorm": "enorm", "nextn.hnorm": "hnorm",
         "nextn.shared_head_norm": "transformer.shared_head.norm",
         "nextn.shared_head_head": "transformer.shared_head.output"}
# Of all layers, those that predict further tokens included; factors of RoPE without effect.
CONFIG = {
    "architectures": ["Step3p5ForCausalLM"], "hidden_size": 30, "intermediate_size": 38,
    "num_hidden_layers": 4, "num_nextn_predict_layers": 2, "num_attention_heads": 4,
    "num_attention_groups": 2, "head_dim": 12, "max_position_embeddings": 256,
    "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 6,
                                "num_attention_groups": 2, "head_dim": 12},
    "layer_types": ["full_attention" if i in (0, 3) else "sliding_attention" for i in range(6)],
    "rope_theta": [5e5, 1e4, 1e4, 5e5, 1e4, 1e4],
    "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5, 1.0, 1.0],
    "rope_scaling": {"rope_type": "llama3", "factor": 1.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 32.0, "original_max_position_embeddings": 64},
    "sliding_window": 7, "moe_layers_enum": "1,2,3", "moe_num_experts": 6, "moe_top_k": 2,
    "moe_intermediate_size": 14, "share_expert_dim": 22, "moe_router_activation": "sigmoid",
    "moe_router_scaling_factor": 1.7, "norm_expert_weight": True, "use_head_wise_attn_gate": True,
    "swiglu_limits": [0.0, 0.0, 0.6, 0.0, 0.0, 0.0],
    "swiglu_limits_shared": [0.8, 0.4, 0.0, 0.0, 0.0, 0.0]}


def directory_of(tmp_path, **changes):
    """(directory, metadata, tensors): the golden model, without factors of RoPE."""
    metadata, tensors = gguf.read(GOLDEN / "step35-f32.gguf")
    tensors["rope_freqs.weight"] = np.ones(6, np.float32)
    checkpoint = {"model.embed_tokens.weight": tensors["token_embd.weight"],
                  "model.norm.weight": np.float32(tensors["output_norm.weight"] - 1),
                  "lm_head.weight": tensors["output.weight"]}
    for name, x in tensors.items():
        if not name.startswith("blk.") or "embed_tokens" in name:
            continue
        _, layer, rest = name.split(".", 2)
        part, kind = rest.rsplit(".", 1)
        at = f"model.layers.{layer}."
        if part == "exp_probs_b":
            checkpoint[at + "moe.router_bias"] = x
        else:
            less = np.float32(x - 1) if part.endswith("norm") else x
            checkpoint[f"{at}{NAMES[part]}.{kind}"] = less
    folder = tmp_path / "step"
    folder.mkdir()
    write(folder / "model.safetensors", checkpoint)
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    # What a checkpoint has less one comes back rounded.
    rounded = {name: np.float32(x - 1) + np.float32(1) if "norm." in name else x
               for name, x in tensors.items() if "embed_tokens" not in name}
    return folder, metadata, rounded


def test_as_gguf_has_it(tmp_path):
    folder, metadata, tensors = directory_of(tmp_path)
    same_model(folder, metadata, tensors, [key for key in metadata if key.startswith("step35.")
                                           and not key.endswith(".vocab_size")])


@pytest.mark.parametrize("changes, named", [
    ({"layer_types": ["full_attention"] * 3}, "layer_types"),
    ({"layer_types": ["linear_attention"] * 6}, "layer_types"),
    ({"partial_rotary_factors": [0.25, 1.0, 1.0, 0.25, 1.0, 1.0]}, "partial_rotary_factor"),
    ({"moe_router_activation": "softmax"}, "moe_router_activation"),
    ({"use_head_wise_attn_gate": False}, "use_head_wise_attn_gate"),
    ({"query_pre_attn_scalar": 13}, "query_pre_attn_scalar"),
    ({"moe_num_experts": 5}, "ffn_gate_inp"),
    ({"num_attention_heads": 3}, "key-value heads"),
])
def test_what_cannot_be_had_is_named(tmp_path, changes, named):
    folder, *_ = directory_of(tmp_path, **changes)
    done = subprocess.run([os.environ["INFER_BIN"], "plan", "-m", folder, "-c", "64"],
                          capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert named in done.stderr
