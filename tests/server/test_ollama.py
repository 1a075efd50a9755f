"""ollama's interface, by hand and with its own client."""

import json
import pathlib
import re
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORY = {"model": "infer-demo", "messages": [{"role": "user", "content": "Tell me a story."}],
         "options": {"num_predict": 12, "seed": 1}}
SCHEMA = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
          "required": ["days"], "additionalProperties": False}


def lines_of(service, path, body):
    status, headers, text = service.ask("POST", path, body)
    assert status == 200, text
    assert headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in text.decode().splitlines()]


def test_chat(service):
    whole = service.post("/api/chat", STORY | {"stream": False})
    assert whole["done"] and whole["done_reason"] == "length"
    assert whole["message"]["content"].startswith("Once upon a time")
    assert whole["eval_count"] == 12 and whole["eval_duration"] > 0
    lines = lines_of(service, "/api/chat", STORY)
    assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]


def test_log_probabilities(service):
    asked = STORY | {"logprobs": True, "top_logprobs": 2}
    made = service.post("/api/chat", asked | {"stream": False})["logprobs"]
    assert len(made) == 12
    assert all(len(token["top_logprobs"]) == 2 and token["logprob"] <= 0 and token["bytes"] for token in made)
    assert "".join(token["token"] for token in made).strip().startswith("Once upon a time")
    assert [token for line in lines_of(service, "/api/chat", asked) for token in line.get("logprobs", [])] == made
    plain = service.post("/api/generate", {"prompt": "Once", "logprobs": True, "stream": False,
                                           "options": {"num_predict": 2}})
    assert [token["top_logprobs"] for token in plain["logprobs"]] == [[], []]
    assert "logprobs" not in service.post("/api/chat", STORY | {"stream": False})


def test_a_last_message_of_the_assistant_is_continued(service):
    begun = STORY["messages"] + [{"role": "assistant", "content": "Once upon a"}]
    whole = service.post("/api/chat", STORY | {"messages": begun, "stream": False})
    assert whole["message"]["content"].startswith(" time")
    prompt = service.post("/apply-template", {"messages": begun, "continue_final_message": True})["prompt"]
    assert whole["prompt_eval_count"] == len(service.post("/tokenize", {"content": prompt, "add_special": True})["tokens"])
    lines = lines_of(service, "/api/chat", STORY | {"messages": begun})
    assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"]
    # No text is no beginning of one, and calls are whole.
    call = {"function": {"name": "f", "arguments": {}}}
    for last in ({"content": ""}, {"content": "Once", "tool_calls": [call]}):
        other = STORY["messages"] + [{"role": "assistant"} | last]
        answer = service.post("/api/chat", STORY | {"messages": other, "stream": False})
        assert not answer["message"]["content"].startswith((" time", " upon"))
    for wrong in ({}, {"role": None, "content": "x"}, {"role": 1}):
        assert service.ask("POST", "/api/chat", STORY | {"messages": [wrong]})[0] == 400


def test_generate(service):
    body = {"model": "infer-demo", "prompt": "Once upon a time", "raw": True,
            "options": {"num_predict": 5, "temperature": 0}}
    whole = service.post("/api/generate", body | {"stream": False})
    assert whole["response"] and whole["eval_count"] == 5
    assert "".join(line["response"] for line in lines_of(service, "/api/generate", body)) == whole["response"]
    assert service.post("/api/generate", body | {"stream": False, "raw": False, "system": "Be brief."})["response"]


def test_formats(service):
    options = {"num_predict": 100, "seed": 1}
    whole = service.post("/api/chat", STORY | {"stream": False, "format": SCHEMA, "options": options})
    assert 1 <= json.loads(whole["message"]["content"])["days"] <= 9


def test_no_text_has_the_model_loaded(service):
    for path, body in (("/api/generate", {}), ("/api/chat", {"messages": []})):
        answer = service.post(path, body | {"model": "infer-demo"})
        assert (answer["done"], answer["done_reason"]) == (True, "load")
        # The server's only model stays.
        assert service.post(path, body | {"model": "infer-demo", "keep_alive": 0})["done_reason"] == "load"


