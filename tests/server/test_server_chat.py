"""POST /v1/chat/completions."""

import json
import math

import pytest

STORY = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 12, "seed": 5}


def text_of(events, index=0):
    return "".join(choice["delta"].get("content") or "" for event in events
                   for choice in event["choices"] if choice["index"] == index)


def test_an_answer(service):
    answer = service.post("/v1/chat/completions", STORY)
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "infer-demo"
    [choice] = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].startswith("Once upon a time")
    assert choice["finish_reason"] == "length"
    usage = answer["usage"]
    assert usage["completion_tokens"] == 12
    assert usage["total_tokens"] == usage["prompt_tokens"] + 12
    # The same seed gives the same text, streamed or not.
    assert service.post("/v1/chat/completions", STORY)["choices"] == answer["choices"]
    events = service.events("/v1/chat/completions", STORY)
    assert text_of(events) == choice["message"]["content"]
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert all(event["object"] == "chat.completion.chunk" for event in events)


def test_usage_is_streamed_if_asked_for(service):
    plain = service.events("/v1/chat/completions", STORY)
    assert not any("usage" in event for event in plain)
    events = service.events("/v1/chat/completions", STORY | {"stream_options": {"include_usage": True}})
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 12


def test_several_answers(service):
    answer = service.post("/v1/chat/completions", STORY | {"n": 3})
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len(set(texts)) == 3
    assert answer["usage"]["completion_tokens"] == 36
    # Each is that of its own seed, whatever is computed beside it.
    alone = service.post("/v1/chat/completions", STORY | {"seed": 6})
    assert alone["choices"][0]["message"]["content"] == texts[1]
    events = service.events("/v1/chat/completions", STORY | {"n": 3})
    assert [text_of(events, index) for index in range(3)] == texts


def test_the_beginning_is_found_in_the_cache(service):
    words = " ".join(f"word{i}" for i in range(60))
    first = {"role": "user", "content": f"Remember these: {words}"}
    body = {"messages": [first], "max_tokens": 4, "seed": 1}
    answer = service.post("/v1/chat/completions", body)
    said = answer["choices"][0]["message"]
    again = body | {"messages": [first, said, {"role": "user", "content": "And now?"}]}
    usage = service.post("/v1/chat/completions", again)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 64


def test_log_probabilities(service):
    body = STORY | {"logprobs": True, "top_logprobs": 3}
    answer = service.post("/v1/chat/completions", body)
    tokens = answer["choices"][0]["logprobs"]["content"]
    assert len(tokens) == 12
    assert "".join(token["token"] for token in tokens) == answer["choices"][0]["message"]["content"]
    for token in tokens:
        assert bytes(token["bytes"]).decode() == token["token"]
        assert len(token["top_logprobs"]) == 3
        assert all(math.exp(top["logprob"]) <= 1 for top in token["top_logprobs"])
        values = [top["logprob"] for top in token["top_logprobs"]]
        assert values == sorted(values, reverse=True)
    events = service.events("/v1/chat/completions", body)
    streamed = [token for event in events for choice in event["choices"]
                for token in (choice.get("logprobs") or {}).get("content", [])]
    assert streamed == tokens


def test_log_probabilities_of_a_stop_string(service):
    """Every token generated has its own, also those that the answer's text does not have."""
    body = STORY | {"logprobs": True}
    whole = service.post("/v1/chat/completions", body)["choices"][0]["logprobs"]["content"]
    body["stop"] = [whole[4]["token"] + whole[5]["token"]]
    answer = service.post("/v1/chat/completions", body)
    [choice] = answer["choices"]
    tokens = choice["logprobs"]["content"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == "".join(token["token"] for token in whole[:4])
    assert tokens == whole[:6] and answer["usage"]["completion_tokens"] == 6
    events = service.events("/v1/chat/completions", body)
    streamed = [token for event in events for each in event["choices"]
                for token in (each.get("logprobs") or {}).get("content", [])]
    assert streamed == tokens


def test_stop_strings_and_bias(service):
    whole = service.post("/v1/chat/completions", STORY)["choices"][0]["message"]["content"]
    word = whole.split()[3]
    answer = service.post("/v1/chat/completions", STORY | {"stop": [word]})["choices"][0]
    assert answer["finish_reason"] == "stop"
    assert answer["message"]["content"] == whole[:whole.index(word)]
    [first] = service.post("/tokenize", {"content": whole.split()[0]})["tokens"][:1]
    other = service.post("/v1/chat/completions", STORY | {"logit_bias": {str(first): -100}})
    assert not other["choices"][0]["message"]["content"].startswith(whole.split()[0])


SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}


