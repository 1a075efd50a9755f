"""Text that a model or a file gives cannot control a terminal; pipes and files get every byte."""

import json
import sys

import numpy as np
import pytest

from at_terminal import STATISTICS, Terminal
from program import ROOT, infer

sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402

# An escape sequence, a carriage return, a C1 control, an override, an isolate, a character of
# several tokens, a line end and a tab.
GRAMMAR = r'root ::= "a\x1b[2J\rb\u009bc\u202ed\u2067e" "\U0001F600é" "\n\tend"'
TEXT = "a\x1b[2J\rb\x9bc\u202ed\u2067e\U0001F600é\n\tend"
SHOWN = "a\\x1b[2J\\x0db\\x9bc\\u202ed\\u2067e\U0001F600é\r\n\tend"


@pytest.fixture
def at_terminal(tmp_path):
    started = []

    def run(*arguments, **options):
        started.append(Terminal(*arguments, home=tmp_path, **options))
        return started[-1]
    yield run
    for t in started:
        t.clean()


def test_generated_text(model, template, at_terminal):
    arguments = ["-m", model, "--grammar", GRAMMAR, "-n", 200, "--temp", 0]
    done = infer("run", *arguments, "-p", "x")
    assert done.returncode == 0 and done.stdout.decode() == TEXT
    t = at_terminal("run", *arguments, "-p", "x")
    assert t.end() == 0 and SHOWN in t.log and "\u202e" not in t.log
    t = at_terminal("run", *arguments, "-p", "x", "-s", "1,2")
    assert t.end() == 0 and t.log.count(SHOWN) == 2
    chat = ["--template", template]
    done = infer("chat", *arguments, *chat, stdin=b"x\n")
    assert done.returncode == 0 and done.stdout.decode() == TEXT + "\n"
    t = at_terminal("chat", *arguments, *chat, "-p", "x", "-st")
    t.expect(STATISTICS)
    assert SHOWN in t.log and "\u202e" not in t.log


def test_text_of_tokens_and_templates(model, at_terminal, tmp_path):
    ids = tmp_path / "ids.json"
    ids.write_bytes(infer("tokenize", "-m", model, "--no-bos", "--json",
                          stdin=TEXT.encode() + b"\xff").stdout)
    done = infer("detokenize", "-m", model, "-f", ids)
    assert done.stdout == TEXT.encode() + b"\xff"
    t = at_terminal("detokenize", "-m", model, "-f", ids)
    assert t.end() == 0 and SHOWN + "\ufffd" in t.log and "\u202e" not in t.log
    words = tmp_path / "words.json"
    words.write_text(json.dumps({"messages": [{"role": "user", "content": TEXT}]}))
    plain = tmp_path / "plain.jinja"
    plain.write_text("{{ messages[0].content }}")
    t = at_terminal("template", "--template", plain, "--input", words)
    assert t.end() == 0 and SHOWN in t.log and "\u202e" not in t.log


def test_names_in_files(template, at_terminal, tmp_path):
    metadata, tensors = gguf.read(ROOT / "tests" / "data" / "bigram.gguf")
    metadata["general.name"] = "\u202eeman\u2066"
    path = tmp_path / "name\udcff.gguf"  # a byte that is not UTF-8
    gguf.write(path, metadata, {name: np.asarray(t) for name, t in tensors.items()})
    t = at_terminal("chat", "-m", path, "--template", template)
    t.expect("Ctrl-D leaves")
    assert "\\u202eeman\\u2066" in t.log and "\u202e" not in t.log
    for command in ("info", "plan"):
        said = infer(command, "-m", path).stdout
        assert b"name\xef\xbf\xbd.gguf" in said and b"\xff" not in said
        assert b"\xe2\x80\xae" not in said


@pytest.mark.parametrize("variable", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_no_colors_where_none_are_wanted(model, at_terminal, tmp_path, variable):
    thinks = tmp_path / "thinks.jinja"
    thinks.write_text("{% for m in messages %}{{ m.content }}{% endfor %}<think>\n{# </think> #}")
    arguments = ["chat", "-m", model, "--template", thinks, "-n", 200, "--grammar",
                 'root ::= "hm</think>so"', "-p", "x", "-st"]
    t = at_terminal(*arguments)
    t.expect(STATISTICS)
    assert "\x1b[2mhm\x1b[0m" in t.log
    t = at_terminal(*arguments, environment=variable)
    t.expect(STATISTICS)
    assert "hm\r\nso" in t.log and "\x1b[2m" not in t.log and "\x1b[0m" not in t.log
    t = at_terminal("run", "-m", "/nonexistent", "-p", "x", environment=variable)
    assert t.end() == 3 and "infer: error:" in t.log and "\x1b" not in t.log
