"""LoRA adapters in PEFT's directories, written here by their format's description: logits are, to the
bit, those with the same adapter as a GGUF file; and what cannot be used is named. What PEFT itself
writes: test_peft.py."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.reference.model import Model  # noqa: E402
from tests.golden.reference.safetensors import read, write  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.test_adapters import DATA, evaluate, random_adapter  # noqa: E402
from tests.golden.test_head_checkpoints import apart  # noqa: E402

MODULES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
           "attn_output": "self_attn.o_proj", "attn_qkv": "self_attn.qkv_proj",
           "attn_q_a": "self_attn.q_a_proj", "attn_q_b": "self_attn.q_b_proj",
           "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "ffn_gate": "mlp.gate_proj",
           "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
           "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
           "ffn_up_shexp": "mlp.shared_experts.up_proj",
           "ffn_down_shexp": "mlp.shared_experts.down_proj"}
# Of families that call them otherwise.
OWN = {"phi2": {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
       "starcoder2": {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
       "bailingmoe2": {"attn_qkv": "attention.query_key_value", "attn_output": "attention.dense"}}
EXPERTS = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
INTERLEAVED = {"llama", "smollm3", "granite", "granitemoe", "arcee", "mistral3"}
CONFIG = {"peft_type": "LORA", "r": 3, "lora_alpha": 5, "target_modules": ["q_proj"], "bias": "none",
          "use_dora": False, "use_rslora": False, "fan_in_fan_out": False, "modules_to_save": None,
          "rank_pattern": {}, "alpha_pattern": {}}


def part_of(name):
    return name.split(".")[2] if name.startswith("blk.") else name.removesuffix(".weight")


def common(model, seed):
    """A random adapter in which gate and up of experts share A."""
    known = {*MODULES, *EXPERTS, "token_embd", "output"}
    adapter = random_adapter(model, seed, ranks=(3,), names=lambda n: part_of(n) in known and
                             n.endswith(".weight"))
    for name in adapter[1]:
        if name.endswith("ffn_up_exps.weight.lora_a"):
            adapter[1][name] = adapter[1][name.replace("_up_", "_gate_")]
    return adapter


def as_peft(folder, model, adapter, before="model.", config=None, apart_experts=False):
    """apart_experts: a module for each expert, as before experts were one parameter."""
    metadata, tensors = adapter
    out = {}

    def put(module, a, b, table=""):
        end = "" if table else ".weight"
        out[f"base_model.model.{module}.lora_{table}A{end}"] = np.ascontiguousarray(a)
        out[f"base_model.model.{module}.lora_{table}B{end}"] = np.ascontiguousarray(b)

    names = {key.rsplit(".", 1)[0] for key in tensors}
    for name in names:
        a, b = tensors[name + ".lora_a"], tensors[name + ".lora_b"]
        part = part_of(name)
        if part == "token_embd":
            put(before + "embed_tokens", a.T, b, "embedding_")
            continue
        if part == "output":
            put("lm_head", a, b)
            continue
        layer = f"{before}layers.{name.split('.')[1]}."
        if part in ("attn_q", "attn_k") and model.arch in INTERLEAVED:
            b = apart(b, model.heads if part == "attn_q" else model.key("attention.head_count_kv"))
        if part in MODULES:
            module = (MODULES | OWN.get(model.arch, {}))[part]
            if module == "mlp.up_proj" and name.replace("_up", "_gate") not in names:
                module = "mlp.gate_up_proj"
            put(layer + module, a, b)
        elif apart_experts:
            which = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}[part]
            for i in range(len(a)):
                put(f"{layer}mlp.experts.{i}.{which}", a[i], b[i])
        elif part == "ffn_down_exps":
            put(layer + "mlp.experts", a.reshape(-1, a.shape[2]), b.transpose(1, 2, 0).reshape(b.shape[1], -1))
        elif part == "ffn_gate_exps":
            up = tensors[name.replace("_gate_", "_up_") + ".lora_b"]
            both = np.concatenate([b, up], 1)
            if model.arch == "gpt-oss":
                both = np.stack([b, up], 2).reshape(both.shape)
            put(layer + "mlp.experts.base_layer", a.reshape(-1, a.shape[2]),
                both.transpose(1, 2, 0).reshape(both.shape[1], -1))
    folder.mkdir()
    write(folder / "adapter_model.safetensors", out)
    (folder / "adapter_config.json").write_text(json.dumps(
        CONFIG | {"lora_alpha": metadata["adapter.lora.alpha"]} | (config or {})))
    return folder


@pytest.mark.parametrize("name", ["llama", "qwen3", "granite", "mistral3", "phi3-short", "glm4", "gemma3",
                                  "command-r", "deepseek2-v3", "mixtral", "qwen3moe", "gpt-oss",
                                  "bailingmoe2", "starcoder2"])
def test_the_same_as_gguf(name, tmp_path):
    path = DATA / f"{name}-f32.gguf"
    model = Model(path)
    adapter = common(model, 4)
    gguf.write(tmp_path / "adapter.gguf", *adapter)
    folder = as_peft(tmp_path / "adapter", model, adapter)
    expected = evaluate(tmp_path, path, "--lora", tmp_path / "adapter.gguf")
    assert expected.returncode == 0, expected.stderr
    expected = expected.logits
    assert not np.array_equal(evaluate(tmp_path, path).logits, expected)
    for given in (folder, f"{folder}:1.0"):
        done = evaluate(tmp_path, path, "--lora", given)
        assert done.returncode == 0, done.stderr
        assert np.array_equal(done.logits, expected)


def test_queries_of_a_model_that_has_them_in_another_order(tmp_path):
    """Of GLM-4.1V, whose file has axes of RoPE."""
    metadata, tensors = gguf.read(DATA / "glm4-f32.gguf")
    path = tmp_path / "glm4.gguf"
    gguf.write(path, metadata | {"glm4.rope.dimension_sections": [1, 1, 1, 0]}, tensors)
    model = Model(path)
    folder = as_peft(tmp_path / "adapter", model, common(model, 4))
    done = evaluate(tmp_path, path, "--lora", folder)
    assert done.returncode != 0 and "convert the adapter to GGUF" in done.stderr, done.stderr


def test_the_output_of_a_model_that_has_its_table_for_it(tmp_path):
    path = DATA / "gemma3-f32.gguf"
    metadata, tensors = gguf.read(path)
    assert "output.weight" not in tensors
    gguf.write(tmp_path / "apart.gguf", metadata, tensors | {"output.weight": tensors["token_embd.weight"]})
    model = Model(tmp_path / "apart.gguf")
    keys, changes = common(model, 4)
    changes = {name: x for name, x in changes.items() if name.startswith("output.")}
    gguf.write(tmp_path / "adapter.gguf", keys, changes)
    expected = evaluate(tmp_path, tmp_path / "apart.gguf", "--lora", tmp_path / "adapter.gguf").logits
    assert not np.array_equal(evaluate(tmp_path, path).logits, expected)
    folder = as_peft(tmp_path / "adapter", model, (keys, changes))
    # PEFT saves the matrix beside what changes it.
    stored = read(folder / "adapter_model.safetensors")
    write(folder / "adapter_model.safetensors", stored | {
        "base_model.model.lm_head.base_layer.weight": tensors["token_embd.weight"]})
    for given in (tmp_path / "adapter.gguf", folder):
        done = evaluate(tmp_path, path, "--lora", given)
        assert done.returncode == 0, done.stderr
        assert np.array_equal(done.logits, expected)


def test_an_expert_is_a_module(tmp_path):
    path = DATA / "qwen3moe-f32.gguf"
    model = Model(path)
    adapter = common(model, 4)
    gguf.write(tmp_path / "adapter.gguf", *adapter)
    folder = as_peft(tmp_path / "adapter", model, adapter, apart_experts=True)
    expected = evaluate(tmp_path, path, "--lora", tmp_path / "adapter.gguf").logits
    assert np.array_equal(evaluate(tmp_path, path, "--lora", folder).logits, expected)
    # One expert has another rank; one is missing.
    for change, named in ((lambda k, x: x[:2] if "experts.1.gate" in k and ".lora_A" in k else
                           x[:, :2] if "experts.1.gate" in k else x, "experts.1.gate_proj"),
                          (lambda k, x: None if "experts.1.gate" in k else x, "experts, found")):
        broken = {k: change(k, x) for k, x in read(folder / "adapter_model.safetensors").items()}
        write(folder / "broken", {k: x for k, x in broken.items() if x is not None})
        shutil.copytree(folder, tmp_path / "b", dirs_exist_ok=True)
        shutil.move(tmp_path / "b" / "broken", tmp_path / "b" / "adapter_model.safetensors")
        done = evaluate(tmp_path, path, "--lora", tmp_path / "b")
        assert done.returncode == 3 and named in done.stderr, done.stderr


def test_scales(tmp_path):
    """What is multiplied into B gives other bits, and the same numbers."""
    path = DATA / "llama-f32.gguf"
    model = Model(path)
    metadata, tensors = common(model, 4)
    as_peft(tmp_path / "root", model, (metadata, tensors), before="model.language_model.",
            config={"use_rslora": True, "lora_alpha": 5 / np.sqrt(3)})
    as_peft(tmp_path / "pattern", model, (metadata, tensors), before="language_model.model.",
            config={"lora_alpha": 1, "alpha_pattern": {".*\\.mlp.gate_proj": 5, "lm_head": 5} | {
                key: 5 for key in ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj",
                                   "embed_tokens")}})
    gguf.write(tmp_path / "adapter.gguf", metadata, tensors)
    expected = evaluate(tmp_path, path, "--lora", tmp_path / "adapter.gguf").logits
    for folder in ("root", "pattern"):
        done = evaluate(tmp_path, path, "--lora", tmp_path / folder)
        assert done.returncode == 0, done.stderr
        assert np.abs(done.logits - expected).max() < 1e-4
    # An alpha of zero changes nothing.
    as_peft(tmp_path / "zero", model, (metadata, tensors), config={"lora_alpha": 0})
    assert np.array_equal(evaluate(tmp_path, path, "--lora", tmp_path / "zero").logits,
                          evaluate(tmp_path, path).logits)


Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_"


@pytest.mark.parametrize("change, named", [
    (lambda c, t: c.pop("peft_type"), "peft_type"),
    (lambda c, t: c.update(peft_type="IA3"), "peft_type"),
    (lambda c, t: c.update(use_dora=True), "use_dora"),
    (lambda c, t: c.update(use_dora="yes"), "use_dora"),
    (lambda c, t: c.update(modules_to_save=["lm_head"]), "modules_to_save"),
    (lambda c, t: c.update(alora_invocation_tokens=[1, 2]), "alora_invocation_tokens"),
    (lambda c, t: c.pop("lora_alpha"), "lora_alpha"),
    (lambda c, t: c.update(lora_alpha="five"), "lora_alpha"),
    (lambda c, t: c.update(lora_alpha=1e39, use_rslora=True), "lora_alpha"),
    (lambda c, t: c.update(alpha_pattern={"q_proj": -1e39}), "alpha_pattern.q_proj"),
    (lambda c, t: c.update(init_lora_weights="pissa_niter_4"), "init_lora_weights"),
    (lambda c, t: c.update(init_lora_weights="olora"), "init_lora_weights"),
    (lambda c, t: c.update(alpha_pattern={"(q|k)_proj": 2}), "(q|k)_proj"),
    (lambda c, t: c.update(alpha_pattern={"q_proj": 2, "self_attn.q_proj": 3}), "alpha_pattern"),
    (lambda c, t: t.pop(Q + "A.weight"), "lora_A"),
    (lambda c, t: t.pop(Q + "B.weight"), "lora_B"),
    (lambda c, t: t.update({Q + "A.weight": np.ones((3, 5), "f4")}), "attn_q"),
    (lambda c, t: t.update({Q + "B.weight": np.ones((7, 3), "f4")}), "q_proj.lora_B"),
    (lambda c, t: t.update({Q + "B.weight": np.ones((48, 3), "i4")}), "q_proj.lora_B"),
    (lambda c, t: t.update({Q + "magnitude_vector": np.ones(32, "f4")}), "lora_magnitude_vector"),
    (lambda c, t: t.update({"weight": np.ones(3, "f4")}), "'weight'"),
    (lambda c, t: t.update({"base_model.model.lora_A": np.ones(3, "f4")}), "base_model.model.lora_A"),
    (lambda c, t: t.update({Q.replace("0.self", "9.self") + e: t[Q + e] for e in ("A.weight", "B.weight")}),
     "layers.9.self_attn.q_proj"),
    (lambda c, t: t.update({Q.replace("0.self", "99999999999999999999.self") + e: t[Q + e]
                            for e in ("A.weight", "B.weight")}), "self_attn.q_proj"),
    (lambda c, t: t.update({Q.replace("self_attn.q_proj", "mlp.experts") + e: t[Q + e]
                            for e in ("A.weight", "B.weight")}), "mlp.experts"),
    (lambda c, t: t.clear(), "expected tensors"),
])
def test_what_is_wrong_is_named(change, named, tmp_path):
    path = DATA / "llama-f32.gguf"
    config = dict(CONFIG)
    n, k = Model(path).tensors["blk.0.attn_q.weight"].shape
    tensors = {Q + "A.weight": np.ones((3, k), "f4"), Q + "B.weight": np.ones((n, 3), "f4")}
    change(config, tensors)
    folder = tmp_path / "a"
    folder.mkdir()
    write(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    done = evaluate(tmp_path, path, "--lora", folder)
    assert done.returncode == 3 and named in done.stderr and str(folder) in done.stderr, done.stderr


def test_files(tmp_path):
    path = DATA / "llama-f32.gguf"
    folder = as_peft(tmp_path / "a", Model(path), common(Model(path), 4))
    said = subprocess.run([os.environ["INFER_BIN"], "run", "-m", folder, "-p", "x"],
                          capture_output=True, text=True)
    assert said.returncode == 3 and "--lora" in said.stderr, said.stderr
    shutil.move(folder / "adapter_model.safetensors", folder / "adapter_model.bin")
    done = evaluate(tmp_path, path, "--lora", folder)
    assert done.returncode == 3 and "adapter_model.bin" in done.stderr, done.stderr
    (folder / "adapter_model.bin").unlink()
    done = evaluate(tmp_path, path, "--lora", folder)
    assert done.returncode == 3 and "adapter_model.safetensors" in done.stderr, done.stderr


def test_a_model_of_scaled_weights(tmp_path):
    path = DATA / "falcon-h1-f32.gguf"
    folder = as_peft(tmp_path / "a", Model(path), common(Model(path), 4))
    done = evaluate(tmp_path, path, "--lora", folder)
    assert done.returncode == 3 and "factors" in done.stderr, done.stderr
