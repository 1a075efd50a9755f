"""How the command line is read: empty values, the habits of llama.cpp's and ollama's users, and what
is said where something is wrong."""

import json
import os
import re
import resource
import subprocess

import pytest

from program import INFER, ROOT, fails, infer

MODEL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"
DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
RUN = ["run", "-m", DEMO, "-n", 4, "--temp", 0]


def said(*arguments, **options):
    """stdout and stderr of what succeeds."""
    done = infer(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, done.stderr.decode()


# Empty values

@pytest.mark.parametrize("arguments", [
    ["run", "-m", "", "-p", "x"], ["run", "--model=", "-p", "x"], ["run", "", "x"],
    ["chat", "-m", ""], ["info", ""], ["perplexity", "-m", ""],
    *([*RUN, "-p", "x", flag, ""] for flag in (
        "--grammar", "-j", "--json-schema", "--grammar-file", "-jf", "-t", "-c", "-n", "--seed",
        "--samplers", "--device", "--memory", "-md", "--spec", "--logit-bias", "--stop", "-ngl",
        "--drafter")),
    ["chat", "--template", ""], ["chat", "--chat-template-kwargs", ""], ["chat", "-sysf", ""],
    ["eval", "-m", MODEL, "--tokens", "", "--logits", "x"], ["quantize", MODEL, "", "q8_0"],
    ["synth", "llama-24m", ""], ["completion", ""],
])
def test_an_empty_value_is_refused(arguments, tmp_path):
    fails(2, *arguments, says="empty", cwd=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, says", [
    ([*RUN, "-p", "x", "-s", "1,,2"], "-s: expected values separated by ','"),
    ([*RUN, "-p", "x", "-s", "1,"], "found an empty one in '1,'"),
    ([*RUN, "-p", "x", "-s", ","], "-s"),
    ([*RUN, "-p", "x", "--samplers", "top_k;;temperature"], "--samplers"),
    ([*RUN, "-p", "x", "--samplers", "top_k;"], "--samplers"),
    ([*RUN, "-p", "x", "--device", "cpu,"], "--device"),
    ([*RUN, "-p", "x", "-ot", "ffn=CPU,,attn=CPU"], "-ot"),
    ([*RUN, "-p", "x", "--drafter", "suffix,"], "--drafter"),
    (["bench", "-m", DEMO, "-p", "8,,16"], "-p"),
    (["serve", DEMO, "--allow-host", "a,,b"], "--allow-host"),
    (["serve", DEMO, "--allow-origin", ",http://a"], "--allow-origin"),
    (["eval", "-m", DEMO, "--tokens", "1,,2", "--logits", "-"], "--tokens"),
    (["eval", "-m", DEMO, "--tokens", "1, ,2", "--logits", "-"], "--tokens"),
    (["eval", "-m", DEMO, "--tokens", ",1", "--logits", "-"], "--tokens"),
    (["eval", "-m", DEMO, "--tokens", "1,2,", "--logits", "-"], "--tokens")])
def test_an_empty_part_of_a_list_is_refused(arguments, says):
    fails(2, *arguments, says=says)


def test_ids_may_be_separated_by_spaces_and_commas():
    for ids in ("40 41", "40,41", "40 , 41", "\n40,\n41\n"):
        assert infer("detokenize", "-m", DEMO, stdin=ids.encode()).returncode == 0
    fails(3, "detokenize", "-m", DEMO, stdin=b"40,,41", says="token ids")


@pytest.mark.parametrize("flag", ["--grammar-file", "--json-schema-file"])
@pytest.mark.parametrize("content", ["", " \n"])
def test_a_constraint_without_content_is_refused(flag, content, tmp_path):
    path = tmp_path / "nothing"
    path.write_text(content)
    fails(3, *RUN, "-p", "x", flag, path, says="nothing: is empty")
    fails(3, "chat", "--template", path, "-p", "x", "-st", says="nothing: is empty")


def test_prompts_may_be_empty():
    run = ["run", "-m", MODEL, "-n", 4, "--temp", 0]  # its texts begin with a token of their own
    assert said(*run, "-p", "")[0] == said(*run, "")[0]
    said("chat", "-m", DEMO, "-sys", "", "-p", "Hello", "-st", "-n", 4)
    assert said("tokenize", DEMO, "-p", "", "--no-bos") == (b"", "")


def test_the_built_in_model_is_announced(tmp_path):
    text = tmp_path / "text"
    text.write_text("Once upon a time there was a cat. " * 40)
    for arguments in (["run", "-p", "x", "-n", 1],
                      ["perplexity", "-f", text, "--chunk", 32, "--chunks", 1]):
        err = said(*arguments)[1]
        assert sum("built-in" in line for line in err.splitlines()) == 1
        assert said(*arguments, "-q")[1] == ""


