"""Log-probabilities of prompts, against the logits that infer eval computes for the same tokens."""

import array
import concurrent.futures
import math
import pathlib
import subprocess

import pytest

from service import BIN

MODEL = pathlib.Path(__file__).parents[2] / "app/demo/infer-demo.gguf"  # the built-in one
PROMPT = "Once upon a time there was a dog. The dog was happy, and it ran to the little house."


@pytest.fixture(scope="module")
def exact(begin_module):
    """With the cache's types of infer eval."""
    return begin_module("-t", "2", "-ctk", "f32", "-ctv", "f32")


@pytest.fixture(scope="module")
def ids(exact):
    return exact.post("/tokenize", {"content": PROMPT, "add_special": True})["tokens"]


@pytest.fixture(scope="module")
def expected(exact, ids, tmp_path_factory):
    """For each token but the first: the log-probabilities of all tokens in its place."""
    path = tmp_path_factory.mktemp("logits") / "logits.f32"
    subprocess.run([BIN, "eval", "-m", MODEL, "--tokens", ",".join(map(str, ids)), "--logits", path], check=True,
                   capture_output=True)
    logits = array.array("f")
    logits.frombytes(path.read_bytes())
    size = len(logits) // len(ids)
    rows = [logits[i * size:(i + 1) * size] for i in range(len(ids) - 1)]
    def log_softmax(row):
        most = max(row)
        total = most + math.log(math.fsum(math.exp(x - most) for x in row))
        return [x - total for x in row]
    return [log_softmax(row) for row in rows]


def near(value):
    return pytest.approx(value, abs=2e-4)


def echoed(service, **fields):
    body = {"echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0} | fields
    return service.post("/v1/completions", body)["choices"]


def check(found, ids, expected, top):
    values = found["token_logprobs"]
    assert values[0] is None and found["top_logprobs"][0] is None
    for i in range(1, len(ids)):
        assert values[i] == near(expected[i - 1][ids[i]])
        best = sorted(found["top_logprobs"][i].values(), reverse=True)
        assert best == near(sorted(expected[i - 1], reverse=True)[:top])


@pytest.mark.parametrize("count", [0, 1, 5])
def test_an_echo_has_the_log_probabilities_of_the_prompt(exact, ids, expected, count):
    # By then the prompt is in the cache.
    plain = exact.post("/v1/completions", {"prompt": PROMPT, "max_tokens": count, "temperature": 0,
                                           "logprobs": 3})["choices"][0]
    for prompt in (PROMPT, ids):
        [choice] = echoed(exact, prompt=prompt, max_tokens=count, logprobs=3)
        found = choice["logprobs"]
        assert all(len(of) == len(ids) + count for of in found.values())
        check(found, ids, expected, 3)
        assert found["tokens"][len(ids):] == plain["logprobs"]["tokens"]
        assert found["token_logprobs"][len(ids):] == near(plain["logprobs"]["token_logprobs"])
        assert choice["text"].endswith(PROMPT + plain["text"])
        for token, offset in zip(found["tokens"][2:], found["text_offset"][2:]):
            assert choice["text"][offset:].startswith(token)


def test_what_evaluation_harnesses_read(exact, ids, expected):
    """As lm-evaluation-harness reads the answers to batches of tokens."""
    context = len(ids) - 6
    batch = [ids, ids[:9], ids]
    choices = echoed(exact, prompt=batch, max_tokens=1, seed=1234)
    for choice, prompt in zip(choices, batch):
        start = min(context, len(prompt) - 3)
        values = choice["logprobs"]["token_logprobs"][start:-1]
        tops = choice["logprobs"]["top_logprobs"][start:-1]
        rows = expected[start - 1:len(prompt) - 1]
        assert sum(values) == near(sum(row[i] for row, i in zip(rows, prompt[start:])))
        greedy = all(value == max(top.values()) for value, top in zip(values, tops))
        assert greedy == all(max(row) == row[i] for row, i in zip(rows, prompt[start:]))


def test_a_token_alone_has_none(exact, ids):
    [choice] = echoed(exact, prompt=ids[1:2])
    assert choice["logprobs"]["token_logprobs"] == [None]
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize("count", [0, 4])
def test_a_stream_and_several_answers_have_the_same(exact, ids, count):
    body = {"prompt": [ids, ids[:7]], "echo": True, "logprobs": 2, "max_tokens": count, "n": 2, "seed": 5,
            "best_of": 2}
    answer = exact.post("/v1/completions", body)
    assert [choice["logprobs"]["token_logprobs"][:7] for choice in answer["choices"]][1:] == [
        answer["choices"][0]["logprobs"]["token_logprobs"][:7]] * 3
    parts = [{"text": "", "logprobs": {}} for _ in range(4)]
    for event in exact.events("/v1/completions", body):
        for choice in event["choices"]:
            part = parts[choice["index"]]
            part["text"] += choice["text"]
            for name, values in (choice["logprobs"] or {}).items():
                part["logprobs"].setdefault(name, []).extend(values)
    for part, choice in zip(parts, answer["choices"]):
        assert part == {"text": choice["text"], "logprobs": choice["logprobs"]}


def test_the_form_of_vllm(exact, ids, expected):
    answer = exact.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "prompt_logprobs": 2, "n": 2})
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    for choice in answer["choices"]:
        first, *rest = choice["prompt_logprobs"]
        assert first is None and len(rest) == len(ids) - 1
        for token, row, entry in zip(ids[1:], expected, rest):
            best = sorted(range(len(row)), key=lambda i: -row[i])[:2]
            assert set(map(int, entry)) == {token, *best}
            for key, each in entry.items():
                assert each["logprob"] == near(row[int(key)])
                assert each["rank"] == (1 + best.index(int(key)) if int(key) in best else None)
            assert entry[str(token)]["decoded_token"] in PROMPT
    # With an echo each has as many as it asked for.
    both = exact.post("/v1/completions", {"prompt": ids, "max_tokens": 0, "prompt_logprobs": 0, "echo": True,
                                          "logprobs": 2})["choices"][0]
    assert {len(entry) for entry in both["prompt_logprobs"][1:]} == {1}
    assert {len(top) for top in both["logprobs"]["top_logprobs"][1:]} == {2}


