"""The completion scripts: what the shells make of them, and that nothing is missing."""

import os
import re
import shutil
import subprocess

import pytest

from program import fails, infer

SHELLS = ["bash", "zsh", "fish"]
FILES = ["model.gguf", "another model.gguf", "m*.gguf"]


def script(shell):
    done = infer("completion", shell)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.fixture(scope="module")
def commands():
    """Every command of the help with the long options of its own help."""
    def shown(*arguments):
        return infer(*arguments, "--help").stdout.decode()
    names = re.findall(r"^  (\w+) ", shown().split("Commands:")[1].split("\n\n")[0], re.M)
    assert len(names) > 5
    entries = {name: re.findall(r"^  -.*", shown(name).split("Options:")[1], re.M) for name in names}
    return {name: re.findall(r"--[\w-]+", "\n".join(re.split("  +", e.strip())[0] for e in lines))
            for name, lines in entries.items()}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_it(shell, tmp_path):
    path = tmp_path / "script"
    path.write_text(script(shell))
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is absent")
    done = subprocess.run([shell, "-n", path], capture_output=True, timeout=30)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_it(shell, commands):
    text = script(shell)
    for command, options in commands.items():
        assert re.search(rf"\b{command}\b", text), command
        for option in options:
            name = option[2:] if shell == "fish" else option
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", text), (command, option)


def test_an_unknown_shell():
    fails(2, "completion", "tcsh", says="bash")
    fails(2, "completion", says="shell")


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """What bash offers for the last word of a line."""
    if shutil.which("bash") is None:
        pytest.skip("bash is absent")
    folder = tmp_path_factory.mktemp("completion")
    (folder / "infer.bash").write_text(script("bash"))
    for name in FILES:
        (folder / name).write_bytes(b"")

    def ask(*words):
        query = ('source infer.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _infer; '
                 '[ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", query, "bash", "infer", *words], cwd=folder,
                              capture_output=True, timeout=30)
        assert done.stderr == b"", done.stderr.decode()
        return done.stdout.decode().splitlines()
    return ask


def test_bash_completes_commands(complete, commands):
    assert set(complete("")) >= set(commands) | {"--help", "--version"}
    assert complete("com") == ["completion"]
    assert complete("nothing") == []


def test_bash_completes_options(complete, commands):
    for command, options in commands.items():
        assert set(options) <= set(complete(command, "-")), command
    assert complete("run", "--repeat-l") == ["--repeat-last-n"]
    assert "-ctk" in complete("run", "-c") and "--temp" not in complete("plan", "--")


def test_bash_completes_values(complete):
    assert set(complete("run", "-m", "")) == {*FILES, "infer.bash"}
    assert complete("run", "-m", "m*") == ["m*.gguf"]
    assert complete("run", "--model", "mod") == ["model.gguf"]
    assert complete("run", "-m", "an") == ["another model.gguf"]
    assert "cpu" in complete("run", "-m", "model.gguf", "--device", "")
    for flag in ("-ctk", "--cache-type-k", "--cache-type-v"):
        assert complete("run", flag, "q") == ["q8_0", "q4_0"]
    assert complete("run", "-n", "") == []
    assert {"q4_k_m", "f16"} <= set(complete("synth", "--type", ""))
    assert complete("completion", "z") == ["zsh"]
    assert complete("help", "ru") == complete("man", "ru") == ["run"]


def test_bash_completes_positionals_in_their_order(complete):
    assert {"llama-24m", "custom"} <= set(complete("synth", ""))
    assert "model.gguf" in complete("synth", "llama-24m", "")
    # Neither an option nor its value is a positional.
    assert "custom" in complete("synth", "-q", "--seed", "1", "")
    assert "model.gguf" in complete("info", "--json", "")


def test_fish_completes(tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is absent")
    (tmp_path / "infer.fish").write_text(script("fish"))

    def ask(line):
        done = subprocess.run(["fish", "-c", f"source infer.fish; complete -C '{line}'"],
                              cwd=tmp_path, capture_output=True, timeout=30,
                              env={**os.environ, "HOME": str(tmp_path)})
        return [found.split("\t")[0] for found in done.stdout.decode().splitlines()]
    assert ask("infer com") == ["completion"]
    assert ask("infer --ver") == ["--version"]
    assert ask("infer run --repeat-l") == ["--repeat-last-n"]
    assert set(ask("infer run -ctk ")) == {"auto", "f32", "bf16", "f16", "q8_0", "q4_0"}
    assert ask("infer synth llama-2") == ["llama-24m"]
    assert ask("infer run -m inf") == ["infer.fish"]
