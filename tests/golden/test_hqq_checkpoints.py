"""HQQ checkpoints, packed here by their format's description: what they become holds every weight
exactly, and what no type here holds is named."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.reference.safetensors import write  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

WIDTH, INNER, TOKENS = 64, 96, 40
PARTS = {"self_attn.q_proj": ("attn_q", 64, 64), "self_attn.k_proj": ("attn_k", 64, 64),
         "self_attn.v_proj": ("attn_v", 64, 64), "self_attn.o_proj": ("attn_output", 64, 64),
         "mlp.gate_proj": ("ffn_gate", 96, 64), "mlp.up_proj": ("ffn_up", 96, 64),
         "mlp.down_proj": ("ffn_down", 64, 96)}


def infer(*args):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, args)], capture_output=True, text=True)


def packed(codes, bits):
    """Rows of groups: the first of 8 / bits equal parts in the highest bits."""
    parts = np.split(codes.astype(np.uint8), 8 // bits)
    out = np.zeros_like(parts[0])
    for i, part in enumerate(parts):
        out |= part << (8 - bits * (i + 1))
    return out


def checkpoint(directory, bits, zeros, group=64, changes=None):
    """A random model whose matrices are of HQQ. `zeros`: the zeros of so many groups. Returns the
    weights by their names in GGUF."""
    rng = np.random.default_rng(bits)
    normal = lambda *shape: rng.normal(0, 0.5, shape).astype("<f4")
    tensors = {"model.embed_tokens.weight": normal(TOKENS, WIDTH),
               "model.norm.weight": normal(WIDTH), "lm_head.weight": normal(TOKENS, WIDTH)}
    for name in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"model.layers.0.{name}.weight"] = normal(WIDTH)
    expected = {}
    for part, (name, rows, columns) in PARTS.items():
        groups = rows * columns // group
        codes = rng.integers(0, 1 << bits, (groups, group))
        scale = rng.uniform(0.01, 0.1, (groups, 1)).astype("<f2")
        zero = np.asarray(zeros(rng, groups), "<f2").reshape(groups, 1)
        base = f"model.layers.0.{part}."
        tensors |= {base + "W_q": packed(codes, bits), base + "scale": scale, base + "zero": zero,
                    base + "shape": np.array([rows, columns], "<i8")}
        for key, value in {"nbits": bits, "group_size": group, "axis": 1, "view_as_float": 0,
                           "quant_scale": 0, "quant_zero": 0, "optimize": 1}.items():
            tensors[base + key] = np.array((changes or {}).get(key, value), "<i4")
        tensors[base + "packing"] = np.frombuffer(f"{bits}bit_u8".encode(), np.uint8)
        values = (codes - zero.astype(np.float64)) * scale.astype(np.float64)
        expected[f"blk.0.{name}.weight"] = values.reshape(rows, columns)
    directory.mkdir()
    write(directory / "model.safetensors", tensors)
    (directory / "config.json").write_text(json.dumps({
        "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 1, "hidden_size": WIDTH,
        "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": INNER,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": TOKENS,
        "tie_word_embeddings": False, "quantization_config": {"quant_method": "hqq"}}))
    return expected


def whole(low, high):
    return lambda rng, groups: rng.integers(low, high + 1, groups)


@pytest.mark.parametrize("bits, zeros, kind", [
    (4, whole(8, 8), "Q4_0"), (4, whole(0, 15), "Q5_0"), (2, whole(0, 3), "Q4_0"),
    (1, whole(0, 1), "Q4_0"), (8, whole(128, 128), "Q8_0"), (4, whole(-3, 20), "Q8_0")])
def test_weights_are_exact(tmp_path, bits, zeros, kind):
    expected = checkpoint(tmp_path / "hqq", bits, zeros)
    done = infer("convert", tmp_path / "hqq", tmp_path / "out.gguf", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["types"][kind] == len(PARTS)
    done = infer("convert", tmp_path / "hqq", tmp_path / "f32.gguf", "--to", "f32")
    assert done.returncode == 0, done.stderr
    _, made = gguf.read(tmp_path / "f32.gguf")
    for name, x in expected.items():
        assert np.array_equal(np.asarray(made[name]), x), name
    done = infer("eval", "-m", tmp_path / "hqq", "--tokens", "1,2,3", "--logits", tmp_path / "out")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("bits, zeros, group, changes, named", [
    (4, lambda rng, groups: np.full(groups, 7.5), 64, {}, "the zero 7.5"),
    (8, whole(0, 0), 64, {}, "levels from 0 to 255"),
    (4, whole(8, 8), 64, {"nbits": 3}, "3 bits"),
    (4, whole(8, 8), 64, {"axis": 0}, "axis 0"),
    (4, whole(8, 8), 64, {"quant_zero": 1}, "quant_zero"),
    (4, whole(8, 8), 16, {}, "groups of 16 weights"),
])
def test_what_no_type_holds_is_named(tmp_path, bits, zeros, group, changes, named):
    checkpoint(tmp_path / "hqq", bits, zeros, group, changes)
    done = infer("info", tmp_path / "hqq")
    assert done.returncode == 3
    assert named in done.stderr and "HQQ" in done.stderr and "not supported" in done.stderr


def test_other_sizes_are_named(tmp_path):
    checkpoint(tmp_path / "hqq", 4, whole(8, 8), changes={"nbits": 8})
    done = infer("info", tmp_path / "hqq")
    assert done.returncode == 3
    assert "W_q" in done.stderr and "8 bits" in done.stderr