def test_of_a_conversation(exact):
    body = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 2, "seed": 1}
    answer = exact.post("/v1/chat/completions", body | {"prompt_logprobs": 1})
    first, *rest = answer["prompt_logprobs"]
    assert first is None and len(rest) == answer["usage"]["prompt_tokens"] - 1
    text = exact.post("/apply-template", body)["prompt"]
    ids = exact.post("/tokenize", {"content": text, "add_special": True})["tokens"]
    [choice] = echoed(exact, prompt=ids)
    assert [entry[str(token)]["logprob"] for entry, token in zip(rest, ids[1:])] == near(
        choice["logprobs"]["token_logprobs"][1:])
    plain = exact.post("/v1/chat/completions", body)
    assert "prompt_logprobs" not in plain
    assert plain["choices"] == answer["choices"]


def test_others_go_on_beside_it(exact, ids):
    def plain(seed):
        body = {"prompt": PROMPT[:seed], "max_tokens": 30, "seed": seed}
        return exact.post("/v1/completions", body)["choices"][0]["text"]

    alone = [plain(seed) for seed in range(1, 7)]
    [before] = echoed(exact, prompt=ids * 8)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        told = [pool.submit(echoed, exact, prompt=ids * 8) for _ in range(3)]
        texts = [pool.submit(plain, seed) for seed in range(1, 7)]
        assert [text.result() for text in texts] == alone
        for each in told:
            assert each.result() == [before]


@pytest.mark.parametrize("path, fields, name", [
    ("/v1/completions", {"prompt": "a", "prompt_logprobs": 21}, "prompt_logprobs"),
    ("/v1/completions", {"prompt": "a", "prompt_logprobs": -1}, "prompt_logprobs"),
    ("/v1/completions", {"prompt": "a", "prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "prompt_logprobs": "x"},
     "prompt_logprobs"),
    # More values than an answer may have.
    ("/v1/completions", {"prompt": "a " * 1000, "prompt_logprobs": 20, "n": 128}, "prompt_logprobs"),
    ("/v1/completions", {"prompt": ["a " * 200] * 1000, "echo": True, "logprobs": 20}, "logprobs"),
])
def test_a_wrong_field_is_named(exact, path, fields, name):
    status, error = exact.error(path, fields)
    assert (status, error["param"]) == (400, name)
