"""Models of an unknown architecture: `info` says what the file holds, and the vocabulary works."""

import json
import struct

import pytest

from program import ROOT, fails, infer

TEXT = "Grüße, world!\n"


def byte_level_vocabulary():
    """GPT-2's spelling of the 256 bytes, and one merge."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        spelled.setdefault(byte, chr(256 + len(spelled) - len(plain)))
    vocabulary = {spelled[byte]: byte for byte in range(256)}
    vocabulary["wo"] = 256
    return {"model": {"type": "BPE", "vocab": vocabulary, "merges": ["w o"]},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                              "use_regex": True},
            "decoder": {"type": "ByteLevel"},
            "added_tokens": []}


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["SpiralForCausalLM"], "hidden_size": 48, "num_hidden_layers": 3,
        "text_config": {"max_position_embeddings": 777}, "vocab_size": 257}))
    (folder / "tokenizer.json").write_text(json.dumps(byte_level_vocabulary()))
    return folder


def add_weights(folder):
    header = json.dumps({"spiral.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}})
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(24))


def tokens_of(folder):
    (folder.parent / "text").write_text(TEXT)
    return json.loads(infer("tokenize", "-m", folder, "-f", folder.parent / "text", "--json").stdout)


@pytest.mark.parametrize("weights", [True, False])
def test_a_vocabulary_needs_no_known_architecture(directory, weights):
    if weights:
        add_weights(directory)
    tokens = tokens_of(directory)
    assert 256 in tokens and len(tokens) == len(TEXT.encode()) - 1
    text = infer("detokenize", "-m", directory, stdin=json.dumps(tokens).encode())
    assert (text.returncode, text.stdout.decode()) == (0, TEXT)


def test_a_vocabulary_needs_no_configuration(directory):
    (directory / "config.json").unlink()
    assert 256 in tokens_of(directory)


def test_a_broken_vocabulary_is_named(directory):
    (directory / "tokenizer.json").write_text('{"model": {"type": "Spiral"}}')
    fails(3, "tokenize", "-m", directory, stdin=b"x", says="tokenizer.json")
    (directory / "tokenizer.json").unlink()
    fails(3, "tokenize", "-m", directory, stdin=b"x", says="found 0 files of that ending")


def test_what_a_directory_holds_is_shown(directory):
    add_weights(directory)
    report = json.loads(infer("info", directory, "--json").stdout)
    assert report["architecture"] == "SpiralForCausalLM"
    assert (report["embedding"], report["layers"], report["context"]) == (48, 3, 777)
    assert (report["vocabulary"], report["parameters"]) == (257, 6)
    assert [tensor["name"] for tensor in report["tensors"]] == ["spiral.weight"]
    assert "'SpiralForCausalLM' is not supported" in report["unsupported"]
    shown = infer("info", directory)
    assert shown.returncode == 0 and b"cannot run" in shown.stdout
    fails(3, "run", "-m", directory, "-p", "x", says="SpiralForCausalLM")


def test_what_a_gguf_holds_is_shown(tmp_path):
    known = (ROOT / "tests" / "data" / "golden" / "llama-f16.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(known.replace(b"llama", b"lhama"))
    report = json.loads(infer("info", tmp_path / "m.gguf", "--json").stdout)
    assert report["architecture"] == "lhama" and report["layers"] > 0
    assert "'lhama' is not supported" in report["unsupported"]
    (tmp_path / "known.gguf").write_bytes(known)
    assert json.loads(infer("info", tmp_path / "known.gguf", "--json").stdout)["unsupported"] == ""
