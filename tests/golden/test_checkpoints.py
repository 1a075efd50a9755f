"""Directories that Hugging Face's transformers writes, of tiny random models of every family: what
the engine makes of them against transformers' own logits, and what `infer convert` makes of them
against the directory, to the bit.

transformers computes norms, softmax and RoPE angles in float32 even in a float64 model, so it
agrees to that rounding; a wrong formula shows as 1e-6 and more.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import from_transformers  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

LIMIT = 1e-10
NAMES = list(from_transformers.MODELS | from_transformers.CHECKPOINTS)
# What llama.cpp cannot compute, and configurations that it can in place of those that it takes to
# be always the same (of Gemma's sizes the scale, of Mistral, Phi-3 and StarCoder2 no window, of DeepSeek's 27
# layers that they are the Lite model's; it chooses Phi-3's factors by the context given to it).
NOT_IN_LLAMA_CPP = {
    "bitnet": "it has SiLU there, and not the second name",
    "minicpm3": "its factors are those of the 4B model there",
    "minicpm3-long": "the same",
    "phimoe": "it has no LayerNorm there, and weighs experts by softmax",
    "qwen3moe-mixed": "it has no layers without experts there",
    "gpt-oss": "it rounds the bounds of YaRN",
    "llama-yarn-factor": "it takes no attention_factor for this architecture",
    "gemma2-uncapped": "its soft caps cannot be switched off",
    "gemma3-yarn": "layers with a window are stretched there, too",
    "olmo3-llama3": "layers with a window have the same RoPE there",
    "mamba-own": "it is twice as wide there, has a bias of the convolution and none of the others",
    "jamba-dense": "the same",
}
FOR_LLAMA_CPP = {
    # All norms have one epsilon there.
    "falcon-mamba": {"layer_norm_epsilon": 1e-6},
    # N-grams are as wide as the model there, and a query also sees parts of a block that was not
    # chosen, where fewer tokens are behind the last complete one than a block has.
    "qwen4exp": {"ple_embed_dim": 24, "indexer_budget": 64},
    "dots1": {"num_key_value_heads": 4, "first_k_dense_replace": 3},
    "mistral4": {"first_k_dense_replace": 2},
    "olmoe": {"num_key_value_heads": 4},
    # Queries and keys of the index are rotated 64 elements at a time there.
    "deepseek-v32": {"index_head_dim": 64},
    "glm-dsa": {"index_head_dim": 64},
    "arcee": {"mlp_bias": False},
    "mistral": {"sliding_window": None},
    "starcoder2": {"sliding_window": None},
    "gemma2": {"query_pre_attn_scalar": 10},
    "gemma3": {"query_pre_attn_scalar": 10},
    "phi3-short": {"max_position_embeddings": 512, "original_max_position_embeddings": 512},
    "phi3-long": {"sliding_window": None},
    "deepseek-v2": {"topk_method": "greedy", "n_group": 1, "topk_group": 1},
    # Experts in one layer: through so many, rounding changes who is chosen.
    "deepseek-v2-lite": {"num_hidden_layers": 27, "first_k_dense_replace": 26},
}
TOKENS = [1] + [3 + i * i % 67 for i in range(47)]


def infer(*arguments):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)


def evaluate(path, out, *options):
    done = infer("eval", "-m", path, "--exact", "--logits", out, "--tokens",
                 ",".join(map(str, TOKENS)), *options)
    assert done.returncode == 0, done.stderr
    return np.fromfile(out, "<f4").reshape(len(TOKENS), -1)


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].numpy()


def saved(name, folder, dtype=torch.float32, changes=None, **options):
    """Saves a random model whose values are of `dtype`; the logits of it in float64."""
    _, model = from_transformers.random_model(name, **(changes or {}))
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if not from_transformers.is_constant(key, tensor):
                tensor.copy_(tensor.to(dtype))
    logits = logits_of(model)
    model.to(dtype).save_pretrained(folder, **options)
    return logits


def converted(folder, tmp_path, *options):
    path = tmp_path / "out.gguf"
    done = infer("convert", folder, path, "--json", *options)
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_float32_in_one_file(name, tmp_path):
    logits = saved(name, tmp_path / "m")
    assert (tmp_path / "m" / "model.safetensors").exists()
    found = evaluate(tmp_path / "m", tmp_path / "logits")
    error = nmse(found, logits)
    print(f"{name:20} {error:.3g}")
    assert error <= LIMIT
    path, report = converted(tmp_path / "m", tmp_path)
    tables = report["types"].pop("I32", 0)  # of whole numbers
    assert report["types"] == {"F32": report["tensors"] - tables}
    assert np.array_equal(evaluate(path, tmp_path / "logits"), found)


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_in_shards(name, tmp_path):
    logits = saved(name, tmp_path / "m", torch.bfloat16, max_shard_size="12KB")
    assert (tmp_path / "m" / "model.safetensors.index.json").exists()
    found = evaluate(tmp_path / "m", tmp_path / "logits")
    error = nmse(found, logits)
    print(f"{name:20} {error:.3g}")
    assert error <= LIMIT
    path, report = converted(tmp_path / "m", tmp_path)
    norms = set() if name.startswith("olmo-") or name == "olmo" else {"F32"}  # these have no weights
    assert set(report["types"]) - {"I32"} == {"BF16"} | norms
    assert np.array_equal(evaluate(path, tmp_path / "logits"), found)


@pytest.mark.parametrize("kind, limit", [("f32", 1e-10), ("bf16", 1e-2), ("f16", 1e-4)])
def test_a_type_can_be_chosen(kind, limit, tmp_path):
    logits = saved("qwen3moe", tmp_path / "m")
    path, report = converted(tmp_path / "m", tmp_path, "--type", kind)
    assert set(report["types"]) == {"F32", kind.upper()}
    error = nmse(evaluate(path, tmp_path / "logits"), logits)
    print(f"{kind:20} {error:.3g}")
    assert error <= limit
    assert kind == "f32" or error > 1e-10


def rewritten(folder, change_config=None, change_tensors=None):
    """The directory with another configuration or other names of tensors."""
    config = json.loads((folder / "config.json").read_text())
    if change_config:
        config = change_config(config) or config
    (folder / "config.json").write_text(json.dumps(config))
    if change_tensors:
        path = folder / "model.safetensors"
        safetensors.save_file(change_tensors(safetensors.load_file(path)), path)
    return folder


def as_mimo_was_published(config, local):
    config["swa_rope_theta"] = local
    config["hybrid_layer_pattern"] = [int(kind == "sliding_attention")
                                      for kind in config.pop("layer_types")]
    config["sliding_window_size"] = config["sliding_window"] - 1
    config["layernorm_epsilon"] = config.pop("rms_norm_eps", 1e-5)
    config["routed_scaling_factor"] = None
    config["swa_num_attention_heads"] = config["num_attention_heads"]


def before_version_5(config):
    """RoPE as transformers 4 wrote it: the base apart from the parameters of scaling."""
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        local = rope["sliding_attention"]["rope_theta"]
        if config["model_type"].startswith("gemma3"):
            config["rope_local_base_freq"] = local
        if config["model_type"] == "mimo_v2_flash":
            as_mimo_was_published(config, local)
        rope = rope["full_attention"]
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    if rope["rope_type"] != "default":
        rope["type"] = rope.pop("rope_type")
        config["rope_scaling"] = rope
    if "num_local_experts" in config and config["model_type"] == "qwen3_moe":
        config["num_experts"] = config.pop("num_local_experts")


# Muse Glimmer and a base for layers with a window came with version 5, Kimi Linear, GPT-2, BLOOM, MPT, Jamba and
# Mamba have no RoPE, and Step 3.5 had another form before: test_step_checkpoints.py.
@pytest.mark.parametrize("name", [name for name in NAMES
                                  if name not in ("muse-glimmer", "olmo3-llama3", "kimi-linear", "dots3note",
                                                  "gpt2", "gpt2-untied", "starcoder", "mamba2", "mamba2-groups", "mamba",
                                                  "mamba-own", "falcon-mamba", "jamba", "jamba-dense",
                                                   "deepseek-v4", "glm5-next", "bloom", "bloom-3-heads", "mpt", "mpt-6-heads",
                                                  "step35")])
def test_configurations_of_transformers_4(name, tmp_path):
    saved(name, tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", before_version_5)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_scaling_that_users_add(name, tmp_path):
    """As model cards tell them to, beside what version 5 wrote."""
    saved(name, tmp_path / "m")
    added = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}

    def beside(config):
        config["rope_scaling"] = added

    def within(config):
        rope = config["rope_parameters"]
        rope.get("full_attention", rope).update(added)
        del config["rope_scaling"]

    plain = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", beside)
    scaled = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", within)
    assert not np.array_equal(scaled, plain)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), scaled)


@pytest.mark.parametrize("name, change", [
    ("mamba2", lambda key: "model." + key.replace(".embeddings.", ".embedding.")),  # Codestral Mamba
    ("mamba2-groups", lambda key: key.replace(".embeddings.", ".embedding.")),
    ("gpt2", lambda key: key.removeprefix("transformer."))])
def test_names_of_first_repositories(name, change, tmp_path):
    saved(name, tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", change_tensors=lambda tensors: {
        change(key): x for key, x in tensors.items()})
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


@pytest.mark.parametrize("name", ["deepseek-v2", "deepseek-v2-lite", "deepseek-v3", "deepseek-v32",
                                  "glm-dsa", "mistral4"])
def test_inner_norms_have_an_epsilon_of_their_own(name, tmp_path):
    logits = saved(name, tmp_path / "m", changes={"rms_norm_eps": 1e-2})
    error = nmse(evaluate(tmp_path / "m", tmp_path / "logits"), logits)
    print(f"{name:20} {error:.3g}")
    assert error <= LIMIT


def test_dots1_as_published(tmp_path):
    """It names its method of choice where others name a function."""
    saved("dots1", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    rewritten(tmp_path / "m", lambda c: c.__setitem__("scoring_func", "noaux_tc"))
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


@pytest.mark.parametrize("name", ["mixtral", "qwen3moe", "deepseek-v3"])
def test_experts_in_one_tensor(name, tmp_path):
    """As transformers 5 holds them in memory."""
    saved(name, tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    _, model = from_transformers.random_model(name)
    state = {key: value.to(torch.float32) for key, value in model.state_dict().items()}
    assert any(key.endswith("experts.gate_up_proj") for key in state)
    rewritten(tmp_path / "m", change_tensors=lambda _: state)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


@pytest.mark.parametrize("root", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_a_model_that_sees(root, tmp_path):
    saved("gemma3", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")

    def config(text):
        for key in ("hidden_activation", "rms_norm_eps"):
            text.pop(key)
        return {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}

    def tensors(state):
        state = {key.replace("model.", root, 1): value for key, value in state.items()}
        return state | {"vision_tower.patch.weight": torch.zeros(2, 2),
                        "multi_modal_projector.weight": torch.zeros(2, 2)}
    rewritten(tmp_path / "m", config, tensors)
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)


def test_gpt_oss_as_published(tmp_path):
    """Experts in MXFP4: rows of blocks of 16 bytes and an exponent each."""
    arguments = from_transformers.MODELS["gpt-oss"][2] | {"hidden_size": 64,
                                                          "intermediate_size": 96}
    from_transformers.CHECKPOINTS["gpt-oss-64"] = ("GptOssConfig", "gpt-oss", arguments)
    try:
        config, model = from_transformers.random_model("gpt-oss-64")
    finally:
        del from_transformers.CHECKPOINTS["gpt-oss-64"]
    generator = torch.Generator().manual_seed(3)
    levels = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6],
                          dtype=torch.float64)
    state = {}
    for key, tensor in model.state_dict().items():
        if not key.endswith(("gate_up_proj", "down_proj")) or tensor.dim() != 3:
            state[key] = tensor.to(torch.bfloat16)
            tensor.copy_(state[key])
            continue
        experts, width, rows = tensor.shape
        blocks = torch.randint(0, 256, (experts, rows, width // 32, 16), generator=generator)
        scales = torch.randint(120, 125, (experts, rows, width // 32), generator=generator)
        codes = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2)
        values = levels[codes] * 2.0 ** (scales[..., None] - 127).double()
        tensor.copy_(values.reshape(experts, rows, width).transpose(1, 2))
        state[key + "_blocks"] = blocks.to(torch.uint8)
        state[key + "_scales"] = scales.to(torch.uint8)
    logits = logits_of(model)
    folder = tmp_path / "m"
    config.architectures = ["GptOssForCausalLM"]
    config.save_pretrained(folder)
    safetensors.save_file(state, folder / "model.safetensors")
    done = infer("eval", "-m", folder, "--tokens", "1", "--logits", tmp_path / "logits")
    assert done.returncode == 0, done.stderr  # quantised or not is seen by the tensors
    rewritten(folder, lambda c: c.__setitem__("quantization_config", {"quant_method": "mxfp4"}))
    found = evaluate(folder, tmp_path / "logits")
    error = nmse(found, logits)
    print(f"{'mxfp4':20} {error:.3g}")
    assert error <= LIMIT
    path, report = converted(folder, tmp_path)
    assert report["types"]["MXFP4"] == 3 * config.num_hidden_layers
    assert np.array_equal(evaluate(path, tmp_path / "logits"), found)


@pytest.mark.parametrize("name", ["qwen3", "olmo2"])
def test_from_the_mapped_files(name, tmp_path):
    """Families whose matrices are stored as they are used need no memory for them."""
    saved(name, tmp_path / "m", torch.bfloat16)
    plain = evaluate(tmp_path / "m", tmp_path / "logits")
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits", "--mmap"), plain)


def test_a_shard_that_is_not_there(tmp_path):
    saved("llama", tmp_path / "m", max_shard_size="12KB")
    shard = sorted((tmp_path / "m").glob("*.safetensors"))[1]
    shard.unlink()
    done = infer("info", tmp_path / "m")
    assert done.returncode == 3
    assert shard.name in done.stderr


@pytest.mark.parametrize("name", [name for name in NAMES
                                  if name not in ("qwen3moe-mixed", "deepseek-v32", "glm-dsa",
                                                  "hy_v4", "hy_v4-full", "dots3note",
                                                  "mimo2", "muse-glimmer", "olmo3-llama3",
                                                  "bitnet", "falcon-rw")])
def test_names_are_those_of_llama_cpp(name, tmp_path):
    """The gguf package lists what its converter may write."""
    gguf = pytest.importorskip("gguf")
    saved(name, tmp_path / "m")
    path, _ = converted(tmp_path / "m", tmp_path)
    reader = gguf.GGUFReader(path)
    arch = reader.get_field("general.architecture").contents()
    numbers = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}
    if arch not in numbers:
        pytest.skip(f"this gguf package does not know {arch}")
    number = numbers[arch]
    stems = {gguf.TENSOR_NAMES[t] for t in gguf.MODEL_TENSORS[number]}
    for tensor in reader.tensors:
        parts = tensor.name.split(".")
        stem = "blk.{bid}." + parts[2] if parts[0] == "blk" else parts[0]
        assert stem in stems, tensor.name
    keys = set()
    for group in vars(gguf.Keys).values():
        keys |= {v for v in vars(group).values() if isinstance(v, str)} if isinstance(
            group, type) else set()
    for key in reader.fields:
        if not key.startswith("GGUF."):
            assert key.replace(f"{arch}.", "{arch}.", 1) in keys or key in keys, key


@pytest.mark.parametrize("name", NAMES)
def test_llama_cpp_agrees(name, tmp_path):
    llama_cpp = pytest.importorskip("llama_cpp")
    if name in NOT_IN_LLAMA_CPP:
        pytest.skip(NOT_IN_LLAMA_CPP[name])
    saved(name, tmp_path / "m", changes=FOR_LLAMA_CPP.get(name))
    path, _ = converted(tmp_path / "m", tmp_path)
    found = evaluate(path, tmp_path / "logits")
    # Of Step 3.5's experts others are chosen if the cache is rounded.
    cache = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32}
    model = llama_cpp.Llama(str(path), n_ctx=64, logits_all=True, verbose=False,
                            **cache if name == "step35" else {})
    model.eval(TOKENS)
    error = nmse(np.array(model.scores[:len(TOKENS)]), found)
    print(f"{name:20} {error:.3g}")
    # Its cache is float16, which 27 layers of random weights make more of, and by which an index may
    # choose another token.
    assert error <= (1e-3 if name in ("deepseek-v2-lite", "glm-dsa") else 1e-4)


def test_the_directory_is_left_alone(tmp_path):
    saved("llama", tmp_path / "m")
    before = {p.name: p.read_bytes() for p in (tmp_path / "m").iterdir()}
    for own in before:
        done = infer("convert", tmp_path / "m", tmp_path / "m" / own)
        assert done.returncode == 2, done.stderr
    link = tmp_path / "link.gguf"
    link.symlink_to(tmp_path / "m" / "model.safetensors")
    assert infer("convert", tmp_path / "m", link).returncode == 2
    assert {p.name: p.read_bytes() for p in (tmp_path / "m").iterdir()} == before
    shutil.rmtree(tmp_path / "m")
    done = infer("convert", tmp_path / "m", tmp_path / "out.gguf")
    assert done.returncode == 3 and not (tmp_path / "out.gguf").exists()


def test_constants_of_hashes_follow_from_the_configuration(tmp_path):
    """Of n-grams, where a checkpoint does not store them."""
    saved("qwen4exp", tmp_path / "m")
    before = evaluate(tmp_path / "m", tmp_path / "logits")
    stored = ("layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes")
    rewritten(tmp_path / "m", change_tensors=lambda tensors: {
        name: tensor for name, tensor in tensors.items() if not name.endswith(stored)})
    assert np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)
    rewritten(tmp_path / "m", lambda config: config.__setitem__("seed", 5))
    assert not np.array_equal(evaluate(tmp_path / "m", tmp_path / "logits"), before)
    # More rows than the table has: to look for primes there could take for ever.
    rewritten(tmp_path / "m", lambda config: config.__setitem__("ngram_vocab_size_base", 2 ** 40))
    done = infer("plan", "-m", tmp_path / "m")
    assert done.returncode == 3 and "ngram_vocab_size_base" in done.stderr, done.stderr


@pytest.mark.parametrize("change, named", [
    ({"output_gate_type": "silu"}, "output_gate_type"),
    ({"indexer_kv_heads": 2}, "key of the index"),
    ({"indexer_budget": 6}, "compress_ratios"),
    ({"layer_types": ["linear_attention"] * 4 + ["sliding_attention"]}, "sliding_attention"),
    ({"ple_layer_ids": [1, 3]}, "ple_layer_ids"),
    ({"ple_embed_dim": 22}, "ple_embed_dim"),
    ({"ple_embed_dim": 24}, "shard_0"),
    ({"hc_count": 1}, "hc_count"),
    ({"eos_token_id": None}, "eos_token_id"),
    ({"heads_per_ngram": 65}, "heads_per_ngram"),
])
def test_configurations_of_qwen4exp_that_are_refused(change, named, tmp_path):
    saved("qwen4exp", tmp_path / "m")
    rewritten(tmp_path / "m", lambda config: config.update(change))
    done = infer("plan", "-m", tmp_path / "m")
    assert done.returncode == 3, done.stderr
    assert named in done.stderr