def test_structured_output(service):
    body = STORY | {"max_tokens": 200, "response_format":
                    {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}}
    person = json.loads(service.post("/v1/chat/completions", body)["choices"][0]["message"]["content"])
    assert set(person) == {"name", "age"}
    assert 0 <= person["age"] <= 99


def test_a_schema_may_be_a_boolean(service):
    for field in ({"json_schema": True},
                  {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": True}}}):
        body = STORY | field | {"max_tokens": 3}
        assert service.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    text = {"format": {"type": "json_schema", "name": "n", "schema": True}}
    assert service.post("/v1/responses", {"input": "hi", "text": text, "max_output_tokens": 3})["output"]
    status, error = service.error("/v1/chat/completions", STORY | {"json_schema": False})
    assert status == 400 and "no value satisfies it" in error["message"]
    status, error = service.error("/v1/chat/completions", STORY | {"json_schema": 3})
    assert (status, error["param"]) == (400, "json_schema")


TOOL = {"type": "function", "function": {"name": "add_person", "description": "Adds a person",
                                         "parameters": SCHEMA}}


@pytest.mark.parametrize("choice", ["required", {"type": "function",
                                                 "function": {"name": "add_person"}}])
@pytest.mark.parametrize("tools", [1, 2])
def test_a_call_that_is_required(service, choice, tools):
    other = {"type": "function", "function": {"name": "stop", "parameters": {
        "type": "object", "properties": {}, "additionalProperties": False}}}
    body = STORY | {"max_tokens": 200, "tools": [TOOL, other][:tools], "tool_choice": choice}
    answer = service.post("/v1/chat/completions", body)["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["content"] is None
    [call] = answer["message"]["tool_calls"]
    assert call["type"] == "function" and call["id"]
    arguments = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "add_person":
        assert set(arguments) == {"name", "age"}
    else:
        assert (call["function"]["name"], arguments) == ("stop", {})
    cut = service.post("/v1/chat/completions", body | {"max_tokens": 4})["choices"][0]
    assert cut["finish_reason"] == "length"
    assert all(each["function"]["name"] for each in cut["message"].get("tool_calls", []))
    events = service.events("/v1/chat/completions", body)
    [streamed] = [each for event in events for part in event["choices"]
                  for each in part["delta"].get("tool_calls", [])]
    assert streamed["index"] == 0
    assert streamed["function"] == call["function"]


@pytest.mark.parametrize("change, field, why", [
    ({"messages": []}, "messages", "at least one message"),
    ({"messages": "hi"}, "messages", "array"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role", "assistant"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "string"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
     "messages[0].content[0].type", "text"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
     "messages[0].content[0].image_url.url", "data URI"),
    ({"temperature": "hot"}, "temperature", "number"),
    ({"temperature": -1}, "temperature", "0"),
    ({"top_k": 1.5}, "top_k", "whole number"),
    ({"top_k": 2**70}, "top_k", "whole number"),
    ({"max_tokens": -7}, "max_tokens", "-1"),
    ({"max_tokens": 2**40}, "max_tokens", "whole number"),
    ({"n": 0}, "n", "1"),
    ({"n": 10**6}, "n", "128"),
    ({"seed": "x"}, "seed", "whole number"),
    ({"stop": [1]}, "stop", "strings"),
    ({"stop": ["x"] * 65}, "stop", "64"),
    ({"stream": "yes"}, "stream", "true or false"),
    ({"logit_bias": {"-1": 1}}, "logit_bias", "tokens"),
    ({"logit_bias": {"1": 1000}}, "logit_bias.1", "100"),
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs", "20"),
    ({"response_format": {"type": "xml"}}, "response_format.type", "json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}},
     "response_format.json_schema.schema", "type"),
    ({"response_format": {"type": "json_object", "schema": {"maxContains": 1}}}, "response_format.schema",
     "maxContains"),
    ({"json_schema": {"$ref": "#/x"}}, "json_schema", "$ref"),
    ({"json_schema": {"$ref": "#/x"}, "stream": True}, "json_schema", "$ref"),
    ({"grammar": "root ::= ("}, "grammar", "line 1"),
    ({"grammar": 'root ::= "a"', "json_schema": {}}, "grammar", "JSON schema"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"pattern": "("}}}],
      "tool_choice": "required"}, "tools", "pattern"),
    ({"samplers": ["x"]}, "samplers", "'x'"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "schema"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "object"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "the server runs no tools itself"),
    ({"tools": [{"type": "function", "function": {"name": ""}}], "tool_choice": "required"},
     "tools[0].function.name", "name of a function"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", "name of a function"),
    ({"tools": [TOOL], "tool_choice": "always"}, "tool_choice", "required"),
    ({"tools": [TOOL], "tool_choice": {"function": {"name": "x"}}}, "tool_choice", "function"),
    ({"tools": [TOOL], "tool_choice": {"function": {}}}, "tool_choice.function.name", "name"),
    ({"tools": [TOOL], "tool_choice": {"type": "custom"}}, "tool_choice.type", "allowed_tools"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools", "mode"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": []}}},
     "tool_choice.allowed_tools.tools", "at least one"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {
        "tools": [{"type": "function", "function": {"name": "x"}}]}}}, "tool_choice", "no x"),
])
def test_a_wrong_field_is_named(service, change, field, why):
    status, error = service.error("/v1/chat/completions", STORY | change)
    assert status == 400
    assert error["param"] == field
    assert field in error["message"] and why in error["message"]
    assert error["type"] == "invalid_request_error"


