"""infer chat at a terminal: keys that are no characters, pastes, and messages of several lines."""

import json

import pytest

from at_terminal import STATISTICS
from program import infer, infer_typed


def said(t, tmp_path):
    """What the person said so far."""
    saved = tmp_path / "saved.json"
    t.send(f"/save {saved}\n/stats\n")
    t.expect("memory: weights")
    return [m["content"] for m in json.loads(saved.read_text())["messages"] if m["role"] == "user"]


@pytest.mark.parametrize("keys, text", [
    ("\x1b[1;5D\x1b[1;5DX", "one Xtwo three"),       # Ctrl-Left
    ("\x1b[1;3D\x1b[1;6DX", "one Xtwo three"),       # Alt, and Ctrl with Shift
    ("\x1bOd\x1bOdX", "one Xtwo three"),             # Ctrl-Left of rxvt
    ("\x1b[H\x1b[1;5CX", "oneX two three"),          # Home, Ctrl-Right
    ("\x1b[1;2HX\x1b[1;2FY", "Xone two threeY"),     # with Shift
    ("\x1b[1~X\x1b[4~Y", "Xone two threeY"),         # Home and End of Linux' console
    ("\x1bOHX\x1bOFY", "Xone two threeY"),           # in application mode
    ("\x1b[H\x1b[3~X", "Xne two three"),             # Delete
    ("\x1b[H\x1b[3;5~X", "X two three"),             # Ctrl-Delete
    ("\x1b[1;2DX", "one two threXe"),                # Shift-Left
])
def test_keys_move_and_delete(terminal, tmp_path, keys, text):
    t = terminal("-n", 2, "--temp", 0)
    t.expect("> ")
    t.send("one two three" + keys + "\n")
    t.expect(STATISTICS)
    assert said(t, tmp_path) == [text]


def test_unknown_keys_type_nothing(terminal, tmp_path):
    t = terminal("-n", 2, "--temp", 0)
    t.expect("> ")
    unknown = ["[15~", "[1;5P", "[[A", "OP", "[24;5~", "[2~", "[5~", "[6;3~", "[27;5;9~", "[97;5u",
               "[Z", "[I", "[?2004;1$y", "[38;5;" + "1;" * 200 + "m"]
    t.send("a" + "".join(f"\x1b{key}b" for key in unknown) + "\x1b[1\x01c\n")
    t.expect(STATISTICS)
    assert said(t, tmp_path) == ["ca" + "b" * len(unknown)]


def test_a_paste_is_one_message(terminal, tmp_path):
    t = terminal("-n", 2, "--temp", 0)
    t.expect("\x1b\\[\\?2004h")
    t.expect("> ")
    t.send("See: \x1b[200~def f():\r\tif x:\r    return 'é\\\\'\r\r/exit \\\x1b[201~")
    t.expect(r"(?s)See: .*def f\(\):\r\n +if x:\r\n    return 'é\\\\'\r\n\r\n/exit")
    t.send(" now\n")
    t.expect(STATISTICS)
    t.send("\x1b[200~/a line\rmore\\\x1b[201~\x01\x1b[3~\n")  # it ends with a backslash
    t.expect(STATISTICS)
    t.send("\x1b[200~/exit\rplease\x1b[201~\n")  # no command
    t.expect(STATISTICS)
    assert said(t, tmp_path) == ["See: def f():\n\tif x:\n    return 'é\\\\'\n\n/exit \\ now",
                                 "a line\nmore\\", "/exit\nplease"]
    t.send("/exit\n")
    assert t.end() == 0 and t.log.endswith("\x1b[?2004l")


def test_a_paste_during_an_answer_is_the_next_message(terminal, tmp_path):
    t = terminal("-n", 100000, "--temp", 1, "--context-shift", "--logit-bias", "2-inf")
    t.expect("> ")
    t.send("Hello\n")
    t.expect(r"\S[^\r\n]{200}")
    t.send("\x1b[200~one\rtwo\x1b[201~\n/set -n 2\n\x03")
    t.expect("; stopped")
    t.expect(r"> one\r\ntwo")
    t.expect(r"\S[^\r\n]{200}")
    t.send("\x03")
    t.expect("; stopped")
    assert said(t, tmp_path) == ["Hello", "one\ntwo"]


