"""The text between two others: llama.cpp's /infill, and the suffix of other interfaces."""

import json
import pathlib
import sys

import pytest

pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402

DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
PREFIX, SUFFIX, MIDDLE = 20, 21, 22
BEFORE, AFTER = "Once upon a time", "The end."
GREEDY = {"n_predict": 8, "temperature": 0}


@pytest.fixture(scope="module")
def filling(begin_module, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "filling.gguf"
    names = {"pre": PREFIX, "suf": SUFFIX, "mid": MIDDLE}
    gguf.add_metadata(DEMO, path, {f"tokenizer.ggml.fim_{name}_token_id": at for name, at in names.items()})
    return begin_module("-m", path, "-c", 256, "-t", 1)


def ids_of(service, text, **options):
    return service.post("/tokenize", {"content": text, "parse_special": False} | options)["tokens"]


def prompt_of(service, before, after):
    begin = ids_of(service, "", add_special=True)[:1]  # of texts, if any
    return [*begin, PREFIX, *ids_of(service, before), SUFFIX, *ids_of(service, after), MIDDLE]


def test_the_text_between(filling):
    prompt = prompt_of(filling, BEFORE, AFTER)
    expected = filling.post("/completion", GREEDY | {"prompt": prompt})
    body = GREEDY | {"input_prefix": BEFORE, "input_suffix": AFTER}
    answer = filling.post("/infill", body)
    assert answer["content"] == expected["content"]
    assert answer["tokens_evaluated"] == len(prompt)
    assert answer["prompt"] == filling.post("/detokenize", {"tokens": prompt})["content"]
    # What is begun already belongs to what comes before.
    begun = filling.post("/infill", body | {"input_prefix": BEFORE[:5], "prompt": BEFORE[5:]})
    assert begun["content"] == expected["content"]
    openai = filling.post("/v1/completions", {"prompt": BEFORE, "suffix": AFTER, "max_tokens": 8, "temperature": 0})
    assert openai["choices"][0]["text"] == expected["content"]
    ollama = filling.post("/api/generate", {"prompt": BEFORE, "suffix": AFTER, "stream": False,
                                            "options": {"num_predict": 8, "temperature": 0}})
    assert ollama["response"] == expected["content"]
    status, _, events = filling.ask("POST", "/infill", body | {"stream": True})
    assert status == 200
    assert "".join(json.loads(line[6:])["content"] for line in events.decode().split("\n\n") if line) == \
        expected["content"]


def test_nothing_before_it(filling):
    expected = filling.post("/infill", GREEDY | {"input_prefix": "", "input_suffix": AFTER})
    for more in ({}, {"prompt": ""}, {"prompt": [""]}):
        openai = filling.post("/v1/completions", {"suffix": AFTER, "max_tokens": 8, "temperature": 0} | more)
        assert openai["choices"][0]["text"] == expected["content"]
        assert openai["usage"]["prompt_tokens"] == expected["tokens_evaluated"]
    ollama = filling.post("/api/generate", {"suffix": AFTER, "stream": False,
                                            "options": {"num_predict": 8, "temperature": 0}})
    assert ollama["response"] == expected["content"]


def test_what_does_not_fit_is_left_out(filling):
    long = " ".join(str(i) for i in range(2000))
    body = GREEDY | {"input_prefix": long + BEFORE, "input_suffix": AFTER + long}
    files = [{"filename": "a.txt", "text": long}, {"text": "x"}]
    for extra in ([], files):
        answer = filling.post("/infill", body | {"input_extra": extra})
        assert answer["tokens_evaluated"] == 256 - 8
        assert BEFORE in answer["prompt"] and AFTER in answer["prompt"]
    assert "x" in filling.post("/infill", {"input_prefix": "", "input_suffix": "", "input_extra": files,
                                           "n_predict": 1})["prompt"]


@pytest.mark.parametrize("change, named", [
    ({"input_prefix": None}, "input_prefix"), ({"input_suffix": 5}, "input_suffix"),
    ({"input_extra": {}}, "input_extra"), ({"input_extra": [5]}, "input_extra[0]"),
    ({"input_extra": [{"filename": "a"}]}, "input_extra[0].text"), ({"prompt": ["a"]}, "prompt"),
])
def test_what_is_wrong_is_named(filling, change, named):
    status, error = filling.error("/infill", {"input_prefix": "a", "input_suffix": "b"} | change)
    assert status == 400 and named in error["message"], error


def test_a_model_that_cannot(service):
    for path, body in (("/infill", {"input_prefix": "a", "input_suffix": "b"}),
                       ("/v1/completions", {"prompt": "a", "suffix": "b"}),
                       ("/api/generate", {"prompt": "a", "suffix": "b"})):
        status, _, answer = service.ask("POST", path, body)
        assert status == 400 and b"no tokens to fill in" in answer, (path, answer)
    assert service.error("/v1/completions", {"prompt": "a", "suffix": "b"})[1]["param"] == "suffix"
