"""The help, the manual pages, and that what was asked for goes to stdout."""

import os
import re
import shutil
import subprocess

import pytest

from program import INFER, fails, infer

PLAIN = {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def help_of(*arguments, **options):
    done = infer(*arguments, **options)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def commands():
    listed = help_of("--help").split("Commands:\n")[1].split("\n\n")[0]
    names = re.findall(r"^  (\S+)", listed, re.M)
    assert len(names) > 15
    return names


def test_every_way_to_the_same_help(commands):
    assert help_of("--help") == help_of("help") == help_of("-h")
    for command in commands:
        assert (help_of("help", command) == help_of(command, "--help") == help_of(command, "-h")
                == help_of(command, "x", "--help"))
    fails(2, "help", "rum", says="did you mean 'run'?")
    assert infer().returncode == 2 and infer().stdout == b""


def test_every_way_to_the_version():
    assert re.fullmatch(r"infer \d+\.\d+\.\d+\n", help_of("--version"))
    assert help_of("--version") == help_of("-V") == help_of("version")


def test_it_fits_the_screen(commands):
    for arguments in (["--help"], *([command, "--help"] for command in commands)):
        for columns, options in ((80, {"env": PLAIN}), (60, {"env": {**PLAIN, "COLUMNS": "60"}})):
            lines = help_of(*arguments, **options).splitlines()
            assert max(map(len, lines)) < columns, (arguments, columns)
        assert max(map(len, lines)) > 30
    assert max(map(len, help_of("run", "--help", env=PLAIN).splitlines())) > 60  # and uses it


def test_options_are_in_groups(commands):
    text = help_of("run", "--help")
    headings = re.findall(r"^(\w[\w ]+):$", text, re.M)
    assert headings == ["Arguments", "Options", "Model", "Sampling", "Constraint", "Speculation",
                        "Memory and devices", "Output", "Examples"]
    assert text.index("\nSampling:") < text.index("  --top-k K") < text.index("\nConstraint:")
    for command in commands:
        if command not in ("help", "version", "detokenize", "devices"):
            assert "\nExamples:\n  # " in help_of(command, "--help"), command


def test_names_are_as_they_are_typed():
    text = help_of("run", "--help")
    for name in ("-ngl", "-ctk", "-md", "-jf", "-ub"):
        assert re.search(rf"(^|[ ,]){name}\b", text), name
        assert f"-{name}," not in text


@pytest.mark.parametrize("command", ["infer --help", "infer run --help", "infer completion zsh",
                                     "infer info MODEL --tensors", "infer man run"])
def test_a_pipe_that_is_closed_is_no_failure(command):
    model = os.path.join(os.path.dirname(__file__), "../data/golden/llama-q4_0.gguf")
    command = command.replace("infer", f"'{INFER}'", 1).replace("MODEL", model)
    # The reader is gone before anything is written.
    done = subprocess.run(["bash", "-c", f"(sleep 0.3; {command}; echo $? >&2) | true"],
                          capture_output=True, timeout=60)
    assert done.stderr == b"0\n"


# Manual pages

def test_manual_pages(commands, tmp_path):
    help_of("man", "--folder", tmp_path)
    assert ({path.name for path in tmp_path.iterdir()}
            == {"infer.1", *(f"infer-{command}.1" for command in commands)})
    for path in tmp_path.iterdir():
        name = path.stem.replace("infer-", "")
        assert path.read_text() == help_of("man", *([name] if name != "infer" else []))
        if name == "infer":
            continue
        # All options of the help are in it.
        text = path.read_text().replace("\\-", "-")
        for option in re.findall(r"^  (-\S+?),? ", help_of(name, "--help"), re.M):
            assert f"\\fB{option}\\fR" in text, (name, option)
    fails(2, "man", "rum", says="rum")


def test_manual_pages_are_rendered_without_warnings(tmp_path):
    if shutil.which("groff") is None:
        pytest.skip("groff is absent")
    help_of("man", "--folder", tmp_path)
    for path in tmp_path.iterdir():
        done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-wall", path],
                              capture_output=True, timeout=60)
        assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    page = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout.decode())
    assert "SYNOPSIS" in page and "EXIT STATUS" in page
