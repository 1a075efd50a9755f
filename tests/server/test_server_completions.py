"""POST /v1/completions, and tokens."""

import json
import struct
import subprocess

import pytest

from service import BIN

TEXT = {"prompt": "Once upon a time", "max_tokens": 10, "seed": 2}


def text_of(events, index=0):
    return "".join(choice["text"] for event in events for choice in event["choices"]
                   if choice["index"] == index)


def test_a_text(service):
    answer = service.post("/v1/completions", TEXT)
    assert answer["object"] == "text_completion"
    [choice] = answer["choices"]
    assert choice["text"] and choice["finish_reason"] == "length"
    assert text_of(service.events("/v1/completions", TEXT)) == choice["text"]
    tokens = service.post("/tokenize", {"content": TEXT["prompt"], "add_special": True})["tokens"]
    assert service.post("/v1/completions", TEXT | {"prompt": tokens})["choices"] == answer["choices"]


def test_several_prompts_and_answers(service):
    prompts = ["Once upon a time", "The dog", "A wizard"]
    answer = service.post("/v1/completions", TEXT | {"prompt": prompts, "n": 2, "echo": True})
    texts = [choice["text"] for choice in answer["choices"]]
    assert len(texts) == 6
    for i, text in enumerate(texts):
        assert text.startswith(prompts[i // 2])
    alone = service.post("/v1/completions", TEXT | {"prompt": "The dog", "echo": True})
    assert alone["choices"][0]["text"] == texts[2]
    events = service.events("/v1/completions", TEXT | {"prompt": prompts, "n": 2, "echo": True})
    assert [text_of(events, i) for i in range(6)] == texts


def test_names_of_other_servers(service):
    def text(**more):
        return service.post("/v1/completions", TEXT | more)["choices"][0]["text"]
    assert text(top_k=-1) == text(top_k=0)
    assert text(repetition_penalty=3.0) == text(repeat_penalty=3.0) != text()
    assert text(mirostat=2, mirostat_tau=0.5) == text(mirostat=2, mirostat_target=0.5)


def test_log_probabilities(service):
    choice = service.post("/v1/completions", TEXT | {"logprobs": 2})["choices"][0]
    found = choice["logprobs"]
    assert "".join(found["tokens"]) == choice["text"]
    assert len(found["token_logprobs"]) == len(found["top_logprobs"]) == 10
    assert found["text_offset"][0] == 0
    assert all(len(top) == 2 for top in found["top_logprobs"])


@pytest.mark.parametrize("change, field", [
    ({"prompt": []}, "prompt"), ({"prompt": [[]]}, "prompt"), ({"prompt": [10**9]}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"), ({"prompt": [1, None]}, "prompt"),
    ({"best_of": 3}, "best_of"),
    ({"prompt": ["a"] * 600, "n": 2, "best_of": 2}, "n"), ({"logprobs": 100}, "logprobs"),
])
def test_a_wrong_field_is_named(service, change, field):
    status, error = service.error("/v1/completions", TEXT | change)
    assert (status, error["param"]) == (400, field)


def test_tokens(service):
    tokens = service.post("/tokenize", {"content": "Hello there"})["tokens"]
    assert service.post("/detokenize", {"tokens": tokens})["content"] == "Hello there"
    pieces = service.post("/tokenize", {"content": "Hello there", "with_pieces": True})["tokens"]
    assert [piece["id"] for piece in pieces] == tokens
    assert "".join(piece["piece"] for piece in pieces) == "Hello there"
    # What is no text by itself is bytes.
    pieces = service.post("/tokenize", {"content": "\U0001F9EC", "with_pieces": True})["tokens"]
    assert bytes(byte for piece in pieces for byte in piece["piece"]).endswith("\U0001F9EC".encode())
    assert service.error("/detokenize", {"tokens": [-1]})[0] == 400
    prompt = service.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]})["prompt"]
    assert "Hi" in prompt


def test_a_damaged_model_is_named_as_clients_know_it(start, tmp_path):
    path = tmp_path / "damaged.gguf"
    subprocess.run([BIN, "synth", "custom", path, "--type", "f32", "--layers", "1", "--embedding", "32",
                    "--feed-forward", "32", "--heads", "1", "--kv-heads", "1", "--tokens", "300", "-q"],
                   check=True)
    data = bytearray(path.read_bytes())
    half = len(data) // 8 * 4
    data[half:] = struct.pack("<f", float("nan")) * ((len(data) - half) // 4)
    path.write_bytes(data)
    service = start("-m", path, "-c", "64", "-t", "1")
    status, _, text = service.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 2})
    message = json.loads(text)["error"]["message"]
    name = service.get("/v1/models")["data"][0]["id"]
    assert status == 500 and message.startswith(f"{name}: the model's logits are not numbers")
    assert str(tmp_path) not in message
