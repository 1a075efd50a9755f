"""What commands say besides their results: warnings, what was chosen, the text of tokens."""

import json
import re

import pytest

from program import infer


@pytest.mark.parametrize("command", [["run", "-p", "x", "-n", 1], ["chat"], ["plan"]])
def test_a_context_beyond_the_trained_one_is_warned_of(model, template, command):
    """The model was trained for 4096."""
    if command == ["chat"]:
        command = ["chat", "--template", template]
    for size, warnings in [(4096, 0), (4160, 1)]:
        done = infer(*command, "-m", model, "-c", size)
        said = done.stderr.decode()
        assert done.returncode == 0, said
        assert len(re.findall(rf"infer: warning: -c {size} .*4096", said)) == warnings
    assert b"warning" not in infer(*command, "-m", model, "-c", 4160, "--quiet").stderr


def test_what_the_cpu_was_chosen_for_is_said(model):
    arguments = ["run", "-m", model, "-p", "x", "-n", 1, "--isa", "scalar", "-t", 1]
    said = infer(*arguments, "-v").stderr.decode()
    assert re.search(r"infer: info: cpu\S*: scalar kernels, 1 threads?; .*layers 0 to 1", said), said
    assert "kernels" not in infer(*arguments).stderr.decode()


def test_logprobs_have_the_text_of_tokens(model):
    done = infer("run", "-m", model, "-p", "x", "-n", 200, "--grammar", 'root ::= "ab\U0001F600é"',
                 "--json", "--logprobs", 3)
    result = json.loads(done.stdout)
    tokens = result["logprobs"]
    assert [t["token"] for t in tokens] == result["tokens"]
    assert any("bytes" in t for t in tokens) and any("bytes" not in t for t in tokens)
    raw = b"".join(bytes(t["bytes"]) if "bytes" in t else t["text"].encode() for t in tokens)
    assert raw.decode() == result["text"] == "ab\U0001F600é"
    for token in tokens:
        assert all({"token", "text", "logprob"} <= set(top) for top in token["top"])
        assert ("bytes" in token) == ("\ufffd" in token["text"])
