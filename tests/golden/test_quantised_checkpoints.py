"""Checkpoints of 4 bits, of tiny random models: as transformers and bitsandbytes write them, and
as GPTQ and AWQ are published (packed here by their format's description); against transformers
with the weights that they stand for.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference.model import nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

EXACT = 1e-10
ROUNDED = 1.5e-4  # with activations in 8 bits
TOKENS = [1] + [3 + i * i % 67 for i in range(47)]
FAMILIES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "phi3": (transformers.Phi3Config, transformers.Phi3ForCausalLM),
    "mixtral": (transformers.MixtralConfig, transformers.MixtralForCausalLM),
}


def infer(*arguments):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)


def evaluate(path, out, *options):
    done = infer("eval", "-m", path, "--logits", out, "--tokens", ",".join(map(str, TOKENS)),
                 *options)
    assert done.returncode == 0, done.stderr
    return np.fromfile(out, "<f4").reshape(len(TOKENS), -1)


def random_model(family="llama", hidden=128, feed_forward=192):
    config_type, model_type = FAMILIES[family]
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2} if family == "mixtral" else {}
    config = config_type(vocab_size=80, hidden_size=hidden, intermediate_size=feed_forward,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=128, tie_word_embeddings=False, pad_token_id=0,
                         bos_token_id=1, eos_token_id=2, **experts)
    torch.manual_seed(0)
    model = model_type(config).double()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_((tensor + 0.02 * torch.randn(tensor.shape)).to(torch.bfloat16))
    return model


def logits_of(model):
    model = model.double().eval()
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].numpy()


def matches(folder, expected, tmp_path):
    error = nmse(evaluate(folder, tmp_path / "logits", "--exact"), expected)
    rounded = nmse(evaluate(folder, tmp_path / "logits"), expected)
    print(f"{error:.3g} exact, {rounded:.3g} with 8 bits")
    assert error <= EXACT
    assert rounded <= ROUNDED


def converted(folder, tmp_path, *options):
    path = tmp_path / "out.gguf"
    done = infer("convert", folder, path, "--json", *options)
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout)


def linear_weights(state):
    """What is quantised as a rule: the matrices of the layers, but for the choice of experts."""
    return [key for key, tensor in state.items()
            if tensor.dim() == 2 and ".layers." in key and not key.endswith(".gate.weight")]


def saved(model, folder, state, quantisation):
    model.config.architectures = [type(model).__name__]
    model.config.quantization_config = quantisation
    model.config.save_pretrained(folder)
    safetensors.save_file({k: v.contiguous() for k, v in state.items()},
                          folder / "model.safetensors", metadata={"format": "pt"})


# bitsandbytes


def as_written_by_transformers(tmp_path, kind, double, family="llama"):
    """The directory of a model loaded in 4 bits, and one of the model before."""
    pytest.importorskip("bitsandbytes")
    model = random_model(family).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "plain")
    how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=kind,
                                          bnb_4bit_use_double_quant=double)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "plain", quantization_config=how, device_map="cpu")
    loaded.save_pretrained(tmp_path / "four")
    return tmp_path / "plain", tmp_path / "four"


def by_bitsandbytes(codes, parts):
    functional = pytest.importorskip("bitsandbytes").functional
    state = functional.QuantState.from_dict(parts, device="cpu")
    state.dtype = torch.float32
    return functional.dequantize_4bit(codes, state)


def by_formula(codes, parts):
    """As the format has it. On the CPU, bitsandbytes 0.50 itself takes wrong scales where a block
    is longer than a row."""
    how = json.loads(bytes(parts["quant_state.bitsandbytes__nf4"].tolist()))
    absmax = parts["absmax"]
    if "nested_absmax" in parts:
        scales = parts["nested_absmax"].repeat_interleave(how["nested_blocksize"])[:len(absmax)]
        absmax = parts["nested_quant_map"][absmax.long()] * scales + how["nested_offset"]
    codes = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], -1).flatten().long()
    count = np.prod(how["shape"])
    scales = absmax.double().repeat_interleave(how["blocksize"])[:count]
    return (parts["quant_map"].double()[codes[:count]] * scales).view(how["shape"])


def dequantised(model, folder, values=by_bitsandbytes):
    """The model with the values that the directory's weights stand for."""
    stored = safetensors.load_file(folder / "model.safetensors")
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            parts = {k[len(key) + 1:]: v for k, v in stored.items() if k.startswith(key + ".")}
            tensor.copy_(values(stored[key], parts) if parts else stored[key])
    return model


@pytest.mark.parametrize("family", ["llama", "qwen2", "phi3"])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_what_bitsandbytes_writes(kind, double, family, tmp_path):
    plain, four = as_written_by_transformers(tmp_path, kind, double, family)
    matches(four, logits_of(dequantised(random_model(family), four)), tmp_path)
    if not double:  # the same codes and scales are found while loading
        for options in ([], ["--exact"]):
            found = evaluate(plain, tmp_path / "logits", "--quantize", kind, *options)
            assert np.array_equal(found, evaluate(four, tmp_path / "logits", *options))


