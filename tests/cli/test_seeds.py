"""infer run with several seeds: limits of the machine, Ctrl-C."""

import json
import resource
import signal
import subprocess
import time

from program import INFER, infer

SEEDS = ",".join(str(seed) for seed in range(1, 257))


def test_threads_that_cannot_start_are_a_failure_with_a_message(model):
    """With too little address space for a thread each, wherever it ends: no abort."""
    codes = set()
    for mib in (300, 600, 1000, 2000, 4000):
        limit = mib << 20
        done = infer("run", "-m", model, "-p", "abc", "-n", 2, "-c", 64, "-t", 1, "-s", SEEDS, "--json",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        assert done.returncode in (0, 1, 4), (mib, done.returncode, done.stderr.decode())
        if done.returncode != 0:
            last = done.stderr.decode().splitlines()[-1]
            assert last.startswith("infer: error: ") and len(last) > 30, last
            assert "std::" not in last and "bad_alloc" not in last
        codes.add(done.returncode)
    assert 1 in codes or 4 in codes


def test_texts_that_have_begun_end_when_another_cannot_start(model):
    """Where a thread fails to start the others do not go on to their ends."""
    failed = 0
    for mib in range(300, 1500, 100):
        limit = mib << 20
        done = infer("run", "-m", model, "-p", "abc", "-n", 1000000, "--ignore-eos", "-c", 64,
                     "--context-shift", "-t", 1, "-s", SEEDS, "-q", timeout=60,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        failed += b"cannot start a thread for seed" in done.stderr
        if failed == 2:
            return
    assert failed > 0


def test_the_first_ctrl_c_ends_a_prompt_of_several_seeds(tmp_path_factory):
    """The prompt takes long: it has to be given up, not computed to its end."""
    path = tmp_path_factory.mktemp("slow") / "slow.gguf"
    done = infer("synth", "custom", path, "--layers", 16, "--embedding", 512, "--feed-forward", 2048,
                 "--heads", 8, "--kv-heads", 1, "--tokens", 1000, "--context", 65536)
    assert done.returncode == 0, done.stderr.decode()
    prompt = "abc " * 4000
    arguments = ["run", "-m", path, "-f", "-", "-n", 1, "-t", 1, "--exact", "--json", "-c", 30000,
                 "-s", "1,2,3"]
    process = subprocess.Popen([INFER, *map(str, arguments)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(prompt.encode())
    process.stdin.close()
    time.sleep(3)
    assert process.poll() is None
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert time.monotonic() - start < 30
    assert process.stdout.read() == b""
    process.stdout.close()
    process.stderr.close()


def test_every_seed_gives_its_own_text(model):
    together = json.loads(infer("run", "-m", model, "-p", "abc", "-n", 5, "-s", "1,2,3",
                                "--json").stdout)
    alone = [json.loads(infer("run", "-m", model, "-p", "abc", "-n", 5, "-s", seed, "--json").stdout)
             for seed in (1, 2, 3)]
    assert [t["tokens"] for t in together] == [t["tokens"] for t in alone]
