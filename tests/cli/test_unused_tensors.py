"""Files with tensors that the model they name does not use."""

import struct

from program import ROOT, fails, infer

DATA = ROOT / "tests" / "data"


def evaluated(file):
    return infer("eval", "-m", file, "--tokens", "1,2,3", "--logits", "-")


def test_layers_beyond_those_that_the_file_says(tmp_path):
    data = (DATA / "golden" / "llama-f32.gguf").read_bytes()
    key = b"llama.block_count"
    at = data.index(key) + len(key) + 4  # behind the value's type
    [layers] = struct.unpack("<I", data[at:at + 4])
    file = tmp_path / "model.gguf"
    file.write_bytes(data[:at] + struct.pack("<I", layers - 1) + data[at + 4:])
    for command in (["eval", "--tokens", "1,2", "--logits", "-"], ["plan"]):
        fails(3, command[0], "-m", file, *command[1:], says=f"no such layer, since its key '{key.decode()}' is {layers - 1}")


def test_a_model_of_another_architecture(tmp_path):
    data = (DATA / "golden" / "qwen3-f32.gguf").read_bytes()
    file = tmp_path / "model.gguf"
    file.write_bytes(data.replace(b"qwen3", b"llama"))
    done = evaluated(file)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert "no place in a llama" in said and "'blk.0.attn_" in said and said.count("warning") == 1


def test_nothing_is_said_of_others():
    for name in ("llama-f32", "qwen3-f32", "gemma4-f32", "qwen4exp-f32", "deepseek2-v3-f32", "glm4moe-f32",
                 "phi3-long-f32", "phi3-short-f32", "minicpm3-split-f32",
                 "kimi-k3-f32", "hy_v4-f32", "dots3note-f32", "bailingmoe3-narrow-f32", "minimax-01-f32",
                 "minimax-m3-f32", "glm5-next-f32"):
        done = evaluated(DATA / "golden" / f"{name}.gguf")
        assert done.returncode == 0 and b"no place" not in done.stderr
    done = infer("embed", "-m", DATA / "embed" / "jina-bert-v2-rank" / "model.gguf", "--pooling", "mean", "-f", "-",
                 stdin=b"cat")
    assert b"no place" not in done.stderr
