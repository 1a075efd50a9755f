"""BitNet checkpoints whose weights are packed, by their format's description: what they become holds
every weight exactly."""

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

TOKENS = 40
NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.attn_sub_norm": "attn_sub_norm", "mlp.ffn_sub_norm": "ffn_sub_norm"}


def infer(*args):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, args)], capture_output=True, text=True)


def matrices(width, inner):
    return {"self_attn.q_proj": ("attn_q", width, width), "self_attn.k_proj": ("attn_k", width, width),
            "self_attn.v_proj": ("attn_v", width, width),
            "self_attn.o_proj": ("attn_output", width, width), "mlp.gate_proj": ("ffn_gate", inner, width),
            "mlp.up_proj": ("ffn_up", inner, width), "mlp.down_proj": ("ffn_down", width, inner)}


def packed(levels):
    """Rows of four equal parts in a byte, the first part in the lowest bits."""
    parts = np.split((levels + 1).astype(np.uint8), 4)
    return sum((part << (2 * i) for i, part in enumerate(parts)), np.zeros_like(parts[0]))


def checkpoint(directory, width, settings, name="BitNetForCausalLM", scale=None):
    """A random model in files. Returns the levels and scales of its matrices by their names in GGUF,
    and whether the program is to divide."""
    inner = width + 256
    rng = np.random.default_rng(width)
    normal = lambda *shape: rng.normal(0, 0.5, shape).astype("<f4")
    tensors = {"model.embed_tokens.weight": normal(TOKENS, width), "model.norm.weight": normal(width)}
    for norm in NORMS:
        if name == "BitNetForCausalLM" or "sub_norm" not in norm:
            size = inner if norm.startswith("mlp") else width
            tensors[f"model.layers.0.{norm}.weight"] = normal(size)
    expected = {}
    for i, (part, (made, rows, columns)) in enumerate(matrices(width, inner).items()):
        levels = rng.integers(-1, 2, (rows, columns))
        value = np.array([0.25 * (i + 1)] if scale is None else [scale], "<f4")
        base = f"model.layers.0.{part}.weight"
        tensors |= {base: packed(levels), base + "_scale": value}
        expected[made] = levels, value[0]
    directory.mkdir()
    write(directory / "model.safetensors", tensors)
    (directory / "config.json").write_text(json.dumps({
        "architectures": [name], "num_hidden_layers": 1, "hidden_size": width,
        "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": inner,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": TOKENS,
        "hidden_act": "relu2" if name == "BitNetForCausalLM" else "silu",
        "tie_word_embeddings": True,
        "quantization_config": {"quant_method": "bitnet", **settings}}))
    return expected


@pytest.mark.parametrize("width, kind", [(256, "TQ2_0"), (64, "F32")])
@pytest.mark.parametrize("settings, divides", [
    ({}, True), ({"linear_class": "bitlinear"}, True),
    ({"linear_class": "autobitlinear", "quantization_mode": "offline"}, False)])
def test_weights_are_exact(width, kind, settings, divides, tmp_path):
    expected = checkpoint(tmp_path / "m", width, settings)
    done = infer("convert", tmp_path / "m", tmp_path / "out.gguf", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["types"].get(kind, 0) >= len(expected)
    done = infer("convert", tmp_path / "m", tmp_path / "f32.gguf", "--to", "f32")
    assert done.returncode == 0, done.stderr
    _, made = gguf.read(tmp_path / "f32.gguf")
    for name, (levels, scale) in expected.items():
        assert np.array_equal(np.asarray(made[f"blk.0.{name}.weight"]), levels), name
        found = np.asarray(made[f"blk.0.{name}.scale"])
        assert found == np.float32(1) / scale if divides else found == scale


def logits(path, out):
    done = infer("eval", "-m", path, "--tokens", "1,2,3,9", "--cache-type-k", "f32",
                 "--cache-type-v", "f32", "--logits", out)
    assert done.returncode == 0, done.stderr
    return np.frombuffer(out.read_bytes(), "<f4").astype(np.float64)


@pytest.mark.parametrize("name", ["BitNetForCausalLM", "LlamaForCausalLM"])
@pytest.mark.parametrize("width", [256, 64])
def test_the_model_is_that_of_plain_weights(name, width, tmp_path):
    expected = checkpoint(tmp_path / "m", width, {"linear_class": "autobitlinear"}, name)
    packed_logits = logits(tmp_path / "m", tmp_path / "packed")
    from tests.golden.reference.safetensors import read
    tensors = read(tmp_path / "m" / "model.safetensors")
    for part, (made, _, _) in matrices(width, width + 256).items():
        base = f"model.layers.0.{part}.weight"
        levels, scale = expected[made]
        tensors[base] = (levels * scale).astype("<f4")
        tensors.pop(base + "_scale")
    write(tmp_path / "m" / "model.safetensors", tensors)
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config.pop("quantization_config")
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    plain = logits(tmp_path / "m", tmp_path / "plain")
    # On CPUs products with TQ2_0 round the activations to 8 bits.
    bound = 1e-10 if width == 64 else 1e-3
    assert np.mean((packed_logits - plain) ** 2) <= bound * np.mean(plain ** 2)


@pytest.mark.parametrize("settings", [
    {"quantization_mode": "online"}, {"linear_class": "other"}, {"use_rms_norm": True}])
def test_other_settings_are_named(settings, tmp_path):
    checkpoint(tmp_path / "m", 64, settings)
    done = infer("info", tmp_path / "m")
    assert done.returncode == 3
    assert next(iter(settings)) in done.stderr and "not supported" in done.stderr


def test_damage_is_named(tmp_path):
    checkpoint(tmp_path / "zero", 64, {}, scale=0)
    done = infer("info", tmp_path / "zero")
    assert done.returncode == 3 and "positive scale" in done.stderr
    checkpoint(tmp_path / "code", 64, {})
    from tests.golden.reference.safetensors import read
    path = tmp_path / "code" / "model.safetensors"
    tensors = dict(read(path))
    tensors["model.layers.0.mlp.up_proj.weight"] = np.full((80, 64), 255, np.uint8)
    write(path, tensors)
    done = infer("convert", tmp_path / "code", tmp_path / "out.gguf", "--to", "f32")
    assert done.returncode == 3 and "three levels" in done.stderr
    assert not (tmp_path / "out.gguf").exists()
    tensors.pop("model.layers.0.mlp.up_proj.weight_scale")
    write(path, tensors)
    done = infer("info", tmp_path / "code")
    assert done.returncode == 3 and "weight_scale" in done.stderr and "missing" in done.stderr
