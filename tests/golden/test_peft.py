"""LoRA adapters as PEFT saves them: logits are those of transformers with the same adapter, for a
directory and for the GGUF file that is made of it; and what cannot be used is refused."""

import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import from_transformers  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.test_checkpoints import NAMES, converted, evaluate, logits_of  # noqa: E402

LIMIT = 1e-9  # adapters make the hidden states larger, and with them the rounding of transformers

# What adapters of attention and of feed-forward layers change, by the end of a module's name.
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "qkv_proj", "gate_proj", "up_proj", "down_proj",
           "gate_up_proj", "w1", "w2", "w3", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "in_proj"]
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def adapted(name, folder, modules, **options):
    """Saves a random model and an adapter for it; logits in float64 without and with it."""
    _, model = from_transformers.random_model(name)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(tensor.to(torch.float32))
    plain = logits_of(model)
    model.to(torch.float32).save_pretrained(folder / "m")
    model.to(torch.float64)
    torch.manual_seed(5)
    both = peft.get_peft_model(model, peft.LoraConfig(
        target_modules=modules, exclude_modules=".*vision.*", **({"r": 3, "lora_alpha": 7} | options)))
    with torch.no_grad():
        for key, tensor in both.named_parameters():
            if ".lora_" in key:
                tensor.copy_(torch.randn_like(tensor).mul(0.3).to(torch.float32))
    both.eval()
    logits = logits_of(both)
    both.to(torch.float32).save_pretrained(folder / "a")
    return plain, logits


@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint(name, tmp_path):
    _, model = from_transformers.random_model(name)
    linear = {key for key, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    there = [m for m in MODULES if any(key.endswith("." + m) for key in linear)]
    if not there:
        pytest.skip("no such module")
    plain, logits = adapted(name, tmp_path, there)
    found = evaluate(tmp_path / "m", tmp_path / "logits", "--lora", tmp_path / "a")
    assert nmse(plain, logits) > 1e-4
    assert nmse(found, logits) <= LIMIT
    path, _ = converted(tmp_path / "m", tmp_path)
    assert np.array_equal(evaluate(path, tmp_path / "logits", "--lora", tmp_path / "a"), found)


@pytest.mark.parametrize("options", [
    {"use_rslora": True, "r": 4},
    {"rank_pattern": {"k_proj": 5, "layers.1.self_attn.q_proj": 2},
     "alpha_pattern": {"v_proj": 2, "layers.1.self_attn.q_proj": 11}},
    {"layers_to_transform": [1, 2]},
    {"target_modules": ["embed_tokens", "q_proj"]},
    {"target_modules": ["lm_head", "up_proj"]},
], ids=["root", "patterns", "layers", "table", "output"])
@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_options(name, options, tmp_path):
    options = dict(options)
    modules = options.pop("target_modules", ATTENTION)
    plain, logits = adapted(name, tmp_path, modules, **options)
    found = evaluate(tmp_path / "m", tmp_path / "logits", "--lora", tmp_path / "a")
    assert nmse(plain, logits) > 1e-4
    assert nmse(found, logits) <= LIMIT


@pytest.mark.parametrize("name", ["gpt-oss", "mixtral", "granitemoe", "qwen3moe", "mistral4"])
def test_experts(name, tmp_path):
    _, model = from_transformers.random_model(name)
    experts = {key.split("layers.")[-1].split(".", 1)[1] for key, tensor in model.named_parameters()
               if ".experts." in key and tensor.ndim == 3}
    if not experts:
        pytest.skip("no experts in one tensor")
    plain, logits = adapted(name, tmp_path, ATTENTION, target_parameters=sorted(experts))
    found = evaluate(tmp_path / "m", tmp_path / "logits", "--lora", tmp_path / "a")
    assert nmse(plain, logits) > 1e-4
    assert nmse(found, logits) <= LIMIT
