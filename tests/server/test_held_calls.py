"""Calls that a model begins by itself are held to the declared tools, also beside a schema."""

import json
import pathlib
import re
import sys

import pytest

pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402

DEMO = ROOT / "app" / "demo"
TEMPLATES = ROOT / "tests/data/templates"
MARK, CLOSE = 4094, 4095
HI = [{"role": "user", "content": "Tell me a story."}]
PARAMETERS = {"type": "object", "properties": {"x": {"enum": [5, 7]}}, "required": ["x"], "additionalProperties": False}
STRICT = [{"type": "function", "function": {"name": name, "strict": True, "parameters": PARAMETERS}}
          for name in ("first_one", "second_one")]
LOOSE = [{"type": "function", "function": {"name": "any_object", "parameters": PARAMETERS}}]
SCHEMA = {"type": "object", "properties": {"s": {"const": 'x <tool_call>{"name": "first_one"}</tool_call>'}},
          "required": ["s"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
#: Makes the model begin a call as soon as it may.
BEGIN = {"logit_bias": {str(MARK): 100}}
NEVER = {"logit_bias": {str(MARK): -100}}


def respell(path, to, kind):
    """The model with the marks of calls as tokens, special ones (3) or others (4)."""
    spelt = {MARK: "<tool_call>", CLOSE: "</tool_call>"}
    old = []

    def tokens(value):
        old.extend(value[at] for at in spelt)
        return [spelt.get(at, text) for at, text in enumerate(value)]

    gguf.change_metadata(path, to, {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": lambda value: [kind if at in spelt else each for at, each in enumerate(value)],
        "tokenizer.ggml.merges": lambda value: [each for each in value if each.replace(" ", "") not in old],
    })


@pytest.fixture(scope="module", params=[3, 4])
def served(request, begin_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in ("infer-demo", "infer-demo-draft"):
        respell(DEMO / f"{name}.gguf", folder / f"{name}.gguf", request.param)
    return begin_module("-m", folder / "infer-demo.gguf", "-md", folder / "infer-demo-draft.gguf", "-t", 1, "--chat-template-file",
                        TEMPLATES / "Qwen-Qwen2.5-7B-Instruct.jinja")


def ask(served, tools=STRICT, **more):
    body = {"messages": HI, "tools": tools, "max_tokens": 200, "temperature": 1, "top_p": 1, "min_p": 0} | more
    return served.post("/v1/chat/completions", body)["choices"]


def check_strict(calls):
    for call in calls:
        assert call["function"]["name"] in ("first_one", "second_one")
        assert json.loads(call["function"]["arguments"]) in ({"x": 5}, {"x": 7})


def test_calls_are_held_to_strict_tools(served):
    """Each answer on its own. Behind a call the text is free, so that another call follows."""
    names = set()
    for choice in ask(served, n=4, seed=1, **BEGIN):
        calls = choice["message"]["tool_calls"]
        check_strict(calls)
        names |= {call["function"]["name"] for call in calls}
        assert len(calls) > 1 and choice["finish_reason"] == "length"
    assert len(names) == 2
    for choice in ask(served, n=2, seed=2, parallel_tool_calls=False, **BEGIN):
        check_strict(choice["message"]["tool_calls"])
        assert len(choice["message"]["tool_calls"]) == 1 and choice["finish_reason"] == "tool_calls"


def test_streamed_with_logprobs_and_drafts(served):
    asked = {"seed": 3, **BEGIN}
    [whole] = ask(served, logprobs=True, top_logprobs=1, draft_tokens=0, **asked)
    body = {"messages": HI, "tools": STRICT, "max_tokens": 200, "temperature": 1, "top_p": 1, "min_p": 0}
    for drafts in (0, 4):
        streamed = [call for event in served.events("/v1/chat/completions", body | asked | {"draft_tokens": drafts})
                    for choice in event["choices"] for call in choice["delta"].get("tool_calls", [])]
        assert [call["function"] for call in streamed] == \
            [call["function"] for call in whole["message"]["tool_calls"]]
    tokens = whole["logprobs"]["content"]
    assert tokens[0]["token"] == "<tool_call>" and tokens[0]["logprob"] < -1
    for drafts in (0, 4):
        [greedy] = ask(served, temperature=0, draft_tokens=drafts, **BEGIN)
        check_strict(greedy["message"]["tool_calls"])


def test_a_text_without_marks_is_what_it_was(served):
    """As if the tools were in the prompt alone."""
    [held] = ask(served, seed=4, **NEVER)
    prompt = served.post("/apply-template", {"messages": HI, "tools": STRICT})["prompt"]
    plain = served.post("/v1/completions", {"prompt": prompt, "max_tokens": 200, "temperature": 1, "top_p": 1,
                                            "min_p": 0, "seed": 4, **NEVER})["choices"][0]
    assert held["message"]["content"].strip() == plain["text"].strip()
    assert held["finish_reason"] == plain["finish_reason"]


def test_a_stop_string_in_a_call(served):
    [choice] = ask(served, seed=5, stop=["arguments", "parameters"], **BEGIN)
    assert "tool_calls" not in choice["message"] and choice["finish_reason"] == "stop"
    assert choice["message"]["content"].startswith("<tool_call>")


def test_other_tools_take_any_object(served):
    for choice in ask(served, LOOSE, n=8, seed=6, parallel_tool_calls=False, **BEGIN):
        if choice["finish_reason"] == "length":  # a text in the object did not end
            begun = r'<tool_call>\s*\[?\s*\{\s*("type"\s*:\s*"function",|"tool_call_id"\s*:\s*"[^"]*",)?\s*' \
                    r'"(tool_)?name"\s*:\s*"any_object"\s*,\s*"(arguments|parameters)"\s*:\s*\{'
            assert re.match(begun, choice["message"]["content"])
            continue
        [call] = choice["message"]["tool_calls"]
        assert call["function"]["name"] == "any_object"
        assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_a_mark_is_text_without_tools(served):
    body = {"messages": HI, "max_tokens": 5, **BEGIN}
    assert served.post("/v1/chat/completions", body)["choices"][0]["message"]["content"] == "<tool_call>" * 5
    message = ask(served, tool_choice="none", max_tokens=5, **BEGIN)[0]["message"]
    assert message["content"] == "<tool_call>" * 5


def test_schemas_that_are_refused(served):
    odd = {"name": "odd", "parameters": {"type": "object", "properties": {"a": {"$ref": "http://other"}}}}
    for strict in ({}, {"strict": False}, {"strict": None}):
        ask(served, STRICT + [{"type": "function", "function": odd | strict}], max_tokens=1)
    tools = STRICT + [{"type": "function", "function": odd | {"strict": True}}]
    body = {"messages": HI, "tools": tools, "max_tokens": 1}
    for more in ({}, {"response_format": FORMAT}):
        status, error = served.error("/v1/chat/completions", body | more)
        assert (status, error["param"]) == (400, "tools")
        assert error["message"].startswith("tools: the tool odd: ")
    wrong = {"type": "json_schema", "json_schema": {"schema": {"$ref": "http://other"}}}
    status, error = served.error("/v1/chat/completions", body | {"tools": STRICT, "response_format": wrong})
    assert (status, error["param"]) == (400, "response_format.json_schema.schema")
    large = {"name": "odd", "strict": True, "parameters": {"properties": {"a": {"enum": [2 ** 70]}}}}
    status, error = served.error("/v1/chat/completions", body | {"tools": [{"type": "function", "function": large}]})
    assert (status, error["param"]) == (400, "tools")


def test_strict_is_not_for_templates(served):
    plain = [{"type": "function", "function": {k: v for k, v in each["function"].items() if k != "strict"}}
             for each in STRICT]
    rendered = [served.post("/apply-template", {"messages": HI, "tools": tools})["prompt"] for tools in (plain, STRICT)]
    assert rendered[0] == rendered[1]


def test_beside_a_schema_an_answer_is_calls_or_a_text(served):
    [choice] = ask(served, seed=7, response_format=FORMAT, **NEVER)
    assert json.loads(choice["message"]["content"]) == SCHEMA_MADE
    assert "tool_calls" not in choice["message"] and choice["finish_reason"] == "stop"
    for tools in (STRICT, LOOSE):
        [choice] = ask(served, tools, seed=8, response_format=FORMAT, max_tokens=300, parallel_tool_calls=False,
                       **BEGIN)
        if tools is STRICT or choice["finish_reason"] == "tool_calls":
            [call] = choice["message"]["tool_calls"]
            assert choice["message"]["content"] is None
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    # Calls only are possible where one is required, and the text only where none is wanted.
    [choice] = ask(served, response_format=FORMAT, tool_choice="none")
    assert json.loads(choice["message"]["content"]) == SCHEMA_MADE


SCHEMA_MADE = {"s": SCHEMA["properties"]["s"]["const"]}


def test_beside_a_schema_in_other_interfaces(served):
    tools = [{"type": "function"} | each["function"] for each in STRICT]
    body = {"input": "hi", "tools": tools, "max_output_tokens": 200, "parallel_tool_calls": False,
            "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}
    [item] = served.post("/v1/responses", body | BEGIN)["output"]
    assert item["type"] == "function_call" and json.loads(item["arguments"])["x"] in (5, 7)
    [item] = served.post("/v1/responses", body | NEVER)["output"]
    assert json.loads(item["content"][0]["text"]) == SCHEMA_MADE
    body = {"messages": HI, "tools": STRICT, "format": SCHEMA, "stream": False}
    message = served.post("/api/chat", body | {"options": {"num_predict": 60, **BEGIN}})["message"]
    assert message["tool_calls"][0]["function"]["arguments"]["x"] in (5, 7)
    message = served.post("/api/chat", body | {"options": NEVER})["message"]
    assert json.loads(message["content"]) == SCHEMA_MADE
    tools = [{"name": "first_one", "strict": True, "input_schema": PARAMETERS}]
    body = {"messages": HI, "tools": tools, "max_tokens": 100,
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    [used] = served.post("/v1/messages", body | BEGIN)["content"]
    assert used["name"] == "first_one" and used["input"] in ({"x": 5}, {"x": 7})


@pytest.mark.parametrize("template", ["Qwen3.5-4B", "GLM-4.6"])
def test_values_between_tags(begin_module, tmp_path, template):
    respell(DEMO / "infer-demo.gguf", tmp_path / "model.gguf", 3)
    tagged = begin_module("-m", tmp_path / "model.gguf", "-t", 1, "--chat-template-file", TEMPLATES / f"{template}.jinja")
    for more in ({}, {"response_format": FORMAT}):
        asked = {"parallel_tool_calls": False, "chat_template_kwargs": {"enable_thinking": False}, "max_tokens": 600} | more
        for choice in ask(tagged, n=3, seed=10, **asked, **BEGIN):
            check_strict(choice["message"]["tool_calls"])
            assert len(choice["message"]["tool_calls"]) == 1 and choice["finish_reason"] == "tool_calls"
    odd = {"name": "odd", "strict": True, "parameters": {"anyOf": [PARAMETERS]}}
    body = {"messages": HI, "tools": [{"type": "function", "function": odd}], "max_tokens": 1}
    status, error = tagged.error("/v1/chat/completions", body)
    assert (status, error["param"]) == (400, "tools")
    assert error["message"].startswith("tools: the tool odd: 'anyOf'")


def test_forms_without_marks_and_with_messages(begin_module):
    """A call of Llama has no mark. In gpt-oss the schema holds the message for the user."""
    llama = begin_module("-t", 1, "--chat-template-file", TEMPLATES / "meta-llama-Llama-3.2-3B-Instruct.jinja")
    for text in ("name", "s"):  # the first key
        [token] = llama.post("/tokenize", {"content": text})["tokens"]
        [choice] = ask(llama, seed=9, response_format=FORMAT, temperature=0, logit_bias={str(token): 20})
        if text == "name":
            check_strict(choice["message"]["tool_calls"])
        else:
            assert json.loads(choice["message"]["content"]) == SCHEMA_MADE
    harmony = begin_module("-t", 1, "--chat-template-file", TEMPLATES / "openai-gpt-oss-120b.jinja")
    ask(harmony, response_format=FORMAT, max_tokens=20)
    body = {"messages": HI, "tools": STRICT, "response_format": FORMAT}
    assert harmony.post("/apply-template", body)["prompt"].endswith("<|start|>assistant")