@pytest.mark.parametrize("hidden, feed_forward, block, double", [
    (128, 192, 128, False), (128, 192, 4096, True), (256, 128, 512, True), (96, 136, 64, True),
    (128, 192, 256, False), (72, 100, 2048, False)])
def test_blocks_of_other_sizes(hidden, feed_forward, block, double, tmp_path):
    """Also rows that blocks do not divide, which are kept as numbers."""
    functional = pytest.importorskip("bitsandbytes").functional
    model = random_model("llama", hidden, feed_forward)
    state = {}
    for key, tensor in model.state_dict().items():
        state[key] = tensor.to(torch.bfloat16)
    for key in linear_weights(state):
        codes, how = functional.quantize_4bit(state[key], blocksize=block, quant_type="nf4",
                                              compress_statistics=double)
        state[key] = codes
        state |= {f"{key}.{name}": part for name, part in how.as_dict(packed=True).items()}
    folder = tmp_path / "m"
    saved(model, folder, state, {"quant_method": "bitsandbytes", "load_in_4bit": True})
    matches(folder, logits_of(dequantised(model, folder, by_formula)), tmp_path)


def test_experts_and_their_choice(tmp_path):
    """As transformers 4 wrote them, each a layer of its own; against a directory of the values."""
    functional = pytest.importorskip("bitsandbytes").functional
    model = random_model("mixtral")
    model.to(torch.bfloat16).save_pretrained(tmp_path / "plain")
    state = safetensors.load_file(tmp_path / "plain" / "model.safetensors")
    values = {key: tensor.float() for key, tensor in state.items()}
    for key in [k for k, t in state.items() if t.dim() == 2 and ".layers." in k]:
        codes, how = functional.quantize_4bit(state[key], quant_type="nf4")
        parts = how.as_dict(packed=True)
        state[key] = codes
        state |= {f"{key}.{name}": part for name, part in parts.items()}
        values[key] = by_formula(codes, parts).float()
    assert any(".experts.3.w2.weight.absmax" in key for key in state)
    saved(model, tmp_path / "four", state, {"quant_method": "bitsandbytes", "load_in_4bit": True})
    safetensors.save_file(values, tmp_path / "plain" / "model.safetensors")
    matches(tmp_path / "four", evaluate(tmp_path / "plain", tmp_path / "plain.f32", "--exact"),
            tmp_path)


def test_latent_attention(tmp_path):
    """Keys' part of kv_b_proj is turned round: numbers of bfloat16 in place of codes."""
    functional = pytest.importorskip("bitsandbytes").functional
    nope, value, latent, heads = 24, 40, 64, 4
    config = transformers.DeepseekV2Config(
        vocab_size=80, hidden_size=128, intermediate_size=192, num_hidden_layers=2,
        num_attention_heads=heads, num_key_value_heads=heads, q_lora_rank=None, kv_lora_rank=latent,
        qk_nope_head_dim=nope, qk_rope_head_dim=8, v_head_dim=value, n_routed_experts=4,
        num_experts_per_tok=2,
        first_k_dense_replace=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1,
        eos_token_id=2)
    torch.manual_seed(0)
    model = transformers.DeepseekV2ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "plain")
    state = safetensors.load_file(tmp_path / "plain" / "model.safetensors")
    values = {key: tensor.float() for key, tensor in state.items()}
    for key in linear_weights(state):
        codes, how = functional.quantize_4bit(state[key], quant_type="nf4")
        parts = how.as_dict(packed=True)
        state[key] = codes
        state |= {f"{key}.{name}": part for name, part in parts.items()}
        values[key] = by_formula(codes, parts).float()
        if "kv_b_proj" in key:
            rows = values[key].view(heads, nope + value, latent)
            rows[:, :nope] = rows[:, :nope].to(torch.bfloat16).float()
    assert any("kv_b_proj.weight.absmax" in key for key in state)
    saved(model, tmp_path / "four", state, {"quant_method": "bitsandbytes", "load_in_4bit": True})
    safetensors.save_file(values, tmp_path / "plain" / "model.safetensors")
    matches(tmp_path / "four", evaluate(tmp_path / "plain", tmp_path / "plain.f32", "--exact"),
            tmp_path)


def test_nf4_as_gguf(tmp_path):
    _, four = as_written_by_transformers(tmp_path, "nf4", True)
    found = evaluate(four, tmp_path / "logits", "--exact")
    path, report = converted(four, tmp_path)
    assert report["types"]["NF4"] == 14
    assert np.array_equal(evaluate(path, tmp_path / "logits", "--exact"), found)
    again, report = converted(four, tmp_path, "--to", "f32")
    assert "NF4" not in report["types"]
    assert nmse(evaluate(again, tmp_path / "logits", "--exact"), found) <= 1e-12


def test_fp4_has_no_place_in_gguf(tmp_path):
    _, four = as_written_by_transformers(tmp_path, "fp4", False)
    done = infer("convert", four, tmp_path / "out.gguf")
    assert done.returncode == 3 and "FP4" in done.stderr
    assert not (tmp_path / "out.gguf").exists()
    path, _ = converted(four, tmp_path, "--to", "f32")
    assert nmse(evaluate(path, tmp_path / "logits", "--exact"),
                evaluate(four, tmp_path / "logits", "--exact")) <= 1e-12


