"""Answers that are held to a schema or have to be a call, whatever the template of the model."""

import json
import pathlib

import pytest

TEMPLATES = pathlib.Path(__file__).resolve().parents[1] / "data/templates"
# Those that begin to think in the prompt, that write calls without marks, and that write messages
# with headers.
NAMES = ["Qwen3.5-4B", "Qwen-Qwen3-0.6B", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "GLM-5.2",
         "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "meta-llama-Llama-3.2-3B-Instruct",
         "openai-gpt-oss-120b", "meetkai-functionary-medium-v3.2"]
HI = {"seed": 1, "messages": [{"role": "user", "content": "hi"}]}
SCHEMA = {"type": "object", "required": ["name", "parameters", "html"], "additionalProperties": False,
          "properties": {"name": {"const": "Ann"}, "html": {"const": "use <think> here"},
                         "parameters": {"type": "object", "properties": {"age": {"const": 7}},
                                        "required": ["age"], "additionalProperties": False}}}
MADE = {"name": "Ann", "html": "use <think> here", "parameters": {"age": 7}}
FUNCTION = {"name": "f", "description": "Adds", "parameters": {
    "type": "object", "properties": {"x": {"const": 5}}, "required": ["x"],
    "additionalProperties": False}}
TOOL = {"type": "function", "function": FUNCTION}


@pytest.fixture(scope="module", params=NAMES)
def served(request, begin_module):
    return begin_module("--chat-template-file", TEMPLATES / f"{request.param}.jinja")


def test_a_schema_holds_the_answer(served):
    """All of it is content: no reasoning, and no call although it looks like one."""
    body = HI | {"response_format": {"type": "json_schema",
                                     "json_schema": {"name": "n", "schema": SCHEMA}}}
    message = served.post("/v1/chat/completions", body)["choices"][0]["message"]
    assert json.loads(message["content"]) == MADE
    assert not message.get("reasoning_content") and not message.get("tool_calls")
    body = {"stream": False, "format": SCHEMA, **HI}
    assert json.loads(served.post("/api/chat", body)["message"]["content"]) == MADE
    body = {"input": "hi", "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}
    [message] = served.post("/v1/responses", body)["output"]
    assert json.loads(message["content"][0]["text"]) == MADE


def test_a_call_that_is_required(served):
    body = HI | {"tools": [TOOL], "tool_choice": "required"}
    [call] = served.post("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"x": 5}
    body = HI | {"max_tokens": 100, "tool_choice": {"type": "any"},
                 "tools": [{"name": "f", "input_schema": FUNCTION["parameters"]}]}
    body.pop("seed")
    [used] = [part for part in served.post("/v1/messages", body)["content"]
              if part["type"] == "tool_use"]
    assert used["input"] == {"x": 5}


@pytest.mark.parametrize("parameters", [{}, None, {"properties": {"x": {"const": 5}}, "required": ["x"]}])
def test_arguments_are_an_object(service, parameters):
    function = {"name": "f"} | ({} if parameters is None else {"parameters": parameters})
    body = HI | {"max_tokens": 300, "tool_choice": "required",
                 "tools": [{"type": "function", "function": function}]}
    reasons = set()
    for seed in range(3):
        answer = service.post("/v1/chat/completions", body | {"seed": seed})
        [choice] = answer["choices"]
        reasons.add(choice["finish_reason"])
        if choice["finish_reason"] == "tool_calls":
            [call] = choice["message"]["tool_calls"]
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
        else:
            assert choice["message"]["content"].lstrip().startswith("{")
    assert "tool_calls" in reasons


def test_one_of_several_functions_with_references(service):
    """References stay right where the schemas of functions become parts of one, also those of
    properties that have the names of keywords."""
    number = {"type": "object", "required": ["p", "const"], "additionalProperties": False,
              "properties": {"p": {"$ref": "#/$defs/P"}, "const": {"$ref": "#/$defs/Q"}},
              "$defs": {"P": {"enum": [1, 2]}, "Q": {"anyOf": [{"$ref": "#/$defs/P"}]}}}
    tools = [{"type": "function", "function": {"name": name, "parameters": number}} for name in "fg"]
    body = HI | {"tools": tools, "tool_choice": "required", "max_tokens": 200}
    for seed in range(4):
        answer = service.post("/v1/chat/completions", body | {"seed": seed})
        [call] = answer["choices"][0]["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        assert call["function"]["name"] in "fg"
        assert set(arguments) == {"p", "const"} and set(arguments.values()) <= {1, 2}


CITY = {"type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"type": "string", "maxLength": 8}}}
#: With one tool its arguments are generated, with two the name of one as well.
CUT = [({"stop": ["city"]}, 1, '{"', "stop"), ({"stop": ["city"]}, 2, '{"', "stop"),
       ({"stop": ["arg"]}, 2, "", "stop"), ({"max_tokens": 1}, 1, "{", "length")]


@pytest.mark.parametrize("more, tools, text, reason", CUT)
def test_a_call_that_is_cut_short_is_none(service, more, tools, text, reason):
    """Neither what a stop string ends, nor what is too long."""
    functions = [{"name": name, "parameters": CITY} for name in ("f", "g")[:tools]]
    asked = {"seed": 1, "temperature": 0, "max_tokens": 60}
    body = asked | more | {"messages": HI["messages"], "tool_choice": "required",
                           "tools": [{"type": "function", "function": each} for each in functions]}
    [choice] = service.post("/v1/chat/completions", body)["choices"]
    assert "tool_calls" not in choice["message"] and choice["finish_reason"] == reason
    assert (choice["message"]["content"] or "").replace(" ", "").startswith(text)
    deltas = [choice["delta"] for event in service.events("/v1/chat/completions", body)
              for choice in event["choices"]]
    assert not any("tool_calls" in delta for delta in deltas)
    assert "".join(delta.get("content") or "" for delta in deltas) == choice["message"]["content"]


def test_a_call_that_is_cut_short_in_other_interfaces(service):
    asked = {"seed": 1, "stop": ["city"]}
    body = asked | {"input": "hi", "tools": [{"type": "function", "name": "f", "parameters": CITY}],
                    "tool_choice": "required"}
    [item] = service.post("/v1/responses", body)["output"]
    assert (item["type"], item["content"][0]["text"].replace(" ", "")) == ("message", '{"')
    body = asked | {"messages": HI["messages"], "max_tokens": 60, "tool_choice": {"type": "any"},
                    "tools": [{"name": "f", "input_schema": CITY}], "stop_sequences": ["city"]}
    message = service.post("/v1/messages", body)
    [block] = message["content"]
    assert (block["type"], block["text"].replace(" ", "")) == ("text", '{"')
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "city")
