"""Hugging Face directories with several matrices in one tensor: converted, they are what GGUF has."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.test_head_checkpoints import write  # noqa: E402

GOLDEN = pathlib.Path(__file__).parents[1] / "data/golden"

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

SHARED = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
          "attn_output": "self_attn.o_proj", "ffn_down": "mlp.down_proj",
          "ffn_gate_inp": "mlp.gate", "ffn_down_shexp": "mlp.shared_experts.down_proj"}


def infer(*args):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, args)], capture_output=True, text=True)


def ernie(name, directory, biases=False, changes=None):
    """A golden model of ERNIE as a directory with q, k and v in one tensor, and gate and up in one.
    Returns its tensors under their names in GGUF."""
    metadata, tensors = gguf.read(GOLDEN / f"{name}.gguf")
    arch = metadata["general.architecture"]
    key = lambda k, absent=None: metadata.get(f"{arch}.{k}", absent)
    rng = np.random.default_rng(3)
    if biases:
        for i in range(key("block_count")):
            for part in ("attn_q", "attn_k", "attn_v"):
                rows = len(tensors[f"blk.{i}.{part}.weight"])
                tensors[f"blk.{i}.{part}.bias"] = rng.normal(0, 1, rows).astype("<f4")
    checkpoint = {"ernie.embed_tokens.weight": tensors["token_embd.weight"],
                  "ernie.norm.weight": tensors["output_norm.weight"]}
    for i in range(key("block_count")):
        at, b = f"ernie.layers.{i}.", f"blk.{i}."
        join = lambda parts, kind: np.concatenate([tensors[f"{b}{p}.{kind}"] for p in parts])
        for kind in ("weight", "bias"):
            if f"{b}attn_q.{kind}" in tensors:
                checkpoint[f"{at}self_attn.qkv_proj.{kind}"] = join(
                    ("attn_q", "attn_k", "attn_v"), kind)
        for suffix, there in (("", "mlp."), ("_shexp", "mlp.shared_experts.")):
            if f"{b}ffn_gate{suffix}.weight" in tensors:
                checkpoint[f"{at}{there}up_gate_proj.weight"] = join(
                    (f"ffn_gate{suffix}", f"ffn_up{suffix}"), "weight")
        for part, there in SHARED.items():
            if f"{b}{part}.weight" in tensors:
                checkpoint[f"{at}{there}.weight"] = tensors[f"{b}{part}.weight"]
        if f"{b}exp_probs_b.bias" in tensors:
            checkpoint[at + "mlp.moe_statics.e_score_correction_bias"] = (
                tensors[f"{b}exp_probs_b.bias"][None])
            for e in range(key("expert_count")):
                gate, up, down = (tensors[f"{b}ffn_{part}_exps.weight"][e]
                                  for part in ("gate", "up", "down"))
                checkpoint[f"{at}mlp.experts.{e}.up_gate_proj.weight"] = np.concatenate([gate, up])
                checkpoint[f"{at}mlp.experts.{e}.down_proj.weight"] = down
    directory.mkdir()
    write(directory / "model.safetensors", checkpoint)
    routed = arch == "ernie4_5-moe"
    config = {"architectures": ["Ernie4_5_MoeForCausalLM" if routed else "Ernie4_5ForCausalLM"],
              "num_hidden_layers": key("block_count"), "hidden_size": key("embedding_length"),
              "num_attention_heads": key("attention.head_count"),
              "num_key_value_heads": key("attention.head_count_kv"),
              "head_dim": key("attention.key_length"), "rms_norm_eps": 1e-5,
              "intermediate_size": key("feed_forward_length"), "max_position_embeddings": 256,
              "rope_theta": key("rope.freq_base"), "tie_word_embeddings": True}
    if routed:
        config |= {"moe_num_experts": 5, "moe_intermediate_size": 14, "moe_k": 2,
                   "moe_num_shared_experts": 2, "moe_layer_start_index": 1}
    (directory / "config.json").write_text(json.dumps(config | (changes or {})))
    return tensors


@pytest.mark.parametrize("name, biases", [("ernie4_5-f32", False), ("ernie4_5-f32", True),
                                          ("ernie4_5-moe-f32", False)])
def test_ernie_as_gguf_has_it(tmp_path, name, biases):
    tensors = ernie(name, tmp_path / "ernie", biases)
    done = infer("convert", tmp_path / "ernie", tmp_path / "out.gguf")
    assert done.returncode == 0, done.stderr
    _, made = gguf.read(tmp_path / "out.gguf")
    assert made.keys() == tensors.keys()
    for name, x in tensors.items():
        assert np.array_equal(np.asarray(made[name]).reshape(-1), np.asarray(x).reshape(-1)), name


@pytest.mark.parametrize("key, value, named", [
    ("num_key_value_heads", 3, "qkv_proj"), ("intermediate_size", 37, "up_gate_proj")])
def test_another_number_of_rows_is_named(tmp_path, key, value, named):
    ernie("ernie4_5-f32", tmp_path / "ernie", changes={key: value})
    done = infer("plan", "-m", tmp_path / "ernie", "-c", "64")
    assert done.returncode == 3
    assert named in done.stderr and "rows" in done.stderr
