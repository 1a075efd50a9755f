"""llama.cpp's own paths: /completion and /slots."""

import json
import socket
import time

import pytest

TEXT = {"prompt": "Once upon a time", "n_predict": 10, "seed": 2}


def events_of(service, body):
    status, headers, text = service.ask("POST", "/completion", body | {"stream": True})
    assert status == 200 and headers["content-type"] == "text/event-stream; charset=utf-8"
    lines = [line for line in text.decode().split("\n\n") if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_a_text(service):
    answer = service.post("/completion", TEXT)
    openai = service.post("/v1/completions", {"prompt": TEXT["prompt"], "max_tokens": 10, "seed": 2})
    assert answer["content"] == openai["choices"][0]["text"]
    assert (answer["stop"], answer["stop_type"], answer["tokens_predicted"]) == (True, "limit", 10)
    assert answer["tokens_evaluated"] == openai["usage"]["prompt_tokens"]
    assert answer["prompt"] == TEXT["prompt"] and answer["timings"]["predicted_n"] == 10
    events = events_of(service, TEXT)
    assert "".join(event["content"] for event in events) == answer["content"]
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["tokens_predicted"] == 10


def test_tokens_and_several_prompts(service):
    tokens = service.post("/tokenize", {"content": TEXT["prompt"], "add_special": True})["tokens"]
    alone = service.post("/completion", TEXT)["content"]
    assert service.post("/completion", TEXT | {"prompt": tokens})["content"] == alone
    both = service.post("/completions", TEXT | {"prompt": [TEXT["prompt"], "The dog"]})
    assert [each["index"] for each in both] == [0, 1] and both[0]["content"] == alone
    assert [each["tokens_predicted"] for each in both] == [10, 10]


def test_tokens_and_texts_in_one_prompt(service):
    def tokens(text, **more):
        return service.post("/tokenize", {"content": text} | more)["tokens"]

    begin, end = tokens("Once upon", add_special=True), tokens(" a time")
    pieces = [["Once upon", *end], [*begin, " a time"], [*begin[:1], "Once upon", *end[:1], " time"]]
    for whole in pieces[:2]:
        assert tokens(whole, add_special=True) == begin + end
    # What begins a text is not put before a text that follows tokens.
    assert tokens(["a", "b"]) == tokens("a") + tokens("b") and tokens([*end, "a"], add_special=True)[:-1] == end
    expected = service.post("/completion", TEXT | {"prompt": begin + end})
    for prompt in pieces[:2]:
        answer = service.post("/completion", TEXT | {"prompt": prompt})
        assert answer["content"] == expected["content"]
        assert answer["tokens_evaluated"] == len(begin + end)
    several = service.post("/completion", TEXT | {"prompt": [pieces[0], "The dog"]})
    assert [each["index"] for each in several] == [0, 1] and several[0]["content"] == expected["content"]
    for wrong in ([1, 2.5], [1, None], ["a", 10**9], [1, ["a"]], [["a", 1.5]]):
        assert service.error("/completion", TEXT | {"prompt": wrong})[1]["message"].startswith("prompt: expected")
    for wrong in ({"content": [1.5]}, {"content": 7}, {}):
        assert service.error("/tokenize", wrong)[1]["message"].startswith("content: expected")


def test_the_order_of_the_samplers(service):
    hot = TEXT | {"temperature": 5.0, "top_k": 1}
    first = service.post("/completion", TEXT | {"top_k": 1})["content"]
    usual = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
    for samplers in (usual, ";".join(usual), ["top_k"], ["infill", "top_k"]):
        assert service.post("/completion", hot | {"samplers": samplers})["content"] == first
    assert service.post("/completion", hot | {"samplers": ["temperature"]})["content"] != first
    for wrong in (["top_q"], ["top_k", "top_k"], 7, [7]):
        status, error = service.error("/completion", hot | {"samplers": wrong})
        assert status == 400 and "samplers" in error["message"], error


def test_what_ends_a_repeat_is_said(service):
    dry = {"prompt": "The dog ran home. " * 4 + "The dog", "n_predict": 8, "temperature": 0,
           "dry_multiplier": 50.0, "dry_allowed_length": 1}
    free = service.post("/completion", dry | {"dry_sequence_breakers": []})["content"]
    bound = service.post("/completion", dry | {"dry_sequence_breakers": [" ", "a", "e", "."]})["content"]
    assert free != bound
    assert service.error("/completion", dry | {"dry_sequence_breakers": 7})[0] == 400


def test_a_line_break_is_told_in_a_stream(service):
    for text in ('"a\\nb"', '"ab"'):
        held = {"prompt": "x", "n_predict": 5, "grammar": "root ::= " + text}
        expected = "n" in text
        assert service.post("/completion", held)["has_new_line"] is expected
        assert events_of(service, held)[-1]["has_new_line"] is expected


def test_a_stop_string_is_named(service):
    text = service.post("/completion", TEXT)["content"]
    answer = service.post("/completion", TEXT | {"stop": [text[5:9]]})
    assert (answer["stop_type"], answer["stopping_word"]) == ("word", text[5:9])


def test_probabilities_and_biases(service):
    answer = service.post("/completion", TEXT | {"n_probs": 3})
    found = answer["completion_probabilities"]
    assert len(found) == 10 and all(len(each["top_logprobs"]) == 3 for each in found)
    assert "".join(each["token"] for each in found) == answer["content"]
    first = found[0]["id"]
    never = service.post("/completion", TEXT | {"n_probs": 1, "logit_bias": [[first, False]]})
    assert never["completion_probabilities"][0]["id"] != first
    same = service.post("/completion", TEXT | {"n_probs": 1, "logit_bias": {str(first): -100}})
    assert same["content"] == never["content"]


def test_a_bias_of_a_text(service):
    tokens = service.post("/tokenize", {"content": "xylo"})["tokens"]
    assert len(tokens) > 1
    by_text = service.post("/completion", TEXT | {"logit_bias": [["xylo", 50]]})
    by_ids = service.post("/completion", TEXT | {"logit_bias": [[token, 50] for token in tokens]})
    assert by_text["content"] == by_ids["content"] != service.post("/completion", TEXT)["content"]


def test_the_tokens_are_returned_if_asked_for(service):
    assert service.post("/completion", TEXT)["tokens"] == []
    answer = service.post("/completion", TEXT | {"return_tokens": True})
    assert len(answer["tokens"]) == 10 and "completion_probabilities" not in answer
    spelt = service.post("/detokenize", {"tokens": answer["tokens"]})["content"]
    assert spelt.strip() == answer["content"].strip()
    events = events_of(service, TEXT | {"return_tokens": True})
    assert [token for event in events for token in event["tokens"]] == answer["tokens"]
    both = service.post("/completion", TEXT | {"return_tokens": True, "n_probs": 2})
    assert [each["id"] for each in both["completion_probabilities"]] == both["tokens"] == answer["tokens"]


@pytest.mark.parametrize("change, field", [
    ({"prompt": []}, "prompt"), ({"prompt": [10**9]}, "prompt"), ({"n_predict": -2}, "n_predict"),
    ({"n_predict": 2**40}, "n_predict"), ({"n_probs": 100}, "n_probs"), ({"logit_bias": [[1]]}, "logit_bias"),
    ({"logit_bias": [["", 1]]}, "logit_bias"), ({"logit_bias": [[True, 1]]}, "logit_bias"),
    ({"return_tokens": 1}, "return_tokens"), ({"logit_bias": [[10**9, 1]]}, "logit_bias"),
    ({"logit_bias": [[1, "x"]]}, "logit_bias.1"), ({"prompt": ["a", "b"], "stream": True}, "prompt"),
])
def test_a_wrong_field_is_named(service, change, field):
    status, error = service.error("/completion", TEXT | change)
    assert (status, error["param"]) == (400, field)


def test_slots(service):
    idle = service.get("/slots")
    assert len(idle) >= 1 and [slot["id"] for slot in idle] == list(range(len(idle)))
    body = json.dumps(TEXT | {"n_predict": 900, "ignore_eos": True, "stream": True, "n_probs": 20}).encode()
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                           str(len(body)).encode() + b"\r\n\r\n" + body)
        end = time.monotonic() + 20
        while not any(slot["is_processing"] for slot in service.get("/slots")):
            assert time.monotonic() < end
    end = time.monotonic() + 20
    while any(slot["is_processing"] for slot in service.get("/slots")):
        assert time.monotonic() < end
    assert service.error("/slots", {})[0] == 405
