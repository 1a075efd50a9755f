"""SIGTERM and SIGHUP end work as Ctrl-C does; files that are not finished do not stay."""

import json
import resource
import signal
import subprocess
import time

import pytest

from program import INFER, ROOT, fails, infer

DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
CODES = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]


def start(*arguments, **options):
    return subprocess.Popen([INFER, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.gguf"
    done = infer("synth", "custom", path, "--type", "f32", "--layers", 4, "--embedding", 1024,
                 "--feed-forward", 2048, "--heads", 4, "--kv-heads", 2, "--tokens", 8000)
    assert done.returncode == 0
    return path


@pytest.mark.parametrize("number, code", CODES)
def test_a_text_that_is_ended_is_printed(number, code):
    arguments = ["run", "-m", DEMO, "-p", "Once upon a time", "--ignore-eos", "--context-shift",
                 "--json", "-q", "-n"]
    begun = time.monotonic()
    assert infer(*arguments, 1).returncode == 0
    process = start(*arguments, 10000000)
    time.sleep(1 + 3 * (time.monotonic() - begun))  # it is loaded by then
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    report = json.loads(out)
    assert report["finish_reason"] == "cancelled" and report["tokens"]


@pytest.mark.parametrize("number, code", CODES)
@pytest.mark.parametrize("command", ["quantize", "eval"])
def test_an_output_that_is_not_finished_does_not_stay(command, number, code, large, tmp_path):
    out = tmp_path / "out"
    process = start(*(["quantize", large, out, "IQ3_S"] if command == "quantize" else
                      ["eval", "-m", large, "--tokens", ",".join(["1"] * 2000), "--logits", out,
                       "-t", 1]))
    while not any(tmp_path.iterdir()):  # until it writes
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert not any(tmp_path.iterdir())


def test_a_conversation_in_a_pipe_is_ended():
    process = start("chat", "-m", DEMO, "--json", "-n", 100000, "--context-shift",
                    stdin=subprocess.PIPE)
    process.stdin.write(b"Tell me a story\n" * 100)
    process.stdin.flush()
    assert process.stdout.readline() != b""
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    for line in out.splitlines():
        json.loads(line)


def test_before_and_after_work_it_ends_at_once():
    process = start("tokenize", "-m", DEMO, stdin=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    process.communicate()


def test_a_hangup_that_is_ignored_stays_so():
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = start("tokenize", "-m", DEMO, stdin=subprocess.PIPE, preexec_fn=ignore)
    time.sleep(0.5)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert process.communicate(b"Hello", timeout=30)[0] != b""
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["quantize", "synth", "eval"])
def test_a_limit_on_the_size_of_files_is_a_failure_to_write(command, large, tmp_path):
    out = tmp_path / "out"
    arguments = {"quantize": ["quantize", large, out, "Q8_0"],
                 "synth": ["synth", "custom", out, "--layers", 2, "--embedding", 1024,
                           "--feed-forward", 2048, "--heads", 4, "--tokens", 8000],
                 "eval": ["eval", "-m", large, "--tokens", ",".join(["1"] * 80), "--logits", out]}

    def limit():  # the signal does what it does by default, which is to kill
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    fails(1, *arguments[command], says=str(out), preexec_fn=limit)
    assert not any(tmp_path.iterdir())
