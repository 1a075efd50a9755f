"""LoRA adapters of requests and of the server: the field `lora` and /lora-adapters."""

import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.reference.model import Model  # noqa: E402
from tests.golden.test_adapters import random_adapter  # noqa: E402

MODEL = ROOT / "tests/data/golden/llama-f32.gguf"
ASKED = {"prompt": [1, 9, 4, 7, 2, 11, 5], "n_predict": 12, "temperature": 0, "ignore_eos": True,
         "return_tokens": True}


@pytest.fixture(scope="module")
def served(begin_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    for i in (1, 2):
        metadata, tensors = random_adapter(Model(MODEL), i)
        metadata["adapter.lora.task_name"] = f"task {i}"
        gguf.write(folder / f"{i}.gguf", metadata, tensors)
    return begin_module("-m", MODEL, "-t", "2", "--lora", folder / "1.gguf", "--lora",
                        f"{folder / '2.gguf'}:0")


def tokens(service, **fields):
    return service.post("/completion", ASKED | fields)["tokens"]


def scales(*values):
    return [{"id": i, "scale": value} for i, value in enumerate(values)]


def test_a_request_says_which(served):
    alone = {pair: tokens(served, lora=scales(*pair)) for pair in [(0, 0), (1, 0), (0, 1), (1, 1)]}
    assert len({tuple(made) for made in alone.values()}) == 4
    assert tokens(served) == alone[1, 0]  # as loaded
    assert tokens(served, lora=[]) == alone[0, 0]
    assert tokens(served, lora=[{"id": 1}]) == alone[0, 1]  # one that is not named has 0
    body = {"prompt": "a", "raw": True, "options": {"num_predict": 8, "temperature": 0}}
    ollama = {pair: served.post("/api/generate", body | {"lora": scales(*pair), "stream": False})["response"]
              for pair in alone}
    assert len(set(ollama.values())) > 1
    for pair, text in ollama.items():
        options = body["options"] | {"lora": scales(*pair)}
        again = served.post("/api/generate", body | {"options": options, "stream": False})
        assert again["response"] == text
    for path, form in (("/v1/completions", {"max_tokens": 12}), ("/completion", {})):
        answers = [served.post(path, ASKED | form | {"lora": scales(*pair)}) for pair in alone]
        texts = [str(answer.get("choices", [answer])[0].get("text", answer.get("content")))
                 for answer in answers]
        assert len(set(texts)) == 4, path


def test_the_server_says_which(served):
    listed = served.get("/lora-adapters")
    assert listed == [{"id": 0, "path": "1.gguf", "scale": 1.0, "task_name": "task 1"},
                      {"id": 1, "path": "2.gguf", "scale": 0.0, "task_name": "task 2"}]
    second = tokens(served, lora=scales(0, 1))
    changed = served.post("/lora-adapters", [{"id": 1, "scale": 1.0}])
    assert [each["scale"] for each in changed] == [0.0, 1.0]
    assert served.get("/lora-adapters") == changed
    assert tokens(served) == second
    assert tokens(served, lora=scales(1, 0)) != second
    served.post("/lora-adapters", scales(1, 0))
    assert served.get("/lora-adapters") == listed


@pytest.mark.parametrize("lora, param", [
    (5, "lora"), ({}, "lora"), ([1], "lora[0]"), ([{}], "lora[0].id"), ([{"id": 2}], "lora[0].id"),
    ([{"id": -1}], "lora[0].id"), ([{"id": 0, "scale": "much"}], "lora[0].scale"),
    ([{"id": 0, "scale": 1e40}], "lora[0].scale"), ([{"id": 0}] * 3, "lora"),
])
def test_a_wrong_field_is_named(served, lora, param):
    before = served.get("/lora-adapters")
    for path, body in (("/completion", ASKED | {"lora": lora}), ("/lora-adapters", lora)):
        status, error = served.error(path, body)
        assert (status, error["param"]) == (400, param), path
    assert served.get("/lora-adapters") == before


def test_a_body_that_is_no_array(served):
    for body in (b"", b"null", b"[", b'[],"lora":[]', b"[]]", b"[" * 100_000):
        status, _, said = served.ask("POST", "/lora-adapters", body)
        assert status == 400 and b"expected an array of adapters" in said, body[:20]


def test_a_model_without_adapters(service):
    assert service.get("/lora-adapters") == []
    assert service.post("/lora-adapters", []) == []
    asked = {"prompt": "a", "n_predict": 1}
    assert service.post("/completion", asked | {"lora": []})["tokens_predicted"] == 1
    assert service.error("/completion", asked | {"lora": [{"id": 0}]})[0] == 400
