"""Fields of other servers that say what form the answer must have: held, or refused by name."""

import json

import pytest

HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"age": {"const": 54}}, "required": ["age"],
          "additionalProperties": False}
MADE = {"age": 54}
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


def content(service, **fields):
    return service.post(CHAT, {"messages": HI, "seed": 1, "max_tokens": 40, **fields})["choices"][0]["message"]["content"]


@pytest.mark.parametrize("fields", [
    {"guided_json": SCHEMA}, {"guided_json": json.dumps(SCHEMA)}, {"structured_outputs": {"json": SCHEMA}},
    {"guided_choice": [json.dumps(MADE)]}, {"structured_outputs": {"grammar": 'root ::= "{\\"age\\":54}"'}},
    {"guided_grammar": 'root ::= "{\\"age\\":54}"'},
])
def test_names_of_vllm(service, fields):
    assert json.loads(content(service, **fields)) == MADE


def test_a_choice_among_texts(service):
    choices = ['a "quoted" \\ one', "two\nlines", "ünïcode"]
    assert content(service, structured_outputs={"choice": choices}) in choices
    for choice in choices:
        assert content(service, structured_outputs={"choice": choice}) == choice
    assert content(service, structured_outputs={"json_object": True}).startswith("{")


@pytest.mark.parametrize("fields", [
    {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
])
def test_names_of_anthropic(service, fields):
    body = {"messages": HI, "max_tokens": 40, **fields}
    [text] = service.post(MESSAGES, body)["content"]
    assert json.loads(text["text"]) == MADE


@pytest.mark.parametrize("path, fields, field", [
    (CHAT, {"guided_regex": "a+"}, "guided_regex"),
    (CHAT, {"structured_outputs": {"regex": "a+"}}, "structured_outputs.regex"),
    (CHAT, {"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
    (CHAT, {"guided_json": '{"a":' * 300_000 + "1" + "}" * 300_000}, "guided_json"), (CHAT, {"guided_json": "{"}, "guided_json"), (CHAT, {"guided_json": [1]}, "guided_json"),
    (CHAT, {"guided_choice": []}, "guided_choice"), (CHAT, {"guided_choice": [1]}, "guided_choice"),
    (CHAT, {"functions": [{"name": "f"}]}, "functions"), (CHAT, {"function_call": "auto"}, "function_call"),
    (MESSAGES, {"output_format": {"type": "yaml"}}, "output_format.type"),
    (MESSAGES, {"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    (RESPONSES, {"include": ["message.output_text.logprobs"]}, "include"),
    (RESPONSES, {"top_logprobs": 2}, "top_logprobs"),
])
def test_what_cannot_be_held_is_refused(service, path, fields, field):
    body = {"input": "hi"} if path == RESPONSES else {"messages": HI, "max_tokens": 4}
    status, error = service.error(path, body | fields)
    assert status == 400 and field in error["message"]


def test_a_function_without_parameters_has_no_arguments(service):
    for function in ({"name": "f"}, {"name": "f", "parameters": {"type": "object", "properties": {}}}):
        body = {"messages": HI, "tool_choice": "required", "tools": [{"type": "function", "function": function}]}
        for seed in range(3):
            [call] = service.post(CHAT, body | {"seed": seed})["choices"][0]["message"]["tool_calls"]
            assert call["function"]["arguments"] == "{}"


def test_schemas_with_names_of_their_own(service):
    """Also where several become parts of one."""
    def tool(name):
        return {"type": "function", "function": {"name": name, "parameters": {
            "$id": f"https://example.org/{name}", "type": "object", "required": ["a", "b"],
            "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": f"https://example.org/{name}#/$defs/A"}},
            "$defs": {"A": {"const": name}}}}}

    body = {"messages": HI, "tool_choice": "required", "tools": [tool("f"), tool("g")]}
    for seed in range(4):
        [call] = service.post(CHAT, body | {"seed": seed})["choices"][0]["message"]["tool_calls"]
        name = call["function"]["name"]
        assert json.loads(call["function"]["arguments"]) == {"a": name, "b": name}