# Models and prompts without flags

def test_the_model_may_stand_without_a_flag(tmp_path):
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text("t3 t4 " * 100)
    for arguments in (["plan"], ["info"], ["tokenize", "-p", "x"], ["detokenize"],
                      ["eval", "--tokens", "1,2", "--logits", out],
                      ["perplexity", "-f", text, "--chunk", 32],
                      ["imatrix", "-f", text, "--chunk", 32, "-o", tmp_path / "i.gguf"],
                      ["bench", "-p", 4, "-n", 2, "-r", 1], ["run", "-p", "x", "-n", 1]):
        said(arguments[0], MODEL, *arguments[1:], stdin=b"3 4")
        said(*arguments, MODEL, stdin=b"3 4")
        if arguments[0] != "bench":  # which takes several
            fails(2, arguments[0], MODEL, MODEL, MODEL, *arguments[1:], says="unexpected")


@pytest.mark.parametrize("arguments, says", [
    *(([*RUN, "-p", "x", *given], f"{name}: expected 1 to 65536, found 0") for given, name in (
        (["-b", 0], "-b"), (["-ub", 0], "-ub"), (["--batch-size=0"], "--batch-size"), (["-b0"], "-b"),
        (["--ubatch-size", 0], "--ubatch-size"), (["-b", 0, "-ub", 1], "-b"), (["-ub", 1, "-b", 0], "-b"))),
    ([*RUN, "-p", "x", "-t", -2], "-t: expected -1 or more, found -2"),
    ([*RUN, "-p", "x", "--threads", -2], "--threads: expected -1 or more, found -2"),
    ([*RUN, "-p", "x", "-c", "y"], "-c: expected a whole number, found 'y'"),
    ([*RUN, "-p", "x", "--predict", -5], "--predict: expected -2 or more, found -5"),
    ([*RUN, "-p", "x", "--cache-type-k", "y"], "--cache-type-k: expected auto,"),
    ([*RUN, "-p", "x", "-s", "y"], "-s: expected a number or -1, found 'y'"),
    ([*RUN, "-p", "x", "--gpu-layers", "y"], "--gpu-layers: expected a number of layers"),
    ([*RUN, "-p", "x", "--override-tensor", "y"], "--override-tensor: expected PATTERN=DEVICE"),
    ([*RUN, "-p", "x", "-f", "y"], "-p excludes -f;"),
    ([*RUN, "x", "--file", "y"], "prompt excludes --file;"),
    (["serve", DEMO, "--parallel", 0], "--parallel: expected 1 to 4096, found 0"),
    (["serve", DEMO, "-np", 0], "-np: expected 1 to 4096, found 0")])
def test_a_message_names_the_flag_as_it_was_given(arguments, says):
    fails(2, *arguments, says=f"error: {says}")


def test_the_prompt_may_stand_without_a_flag():
    text = said(*RUN, "-p", "Once upon")[0]
    assert text == said(*RUN, "Once upon")[0]
    assert text == said("run", DEMO, "Once upon", *RUN[3:])[0]
    assert text == said("run", DEMO, *RUN[3:], "--", "Once upon")[0]
    fails(2, *RUN, "-p", "x", "Once upon", says="excludes")


@pytest.mark.parametrize("arguments", [
    ["run", "-f"], ["run", "-p", "x", "--grammar-file"], ["run", "-p", "x", "-jf"], ["chat", "-sysf"],
    ["chat", "--template"], ["tokenize", DEMO, "-f"], ["detokenize", DEMO, "-f"], ["perplexity", "-f"],
    ["imatrix", DEMO, "-o", "out", "-f"], ["eval", DEMO, "--logits", "out", "--tokens-file"],
    ["template", DEMO, "--input"], ["serve", DEMO, "--api-key-file"]])
def test_a_file_that_is_too_large_is_not_read(arguments, tmp_path):
    path = tmp_path / "large.txt"
    path.touch()
    os.truncate(path, (64 << 20) + 1)
    fails(3, *arguments, path, cwd=tmp_path,
          says=f"{path}: expected at most {64 << 20} bytes, found {(64 << 20) + 1};")
    os.truncate(path, 1 << 40)  # nothing could read it
    fails(3, *arguments, path, cwd=tmp_path,
          says=f"{path}: expected at most {64 << 20} bytes, found {1 << 40};")


