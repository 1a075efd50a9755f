"""Files that describe a model which cannot be: exit 3 and a message that names what is wrong."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.models.reference import gguf, make_golden  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)


def load(tmp_path, name, change):
    builder = make_golden.MODELS[name](name)
    change(builder)
    path = tmp_path / "model.gguf"
    gguf.write(path, builder.metadata, builder.tensors)
    return subprocess.run([os.environ["INFER_BIN"], "eval", "-m", path, "--tokens", "1,2,3",
                           "--logits", tmp_path / "out.f32"], capture_output=True, text=True)


def setting(key, value):
    return lambda m: m.metadata.__setitem__(f"{m.metadata['general.architecture']}.{key}", value)


def without(tensor):
    return lambda m: m.tensors.pop(tensor)


def without_key(key):
    return lambda m: m.metadata.pop(f"{m.metadata['general.architecture']}.{key}")


@pytest.mark.parametrize("name, change, named", [
    ("deepseek2-v3-f32", without_key("attention.kv_lora_rank"), "attention.kv_lora_rank"),
    ("deepseek2-v3-f32", setting("attention.kv_lora_rank", 21), "attn_kv_a_mqa"),
    ("deepseek2-v3-f32", setting("attention.key_length_mla", 8), "8 rotated elements"),
    ("deepseek2-v3-f32", setting("attention.value_length_mla", 13), "attn_v_b"),
    ("deepseek2-v3-f32", setting("attention.temperature_scale", 0.1), "temperature_scale"),
    ("deepseek2-v3-f32", setting("expert_group_count", 3), "groups"),
    ("deepseek2-v3-f32", setting("expert_group_used_count", 1), "groups"),
    ("deepseek2-v3-f32", setting("expert_gating_func", 4), "expert_gating_func"),
    ("deepseek2-v3-f32", without("blk.1.attn_v_b.weight"), "blk.1.attn_v_b.weight"),
    ("deepseek2-v2-f32", without("blk.2.attn_kv_b.weight"), "blk.2.attn_kv_b.weight"),
    ("deepseek2-lite-f32", without("blk.1.ffn_up_shexp.weight"), "blk.1.ffn_up_shexp"),
    ("gpt-oss-f32", without("blk.1.ffn_gate_exps.weight"), "blk.1.ffn_gate_exps.weight"),
    ("granite-f32", setting("logit_scale", 0.0), "logit_scale"),
    ("llama-yarn-f32", setting("rope.scaling.factor", 0.0), "rope.scaling.factor"),
])
def test_what_is_wrong_is_named(tmp_path, name, change, named):
    done = load(tmp_path, name, change)
    assert done.returncode == 3, done.stderr
    assert named in done.stderr


def test_the_models_themselves_load(tmp_path):
    for name in ("deepseek2-v3-f32", "gpt-oss-f32"):
        assert load(tmp_path, name, lambda m: None).returncode == 0
