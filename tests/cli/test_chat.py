"""infer chat without its line editor: turns, commands, events, and lines of a pipe."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from program import INFER, ROOT, fails, infer, infer_typed

sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402


@pytest.fixture
def chat(model, template, tmp_path):
    def run(lines, *arguments, code=0, json_events=True, tokens=8, piped=False):
        flags = ["--json"] if json_events else []
        words = ["chat", "-m", model, "--template", template, "-n", tokens, "--temp", 0, *flags,
                 *arguments]
        done = (infer(*words, stdin="".join(line + "\n" for line in lines).encode()) if piped
                else infer_typed(*words, lines=lines))
        assert done.returncode == code, done.stderr.decode()
        if not json_events:
            return done
        return [json.loads(line) for line in done.stdout.decode().splitlines()]
    return run


def ends(events):
    return [e for e in events if e["event"] == "end"]


def text(events):
    return "".join(e["text"] for e in events if e["event"] == "content")


def test_a_second_turn_computes_its_own_tokens_alone(chat, model):
    first, second = ends(chat(["Hello there, how are you today?", "Fine"]))
    assert first["reused_tokens"] == 0 and second["reused_tokens"] == 0
    # Its prompt is what the template adds after the answer.
    assert second["prompt_tokens"] < first["prompt_tokens"]
    assert second["context_used"] > first["context_used"]
    done = infer("tokenize", "-m", model, "--json", "--no-bos",
                 stdin=b"</s><|user|>Fine</s><|assistant|>")
    assert second["prompt_tokens"] <= len(json.loads(done.stdout)) + 1


def test_what_was_taken_back_changes_nothing(chat, tmp_path):
    saved = tmp_path / "saved.json"
    chat(["One", "Two", f"/save {saved}"])
    messages = json.loads(saved.read_text())["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2
    events = chat([f"/load {saved}", "Three", "/undo", "Four", "/undo", "Three"])
    first, other, again = ends(events)
    assert first["prompt_tokens"] > 20
    assert max(other["prompt_tokens"], again["prompt_tokens"]) < first["prompt_tokens"] / 2
    texts = "".join(e["text"] if e["event"] == "content" else "|" for e in events).split("|")
    assert texts[0] == texts[2]


def test_commands(chat, tmp_path):
    saved = tmp_path / "saved.json"
    chat(["/system Be brief", "One", "/undo", "Two", "/regenerate", "/edit Three", "/history",
          "/stats", "/set --temp 0.5 -n 3", f"/save {saved}", "/clear", "/help", "/exit", "never"])
    messages = json.loads(saved.read_text())["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant"]
    assert messages[1]["content"] == "Three"
    for line, says in [("/nonsense", "unknown command"), ("/save", "name of a file"),
                       ("/load /nonexistent", "nonexistent"), ("/undo", "no message"),
                       ("/set --temp x", "/set"), ("/edit x", "no message")]:
        done = chat([line], code=3 if "/nonexistent" in line else 1, json_events=False)
        assert says in done.stderr.decode()
    assert b"expected the new text" in chat(["One", "/edit"], code=1, json_events=False).stderr


@pytest.mark.parametrize("leave", ["/exit", "/quit", "/bye"])
def test_other_names_of_commands(chat, leave):
    events = chat(["One", leave, "Two"])
    assert len(ends(events)) == 1
    assert b"/regenerate" in chat(["/?"], json_events=False).stderr


def test_a_message_may_begin_with_a_slash(chat, tmp_path):
    saved = tmp_path / "saved.json"
    chat(["//etc/passwd is what?", f"/save {saved}"])
    assert json.loads(saved.read_text())["messages"][0]["content"] == "/etc/passwd is what?"


def test_piped_lines_are_messages(chat, tmp_path):
    saved = tmp_path / "saved.json"
    saved.write_text("precious")
    lines = ["/usr/bin is a folder", f"/save {saved}", "/exit", "//two", "Hello"]
    assert len(ends(chat(lines, piped=True))) == len(lines)
    assert saved.read_text() == "precious"


@pytest.mark.parametrize("text", ["/exit", "//two", "/nonsense"])
def test_a_first_message_is_no_command(chat, tmp_path, text):
    assert len(ends(chat([], "-p", text, "-st", piped=True))) == 1
    saved = tmp_path / "saved.json"
    chat([f"/save {saved}"], "-p", text)
    assert json.loads(saved.read_text())["messages"][0]["content"] == text


@pytest.mark.parametrize("content", [
    "notes", "{}", '{"messages": []}', "[]", '{\n  "messages": [], "model": "x"}',
    '{\n  "messages": [1]}', '{\n  "messages": ['])
def test_saving_replaces_nothing_but_saved_conversations(chat, tmp_path, content):
    file = tmp_path / "file"
    file.write_text(content)
    done = chat(["One", f"/save {file}"], code=1, json_events=False)
    assert f"{file}: the file exists and is no conversation" in done.stderr.decode()
    assert file.read_text() == content


def test_a_saved_conversation_is_saved_again(chat, tmp_path):
    saved = tmp_path / "saved.json"
    saved.touch()  # as mktemp leaves it
    chat([f"/save {saved}", "One", f"/save {saved}", "Two", f"/save {saved}"])
    messages = json.loads(saved.read_text())["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2


def test_a_conversation_takes_one_seed(chat, model, template):
    fails(2, "chat", "-m", model, "--template", template, "-s", "1,2,3", "-p", "x", "-st",
          says="-s: expected one seed, found 3")
    done = chat(["/set -s 1,2"], code=1, json_events=False)
    assert b"/set: --seed: expected one seed, found 2" in done.stderr


def test_files_may_be_named_from_home(chat, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    messages = [{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}]
    (tmp_path / "list.json").write_text(json.dumps(messages))
    chat(["/load ~/list.json", "/save ~/saved.json"])
    assert json.loads((tmp_path / "saved.json").read_text())["messages"] == messages


def test_settings_are_shown(model, chat, tmp_path):
    def shown(lines, *arguments):
        said = chat([*lines, "/set"], *arguments, json_events=False).stderr.decode()
        rows = [line.split() for line in said[said.index("They are now"):].splitlines()[1:]]
        return {row[0]: row[1:] for row in rows}

    first = shown([], "--top-k", "7", "-l", "5-inf")
    assert first["--temp"] == ["0"] and first["--top-k"] == ["7"] and first["--n-predict"] == ["8"]
    assert first["--top-p"] == ["0.95", "by", "default"] and first["--logit-bias"] == ["5-inf"]
    later = shown(["/set --temp 0.25 -n 3 -s 9 --samplers top_k;temperature"])
    assert later["--temp"] == ["0.25"] and later["--n-predict"] == ["3"] and later["--seed"] == ["9"]
    assert later["--samplers"] == ["top_k;temperature"]


def test_suggestions_of_the_model_are_shown(template, tmp_path):
    metadata, tensors = gguf.read(ROOT / "tests" / "data" / "bigram.gguf")
    metadata["general.sampling.top_k"] = 13
    path = tmp_path / "suggests.gguf"
    gguf.write(path, metadata, {name: np.asarray(t) for name, t in tensors.items()})
    done = infer_typed("chat", "-m", path, "--template", template, lines=["/set"])
    assert done.returncode == 0 and b"13       of the model" in done.stderr


def test_settings_hold_from_the_next_answer_on(chat):
    first, second = ends(chat(["One", "/set -n 3", "Two"]))
    assert first["generated_tokens"] == 8 and second["generated_tokens"] == 3
    one, two = ends(chat(["One", "/set -s 5 --temp 1", "Two"], "-s", "4"))
    assert one["seed"] == 4 and two["seed"] == 5


def test_piped_text_holds_answers_alone(chat):
    done = chat(["One", "", "Two"], json_events=False, piped=True)
    assert done.stdout.endswith(b"\n")
    assert done.stderr.count(b"tokens/s; first token after") == 2
    assert b"> " not in done.stdout


def test_a_first_message_and_one_turn(chat):
    assert len(ends(chat(["Two"], "-p", "One"))) == 2
    assert len(ends(chat(["Two"], "-p", "One", "-st"))) == 1


def test_constraints_hold_an_answer(chat):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}},
              "required": ["n"], "additionalProperties": False}
    events = chat(["One"], "-j", json.dumps(schema), tokens=200)
    if ends(events)[0]["finish_reason"] == "stop":
        value = json.loads(text(events))
        assert list(value) == ["n"] and value["n"] <= 5


def test_failures_say_what_is_wrong(model, template, tmp_path):
    fails(3, "chat", "-m", model, stdin=b"x\n", says="no chat template")
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% for %}")
    fails(3, "chat", "-m", model, "--template", broken, stdin=b"x\n", says="line 1")
    fails(2, "chat", "-m", model, "--template", template, "--chat-template-kwargs", "[1]",
          says="JSON object")
    fails(2, "chat", "-m", model, "--template", template, "-j", "{\"type\": 3}", stdin=b"x\n")


def test_every_failure_is_an_event(model, template, tmp_path):
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 200)
    plain = ["-m", model, "--template", template]
    cases = [(3, ["-m", tmp_path / "none.gguf"], "x"), (3, ["-m", model], "x"),
             (2, [*plain, "--temp", -1], "x"), (2, [*plain, "--chat-template-kwargs", "1"], "x"),
             (2, [*plain, "-l", "99999+1"], "x"), (1, plain, "/nonsense"),
             (1, plain, f"/load {deep}"), (3, plain, "/load /nonexistent"),
             (4, [*plain, "-c", 64], "word " * 400), (4, [*plain, "--memory", "1K"], "x")]
    for code, arguments, line in cases:
        done = infer_typed("chat", "--json", *arguments, lines=[line])
        assert done.returncode == code, done.stderr.decode()
        events = [json.loads(e) for e in done.stdout.splitlines()]
        assert [e["event"] for e in events] == ["error"] and events[0]["code"] == code
        assert done.stderr.decode().endswith(events[0]["message"] + "\n")


def test_a_closed_stdout_ends_it(model, template):
    process = subprocess.Popen(
        [INFER, "chat", "-m", str(model), "--template", str(template), "-n", "50"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    process.stdin.write(b"One\nTwo\n")
    process.stdin.close()
    assert process.wait(timeout=60) == 0


PARTS = [{"role": "user", "content": [{"type": "text", "text": "One "}, {"type": "image"},
                                      {"type": "text", "text": "and two"}]},
         {"role": "assistant", "content": "Yes"}]


def test_messages_of_several_parts_can_be_taken_back(chat, tmp_path):
    loaded, saved = tmp_path / "loaded.json", tmp_path / "saved.json"
    loaded.write_text(json.dumps({"messages": PARTS}))
    chat([f"/load {loaded}", "/undo", f"/save {saved}"])
    assert json.loads(saved.read_text())["messages"] == []
    chat([f"/load {loaded}", "/regenerate", f"/save {saved}"])
    assert json.loads(saved.read_text())["messages"][0] == PARTS[0]
    chat([f"/load {loaded}", "/edit Three", f"/save {saved}"])
    assert json.loads(saved.read_text())["messages"][0] == {"role": "user", "content": "Three"}
    chat([f"/load {loaded}", "/history"])


@pytest.mark.parametrize("messages", [
    "[" * 200000, '[{"role": "user", "content": 3}]', '[{"role": "user", "content": [1]}]',
    '[{"role": 1}]', '[{"role": "user", "content": [{"a": ' + "[" * 150 + "]" * 150 + "}]}]", "{}"],
                         ids=["deep", "number", "part", "role", "deep part", "no list"])
def test_a_conversation_that_is_none_is_refused(chat, tmp_path, messages):
    path = tmp_path / "bad.json"
    path.write_text('{"messages": ' + messages + "}")
    done = chat([f"/load {path}", "/undo"], code=1, json_events=False)
    assert b"expected {" in done.stderr
    variables = '{"x": ' + "[" * 150 + "]" * 150 + "}"
    done = chat(["One"], "--chat-template-kwargs", variables, code=2, json_events=False)
    assert b"100 levels" in done.stderr


def test_ctrl_c_ends_an_answer_whose_template_is_slow(model, tmp_path):
    """The first Ctrl-C counts while the template is rendered: nothing is generated then."""
    slow = tmp_path / "slow.jinja"
    slow.write_text("{% if messages|length > 1 %}{% for i in range(600) %}{% for j in range(600) %}"
                    "{% if i * j == -1 %}x{% endif %}{% endfor %}{% endfor %}{% endif %}"
                    "{% for m in messages %}{{ m.content }}</s>{% endfor %}")
    arguments = ["chat", "-m", model, "--template", slow, "-n", 300, "--json", "-t", 1]
    found = []
    for delay in 5 * (0.04, 0.02, 0.03, 0.08, 0.12):  # how long rendering takes is the machine's
        process = subprocess.Popen([INFER, *map(str, arguments)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdin.write(b"One\n")
        process.stdin.flush()
        events = map(json.loads, process.stdout)
        assert next(e for e in events if e["event"] == "end")["finish_reason"] != "cancelled"
        process.stdin.write(b"Two\n")
        process.stdin.flush()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        found += [(e["finish_reason"], e["generated_tokens"]) for e in events if e["event"] == "end"]
        process.wait(timeout=60)
        process.stdout.close()
        if ("cancelled", 0) in found:
            return
    raise AssertionError(found)


def test_a_models_name_cannot_control_the_terminal(template, tmp_path):
    metadata, tensors = gguf.read(ROOT / "tests" / "data" / "bigram.gguf")
    metadata["general.name"] = "\033]0;owned\007\x9b2Jname"
    path = tmp_path / "named.gguf"
    gguf.write(path, metadata, {name: np.asarray(t) for name, t in tensors.items()})
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [INFER, "chat", "-m", str(path), "--template", str(template), "-n", "1"],
        stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
    os.close(inside)
    seen = b""
    deadline = time.monotonic() + 60
    while b"Ctrl-D leaves" not in seen and time.monotonic() < deadline:
        seen += os.read(terminal, 4096)
    process.kill()
    process.wait()
    os.close(terminal)
    assert b"name" in seen and b"\\x1b]0;owned\\x07" in seen, seen
    assert b"\033]0;" not in seen and b"\x07" not in seen and b"\xc2\x9b" not in seen
    for command in ("info", "plan"):
        done = infer(command, "-m", path)
        assert done.returncode == 0 and b"\033" not in done.stdout + done.stderr
