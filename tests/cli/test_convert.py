"""infer convert, and directories in a model's place, with checkpoints made by hand."""

import json
import random
import struct

import pytest

from program import fails, infer

CONFIG = {"architectures": ["Qwen2ForCausalLM"], "hidden_size": 8, "intermediate_size": 12,
          "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
          "max_position_embeddings": 64}
ATTENTION = {"q_proj": (8, 8), "k_proj": (4, 8), "v_proj": (4, 8), "o_proj": (8, 8)}
FEED_FORWARD = {"gate_proj": (12, 8), "up_proj": (12, 8), "down_proj": (8, 12)}


@pytest.fixture
def checkpoint(tmp_path):
    shapes = {"model.embed_tokens": (10, 8), "model.norm": (8,), "lm_head": (10, 8)}
    for layer in ("model.layers.0.", "model.layers.1."):
        shapes |= {layer + norm: (8,) for norm in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {f"{layer}self_attn.{part}": shape for part, shape in ATTENTION.items()}
        shapes |= {f"{layer}mlp.{part}": shape for part, shape in FEED_FORWARD.items()}
    rng = random.Random(1)
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *(rng.gauss(0, 0.5) for _ in range(count)))
        header[name + ".weight"] = {"dtype": "F32", "shape": shape,
                                    "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def logits(model, out):
    done = infer("eval", "-m", model, "--tokens", "1,5,9,3", "--logits", out)
    assert done.returncode == 0, done.stderr.decode()
    return out.read_bytes()


def test_a_name_in_a_file_of_the_model_is_no_path(checkpoint, tmp_path):
    for name in ("a" * 5000, "../other", "/etc", "a\0b"):
        (checkpoint / "modules.json").write_text(
            json.dumps([{"type": "sentence_transformers.models.Pooling", "path": name}]))
        for command in (["convert", checkpoint, tmp_path / "out.gguf"], ["info", checkpoint]):
            fails(3, *command, says=f"{checkpoint}/modules.json: '[0].path': expected the name")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_a_file_without_a_vocabulary_is_no_surprise(checkpoint, tmp_path):
    (checkpoint / "hy.tiktoken").write_text("IQ== 0")
    done = infer("convert", checkpoint, tmp_path / "out.gguf")
    assert done.returncode == 0
    assert b"the file has no vocabulary" in done.stderr and b"'hy.tiktoken' is not read" in done.stderr
    fails(3, "chat", tmp_path / "out.gguf", "-p", "hi", "-st", says="has no vocabulary")


def test_the_file_computes_what_the_directory_does(checkpoint, tmp_path):
    out = tmp_path / "out.gguf"
    done = infer("convert", checkpoint, out, "--json")
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    assert report["architecture"] == "qwen2" and report["path"] == str(out)
    assert report["types"] == {"F32": report["tensors"]}
    expected = logits(checkpoint, tmp_path / "a")
    assert len(expected) == 4 * 10 * 4 and len(set(expected)) > 50
    assert logits(out, tmp_path / "b") == expected
    assert logits(checkpoint / "model.safetensors", tmp_path / "c") == expected
    info = json.loads(infer("info", checkpoint, "--json").stdout)
    assert info["name"] == "checkpoint" and info["layers"] == 2
    assert info["tensors"] == json.loads(infer("info", out, "--json").stdout)["tensors"]
    assert infer("plan", "-m", checkpoint).returncode == 0


def test_without_json_stdout_is_empty(checkpoint, tmp_path):
    done = infer("convert", checkpoint, tmp_path / "out.gguf", "--type", "bf16")
    assert done.returncode == 0 and done.stdout == b""
    assert b"written" in done.stderr
    types = {t["type"] for t in json.loads(
        infer("info", tmp_path / "out.gguf", "--json").stdout)["tensors"]}
    assert types == {"BF16", "F32"}


def test_what_is_refused(checkpoint, tmp_path):
    out = tmp_path / "out.gguf"
    fails(2, "convert", checkpoint, says="output")
    fails(2, "convert", checkpoint, out, "--type", "q4_0", says="q4_0")
    for own in ("config.json", "model.safetensors"):
        fails(2, "convert", checkpoint, checkpoint / own, says="is the input")
    fails(1, "convert", checkpoint, tmp_path / "absent" / "out.gguf", says="absent")
    fails(3, "convert", tmp_path / "absent", out, says="absent")
    fails(3, "convert", tmp_path, out, says="not a model file")
    fails(3, "run", "-m", checkpoint, "-p", "a", says="no vocabulary")
    (checkpoint / "config.json").write_text(json.dumps(
        CONFIG | {"quantization_config": {"quant_method": "aqlm"}}))
    fails(3, "convert", checkpoint, out, says="'aqlm'")
    (checkpoint / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 3}))
    fails(3, "convert", checkpoint, out, says="blk.2.attn_norm")
    assert not out.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(checkpoint, tmp_path):
    out = tmp_path / "out.gguf"
    out.write_bytes(b"old")
    whole = (checkpoint / "model.safetensors").read_bytes()
    (checkpoint / "model.safetensors").write_bytes(whole[:-1])
    fails(3, "convert", checkpoint, out, says="cut short")
    assert out.read_bytes() == b"old"
    (checkpoint / "model.safetensors").write_bytes(whole)
    assert infer("convert", checkpoint, out).returncode == 0
    assert out.read_bytes()[:4] == b"GGUF"
