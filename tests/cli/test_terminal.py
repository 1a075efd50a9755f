"""infer chat at a terminal: editing, Ctrl-C, Ctrl-D, what is typed ahead, and the end of it all."""

import fcntl
import os
import signal
import struct
import termios
import time
from random import Random

import pytest

from at_terminal import STATISTICS

END_OF_TEXT = 2
ENDLESS = ["-n", 10000000, "--temp", 1, "-s", 3, "--samplers", "temperature", "--context-shift",
           "--logit-bias", f"{END_OF_TEXT}-inf"]


def test_lines_are_edited_and_remembered(terminal, tmp_path):
    t = terminal()
    t.expect("/help lists the commands")
    t.expect("> ")
    t.send("Hello\n")
    t.expect(STATISTICS)
    t.expect_prompt()
    t.send("\x1b[A")  # the line before
    t.expect("Hello")
    t.send("\n")
    t.expect(STATISTICS)
    t.expect_prompt()
    t.send("a\x7fHé \\\n")
    t.expect(r"\.\.\. ")
    t.send("there\n")
    t.expect(STATISTICS)
    t.send("/history\n")
    t.expect(r"user: Hé \s+there")
    t.send("/edit\n")
    t.expect(r"edit> Hé\s+there")
    t.send("\x15Changed\n")
    t.expect(STATISTICS)
    t.send("/history\n")
    t.expect(r"user: Changed\r")
    t.send("/nonsense\n")
    t.expect("unknown command")
    t.send("\x04")
    assert t.end() == 0
    history = tmp_path / ".local" / "state" / "infer" / "history"
    assert "Hello" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("variable", [None, "XDG_STATE_HOME"])
def test_an_older_history_is_moved(terminal, tmp_path, variable):
    state = tmp_path / "state" if variable else tmp_path / ".local" / "state"
    old = state / "infer_history" if variable else tmp_path / ".infer_history"
    old.parent.mkdir(exist_ok=True)
    old.write_text("_HiStOrY_V2_\nEarlier\n")
    old.chmod(0o644)
    t = terminal(environment={variable: str(state)} if variable else None)
    t.expect("> ")
    t.send("\x1b[A")
    t.expect("Earlier")
    t.send("\x15\x04")
    assert t.end() == 0
    history = state / "infer" / "history"
    assert not old.exists() and history.stat().st_mode & 0o777 == 0o600


def test_no_history_is_kept_where_none_is_wanted(terminal, tmp_path):
    t = terminal("-n", 6, "--temp", 0, "--no-history")
    t.expect("> ")
    t.send("Hello\n")
    t.expect(STATISTICS)
    t.send("\x1b[A")  # but within the program
    t.expect("Hello")
    t.send("\x15\x04")
    assert t.end() == 0
    assert not [p.name for p in tmp_path.rglob("*history*")]


def test_ctrl_c_on_an_empty_line_says_how_to_leave(terminal):
    t = terminal()
    t.expect_prompt()
    t.send("\x03")
    t.expect(r"\^C\r\n[^\r]*Ctrl-D")
    t.expect_prompt()
    t.send("something\x03")
    t.expect(r"\^C")
    t.send("/bye\n")
    assert t.end() == 0
    assert t.log.count("leaves") == 2  # and in the first line


def test_ctrl_c_gives_up_a_line(terminal):
    t = terminal()
    t.expect("> ")
    t.send("given up\x03Kept\n")
    t.expect(r"\^C")
    t.expect("> Kept")
    t.expect(STATISTICS)
    t.send("first \\\n")
    t.expect(r"\.\.\. ")
    t.send("second\x03")
    t.expect(r"\^C")
    t.send("/edit\n")
    t.expect("edit> Kept")
    t.send(" not\x03/history\n")
    t.expect(r"\^C")
    assert "given up" not in t.expect(r"(user: [^\r]*\s+)+assistant")[0]
    t.send("\x04")
    assert t.end() == 0


def test_a_full_context_is_left_again(terminal):
    """The message without an answer is taken back, and what went before is as it was."""
    t = terminal("-n", 6, "--temp", 0, "-c", 128)
    t.expect("> ")
    t.send("Hello\n")
    t.expect(STATISTICS)
    for command, says in [("Given back ", r"the context is full[^\r]*/undo[^\r]*--context-shift"),
                          ("/edit ", r"the message is too long[^\r]*shorter")]:
        t.send(command + "word " * 200 + "\n")
        t.expect(r"error:\S* " + says)
        t.send("/history\n")
        assert t.expect(r"(?s)user: .*?assistant: .*?> ")[0].count("user: ") == 1
    t.send("/regenerate\n")
    t.expect(STATISTICS)
    t.send("/exit\n")
    t.end()


def test_an_answer_that_failed_leaves_no_trace(terminal):
    """What the session gave up for it is computed again."""
    used = []
    for failing in ([], ["/edit " + "word " * 400]):
        t = terminal("-n", 0, "-c", 512)  # the text of tokens might have others
        for line in ["Hello", "How are you?", *failing, "And then?"]:
            t.expect("> ")
            t.send(line + "\n")
            t.expect("too long|is full" if line in failing else STATISTICS)
        t.send("/stats\n")
        used.append(t.expect(r"context (\d+) of 512")[1])
    assert used[0] == used[1]


