"""The program under test, and how the tests run it."""

import os
import pathlib
import subprocess
import termios

ROOT = pathlib.Path(__file__).resolve().parents[2]
INFER = os.environ.get("INFER_BIN", str(ROOT / "build" / "release" / "infer"))


def infer(*arguments, stdin=b"", timeout=120, **options):
    return subprocess.run([INFER, *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=timeout, **options)


def infer_typed(*arguments, lines, timeout=120):
    """The same with lines that were typed: stdin is a terminal, stdout and stderr are pipes."""
    keyboard, stdin = os.openpty()
    try:
        modes = termios.tcgetattr(stdin)
        modes[0] &= ~termios.ICRNL
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(stdin, termios.TCSANOW, modes)
        data = "".join(line + "\n" for line in lines).encode() + b"\x04"
        assert len(data) < 4096  # a terminal keeps no more
        os.write(keyboard, data)
        return subprocess.run([INFER, *map(str, arguments)], stdin=stdin, capture_output=True,
                              timeout=timeout)
    finally:
        os.close(keyboard)
        os.close(stdin)


def fails(code, *arguments, says="", **options):
    """Checks the exit code, that stdout is empty and that stderr ends with one line of error."""
    done = infer(*arguments, **options)
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert done.stdout == b""
    assert text.splitlines()[-1].startswith("infer: error: "), text
    assert "\033" not in text
    assert says in text, text
    return text