def test_a_large_paste_and_broken_bytes(terminal, tmp_path):
    t = terminal("-n", 2, "--temp", 0, "-c", 16384)
    t.expect("> ")
    lines = [f"line {i} of a long text" for i in range(300)]
    t.send("\x1b[200~" + "\r".join(lines) + "\x1b[201~")
    t.expect("line 299 of a long text")
    t.send("\n")
    t.expect(STATISTICS)
    t.send(b"\x1b[200~a\xffb\xc3\x1b[201~\n")
    t.expect(STATISTICS)
    assert said(t, tmp_path) == ["\n".join(lines), "a\ufffdb\ufffd"]


def test_characters_that_come_at_once_are_put_in_at_once(terminal, tmp_path):
    t = terminal("-n", 2, "--temp", 0, "-c", 32768)
    t.expect("> ")
    text = "wörd 中 " * 2500  # typed, not marked as a paste
    t.send("ab\x1b[D")
    t.expect("ab\x08")
    begin = len(t.log)
    t.send(text)
    t.send("\x01>\x05<\n")
    t.expect(STATISTICS)
    # For each character the line's rest would be drawn: several times as much.
    assert len(t.log) - begin < 3 * len(text)
    assert said(t, tmp_path) == [f">a{text}b<"]


def test_keys_that_read_characters_get_them(terminal, tmp_path):
    t = terminal("-n", 2, "--temp", 0)
    t.expect("> ")
    t.send("first one\n")
    t.expect(STATISTICS)
    t.send("x\x1b[D\x16\x01\x1b3yz\n")  # Ctrl-V: as it is; Alt-3: thrice
    t.expect(STATISTICS)
    t.send("\x12first\x05 more\n")  # Ctrl-R: searches
    t.expect(STATISTICS)
    assert said(t, tmp_path) == ["first one", "\x01yyyzx", "first one more"]


def test_messages_between_quotes(terminal, tmp_path):
    t = terminal("-n", 2, "--temp", 0)
    t.expect("> ")
    t.send('"""\nfirst \\\n\n/exit\n"""\n')
    t.expect(r"\.\.\. ")
    t.expect(STATISTICS)
    t.send('"""given\nup')
    t.expect(r"\.\.\. up")
    t.send("\x03")
    t.expect(r"\^C")
    t.send('"""/one""" \n')
    t.expect(STATISTICS)
    t.send("\x1b[A\n")
    t.expect(STATISTICS)
    assert said(t, tmp_path) == ["first \\\n\n/exit", "/one", "/one"]


def test_messages_between_quotes_without_the_editor(model, template, tmp_path):
    arguments = ["chat", "-m", model, "--template", template, "-n", 2, "--temp", 0]

    def saved(text, code=0):
        path = tmp_path / "saved.json"
        path.unlink(missing_ok=True)
        lines = text.removesuffix("\n").split("\n")
        done = infer_typed(*arguments, lines=lines + ([] if code else [f"/save {path}"]))
        assert done.returncode == code, done.stderr.decode()
        if code:
            return done.stderr.decode()
        return [m["content"] for m in json.loads(path.read_text())["messages"]
                if m["role"] == "user"]

    text = '"""a\r\n/exit\n\nb"""\n"""/one line"""\n"""\nc\n"""\n"""No""" quotation\n'
    done = infer(*arguments, "--json", stdin=text.encode())
    assert done.returncode == 0 and done.stdout.count(b'"event":"end"') == 4
    assert saved(text) == ["a\n/exit\n\nb", "/one line", "c", '"""No""" quotation']
    assert '"""' in saved('"""a\nb\n', code=1)


@pytest.mark.parametrize("how", ["dumb", "vi"])
def test_terminals_that_mark_no_pastes(terminal, tmp_path, how):
    (tmp_path / ".editrc").write_text("bind -v\n" if how == "vi" else "")
    t = terminal("-n", 2, "--temp", 0, environment={"TERM": "dumb"} if how == "dumb" else None)
    t.expect("> ")
    t.send("Hello\x1b" + ("0iX" if how == "vi" else "bX") + "\n")
    t.expect(STATISTICS)
    assert said(t, tmp_path) == ["XHello"]
    t.send("/exit\n")
    t.end()
    assert "\x1b[?2004" not in t.log
    if how == "dumb":
        assert "\x1b" not in t.log
