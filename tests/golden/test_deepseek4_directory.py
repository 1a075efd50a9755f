"""DeepSeek-V4's directories as they were published: other names and keys than transformers writes, and
weights of 8 and 4 bits with exponents."""

import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.test_checkpoints import evaluate, infer, rewritten, saved  # noqa: E402

# Sizes that are multiples of a block of any type, and nothing to choose, which rounding might change.
WIDE = {"hidden_size": 64, "moe_intermediate_size": 32, "head_dim": 32, "q_lora_rank": 32,
        "o_lora_rank": 32, "index_head_dim": 32, "partial_rotary_factor": 0.25, "index_topk": 16,
        "num_experts_per_tok": 6}


def configuration(config):
    rope = config.pop("rope_parameters")["compress"]
    ratios = {"sliding_attention": 0, "compressed_sparse_attention": 4,
              "heavily_compressed_attention": 6}
    config["compress_ratios"] = [ratios[kind] for kind in config.pop("layer_types")] + [0]
    config["num_hash_layers"] = config.pop("mlp_layer_types").count("hash_moe")
    config["rope_scaling"] = {"type": "yarn"} | {
        key: rope[key] for key in ("factor", "beta_fast", "beta_slow",
                                   "original_max_position_embeddings")}
    for key in ("compress_rates", "partial_rotary_factor", "n_shared_experts"):
        config.pop(key)


def names(tensors):
    changes = {"model.": "", "embed_tokens.": "embed.", "hc_head.hc_": "hc_head_",
               ".attn.norm.": ".attn.kv_norm."}
    for old, new in changes.items():
        assert any(old in name for name in tensors), old
        tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
    return tensors | {"mtp.0.enorm.weight": torch.ones(4)}


def test_published_names_and_keys(tmp_path):
    saved("deepseek-v4", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", configuration, names)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


def test_tables_of_32_bits(tmp_path):
    saved("deepseek-v4", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", change_tensors=lambda tensors: {
        name: tensor.to(torch.int32) if name.endswith("tid2eid") else tensor
        for name, tensor in tensors.items()})
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


def test_a_table_decides(tmp_path):
    """Ids that are no expert's stand for those nearest."""
    saved("deepseek-v4", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")

    def moved(by):
        rewritten(tmp_path / "m", change_tensors=lambda tensors: {
            name: tensor + by if name.endswith("tid2eid") else tensor
            for name, tensor in tensors.items()})
        return evaluate(tmp_path / "m", tmp_path / "logits")

    after = moved(1000)
    assert np.isfinite(after).all() and not np.array_equal(after, before)
    rewritten(tmp_path / "m", change_tensors=lambda tensors: {
        name: tensor + 2 ** 40 if name.endswith("tid2eid") else tensor
        for name, tensor in tensors.items()})
    done = infer("plan", "-m", tmp_path / "m")
    assert done.returncode == 3 and "32 bits" in done.stderr, done.stderr


LEVELS = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


def four_bits(weight):
    """(codes, exponents, values): 32 columns share an exponent."""
    rows = weight.reshape(len(weight), -1, 32)
    exponents = torch.floor(torch.log2(rows.abs().amax(-1))) - 2
    scaled = rows / torch.exp2(exponents)[..., None]
    codes = (scaled[..., None] - LEVELS).abs().argmin(-1)
    values = (LEVELS[codes] * torch.exp2(exponents)[..., None]).reshape(weight.shape)
    codes = codes.reshape(len(weight), -1, 2)
    packed = (codes[..., 0] | codes[..., 1] << 4).to(torch.uint8).view(torch.int8)
    return packed, (exponents + 127).to(torch.uint8), values


def eight_bits(weight):
    """(codes, an exponent for all, values)."""
    exponent = torch.floor(torch.log2(weight.abs().max())) - 7
    codes = (weight / torch.exp2(exponent)).to(torch.float8_e4m3fn)
    values = codes.float() * torch.exp2(exponent)
    return codes, (exponent + 127).reshape(1, 1).to(torch.uint8), values


def test_published_weights(tmp_path):
    """They give what a directory of their values gives, up to the rounding of eight bits to Q8_0."""
    exponents = getattr(torch, "float8_e8m0fnu", None)
    if exponents is None:
        pytest.skip("this torch has no type of exponents")
    saved("deepseek-v4", tmp_path / "m", changes=WIDE)
    saved("deepseek-v4", tmp_path / "values", changes=WIDE)
    quantised, values = {}, {}
    for name, tensor in safetensors.load_file(tmp_path / "m" / "model.safetensors").items():
        values[name] = quantised[name] = tensor
        make = (four_bits if ".experts." in name else
                eight_bits if name.endswith((".wq_a.weight", ".wq_b.weight", ".wkv.weight",
                                             ".wo_a.weight", ".wo_b.weight", ".w1.weight")) and
                "compressor" not in name else None)
        if make:
            codes, scales, values[name] = make(tensor)
            quantised[name] = codes
            quantised[name.removesuffix("weight") + "scale"] = scales.view(exponents)
    rewritten(tmp_path / "values", change_tensors=lambda _: values)

    def config(c):
        configuration(c)
        c["quantization_config"] = {"quant_method": "fp8", "scale_fmt": "ue8m0",
                                    "weight_block_size": [128, 128]}
        c["expert_dtype"] = "fp4"
    rewritten(tmp_path / "m", config, lambda _: names(quantised))
    done = infer("info", tmp_path / "m", "--json")
    assert done.returncode == 0, done.stderr
    assert "MXFP4" in done.stdout and "Q8_0" in done.stdout
    found = evaluate(tmp_path / "m", tmp_path / "logits")
    exact = evaluate(tmp_path / "values", tmp_path / "logits")
    error = float(np.sum((found - exact) ** 2) / np.sum(exact ** 2))
    print(f"fp8 and fp4 {error:.3g}")
    assert error <= 1e-3
