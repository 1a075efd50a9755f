"""The program under test, and how the tests run it."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
INFER = os.environ.get("INFER_BIN", str(ROOT / "build" / "release" / "infer"))


def infer(*arguments, stdin=b"", timeout=120, **options):
    return subprocess.run([INFER, *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=timeout, **options)


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