def test_files_of_texts_may_be_larger_and_pipes_end_somewhere(tmp_path):
    path = tmp_path / "large.txt"
    path.touch()
    os.truncate(path, (1 << 30) + 1)
    fails(3, "embed", DEMO, "-f", path,
          says=f"{path}: expected at most {1 << 30} bytes, found {(1 << 30) + 1};")
    fails(3, "tokenize", DEMO, stdin=b"x" * ((64 << 20) + 1),
          says=f"stdin: expected at most {64 << 20} bytes, found more;")


def test_a_file_without_memory_for_it_is_named(tmp_path):
    path = tmp_path / "large.txt"
    path.touch()
    os.truncate(path, 60 << 20)
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, (40 << 20, 40 << 20))}
    if b"Sanitizer" in infer("tokenize", DEMO, "-p", "x", **limits).stderr:
        pytest.skip("a sanitizer takes more memory than that")
    fails(4, "tokenize", DEMO, "-f", path, says=f"{path}: there is no memory to read it", **limits)


def test_the_prompt_may_come_through_a_pipe(tmp_path):
    assert said(*RUN, stdin=b"Once upon")[0] == said(*RUN, "-p", "Once upon")[0]
    text = b"Once upon a time there was a cat. " * 40
    measured = said("perplexity", DEMO, "--chunk", 32, stdin=text)[0]
    assert measured.startswith(b"perplexity ")
    assert measured == said("perplexity", DEMO, "--chunk", 32, "-f", "-", stdin=text)[0]
    fails(2, *RUN, stdin=b"", says="no prompt")


# Flags of llama.cpp

@pytest.mark.parametrize("flags", [
    ["-fa"], ["-fa", "on"], ["--flash-attn", "auto"], ["--flash-attn=off"], ["-fa", "1"],
    ["--no-mmap"], ["--mmap", "--no-mmap"], ["-no-cnv"], ["--no-conversation"],
    ["--no-display-prompt"], ["--jinja"], ["--no-warmup"], ["--log-disable"], ["-t", -1],
    ["--threads", -1], ["-ngl", "auto"], ["--n-predict", 4], ["--predict", 4],
    ["--no-context-shift"], ["-cb"], ["--color"], ["--check-tensors"],
])
def test_flags_that_change_nothing(flags):
    assert said(*RUN, "-p", "Once upon", *flags) [0] == said(*RUN, "-p", "Once upon")[0]
    assert said(*RUN, "-q", "-p", "Once upon", *flags)[1] == ""


@pytest.mark.parametrize("flags", [["--mlock"], ["-tb", 2], ["--threads-batch", 2], ["--no-jinja"],
                                   ["--numa", "distribute"]])
def test_flags_that_are_told_to_do_nothing(flags):
    out, err = said(*RUN, "-p", "Once upon", *flags)
    assert out == said(*RUN, "-p", "Once upon")[0]
    assert sum(line.startswith(f"{flags[0]}: ") for line in err.splitlines()) == 1


@pytest.mark.parametrize("flags, says", [
    (["--rope-scaling", "yarn"], "model file"), (["--rope-freq-base", 1e6], "model file"),
    (["--yarn-orig-ctx", 4096], "model file"), (["--override-kv", "a=int:1"], "metadata"),
    (["-cnv"], "infer chat"), (["-i"], "infer chat"), (["-sys", "x"], "infer chat"),
    (["--control-vector", "x"], "not supported"), (["-ts", "1,1"], "--device"), (["--draft-max", 8], "--spec"),
])
def test_flags_that_would_compute_something_else_are_refused(flags, says):
    text = fails(2, *RUN, "-p", "x", *flags, says=says)
    assert f"error: {flags[0]}: " in text


def documented(heading):
    """Flags of a section of the document; of a table those of the first column."""
    text = (ROOT / "docs" / "from-llama.cpp.md").read_text().split(f"\n## {heading}\n")[1]
    lines = text.split("\n## ")[0].splitlines()
    first = [line.split("|")[1] if line.startswith("|") else line for line in lines]
    spans = re.findall(r"`([^`]+)`", "\n".join(first))
    return [flag for span in spans for flag in span.split() if re.fullmatch(r"-[\w-]+", flag)]


