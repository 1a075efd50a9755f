"""The progress bar: on a terminal only, only when it takes long, and gone at the end."""

import os
import pty
import re
import select
import subprocess
import time

import pytest

from hub_server import REPO
from program import INFER, infer

# Enough numbers to encode that no machine is done before a bar may show.
SLOW = ["custom", "--layers", "8", "--embedding", "768", "--feed-forward", "3072", "--heads", "8",
        "--tokens", "300", "--type", "q4_k"]


def synth(path, shape, *arguments, **environment):
    return on_terminal("synth", shape, path, *arguments, **environment)


def on_terminal(*arguments, **environment):
    """Runs with a terminal as stderr; what was written to it."""
    master, slave = pty.openpty()
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen([INFER, *arguments], stderr=slave, stdout=subprocess.PIPE,
                               env={**plain, "TERM": "xterm", **environment})
    os.close(slave)
    seen = b""
    while select.select([master], [], [], 120)[0]:
        try:
            part = os.read(master, 4096)
        except OSError:  # how Linux reports that the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(master)
    assert process.communicate(timeout=120)[0] == b"" or arguments[0] in ("bench", "pull")
    assert process.returncode == 0, seen
    return seen.decode()


def visible(text):
    """What the terminal shows in the end, a line each, colours left out."""
    for code in ("\033[32m", "\033[0m"):
        text = text.replace(code, "")
    assert "\033" not in text
    lines = [[]]
    column = 0
    for c in text:
        if c == "\n":
            lines.append([])
        elif c == "\r":
            column = 0
            continue
        else:
            lines[-1][column:column + 1] = [c]
            column += 1
            continue
        column = 0
    return ["".join(line).rstrip() for line in lines]


def test_a_bar_is_drawn_and_erased(tmp_path):
    path = tmp_path / "m.gguf"
    text = synth(path, *SLOW)
    assert "\rwriting [" in text and "\033[32m#" in text
    percents = [int(part.split("%")[0].split()[-1]) for part in text.split("\r") if "%" in part]
    assert len(percents) > 1 and percents == sorted(set(percents))
    assert visible(text) == [f"{path}: written", ""]


def test_no_color_has_no_control_sequences(tmp_path):
    text = synth(tmp_path / "m.gguf", *SLOW, NO_COLOR="1")
    assert "writing [#" in text and "\033" not in text


@pytest.mark.parametrize("arguments, environment", [
    (["--quiet"], {}),
    ([], {"TERM": "dumb"}),
])
def test_no_bar_where_none_is_wanted(arguments, environment, tmp_path):
    assert "writing" not in synth(tmp_path / "m.gguf", *SLOW, *arguments, **environment)


def test_no_bar_on_a_pipe(tmp_path):
    path = tmp_path / "m.gguf"
    start = time.monotonic()
    done = infer("synth", SLOW[0], path, *SLOW[1:])
    assert time.monotonic() - start > 0.3, "the model is too small for this test to mean anything"
    assert done.stderr.decode() == f"{path}: written\n"


def test_no_bar_for_what_is_quick(tmp_path):
    text = synth(tmp_path / "m.gguf", "custom", "--layers", "1", "--embedding", "64",
                 "--feed-forward", "64", "--heads", "2", "--tokens", "300")
    assert "[" not in text
    text = on_terminal("bench", "-m", tmp_path / "m.gguf", "-p", "4", "-n", "2", "-r", "1")
    assert text == ""


def test_a_download_says_how_much_came_and_how_fast(hub):
    hub.put("a.gguf", b"x" * 300_000)
    hub.piece, hub.pause = 20_000, 0.15
    shown = on_terminal("pull", REPO)
    assert re.search(r"\rdownloading \[\S*#.* %  [\d.]+ KiB of 292.97 KiB, [\d.]+ KiB/s, 0:00:0\d left",
                     shown), shown
    lines = [line.strip() for line in visible(shown)]
    assert [line for line in lines if line] == [f"{REPO}: downloading 292.97 KiB",
                                                f"{REPO}: downloaded"]
    hub.put("b-Q8_0.gguf", b"y" * 300_000)
    assert on_terminal("pull", REPO, "-q") == ""
