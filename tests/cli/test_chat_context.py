"""infer chat where the context is full: what is said, what is taken back, and what is dropped."""

import json

import pytest

from program import infer_typed

# Refuses what is no conversation of whole turns after a system message.
STRICT = """{%- if messages[0].role != 'system' %}{{ raise_exception('no system message') }}{% endif -%}
{%- for m in messages -%}
{%- if loop.index0 > 0 and (m.role == 'user') != (loop.index0 % 2 == 1) -%}
{{ raise_exception('half a turn') }}
{%- endif -%}
<|{{ m.role }}|>{{ m.content }}</s>
{%- endfor -%}<|assistant|>"""
LONG = "word " * 400


@pytest.fixture
def chat(model, template):
    def run(lines, *arguments, code=0, tokens=8, context=128, jinja=template):
        done = infer_typed("chat", "-m", model, "--template", jinja, "-c", context, "-n", tokens,
                           "--temp", 0, "--json", *arguments, lines=lines)
        assert done.returncode == code, done.stderr.decode()
        return [json.loads(line) for line in done.stdout.decode().splitlines()], done.stderr.decode()
    return run


@pytest.fixture
def strict(tmp_path):
    path = tmp_path / "strict.jinja"
    path.write_text(STRICT)
    return path


def ends(events):
    return [e for e in events if e["event"] == "end"]


def test_a_full_context_says_what_helps(chat):
    events, said = chat(["Hello there, how are you?"] * 40, code=4)
    assert 1 < len(ends(events)) < 40
    for way_out in ("/undo", "/clear", "-c", "--context-shift"):
        assert way_out in said.splitlines()[-1]
    assert events[-1]["event"] == "error" and "/undo" in events[-1]["message"]


def test_a_message_that_is_too_long_says_so(chat):
    _, said = chat([LONG], code=4)
    assert "shorter" in said and "/undo" not in said
    _, said = chat(["Hello", LONG], "--context-shift", code=4)
    assert "shorter" in said and "--context-shift" not in said


def test_no_more_of_the_context_is_used_than_there_is(chat, model, template):
    endless = ("--logit-bias", "2-inf")
    events, _ = chat(["Hello"], *endless, context=40, tokens=-1)
    end = ends(events)[0]
    assert end["finish_reason"] == "context"
    assert (end["context_used"], end["context"]) == (40, 40)
    # The answer has one token more than the context: the last one is not computed.
    assert end["prompt_tokens"] + end["generated_tokens"] == 41
    done = infer_typed("chat", "-m", model, "--template", template, "-c", 40, "-n", -1, "--temp", 0,
                       *endless, lines=["Hello"])
    assert b"context 40 of 40;" in done.stderr


def test_a_shifted_context_drops_whole_turns(chat, strict, tmp_path):
    saved = tmp_path / "saved.json"
    lines = [f"Hello there, how are you? {i}" for i in range(40)]
    events, said = chat([*lines, f"/save {saved}"], "--context-shift", "-sys", "Be brief",
                        context=512, jinja=strict)
    assert len(ends(events)) == 40
    assert {e["finish_reason"] for e in ends(events)} <= {"length", "stop"}
    assert all(e["context_used"] <= 512 for e in ends(events))
    assert said.count("the context is full") == 1
    dropped = [e["dropped_messages"] for e in ends(events)]
    assert dropped[0] == 0 and dropped == sorted(dropped) and all(d % 2 == 0 for d in dropped)
    # Not at every answer: what is left is computed anew each time.
    assert 2 < len(set(dropped)) < 10
    messages = json.loads(saved.read_text())["messages"]
    assert [m["content"] for m in messages if m["role"] == "user"] == lines


def test_what_was_dropped_is_not_missing_elsewhere(chat, strict, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"messages": [{"role": "system", "content": "x"},
                                              {"role": "user", "content": "One"},
                                              {"role": "assistant", "content": "Two"}]}))
    lines = ["Hello there, how are you?"] * 12
    events, _ = chat([*lines, f"/load {other}", "Three", "/clear", "Four"], "--context-shift",
                     "-sys", "x", jinja=strict)
    dropped = [e["dropped_messages"] for e in ends(events)]
    assert dropped[11] > 0 and dropped[12:] == [0, 0]


def test_an_answer_longer_than_the_context_keeps_its_question(chat):
    events, _ = chat(["Hello", "And then?"], "--context-shift", "--logit-bias", "2-inf", tokens=300)
    assert [e["generated_tokens"] for e in ends(events)] == [300, 300]
