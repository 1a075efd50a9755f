"""A directory of Kimi K3, which transformers has no class for: the golden model in the form in which it
was published has the golden model's logits."""

import json
import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402
from tests.golden.test_checkpoints import converted, evaluate, infer, rewritten  # noqa: E402

MODEL = pathlib.Path(__file__).parents[1] / "data" / "golden" / "kimi-k3-f32.gguf"
NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_gate": "self_attn.g_proj",
         "attn_q_a": "self_attn.q_a_proj", "attn_q_a_norm": "self_attn.q_a_layernorm",
         "attn_q_b": "self_attn.q_b_proj", "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
         "attn_kv_a_norm": "self_attn.kv_a_layernorm", "ssm_f_a": "self_attn.f_a_proj",
         "ssm_f_b": "self_attn.f_b_proj", "ssm_g": "self_attn.g_proj", "ssm_beta": "self_attn.b_proj",
         "ssm_norm": "self_attn.o_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "ffn_gate_inp": "block_sparse_moe.gate",
         "ffn_routed_down": "block_sparse_moe.routed_expert_down_proj",
         "ffn_routed_up": "block_sparse_moe.routed_expert_up_proj",
         "ffn_routed_norm": "block_sparse_moe.routed_expert_norm",
         "ffn_gate_shexp": "block_sparse_moe.shared_experts.gate_proj",
         "ffn_up_shexp": "block_sparse_moe.shared_experts.up_proj",
         "ffn_down_shexp": "block_sparse_moe.shared_experts.down_proj"}
CONFIG = {"hidden_size": 30, "intermediate_size": 38, "moe_intermediate_size": 14,
          "num_hidden_layers": 4, "num_attention_heads": 3, "num_key_value_heads": 3,
          "model_max_length": 256, "rms_norm_eps": 1e-5, "vocab_size": 72, "hidden_act": "situ",
          "q_lora_rank": 16, "kv_lora_rank": 14, "qk_nope_head_dim": 8, "qk_rope_head_dim": 6,
          "v_head_dim": 12, "mla_use_nope": True, "num_experts": 6, "num_experts_per_token": 3,
          "num_shared_experts": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.7,
          "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
          "routed_expert_hidden_size": 18, "activation_situ_beta": 2.7,
          "activation_situ_linear_beta": 3.3, "attn_res_block_size": 2,
          "linear_attn_config": {"full_attn_layers": [2, 4], "kda_layers": [1, 3], "head_dim": 10,
                                 "num_heads": 3, "short_conv_kernel_size": 4,
                                 "gate_lower_bound": -1.0}}


def published():
    _, tensors = gguf.read(MODEL)
    out = {"embed_tokens.weight": tensors["token_embd.weight"],
           "norm.weight": tensors["output_norm.weight"]}

    def score(to, values):  # a product of two
        norm = np.linspace(0.5, 2.0, len(values))
        out[to + "_norm.weight"], out[to + "_proj.weight"] = norm, (values / norm)[None]
    score("output_attn_res", tensors["output_res_score.weight"])
    for layer in range(4):
        own = {key.split(".", 2)[2]: value for key, value in tensors.items()
               if key.startswith(f"blk.{layer}.")}
        to = f"layers.{layer}."
        score(to + "self_attention_res", own.pop("attn_res_score.weight"))
        score(to + "mlp_res", own.pop("ffn_res_score.weight"))
        if "attn_k_b.weight" in own:
            both = [own.pop("attn_k_b.weight").swapaxes(1, 2), own.pop("attn_v_b.weight")]
            out[to + "self_attn.kv_b_proj.weight"] = np.concatenate(both, axis=1).reshape(-1, 14)
        else:
            out[to + "self_attn.A_log"] = np.log(-own.pop("ssm_a"))
            out[to + "self_attn.dt_bias"] = own.pop("ssm_dt.bias")
            for part in "qkv":
                out[f"{to}self_attn.{part}_conv1d.weight"] = own.pop(f"ssm_conv1d_{part}.weight")
        if "exp_probs_b.bias" in own:
            gate = to + "block_sparse_moe.gate.e_score_correction_bias"
            out[gate] = own.pop("exp_probs_b.bias")
            for part, name in (("gate", "w1"), ("down", "w2"), ("up", "w3")):
                for e, weight in enumerate(own.pop(f"ffn_{part}_exps.weight")):
                    out[f"{to}block_sparse_moe.experts.{e}.{name}.weight"] = weight
        for key, value in own.items():
            out[to + NAMES[key.removesuffix(".weight")] + ".weight"] = value
    out = {"language_model.model." + key: value for key, value in out.items()}
    out["language_model.lm_head.weight"] = tensors["output.weight"]
    out["vision_tower.patch.weight"] = np.zeros((2, 2))
    return {key: torch.tensor(np.ascontiguousarray(value, np.float32)) for key, value in out.items()}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "m"
    path.mkdir()
    config = {"architectures": ["KimiK3ForConditionalGeneration"], "text_config": CONFIG}
    (path / "config.json").write_text(json.dumps(config))
    safetensors.save_file(published(), path / "model.safetensors")
    return path


def test_logits(folder, tmp_path):
    found = evaluate(folder, tmp_path / "logits")
    same = evaluate(MODEL, tmp_path / "logits")
    error = nmse(found, same)  # products of scores and logarithms of decays are rounded
    print(f"{'kimi-k3':20} {error:.3g}")
    assert error <= 1e-10
    path, _ = converted(folder, tmp_path)
    assert np.array_equal(evaluate(path, tmp_path / "logits"), found)


@pytest.mark.parametrize("change, named", [
    ({"hidden_act": "silu"}, "silu"),
    ({"mla_use_nope": False}, "mla_use_nope"),
    ({"attn_res_block_size": None}, "attn_res_block_size"),
    ({"activation_situ_beta": None}, "situ_beta"),
    ({"routed_expert_hidden_size": 17}, "ffn_routed_down"),
    ({"moe_router_activation_func": "tanh"}, "scoring_func"),
    ({"linear_attn_config": {"head_dim": 10, "full_attn_layers": [6]}}, "full_attn_layers")])
def test_what_is_refused(change, named, folder):
    rewritten(folder, lambda config: config["text_config"].update(change))
    done = infer("plan", "-m", folder)
    assert done.returncode == 3 and named in done.stderr, done.stderr
