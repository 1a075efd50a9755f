"""How tokens are chosen and texts end: seeds, stop strings, log-probabilities, samplers."""

import json
import math

import pytest

from program import ROOT, fails, infer

MODEL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"


def run(*arguments):
    done = infer("run", "-m", MODEL, "-p", "Hello", "-n", 24, "--ignore-eos", "--quiet", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def run_json(*arguments):
    return json.loads(run("--json", *arguments))


def test_several_seeds_give_the_texts_of_each():
    together = run_json("-s", "7,8,9")
    assert [text["seed"] for text in together] == [7, 8, 9]
    for text in together:
        assert text["tokens"] == run_json("-s", text["seed"])["tokens"]
    lines = run("-s", "7,8,9").decode()
    assert lines == "".join(text["text"] + "\n" for text in together)
    fails(2, "run", "-m", MODEL, "-p", "x", "-s", "1,x", says="-s: expected a number")


def test_a_stop_string_ends_the_text_before_it():
    whole = run_json("-s", 7)
    text = whole["text"]
    stop = text[len(text) // 2:len(text) // 2 + 3]
    cut = run_json("-s", 7, "--stop", stop, "--stop", "never this")
    assert cut["text"] == text[:text.index(stop)]
    assert cut["finish_reason"] == "stop"
    assert cut["tokens"] == whole["tokens"][:len(cut["tokens"])]
    assert run("-s", 7, "--stop", stop).decode() == cut["text"]
    assert run_json("-s", 7, "--stop", "never this")["text"] == text


def test_log_probabilities():
    plain = run_json("-s", 7)
    assert "logprobs" not in plain
    told = run_json("-s", 7, "--logprobs", 3)
    assert told["tokens"] == plain["tokens"]
    assert [entry["token"] for entry in told["logprobs"]] == told["tokens"]
    for entry in told["logprobs"]:
        top = [t["logprob"] for t in entry["top"]]
        assert len(top) == 3 and top == sorted(top, reverse=True)
        assert entry["logprob"] <= top[0] <= 0
        assert sum(math.exp(x) for x in top) <= 1.0001
    greedy = run_json("--temp", 0, "--logprobs", 1)
    assert all(e["top"][0]["token"] == e["token"] for e in greedy["logprobs"])


@pytest.mark.parametrize("arguments", [
    ["--mirostat", 1], ["--mirostat", 2, "--mirostat-ent", 3, "--mirostat-lr", 0.2],
    ["--xtc-probability", 0.5, "--xtc-threshold", 0.01], ["--top-nsigma", 1],
    ["--dry-multiplier", 1, "--dry-base", 1.5, "--dry-allowed-length", 1,
     "--dry-sequence-breaker", "none", "--dry-penalty-last-n", 20],
    ["--dynatemp-range", 0.5, "--dynatemp-exp", 2], ["--adaptive-target", 0.3],
    ["--samplers", "temperature;top_k;typ_p", "--top-k", 9, "--typical", 0.9],
])
def test_samplers_give_equal_text_for_equal_seeds(arguments):
    first = run("-s", 3, *arguments)
    assert len(first) > 0
    assert run("-s", 3, *arguments, "-t", 1) == first


def test_an_order_leaves_out_what_it_does_not_name():
    # With top-k of 1 alone the draw has no choice, whatever the temperature.
    assert run("-s", 3, "--samplers", "top_k", "--top-k", 1, "--temp", 2) == run("--temp", 0)


@pytest.mark.parametrize("arguments, says", [
    (["--samplers", "top_k;nonsense"], "found 'nonsense'"),
    (["--samplers", "top_k;top_k"], "twice"),
    (["--mirostat", 3], "--mirostat"),
    (["--xtc-probability", 1.5], "--xtc-probability"),
    (["--dry-base", 0.5], "--dry-base"),
    (["--dynatemp-range", "nan"], "--dynatemp-range"),
])
def test_settings_out_of_range_are_refused(arguments, says):
    fails(2, "run", "-m", MODEL, "-p", "x", *arguments, says=says)