def test_the_document_of_flags_is_true():
    helps = "".join(infer(c, "--help").stdout.decode() for c in ("run", "chat", "bench"))
    same = documented("The same")
    assert len(same) > 40
    for flag in same:
        known = re.search(rf"(?<![\w-]){flag}(?![\w-])", helps)
        assert known or 0 in [infer(c, flag, "-h").returncode for c in ("run", "chat")], flag
    for heading in ("Accepted, and so anyway", "Accepted, with a line that says what is done instead"):
        for flag in documented(heading):
            # With a value or without one.
            done = [infer("plan", "-m", MODEL, flag, *value) for value in ([], ["1", "--json"])]
            assert 0 in [d.returncode for d in done], (flag, done)
    refused = documented("Refused, with what to do")
    assert len(refused) > 15
    for flag in refused:
        for command in ("run", "chat"):
            done = infer(command, "-m", MODEL, flag, "x")
            if f"error: {flag}: ".encode() in done.stderr:
                break
        assert done.returncode == 2 and f"error: {flag}: ".encode() in done.stderr, flag


def test_all_layers_in_words():
    told = infer("eval", "-m", MODEL, "--tokens", 1, "--logits", "-", "-ngl", "all").stderr
    assert b"-ngl all has no effect without a GPU" in told
    for name in ("-ngl", "--gpu-layers", "--n-gpu-layers"):
        assert len(fails(2, "plan", MODEL, name, "some", says="all or auto")) < 200


def test_escapes_in_a_prompt():
    def tokens(text, *flags):
        done = said("run", "-m", DEMO, "-n", 0, "--json", "-p", text, *flags)[0]
        return json.loads(done)["timings"]["prompt_tokens"]
    plain = said(*RUN, "-p", "a\tb\n\\\"'\xff")[0]
    assert said(*RUN, "-e", "-p", r"a\tb\n\\\"\'\xC3\xBF")[0] == plain
    assert said(*RUN, "-e", "--no-escape", "-p", r"a\tb")[0] == said(*RUN, "-p", r"a\tb")[0]
    assert tokens(r"\q\x1", "-e") == tokens(r"\q\x1")
    assert tokens(r"\x41\x41", "-e") < tokens(r"\x41\x41")


def test_generating_until_the_context_is_full():
    flags = ["run", "-m", DEMO, "-p", "x", "-c", 64, "--ignore-eos", "--context-shift", "--json"]
    assert json.loads(said(*flags, "-n", -2)[0])["finish_reason"] == "context"
    fails(2, *RUN, "-p", "x", "-n", -3, says="-2 or more")


def test_the_last_of_several_flags_counts():
    assert (said(*RUN, "-p", "a", "-p", "Once upon", "-n", 2, "-n", 4, "--top-k", 1, "--top-k", 2)[0]
            == said(*RUN, "-p", "Once upon")[0])
    plan = json.loads(said("plan", "-m", "/nonexistent", "-m", MODEL, "-c", 64, "-c", 128,
                           "--json")[0])
    assert plan["context"] == 128


def test_bench_leaves_out_what_is_none():
    def phases(*flags):
        report = json.loads(said("bench", MODEL, *flags, "-r", 1, "--json")[0])
        return [phase for phase in ("prefill", "decode", "results") if phase in report]
    assert phases("-p", 0, "-n", 2) == ["decode"]
    assert phases("-p", 4, "-n", 0) == ["prefill"]
    assert phases("-p", "4,8", "-n", 0) == ["prefill", "results"]
    assert b"tg2" in said("bench", MODEL, "-p", 0, "-n", 2, "-r", 1)[0]
    fails(2, "bench", MODEL, "-p", 0, "-n", 0, says="nothing to measure")