def test_a_signal_counts_wherever_it_comes(terminal):
    t = terminal()
    t.expect("> ")
    for _ in range(200):
        os.kill(t.pid, signal.SIGINT)
        t.expect(r"\^C")  # and the next may come before its line is read
    t.send("Hello\n")
    t.expect(STATISTICS)
    t.send("/exit\n")
    assert t.end() == 0


@pytest.mark.parametrize("by_key", [True, False])
def test_ctrl_c_ends_each_answer_and_not_the_program(terminal, by_key):
    t = terminal(*ENDLESS)
    t.expect("> ")
    for _ in range(3):
        t.send("Tell me\n")
        t.expect(r"Tell me\s+\S")
        t.expect(r"\S[^\r\n]{200}")  # it goes on
        if by_key:
            t.send("\x03")
        else:
            os.kill(t.pid, signal.SIGINT)
        t.expect(r"\[\d{2,} tokens at [^\r]*; stopped\]")
        t.expect("> ")
    t.send("/exit\n")
    assert t.end() == 0


def test_what_is_typed_during_an_answer_follows_it(terminal):
    t = terminal(*ENDLESS)
    t.expect("> ")
    t.send("Tell me\n")
    t.expect(r"Tell me\s+\S")
    t.send("/history\n/set -n 4\nAnd é\x7fthen\nun")
    t.send("\x03")
    t.expect("; stopped")
    t.expect("user: Tell me")
    t.expect(r"\[4 tokens at")
    t.expect("> un")
    t.send("\x7f\x7f/history\n")
    t.expect("user: And then\r")
    t.send("More\n\x04")
    t.expect(r"\[4 tokens at")
    assert t.end() == 0


@pytest.mark.parametrize("typed", ["/exit\n", "\x04", "Hi\n\x04", "\x03\x04"])
def test_what_is_typed_before_the_first_prompt(terminal, typed):
    t = terminal()
    if typed.startswith("\x03"):  # before that it ends the program
        t.expect("/help lists the commands")
    t.send(typed)
    if "Hi" in typed:
        t.expect(STATISTICS)
    assert t.end() == 0


def test_the_window_may_change_its_size(terminal):
    t = terminal()
    t.expect_prompt()
    for columns in (30, 120, 7):
        t.send("Hel")
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.kill(t.pid, signal.SIGWINCH)
        t.send("lo ")
    t.send("\n")
    t.expect(STATISTICS)
    t.send("/history\n")
    t.expect(r"user:\s+(Hello\s*){3}")
    t.send("\x04")
    assert t.end() == 0


def test_the_window_may_be_tiny(terminal):
    """As narrow as one column, with wide characters, while a line is edited."""
    t = terminal()
    t.expect_prompt()
    random = Random(1)
    for _ in range(200):
        size = random.choice([1, 2, 24]), random.choice([1, 2, 3, 5, 7, 30, 80])
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        t.send(random.choice(["Hel", "abc def ghi jkl mno", "\x1b[D", "\x1b[A", "\x7f", "é中"]))
        time.sleep(0.002)
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    t.send("\x15/stats\n")
    t.expect("memory")
    t.send("\x04")
    assert t.end() == 0


@pytest.mark.parametrize("ignored", [[], [signal.SIGHUP]])
@pytest.mark.parametrize("answering", [False, True])
def test_a_terminal_that_is_closed_ends_it(terminal, ignored, answering):
    t = terminal(*ENDLESS, ignored=ignored)
    t.expect("> ")
    if answering:
        t.send("Tell me\n")
        t.expect(r"Tell me\s+\S")
    else:
        t.send("begun")
        t.expect("begun")
    t.close()
    code = t.wait(time.monotonic() + 60)
    assert code in ((0, 1) if ignored else (128 + signal.SIGHUP,))


@pytest.mark.parametrize("how, code", [
    ("exit", 0), (signal.SIGTERM, 143), (signal.SIGQUIT, -signal.SIGQUIT)])
def test_the_terminal_is_left_as_it_was(terminal, how, code):
    t = terminal(*ENDLESS)
    t.expect_prompt()
    assert t.modes() != t.modes_before
    if how == "exit":
        t.send("/exit\n")
    else:
        os.kill(t.pid, how)
    assert t.end() == code
    assert t.modes() == t.modes_before
    assert "\x1b[?2004h" in t.log and t.log.endswith("\x1b[?2004l")


def test_it_can_be_stopped_and_go_on(terminal):
    t = terminal(*ENDLESS, stoppable=True)
    t.expect_prompt()
    t.send("Hel\x1a")
    t.expect("stopped, lines")
    t.expect("Hel")  # keys and the signal have no order between them
    t.send("lo\n")
    t.expect(r"lo\s+\S")
    t.send("\x1a")
    t.expect("stopped, lines")
    t.expect(r"\S[^\r\n]{200}")
    t.send("/set -n 4\n/history\n\x03")
    t.expect("user: Hello")
    t.send("\x04")
    assert t.end() == 0