LARGE = 10**30 + 1


@pytest.mark.parametrize("path, change, field", [
    ("/v1/chat/completions", {"json_schema": {"enum": [LARGE]}}, "json_schema"),
    ("/v1/chat/completions", {"response_format": {"type": "json_schema", "json_schema": {
        "schema": {"properties": {"const": {"const": {"a": [-LARGE]}}}}}}}, "response_format.json_schema.schema"),
    ("/v1/chat/completions", {"tool_choice": "required", "tools": [{"type": "function", "function": {
        "name": "f", "parameters": {"properties": {"x": {"enum": [1, LARGE]}}}}}]}, "tools"),
    ("/v1/responses", {"input": "hi", "text": {"format": {"type": "json_schema", "schema": {"const": LARGE}}}},
     "text.format.schema"),
    ("/api/chat", {"format": {"anyOf": [{"const": LARGE}]}}, "format"),
])
def test_large_whole_numbers_in_schemas_are_refused(service, path, change, field):
    """They would lose digits."""
    status, error = service.error(path, STORY | change)
    assert status == 400
    message = error if isinstance(error, str) else error["message"]
    assert message == f"{field}: expected numbers of at most 64 bits in enum and const"
    assert isinstance(error, str) or error["param"] == field


@pytest.mark.parametrize("schema, text", [
    ({"const": 2**64 - 1}, "18446744073709551615"), ({"const": 1e18}, "1e+18"),
    ({"enum": ["10000000000000000000000000000001"]}, '"10000000000000000000000000000001"'),
    ({"type": "object", "properties": {"enum": {"type": "integer", "maximum": LARGE}}, "minProperties": 1}, ""),
])
def test_other_large_numbers_in_schemas(service, schema, text):
    body = STORY | {"json_schema": schema, "max_tokens": 60}
    content = service.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    if text:
        assert content == text
    else:
        made = json.loads(content)
        assert len(made) >= 1 and isinstance(made.get("enum", 0), int)


def test_negative_seeds(service):
    """Any whole number of 64 bits is a seed, but -1."""
    def text(seed):
        body = STORY | {"seed": seed, "temperature": 1, "max_tokens": 20}
        return service.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]

    texts = [text(seed) for seed in (-2, -3, -2**63, 2**63 - 1)]
    assert texts == [text(seed) for seed in (-2, -3, -2**63, 2**63 - 1)]
    assert len(set(texts)) > 1
    assert len({text(-1) for _ in range(4)}) > 1


@pytest.mark.parametrize("body, why", [
    (b"", "not JSON"), (b"{", "not JSON"), (b"[]", "expected a JSON object"), (b"\xff{}", "not JSON"),
    (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested deeper than 100"),
])
def test_a_body_that_is_no_request(service, body, why):
    status, error = service.error("/v1/chat/completions", body)
    assert status == 400
    assert why in error["message"]


def test_unknown_fields_are_counted_and_have_no_effect(service):
    before = service.metric("infer_unknown_fields_total")
    answer = service.post("/v1/chat/completions", STORY | {"colour": "red", "shape": 1})
    assert answer["choices"] == service.post("/v1/chat/completions", STORY)["choices"]
    assert service.metric("infer_unknown_fields_total") == before + 2


def test_a_prompt_that_does_not_fit(service):
    long = "word " * 20_000
    messages = [{"role": "user", "content": long}]
    for path, body, field in (("/v1/chat/completions", {"messages": messages}, "messages"),
                              ("/v1/responses", {"input": long}, "input"),
                              ("/v1/completions", {"prompt": ["Once", long]}, "prompt"),
                              ("/v1/chat/completions", {"messages": messages, "stream": True}, "messages")):
        status, error = service.error(path, body)
        assert (status, error["code"], error["param"]) == (400, "context_length_exceeded", field)
        assert "tokens do not fit: the context holds" in error["message"]
    assert service.error("/completion", {"prompt": long})[1]["code"] == 400  # as llama.cpp's server
    assert service.error("/v1/chat/completions", {"messages": []})[1]["code"] is None