def test_logits_may_go_to_stdout(tmp_path):
    out = tmp_path / "logits"
    said("eval", MODEL, "--tokens", "1,2", "--logits", out)
    assert said("eval", MODEL, "--tokens", "1,2", "--logits", "-")[0] == out.read_bytes()
    fails(2, "eval", MODEL, "--tokens", "1,2", "--logits", "-", "--json", says="stdout")
    for arguments in (["quantize", MODEL, "-", "q8_0"], ["synth", "llama-24m", "-"],
                      ["convert", tmp_path, "-"], ["imatrix", MODEL, "-o", "-", "-f", __file__]):
        fails(2, *arguments, says="stdout", cwd=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["logits"]


# What is said

@pytest.mark.parametrize("arguments, says", [
    (["--verison"], "did you mean '--version'?"),
    (["run", "--temprature", "1"], "did you mean '--temperature'?"),
    (["run", "-temp", "1"], "did you mean '--temp'?"),
    (["plan", MODEL, "--ctx", "1"], "did you mean '--ctx-size'?"),
    (["chat", "--chat-template", "chatlm"], "did you mean 'chatml'?"),
    (["-m", "x"], "a command comes first"),
    (["show", "x"], "'infer info'"),
    (["run", "-m", MODEL], "'infer chat' converses"),
    ([MODEL], "infer run"),
    ([*RUN, "-p", "x", "--temp", "1e30"], "0 to 1000000"),
    ([*RUN, "-p", "x", "-n", "1.5"], "expected a whole number, found '1.5'"),
    ([*RUN, "-p", "x", "-n", "0x10"], "expected a whole number"),
    ([*RUN, "-p", "x", "-ctk", "q9"], "-ctk: expected auto, f32"),
    ([*RUN, "-p"], "-p: expected a value"),
    ([*RUN, "-p", "x", "--json=1"], "takes no value"),
    ([*RUN, "-p", "x", "--samplers", "typ"], "typical_p"),
])
def test_what_is_wrong_is_said(arguments, says):
    assert len(fails(2, *arguments, says=says)) < 600


def test_numbers_are_decimal():
    def told(*flags):
        return said(*RUN[:3], "-p", "Once", "--ignore-eos", *flags)[1]
    assert "generated 10 tokens" in told("-n", "010")
    assert "generated 10 tokens" in told("-n", "+10") and "generated 10 tokens" in told("-n10")


def test_the_help_names_samplers_as_errors_do():
    assert "typical_p" in " ".join(infer("run", "--help").stdout.decode().split())
    for name in ("typ_p", "typical_p"):
        said(*RUN, "-p", "x", "--samplers", f"{name};temperature")


@pytest.mark.parametrize("arguments", [
    ["template", "-m", MODEL, "-i", MODEL],
    [*RUN, "-p", "x", "-j", "{"], [*RUN, "-p", "x", "-j", '{"type": 5}'],
    ["chat", "--chat-template-kwargs", "{"],
])
def test_no_error_of_a_library_is_shown_raw(arguments):
    done = infer(*arguments)
    assert done.returncode in (2, 3)
    assert b"json.exception" not in done.stderr and b"error: " in done.stderr


def test_what_is_no_regular_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/null"):
        fails(3, "info", path, says="found a pipe, device or socket")
        fails(3, *RUN[:1], "-m", path, "-p", "x", says="found a pipe, device or socket")
        fails(3, "quantize", MODEL, tmp_path / "q.gguf", "q8_0", "--imatrix", path,
              says="expected a regular file")
    missing = tmp_path / "no" / "folder" / "out"
    fails(1, "eval", MODEL, "--tokens", 1, "--logits", missing,
          says=f"there is no folder {missing.parent}")


def test_a_model_that_may_not_be_read(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("becoming someone else needs to be root")
    path = tmp_path / "m.gguf"
    path.write_bytes(MODEL.read_bytes())
    path.chmod(0)

    def nobody():  # who still has the program open: it is run by its descriptor
        os.setuid(65534)
    with open(INFER, "rb") as program:
        for arguments in (["info", path], ["run", "-m", path, "-p", "x"], ["plan", path],
                          ["tokenize", path, "-p", "x"], ["quantize", path, "/tmp/x.gguf", "q8_0"]):
            done = subprocess.run([f"/proc/self/fd/{program.fileno()}", *map(str, arguments)],
                                  capture_output=True, preexec_fn=nobody, timeout=60,
                                  pass_fds=[program.fileno()])
            assert done.returncode == 3, done.stderr.decode()
            assert b"m.gguf" in done.stderr


def test_a_program_without_memory():
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 20, 1 << 20))
    for arguments in (["run", "-m", MODEL, "-p", "x"], ["plan", MODEL]):
        done = infer(*arguments, preexec_fn=limit)
        if b"Sanitizer" in done.stderr:
            pytest.skip("a sanitizer needs memory of its own")
        assert done.returncode == 4, done.stderr.decode()
        assert b" 0 threads" not in done.stderr


def test_every_foreign_flag_is_foreign_somewhere():
    text = (ROOT / "app" / "cli" / "habits.cpp").read_text(encoding="utf-8")
    table = text.split("kHabits[] = {")[1].split("\n};")[0]
    commands = ["run", "chat", "eval", "perplexity", "plan", "bench", "imatrix"]
    known = {command: set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*",
                                     re.sub(r"(?<=  ) {10,}.*|(?<=\w)  +.*", "",
                                            infer("help", command).stdout.decode())))
             for command in commands}
    assert all("--gpu-layers" in flags for flags in known.values())
    lines = re.findall(r"\{((?:\"[^\"]*\"\s*)+),\s*Takes::(.*?)\}", table, re.S)
    assert len(lines) > 30
    for names, rest in lines:
        own = re.search(r",\s*\"(\w+)\"\s*$", rest)
        for name in re.sub(r'"\s*"|"', "", names).split():
            where = [own[1]] if own and own[1] in commands else commands
            assert [c for c in where if name not in known[c]] != [], f"{name}: nobody gets here"
