"""Models with learned positions: no context is longer than these."""

import json

import pytest

from program import ROOT, fails, infer

MODEL = ROOT / "tests" / "data" / "golden" / "gpt2-f32.gguf"  # has 320


@pytest.mark.parametrize("command", [["run", "-p", "t3", "-n", 4], ["eval", "--tokens", "1,2", "--logits", "-"], ["plan"]])
def test_a_longer_context_is_refused(command):
    fails(4, command[0], "-m", MODEL, *command[1:], "-c", 321, says="learned positions for 320")


def test_what_is_not_asked_for_is_as_long_as_they_are():
    done = infer("plan", "-m", MODEL, "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["context"] == 320


def test_a_text_may_shift_beyond_them():
    done = infer("run", "-m", MODEL, "-p", "t3", "-n", 600, "--ignore-eos", "--context-shift", "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["timings"]["generated_tokens"] == 600