def test_empty_fields_are_none(service):
    """As clients in Go send them."""
    body = {"prompt": "Once", "stream": False, "options": {"num_predict": 5, "temperature": 0}}
    plain = service.post("/api/generate", body)
    empty = service.post("/api/generate", body | {"suffix": "", "system": "", "template": ""})
    assert (empty["response"], empty["prompt_eval_count"]) == (plain["response"], plain["prompt_eval_count"])
    assert service.error("/api/generate", body | {"suffix": "x"})[0] == 400
    assert service.post("/v1/completions", {"prompt": "Once", "suffix": "", "max_tokens": 1})


def test_what_is_there(service):
    [model] = service.get("/api/tags")["models"]
    assert model["name"] == "infer-demo" and len(model["digest"]) == 64
    assert service.get("/api/tags")["models"][0]["modified_at"] == model["modified_at"]  # the file's
    assert re.fullmatch(r"[1-9]\d*\.\d\dM", model["details"]["parameter_size"])
    [loaded] = service.get("/api/ps")["models"]
    assert loaded["context_length"] > 0 and loaded["expires_at"].startswith("2318")  # it stays
    assert service.get("/api/version")["version"]
    shown = service.post("/api/show", {"model": "infer-demo"})
    assert shown["details"]["format"] == "gguf" and shown["capabilities"] == ["completion"]


def shown_by(start, *arguments, model="x"):
    return start("-t", 1, *arguments).post("/api/show", {"model": model})["capabilities"]


def test_what_models_can_do(start):
    data = ROOT / "tests" / "data"
    vision = data / "vision"
    assert shown_by(start, "-m", vision / "tiny.gguf", "--mmproj", vision / "tiny-mmproj.gguf") == \
        ["completion", "vision"]
    assert shown_by(start, "-m", data / "embed" / "bert-mean") == ["embedding"]
    for name, able in (("Qwen3.5-4B", ["completion", "tools", "thinking"]),
                       ("openai-gpt-oss-120b", ["completion", "tools", "thinking"])):
        assert shown_by(start, "--chat-template-file", data / "templates" / f"{name}.jinja") == able


def test_what_models_can_do_that_are_not_loaded(start, tmp_path):
    pytest.importorskip("numpy")
    sys.path.insert(0, str(ROOT))
    from tests.golden.reference import gguf
    demo = ROOT / "app" / "demo" / "infer-demo.gguf"
    shutil.copy(demo, tmp_path / "demo.gguf")
    gguf.add_metadata(demo, tmp_path / "filling.gguf", {
        f"tokenizer.ggml.fim_{name}_token_id": at for name, at in (("pre", 20), ("suf", 21), ("mid", 22))})
    gguf.add_metadata(demo, tmp_path / "calling.gguf", {"tokenizer.chat_template.tool_use": "{{ tools }}"})
    for name in ("bert-cls", "gemma-embedding", "qwen3-embedding"):
        shutil.copytree(ROOT / "tests" / "data" / "embed" / name, tmp_path / name)
    service = start("--models", tmp_path, "-t", "1")
    able = {model["id"]: service.post("/api/show", {"model": model["id"]})["capabilities"]
            for model in service.get("/v1/models")["data"]}
    assert able == {"demo": ["completion"], "filling": ["completion", "insert"],
                    "calling": ["completion", "tools"], "bert-cls": ["embedding"],
                    "gemma-embedding": ["embedding"], "qwen3-embedding": ["embedding"]}
    assert service.get("/api/ps")["models"] == []


@pytest.mark.parametrize("change, why", [
    ({"options": {"temperature": "x"}}, "options.temperature"), ({"options": []}, "options"),
    ({"format": "xml"}, "format"), ({"messages": {}}, "messages"),
    ({"messages": [{"role": "user", "content": "x", "images": [5]}]}, "messages[0].images"),
])
def test_what_is_wrong_is_named(service, change, why):
    status, _, text = service.ask("POST", "/api/chat", STORY | change)
    assert status == 400 and why in json.loads(text)["error"]


def test_the_client(service):
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(host=f"http://127.0.0.1:{service.port}")
    whole = client.chat(**STORY)
    assert whole.message.content.startswith("Once upon a time")
    assert "".join(part.message.content for part in client.chat(**STORY, stream=True)) == whole.message.content
    assert client.list().models[0].model == "infer-demo"
    assert client.show("infer-demo").details.format == "gguf"
    assert client.generate(model="x", prompt="Once", options={"num_predict": 3}).response
    with pytest.raises(ollama.ResponseError):
        client.chat(model="x", messages=[{"role": "wizard", "content": "x"}])
