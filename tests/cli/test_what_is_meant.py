"""What a person means by a flag is done, or it is said why not."""

import json
import sys

import numpy as np
import pytest

from program import ROOT, fails, infer, infer_typed

sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402

DATA = ROOT / "tests" / "data"
DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
SENTENCE = "The cat sat on the mat and looked at the moon.\n"


def told(*arguments):
    done = infer(*arguments)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_a_prompt_that_does_not_fit_is_not_cut(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text(SENTENCE * 100)
    for more in ((), ("--context-shift",), ("--context-shift", "-n", "-2"), ("--context-shift", "-s", "1,2")):
        fails(4, "run", "-m", DEMO, "-f", path, "-c", 256, *more, says="256")


def test_what_begins_a_text_stays_in_a_shifted_context(tmp_path):
    model = DATA / "golden" / "llama-f32.gguf"
    exact = ("-m", model, "-ctk", "f32", "-ctv", "f32")
    words = ("Hello you there", "-n", 30, "-c", 16, "--context-shift", "--temp", 0, "--ignore-eos", "--json")
    made = told("run", *exact, "-p", *words)["tokens"]
    held = told("tokenize", "-m", model, "-p", "Hello you there", "--json")
    assert held[0] == 1 and len(made) == 30  # 1 begins a text
    for token in made:
        if len(held) > 16:
            held = held[:1] + held[-((16 - 1) // 2):]
        done = infer("eval", *exact, "--tokens", ",".join(map(str, held)), "--logits", tmp_path / "logits")
        assert done.returncode == 0, done.stderr
        logits = np.fromfile(tmp_path / "logits", np.float32).reshape(len(held), -1)[-1]
        logits[2] = -np.inf  # 2 ends a text
        assert logits.argmax() == token
        held.append(token)


def test_no_token_that_ends_the_text_is_chosen():
    made = told("run", "-m", DEMO, "-p", "Once upon a time", "-n", 300, "--ignore-eos", "--temp", 0, "--json")
    assert len(made["tokens"]) == 300 and made["finish_reason"] == "length"
    end = told("tokenize", "-m", DEMO, "-p", "<|im_end|>", "--json")
    assert len(end) == 1 and end[0] not in made["tokens"]


@pytest.mark.parametrize("command", [("perplexity",), ("imatrix", "--json", "-o", "out.gguf")])
def test_a_context_is_the_chunk(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text(SENTENCE * 60)
    told = [infer(command[0], "-m", DEMO, "-f", tmp_path / "text", *flags, *command[1:]).stdout
            for flags in (("-c", 128), ("--chunk", 128), ("--chunk", 256))]
    assert told[0] == told[1] != told[2]


def test_a_context_below_the_smallest_chunk_is_named(tmp_path):
    (tmp_path / "text").write_text(SENTENCE * 60)
    fails(2, "perplexity", "-m", DEMO, "-f", tmp_path / "text", "-c", 2, says="context of 2 tokens is less")


def test_a_prompt_that_was_taken_as_the_model():
    fails(2, "run", "Once upon a time", stdin=b"", says="'Once upon a time' was taken as the model: no such "
          "file; give the prompt with -p")
    fails(2, "run", DEMO, stdin=b"", says="use -p TEXT")


def test_one_turn_is_one_answer(tmp_path):
    done = infer("chat", "-m", DEMO, "-st", stdin=b"\nWhat is 7 + 8?\n")
    assert done.returncode == 0 and done.stdout.strip(), done.stderr
    for text in (b"\n\n", b""):
        fails(2, "chat", "-m", DEMO, "-st", stdin=text, says="-p TEXT")
    fails(2, "chat", "-m", DEMO, "-st", "-p", " ", says="empty")
    typed = infer_typed("chat", "-m", DEMO, "-st", lines=["/set --temp 0", "", "What is 7 + 8?"])
    assert typed.returncode == 0 and b"15" in typed.stdout
    question = tmp_path / "question.txt"
    question.write_text("What is\n7 + 8?\n")
    both = [infer("chat", "-m", DEMO, "-st", "--temp", 0, *flags).stdout
            for flags in (("-f", question), ("-p", "What is\n7 + 8?"))]
    assert both[0] == both[1] and both[0].strip()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_end_of_a_file_is_no_part_of_the_prompt(tmp_path, end):
    path = tmp_path / "prompt.txt"
    path.write_bytes(b"Once upon a time" + end.encode())
    tokens = {flag: told("run", "-m", DEMO, flag, path if flag != "-p" else "Once upon a time", "-n", 1,
                         "--json")["timings"]["prompt_tokens"] for flag in ("-p", "-f", "-bf")}
    assert tokens["-p"] == tokens["-f"] < tokens["-bf"]


def test_flags_of_llama_cpp_are_known_where_models_are_served_and_embedded(tmp_path):
    path = tmp_path / "texts"
    path.write_text("one\n")
    done = infer("embed", "-m", DEMO, "-f", path, "-fa", "on", "--no-warmup", "--mlock")
    assert done.returncode == 0 and b"--mlock: " in done.stderr, done.stderr
    fails(2, "serve", "-m", DEMO, "-fa", "--jinja", "--rope-scaling", "yarn", says="change its keys")
    fails(2, "chat", "-m", DEMO, "--ignore-eos", says="infer run")


def test_a_draft_model_that_would_not_draft_is_refused():
    fails(2, "run", "-m", DEMO, "-md", DEMO, "--drafter", "ngram", "-p", "x", says="--drafter")


def test_a_constraint_that_is_wrong_names_its_file(tmp_path):
    schema = tmp_path / "s.json"
    schema.write_text('{"type": "object",\n "properties": {')
    for command in (("run", "-p", "x"), ("chat", "-st", "-p", "x")):
        text = fails(3, *command, "-m", DEMO, "-jf", schema, says=f"{schema}: ")
        assert "line 2, column 17" in text, text
    grammar = tmp_path / "g.gbnf"
    grammar.write_text("root ::= foo")
    fails(3, "run", "-m", DEMO, "-p", "x", "--grammar-file", grammar, says=f"{grammar}: grammar, line 1")


def test_a_text_that_cannot_be_embedded_names_its_line(tmp_path):
    path = tmp_path / "texts"
    path.write_text("one\n\n")
    fails(3, "embed", "-m", DEMO, "-f", path, says=f"{path}: line 2: ")
    path.write_text("one\n" + "two " * 5000 + "\n")
    assert "--truncate" in fails(4, "embed", "-m", DATA / "embed" / "bert-cls", "-f", path, says=f"{path}: line 2: ")


def test_samplers_have_names():
    for flags in (("--samplers", "top_k;foo"), ("--samplers", "top_k, temperature")):
        fails(2, "run", "-m", DEMO, "-p", "x", *flags, says="--samplers")
    assert infer("run", "-m", DEMO, "-p", "x", "-n", 1, "--samplers", "top_k;typ_p;temp").returncode == 0


def test_speeds_are_of_what_was_computed(tmp_path):
    path = tmp_path / "text"
    path.write_text(SENTENCE * 30)
    for made in told("run", "-m", DEMO, "-f", path, "-s", "1,2", "-n", 2, "--json"):
        timings = made["timings"]
        computed = timings["prompt_tokens"] - timings["reused_tokens"]
        assert timings["reused_tokens"] > 0
        assert timings["prompt_tokens_per_s"] == pytest.approx(computed / timings["prompt_seconds"], rel=1e-6)


def test_what_a_model_suggests(tmp_path):
    metadata, tensors = gguf.read(DATA / "bigram.gguf")
    tensors = {name: np.asarray(t) for name, t in tensors.items()}
    path = tmp_path / "suggests.gguf"
    metadata["general.sampling.top_k"] = -1.0  # off
    gguf.write(path, metadata, tensors)
    assert infer("run", "-m", path, "-p", "a", "-n", 2).returncode == 0
    metadata["general.sampling.top_k"] = -7.0
    gguf.write(path, metadata, tensors)
    fails(3, "run", "-m", path, "-p", "a", "-n", 2, says="top_k that is given")
    assert infer("run", "-m", path, "-p", "a", "-n", 2, "--top-k", 5).returncode == 0


def test_settings_of_a_conversation_are_checked():
    def lines(*typed, flags=()):
        done = infer_typed("chat", "-m", DEMO, "--json", "-n", 3, *flags, lines=typed)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [e for e in events if e["event"] == "end"], done.stderr.decode()

    one, two = lines("Hello", "/set -s -1", "Hello", flags=("-s", 5))[0]
    assert one["seed"] == 5 != two["seed"]
    for wrong in ("--logit-bias 99999-1", "--samplers foo", '--samplers "top_k'):
        done, said = lines(f"/set {wrong}", "Hello")
        assert not done and "/set: " in said, said
    done, said = lines('/set --samplers "top_k;temperature"', "Hello")
    assert len(done) == 1 and "/set: " not in said, said
