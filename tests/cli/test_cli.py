"""Drives the program from outside: exit codes, what goes to stdout, JSON, signals, closed pipes."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import time

import pytest

from program import INFER, ROOT, fails, infer

MODEL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"
COMMANDS = ["run", "chat", "eval", "perplexity", "info", "devices", "plan", "bench", "tokenize",
            "detokenize", "template", "selftest", "convert", "synth", "completion"]


@pytest.fixture(scope="session")
def talking_model(tmp_path_factory):
    """A model with a vocabulary: text can go in and come out. Long enough to be interrupted."""
    path = tmp_path_factory.mktemp("model") / "synth.gguf"
    done = infer("synth", "custom", path, "--layers", 2, "--embedding", 64, "--feed-forward", 96,
                 "--heads", 4, "--kv-heads", 2, "--tokens", 1000, "--context", 4096)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    return path


def golden(name):
    return ROOT / "tests" / "data" / "golden" / name


# Usage

def test_help_lists_every_command():
    text = infer("--help").stdout.decode()
    for command in COMMANDS:
        assert f"  {command} " in text, command


@pytest.mark.parametrize("arguments, says", [
    ([], "no command"),
    (["rum"], "did you mean 'run'?"),
    (["qqqqqqqqq"], "--help"),
    (["--nonsense"], "--help"),
    (["run", "--nonsense"], "infer run --help"),
    (["run"], "no prompt"),
    (["eval", "--tokens", "1", "--logits", "x"], "-m"),
    (["info"], "-m"),
    (["plan"], "-m"),
    (["bench"], "-m"),
    (["tokenize"], "-m"),
    (["detokenize"], "-m"),
    (["run", "-m", "x", "-n", "many", "-p", "a"], "many"),
    (["run", "-m", "x", "-p", "a", "-f", "b"], "excludes"),
    (["run", "-m", "x", "-p", "a", "--top-p", "1.5"], "1.5"),
    (["run", "-m", "x", "-p", "a", "-ctk", "q9"], "q9"),
    (["run", "-m", "x", "-p", "a", "--seed", "abc"], "abc"),
    (["run", "-m", "x", "-p", "a", "--temp", "nan"], "--temp"),
    (["run", "-m", "x", "-p", "a", "--top-p", "nan"], "--top-p"),
    (["run", "-m", "x", "-p", "a", "--typical", "-0.1"], "--typical"),
    (["run", "-m", "x", "-p", "a", "--repeat-penalty", "0"], "--repeat-penalty"),
    (["run", "-m", "x", "-p", "a", "--repeat-last-n", "-2"], "--repeat-last-n"),
    (["run", "-m", "x", "-p", "a", "--presence-penalty", "inf"], "--presence-penalty"),
    (["run", "-m", "x", "-p", "a", "--frequency-penalty", "much"], "much"),
    *((["run", "-m", "x", "-p", "a", "--logit-bias", bias], f"'{bias}'") for bias in
      ("5", "5+", "-5+1", "+1", "5*1", "5+-1", "5+inf", "5-nan", "5+1x", "99999999999+1")),
    (["plan", "-m", "x", "--memory", "8Q"], "8Q"),
    (["plan", "-m", "x", "-t", "-3"], "-t: expected"),
    (["synth", "no-such-shape", "x"], "no-such-shape"),
    (["synth", "custom", "x"], "custom"),
    (["synth", "llama-24m", "x", "--type", "q99"], "q99"),
    (["selftest", "--op", "nonsense"], "matmul"),
    (["selftest", "--isa", "abacus"], "abacus"),
])
def test_usage_errors(arguments, says):
    fails(2, *arguments, says=says)


# Files, devices, memory

def test_a_model_that_is_not_there():
    for arguments in (["info", "/nonexistent.gguf"], ["run", "-m", "/nonexistent.gguf", "-p", "a"],
                      ["plan", "-m", "/nonexistent.gguf"], ["bench", "-m", "/nonexistent.gguf"],
                      ["tokenize", "-m", "/nonexistent.gguf"]):
        fails(3, *arguments, says="/nonexistent.gguf")


def test_models_that_are_none(tmp_path):
    whole = MODEL.read_bytes()
    for name, content in {"empty": b"", "text": b"hello " * 100, "magic": b"GGUF",
                          "cut": whole[:1000], "short": whole[:-1000]}.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(content)
        fails(3, "eval", "-m", path, "--tokens", "1", "--logits", tmp_path / "out", says=name)
    fails(3, "info", tmp_path)
    assert not (tmp_path / "out").exists()


def test_input_files(tmp_path):
    fails(3, "run", "-m", MODEL, "-f", tmp_path / "absent", says="absent")
    bad = tmp_path / "bad"
    bad.write_text('{"tokens": ["one"]}')
    fails(3, "eval", "-m", MODEL, "--tokens-file", bad, "--logits", tmp_path / "out", says="bad")


def test_an_unknown_device():
    fails(5, "run", "-m", MODEL, "-p", "a", "--device", "abacus", says="cpu")
    fails(5, "selftest", "--device", "abacus", says="cpu")


def test_layers_without_a_gpu(tmp_path):
    done = infer("eval", "-m", MODEL, "--tokens", "1,2", "--logits", tmp_path / "out", "-ngl", 3)
    assert done.returncode == 0
    assert b"-ngl 3 has no effect without a GPU" in done.stderr
    fails(2, "plan", "-m", MODEL, "-ngl", "-1")
    fails(2, "plan", "-m", MODEL, "--fallback", "abacus")
    fails(5, "plan", "-m", MODEL, "--device", "abacus", "--fallback", "cpu", says="abacus")


def vulkan():
    names = [d["name"] for d in json.loads(infer("devices", "--json").stdout)]
    if "vulkan:0" not in names:
        pytest.skip("no Vulkan device")


def test_devices_tell_their_limits():
    vulkan()
    device = json.loads(infer("devices", "--json").stdout)[1]
    assert device["limits"]["largest_allocation_bytes"] > 0 and device["limits"]["subgroup"] > 0
    assert device["unusable"] == ""
    assert b"largest allocation" in infer("devices").stdout


@pytest.mark.parametrize("missing", ["loader", "driver"])
def test_without_vulkan(tmp_path, missing):
    vulkan()
    environment = dict(os.environ)
    if missing == "loader":  # what is found under its name is none
        for name in ("libvulkan.so.1", "libvulkan.so"):
            (tmp_path / name).write_bytes(b"")
        environment["LD_LIBRARY_PATH"] = str(tmp_path)
    else:
        environment["VK_ICD_FILENAMES"] = environment["VK_DRIVER_FILES"] = str(tmp_path / "none")
    says = b"libvulkan.so.1 was not found" if missing == "loader" else b"vulkan"

    def run(*arguments):
        return subprocess.run([INFER, *map(str, arguments)], capture_output=True, timeout=60,
                              env=environment)

    done = run("devices", "--json")
    assert done.returncode == 0
    assert [d["name"] for d in json.loads(done.stdout)] == ["cpu"]
    assert says in done.stderr
    tokens = ("eval", "-m", MODEL, "--tokens", "1,2", "--logits", tmp_path / "out")
    done = run(*tokens, "--device", "vulkan")
    assert done.returncode == 5 and b"vulkan" in done.stderr
    done = run(*tokens, "--device", "vulkan", "--fallback", "cpu")
    assert done.returncode == 0 and says in done.stderr
    assert (tmp_path / "out").stat().st_size > 0


def test_layers_on_a_gpu():
    vulkan()
    model = ROOT / "tests" / "data" / "golden" / "olmo3-f32.gguf"
    plan = json.loads(infer("plan", "-m", model, "--device", "vulkan", "-ngl", 2, "--json").stdout)
    assert plan["gpu_layers"] == 2 and plan["layers"] == 4
    assert [d["device"] for d in plan["devices"]] == ["cpu", "vulkan:0"]
    assert plan["devices"][1]["computes"] == "layer 3, output"
    for purpose in ("weights", "kv", "activations", "scratch"):
        assert plan[purpose] == sum(d[purpose] for d in plan["devices"])
    table = infer("plan", "-m", model, "--device", "vulkan:0,vulkan:0").stdout.decode()
    assert "5 of 5 layers" in table
    fails(5, "plan", "-m", model, "--device", "vulkan:0,abacus", says="abacus")


def test_a_fallback_to_the_cpu(tmp_path):
    model = golden("olmo3-f32").with_suffix(".gguf")
    logits = tmp_path / "out.f32"
    done = infer("eval", "-m", model, "--tokens", "1,2", "--logits", logits, "--device", "vulkan:99",
                 "--fallback", "cpu")
    assert done.returncode == 0, done.stderr.decode()
    assert b"continuing on the CPU" in done.stderr
    assert logits.stat().st_size > 0


def test_what_does_not_fit():
    fails(4, "plan", "-m", MODEL, "--memory", "10K")
    fails(4, "plan", "-m", MODEL, "-c", str(1 << 40))


# Reports

def test_reports_go_to_stdout():
    for arguments in (["info", MODEL], ["info", "-m", MODEL, "--tensors"], ["devices"],
                      ["plan", "-m", MODEL], ["selftest", "--op", "add", "-t", 1],
                      ["bench", "-m", MODEL, "-p", 8, "-n", 2, "-r", 1, "-t", 1]):
        done = infer(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        assert len(done.stdout.splitlines()) > (0 if arguments[0] == "selftest" else 1)
        assert not set(done.stdout.splitlines()) & set(done.stderr.splitlines())


def test_json_reports():
    info = json.loads(infer("info", MODEL, "--json").stdout)
    assert info["architecture"] == "llama"
    assert info["tensors"][0]["shape"]
    assert info["weight_bytes"] == sum(t["bytes"] for t in info["tensors"])
    devices = json.loads(infer("devices", "--json").stdout)
    assert "cpu" in [d["name"] for d in devices]
    plan = json.loads(infer("plan", "-m", MODEL, "-c", 128, "--json").stdout)
    assert plan["context"] >= 128
    assert plan["total"] == sum(plan[k] for k in ("weights", "kv", "activations", "scratch",
                                                  "host", "process"))


def test_bench_json():
    done = infer("bench", "-m", MODEL, "-p", 8, "-n", 4, "-r", 2, "-t", 2, "--json")
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    assert report["device"] == "cpu" and report["threads"] == 2
    assert report["weights_bytes"] > 0
    for key in ("read_bandwidth_gb_s", "int8_mac_g_s"):
        assert report[key] >= 0
    for phase, tokens in (("prefill", 8), ("decode", 4)):
        assert report[phase]["tokens"] == tokens
        assert report[phase]["tokens_per_s"] > 0
        assert report[phase]["spread"] >= 0
        assert 0 <= report[phase]["fraction"]


def test_selftest_of_one_operation():
    report = json.loads(infer("selftest", "--op", "add", "-t", 2, "--json").stdout)
    assert report["failed"] == 0 and report["passed"] > 0


# eval

def read_logits(path):
    data = pathlib.Path(path).read_bytes()
    return struct.unpack(f"<{len(data) // 4}f", data)


def nmse(x, ref):
    return sum((a - b) ** 2 for a, b in zip(x, ref, strict=True)) / sum(b * b for b in ref)


@pytest.mark.parametrize("name, limit", [("llama-q4_0", 1e-9), ("llama-f32", 1e-9)])
def test_eval_against_golden_logits(name, limit, tmp_path):
    base = golden(name)
    tokens = json.loads(base.with_suffix(".json").read_text())["tokens"]
    reference = read_logits(base.with_suffix(".f32"))
    listed = tmp_path / "tokens"
    listed.write_text(json.dumps({"tokens": tokens}))
    outputs = []
    for number, arguments in enumerate((["--tokens", ",".join(map(str, tokens))],
                                        ["--tokens-file", listed, "--chunk", 3],
                                        ["--tokens-file", listed, "-ub", 1])):
        out = tmp_path / f"{number}.f32"
        done = infer("eval", "-m", base.with_suffix(".gguf"), "--exact", "--logits", out,
                     *arguments)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == b""
        outputs.append(out.read_bytes())
        assert nmse(read_logits(out), reference) < limit
    assert outputs[0] == outputs[1] == outputs[2]


def test_eval_refuses_tokens_out_of_range(tmp_path):
    out = tmp_path / "out"
    for tokens in ("1,100000", "-1", "99999999999", "1,x", ""):
        fails(2, "eval", "-m", MODEL, "--tokens", tokens, "--logits", out)
    assert not out.exists()


def test_eval_that_cannot_write():
    fails(1, "eval", "-m", MODEL, "--tokens", "1", "--logits", "/nonexistent/out")
    if os.path.exists("/dev/full"):
        fails(1, "eval", "-m", MODEL, "--tokens", "1,2", "--logits", "/dev/full")


# Text

def test_tokens_and_back(talking_model, tmp_path):
    text = "abc hello, wörld \n\t tail \0 end".encode()
    source = tmp_path / "text"
    source.write_bytes(text)
    lines = infer("tokenize", "-m", talking_model, "-f", source).stdout.decode().split("\n")
    tokens = json.loads(infer("tokenize", "-m", talking_model, "--json", stdin=text).stdout)
    plain = json.loads(infer("tokenize", "-m", talking_model, "--json", "--no-bos",
                             stdin=text).stdout)
    assert lines[-1] == "" and [int(x) for x in lines[:-1]] == tokens
    assert tokens[0] == 1 and plain == tokens[1:]
    for ids in (json.dumps(plain), " ".join(map(str, plain)), ",\n".join(map(str, plain))):
        done = infer("detokenize", "-m", talking_model, stdin=ids.encode())
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.lstrip(b" ") == text


def test_special_tokens_can_be_plain_text(talking_model):
    def ids(*flags):
        return json.loads(infer("tokenize", "-m", talking_model, "--json", "--no-bos", *flags,
                                stdin=b"</s>").stdout)
    assert ids() == [2]
    assert 2 not in ids("--no-special")


def test_detokenize_refuses_what_is_no_token(talking_model):
    fails(3, "detokenize", "-m", talking_model, stdin=b"1 two")
    fails(2, "detokenize", "-m", talking_model, stdin=b"1 1000")


# run

def test_run_is_repeatable_and_stdout_holds_text_alone(talking_model):
    arguments = ["run", "-m", talking_model, "-p", "abc", "-n", 20, "--seed", 7, "--ignore-eos"]
    first = infer(*arguments)
    assert first.returncode == 0, first.stderr.decode()
    assert b"tokens/s" in first.stderr
    again = infer(*arguments, "--quiet")
    assert again.stdout == first.stdout and again.stderr == b""
    report = json.loads(infer(*arguments, "--json").stdout)
    assert report["text"].encode() == first.stdout
    assert len(report["tokens"]) == report["timings"]["generated_tokens"] == 20
    assert report["finish_reason"] == "length" and report["seed"] == 7


def test_run_takes_negative_seeds(talking_model):
    arguments = ["run", "-m", talking_model, "-p", "abc", "-n", 20, "--ignore-eos", "--json", "--seed"]
    reports = [json.loads(infer(*arguments, seed).stdout) for seed in (-2, -2, 2**64 - 2)]
    assert [report["seed"] for report in reports] == [2**64 - 2] * 3
    assert len({report["text"] for report in reports}) == 1
    fails(2, *arguments, -2**63 - 1, says="expected a number or -1")


def test_run_reads_the_prompt_from_file_or_stdin(talking_model, tmp_path):
    prompt = tmp_path / "prompt"
    prompt.write_text("a prompt\n")
    arguments = ["run", "-m", talking_model, "-n", 5, "--temp", 0, "--ignore-eos"]
    texts = {infer(*arguments, "-p", "a prompt").stdout, infer(*arguments, "-f", prompt).stdout,
             infer(*arguments, "-f", "-", stdin=b"a prompt\n").stdout}
    assert len(texts) == 1


def generated(model, *arguments):
    done = infer("run", "-m", model, "-p", "abc", "-n", 30, "--ignore-eos", "--json", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)["tokens"]


def test_a_logit_bias_forbids_or_forces_a_token(talking_model):
    plain = generated(talking_model, "--temp", 0)
    first = plain[0]
    other = generated(talking_model, "--temp", 0, "--logit-bias", f"{first}-inf")
    assert first not in other
    second = other[0]
    both = generated(talking_model, "--temp", 0, "-l", f"{first}-inf", "-l", f"{second}-inf")
    assert first not in both and second not in both
    assert generated(talking_model, "--logit-bias", "400+1000") == [400] * 30
    assert 400 not in generated(talking_model, "--temp", 5, "--logit-bias", "400-1e3")
    fails(2, "run", "-m", talking_model, "-p", "a", "--logit-bias", "1000+1", says="1000")


def test_penalties_keep_tokens_from_being_repeated(talking_model):
    forced = ["--temp", 0, *(f"--logit-bias={token}+500" for token in (400, 401))]
    assert len(set(generated(talking_model, *forced))) <= 2
    for penalty in (["--presence-penalty", 900], ["--frequency-penalty", 900],
                    ["--repeat-penalty", 1000]):
        tokens = generated(talking_model, *forced, *penalty)
        assert len(set(tokens)) > 2, penalty
        assert tokens == generated(talking_model, *forced, *penalty, "--repeat-last-n", 64)
        # Of no tokens at all none is recent.
        unseen = generated(talking_model, *forced, *penalty, "--repeat-last-n", 0)
        assert unseen == generated(talking_model, *forced), penalty


def test_typical_sampling_narrows_the_choice(talking_model):
    drawn = {tuple(generated(talking_model, "--temp", 1, "--top-p", 1, "--min-p", 0, "--seed", 3,
                             *typical)) for typical in ([], ["--typical", 1], ["--typical", 0.01])}
    assert len(drawn) == 2


@pytest.mark.parametrize("prompt", ["-ub", "--help", "[a,b]", "{}", "%%"])
def test_prompts_that_look_like_flags(talking_model, prompt, tmp_path):
    file = tmp_path / "prompt"
    file.write_text(prompt)
    arguments = ["run", "-m", talking_model, "-n", 5, "--temp", 0, "--ignore-eos"]
    given = infer(*arguments, "-p", prompt)
    assert given.returncode == 0, given.stderr.decode()
    assert given.stdout == infer(*arguments, "-f", file).stdout


def test_run_generates_nothing_when_asked_for_nothing(talking_model):
    done = infer("run", "-m", talking_model, "-p", "abc", "-n", 0)
    assert done.returncode == 0 and done.stdout == b""


def test_a_prompt_longer_than_the_context(talking_model):
    fails(4, "run", "-m", talking_model, "-p", "abc " * 500, "-c", 64, "-n", 5)


# Streams and signals

def start(*arguments, **options):
    return subprocess.Popen([INFER, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def endless(model):
    return ["run", "-m", model, "-p", "abc", "-n", 3900, "--ignore-eos", "-t", 1]


def test_interrupt_ends_with_130(talking_model):
    process = start(*endless(talking_model))
    assert process.stdout.read(1) != b""
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130


def test_interrupt_while_waiting_for_input():
    process = start("tokenize", "-m", MODEL, stdin=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    process.stdin.close()


def test_a_mapped_file_that_is_cut_short_ends_with_a_message(talking_model, tmp_path):
    path = tmp_path / "cut.gguf"
    path.write_bytes(talking_model.read_bytes())
    process = start(*endless(path), "--mmap")
    assert process.stdout.read(1) != b""
    os.truncate(path, 4096)
    errors = process.stderr.read()
    assert process.wait(timeout=30) == 3, errors
    assert b"cut short" in errors


def test_a_reader_that_goes_away_is_no_failure(talking_model):
    process = start(*endless(talking_model))
    assert process.stdout.read(1) != b""
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=30) == 0, errors
    assert b"error" not in errors


def test_a_stdout_that_is_closed_from_the_start():
    done = subprocess.run(["sh", "-c", 'exec "$0" devices --json >&-', INFER],
                          capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr.decode()


def test_the_program_starts_in_an_empty_root(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("changing the root needs to be root")
    listed = subprocess.run(["ldd", INFER], capture_output=True, text=True, check=True).stdout
    for word in listed.split():
        if word.startswith("/"):
            target = tmp_path / word[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(pathlib.Path(word).read_bytes())
            target.chmod(0o755)
    (tmp_path / "infer").write_bytes(pathlib.Path(INFER).read_bytes())
    (tmp_path / "infer").chmod(0o755)
    (tmp_path / "m.gguf").write_bytes(MODEL.read_bytes())
    done = subprocess.run(["chroot", tmp_path, "/infer", "eval", "-m", "/m.gguf", "--tokens", "1,2",
                           "--logits", "/out.f32"], capture_output=True, timeout=30)
    if b"chroot: cannot change root" in done.stderr:
        pytest.skip("changing the root is not permitted here")
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "out.f32").stat().st_size == 2 * 320 * 4


@pytest.mark.parametrize("option", ["-fx", "-abc", "-mx"])
def test_an_unknown_word_is_not_taken_for_single_letters(option):
    done = infer("run", "-m", MODEL, "-p", "x", option, "y")
    assert done.returncode == 2
    assert f"unknown option '{option}'".encode() in done.stderr


def test_where_layers_run_is_told(talking_model):
    done = infer("run", "-m", talking_model, "-p", "x", "-n", 1, "-ngl", 99)
    assert done.returncode == 0
    assert b"everything runs on the CPU" in done.stderr


def test_only_a_regular_file_is_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = ["synth", "custom", pipe, "--layers", 1, "--embedding", 32, "--feed-forward", 32,
                 "--heads", 1, "--kv-heads", 1, "--tokens", 300]
    done = infer(*arguments)
    assert done.returncode == 1, done.stderr.decode()
    assert b"regular file" in done.stderr
    assert pipe.is_fifo()
    target, link = tmp_path / "target.gguf", tmp_path / "link.gguf"
    target.write_bytes(b"old")
    link.symlink_to(target)
    arguments[2] = link
    assert infer(*arguments).returncode == 0
    assert link.is_symlink() and target.read_bytes()[:4] == b"GGUF"


def patched(source, target, old, new):
    data = pathlib.Path(source).read_bytes()
    assert old in data and len(old) == len(new)
    target.write_bytes(data.replace(old, new))
    return target


def test_text_of_a_file_cannot_steer_the_terminal(tmp_path):
    path = patched(MODEL, tmp_path / "m.gguf", b"llama-q4_0", b"\x1b[31m\x00\nabc")
    done = infer("info", path)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout and b"\x00" not in done.stdout
    assert b"\\x1b[31m\\x00\\x0aabc" in done.stdout
    # JSON has a spelling of its own for them.
    about = json.loads(infer("info", path, "--json").stdout)
    assert about["name"] == about["metadata"]["general.name"] == "\x1b[31m\x00\nabc"


def test_logits_that_are_no_numbers_are_an_error(tmp_path):
    path = tmp_path / "nan.gguf"
    assert infer("synth", "custom", path, "--type", "f32", "--layers", 1, "--embedding", 32,
                 "--feed-forward", 32, "--heads", 1, "--kv-heads", 1, "--tokens",
                 300).returncode == 0
    data = bytearray(path.read_bytes())
    half = len(data) // 8 * 4  # the weights' second half, all of the last matrices in it
    data[half:] = struct.pack("<f", float("nan")) * ((len(data) - half) // 4)
    path.write_bytes(data)
    text = tmp_path / "text.txt"
    text.write_text("t3 t4 " * 100)
    for arguments in (["run", "-p", "x", "-n", 4], ["perplexity", "-f", text, "--chunk", 32]):
        fails(3, *arguments, "-m", path, says=f"{path}: the model's logits are not numbers")


def test_a_context_beyond_counting_is_refused():
    for context in ("9223372036854775807", "2147483648"):
        assert infer("plan", "-m", MODEL, "-c", context).returncode == 4


def test_a_full_disk_is_a_failure():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([INFER, "devices", "--json"], stdout=full, stderr=subprocess.PIPE,
                              timeout=30)
    assert done.returncode == 1 and b"stdout" in done.stderr


# The program itself

def test_it_needs_nothing_but_the_c_and_cpp_libraries():
    allowed = ("linux-vdso", "linux-gate", "libc.so", "libm.so", "libstdc++.so", "libgcc_s.so",
               "/lib/ld-linux", "/lib64/ld-linux")
    text = subprocess.run(["ldd", INFER], capture_output=True, check=True).stdout.decode()
    if "libasan" in text or "libtsan" in text or "libubsan" in text:
        pytest.skip("built with a sanitizer")
    for line in text.splitlines():
        assert line.strip().startswith(allowed), line
