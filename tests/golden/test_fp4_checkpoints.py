"""Checkpoints of 4-bit floats, made here as compressed-tensors and ModelOpt publish them, against
directories that hold the values that their codes stand for."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference.model import nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

TOKENS = [1] + [3 + i * i % 67 for i in range(20)]
WIDTH, FEED_FORWARD, HEADS, KV_HEADS, HEAD, VOCABULARY, EXPERTS = 128, 192, 4, 2, 32, 80, 4
LEVELS = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])
# What E4M3 holds: positive numbers by their bits.
SCALES = np.array([(i & 7) * 2.0 ** -9 if i < 8 else (8 + (i & 7)) * 2.0 ** ((i >> 3) - 10)
                   for i in range(127)])


def infer(*arguments):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)


def evaluate(path, out):
    done = infer("eval", "-m", path, "--exact", "--logits", out, "--tokens",
                 ",".join(map(str, TOKENS)))
    assert done.returncode == 0, done.stderr
    return np.fromfile(out, "<f4").reshape(len(TOKENS), -1)


def write(folder, config, tensors):
    """`tensors`: name → (type, array whose bytes are the tensor's, shape)."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    header, body = {}, b""
    for name, (kind, array, shape) in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
    return folder


def model(experts):
    config = {"architectures": ["MixtralForCausalLM" if experts else "LlamaForCausalLM"],
              "model_type": "mixtral" if experts else "llama", "hidden_act": "silu",
              "hidden_size": WIDTH, "intermediate_size": FEED_FORWARD, "num_hidden_layers": 2,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
              "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "vocab_size": VOCABULARY, "bos_token_id": 1,
              "eos_token_id": 2}
    shapes = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,),
              "lm_head.weight": (VOCABULARY, WIDTH)}
    for layer in range(2):
        at = f"model.layers.{layer}."
        shapes |= {at + "input_layernorm.weight": (WIDTH,),
                   at + "post_attention_layernorm.weight": (WIDTH,),
                   at + "self_attn.q_proj.weight": (HEADS * HEAD, WIDTH),
                   at + "self_attn.k_proj.weight": (KV_HEADS * HEAD, WIDTH),
                   at + "self_attn.v_proj.weight": (KV_HEADS * HEAD, WIDTH),
                   at + "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD)}
        parts = {"gate_proj": (FEED_FORWARD, WIDTH), "up_proj": (FEED_FORWARD, WIDTH),
                 "down_proj": (WIDTH, FEED_FORWARD)}
        if not experts:
            shapes |= {f"{at}mlp.{part}.weight": shape for part, shape in parts.items()}
            continue
        config |= {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}
        shapes[at + "block_sparse_moe.gate.weight"] = (EXPERTS, WIDTH)
        for e in range(EXPERTS):
            for name, part in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
                shapes[f"{at}block_sparse_moe.experts.{e}.{name}.weight"] = parts[part]
    random = np.random.default_rng(5)
    return config, {name: random.standard_normal(shape).astype("<f4") * 0.2 + 0.01
                    for name, shape in shapes.items()}


def floats(array):
    return "F32", array.astype("<f4"), array.shape


def four_bits(name, shape, kind, random):
    """Random codes and scales of a matrix, as stored and as numbers."""
    rows, columns = shape
    group = 32 if kind == "mxfp4" else 16
    codes = random.integers(0, 16, (rows, columns))
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    groups = (rows, columns // group)
    if kind == "mxfp4":
        bits = random.integers(119, 124, groups).astype(np.uint8)
        scales, whole = 2.0 ** (bits.astype(float) - 127), 1.0
    else:
        bits = random.integers(40, 100, groups).astype(np.uint8)
        scales, whole = SCALES[bits], 2.0 ** random.integers(-6, -2)
    stored = {name + ("" if kind == "modelopt" else "_packed"): ("U8", packed, packed.shape),
              name + "_scale": ("U8" if kind == "mxfp4" else "F8_E4M3", bits, groups)}
    base = name.removesuffix("weight")
    one = np.array([1.0])
    if kind == "modelopt":
        stored |= {name + "_scale_2": ("F32", (one * whole).astype("<f4"), ()),
                   base + "input_scale": floats(one)}
    if kind == "nvfp4":
        stored |= {name + "_global_scale": floats(one / whole),
                   base + "input_global_scale": floats(one)}
    return stored, LEVELS[codes] * scales.repeat(group, 1) * whole


@pytest.mark.parametrize("experts", [False, True])
@pytest.mark.parametrize("kind, method", [("modelopt", "modelopt"), ("nvfp4", "compressed-tensors"),
                                          ("mxfp4", "compressed-tensors")])
def test_4_bit_floats_of_a_directory(kind, method, experts, tmp_path):
    config, values = model(experts)
    random = np.random.default_rng(6)
    stored, numbers = {}, {}
    for name, value in values.items():
        inner = value.ndim == 2 and ".layers." in name and not name.endswith(".gate.weight")
        if inner:
            parts, numbers_of = four_bits(name, value.shape, kind, random)
            stored |= parts
            value = numbers_of
        else:
            stored[name] = floats(value)
        numbers[name] = floats(value)
    plain = write(tmp_path / "plain", config, numbers)
    config["quantization_config"] = {"quant_method": method}
    four = write(tmp_path / "four", config, stored)
    expected = evaluate(plain, tmp_path / "plain.f32")
    assert np.ptp(expected) > 0.1
    assert nmse(evaluate(four, tmp_path / "four.f32"), expected) <= 1e-10
    done = infer("convert", four, tmp_path / "m.gguf", "--json")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(evaluate(tmp_path / "m.gguf", tmp_path / "gguf.f32"),
                          evaluate(four, tmp_path / "four.f32"))