# GPTQ and AWQ


def pack(values, order=range(8)):
    """Eight numbers of 4 bits in each int32, along the last dimension."""
    values = values.to(torch.int64).unflatten(-1, (-1, 8))
    packed = sum(values[..., place] << (4 * i) for i, place in enumerate(order))
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def quantised(weight, group, symmetric, groups_of_columns):
    """Codes [k, n], zeros [groups, n], scales f16 [groups, n] and the values they stand for."""
    weight = weight.float().T
    k, n = weight.shape
    count = k // group
    scales = torch.zeros(count, n)
    zeros = torch.full((count, n), 8)
    for g in range(count):
        rows = weight[groups_of_columns == g]
        if symmetric:
            scales[g] = rows.abs().amax(0) / 7
        else:
            low, high = rows.amin(0).clamp(max=-1e-3), rows.amax(0).clamp(min=1e-3)
            scales[g] = (high - low) / 15
            zeros[g] = (-low / scales[g]).round().clamp(1, 15).long()
    scales = scales.half()
    at = groups_of_columns
    codes = (weight / scales[at].float() + zeros[at]).round().clamp(0, 15).long()
    values = scales[at].double() * (codes - zeros[at])
    return codes, zeros, scales, values.T


def packed_checkpoint(tmp_path, method, family="llama", group=32, symmetric=False,
                      act_order=False, second_version=False):
    model = random_model(family)
    state = {}
    for key, tensor in model.state_dict().items():
        state[key] = tensor.to(torch.bfloat16)
    generator = torch.Generator().manual_seed(1)
    for key in linear_weights(state):
        weight = state.pop(key)
        columns = torch.arange(weight.shape[1]) // group
        if act_order:
            columns = columns[torch.randperm(len(columns), generator=generator)]
        codes, zeros, scales, values = quantised(weight, group, symmetric, columns)
        with torch.no_grad():
            model.state_dict()[key].copy_(values)
        base = key.removesuffix("weight")
        if method == "awq":
            order = (0, 2, 4, 6, 1, 3, 5, 7)
            state[base + "qweight"] = pack(codes, order)
            state[base + "qzeros"] = pack(zeros, order)
        else:
            state[base + "qweight"] = pack(codes.T).T
            state[base + "qzeros"] = pack(zeros - (0 if second_version else 1))
            state[base + "g_idx"] = columns.to(torch.int32)
        state[base + "scales"] = scales
    how = {"quant_method": method, "bits": 4, "group_size": group}
    if method == "awq":
        how |= {"zero_point": not symmetric, "version": "gemm"}
    else:
        how |= {"desc_act": act_order, "sym": symmetric,
                "checkpoint_format": "gptq_v2" if second_version else "gptq"}
    saved(model, tmp_path / "m", state, how)
    return tmp_path / "m", logits_of(model)


@pytest.mark.parametrize("options", [
    {"method": "gptq", "symmetric": True}, {"method": "gptq"},
    {"method": "gptq", "act_order": True}, {"method": "gptq", "act_order": True, "symmetric": True},
    {"method": "gptq", "second_version": True}, {"method": "gptq", "group": 64},
    {"method": "gptq", "family": "qwen2", "act_order": True},
    {"method": "gptq", "family": "phi3"},
    {"method": "awq"}, {"method": "awq", "symmetric": True}, {"method": "awq", "family": "qwen2"},
    {"method": "awq", "family": "phi3", "group": 64},
], ids=lambda options: "-".join(str(v) for v in options.values()))
def test_packed_weights(options, tmp_path):
    folder, expected = packed_checkpoint(tmp_path, **options)
    matches(folder, expected, tmp_path)
    path, report = converted(folder, tmp_path)
    assert ("Q4_0" if options.get("symmetric") else "Q5_0") in report["types"]
    assert np.array_equal(evaluate(path, tmp_path / "logits"), evaluate(folder, tmp_path / "again"))


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_llama_cpp_reads_packed_weights(method, tmp_path):
    llama_cpp = pytest.importorskip("llama_cpp")
    folder, _ = packed_checkpoint(tmp_path, method)
    path, _ = converted(folder, tmp_path)
    model = llama_cpp.Llama(str(path), n_ctx=64, logits_all=True, verbose=False)
    model.eval(TOKENS)
    assert nmse(np.array(model.scores[:len(TOKENS)]), evaluate(path, tmp_path / "logits")) <= 2e-4


def test_groups_of_columns_are_checked(tmp_path):
    folder, _ = packed_checkpoint(tmp_path, "gptq", "llama", act_order=True)
    state = safetensors.load_file(folder / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.g_idx"
    state[name][0] = 99
    safetensors.save_file(state, folder / "model.safetensors")
    done = infer("info", folder)
    assert done.returncode == 3 and name in done.stderr and "99" in done.stderr
