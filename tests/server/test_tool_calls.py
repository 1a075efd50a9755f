"""Calls of tools that a model writes by itself, in all interfaces.

A grammar that has the template's mark of reasoning does not take the calls out of the answer: it only makes
the model write the text.
"""

import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "tests" / "data" / "templates"
SCHEMA = {"type": "object", "properties": {"zip": {"type": "string"}, "on": {"type": "boolean"}}}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
CALL = ("<tool_call>\n<function=f>\n<parameter=zip>\n94107\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n"
        "</function>\n</tool_call>")
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def served(begin_module):
    return begin_module("--chat-template-file", TEMPLATES / "Qwen3.5-4B.jinja")


def forced(text, **more):
    """Fields that make the model write the text after its reasoning."""
    return {"grammar": "root ::= " + json.dumps("Hm.\n</think>\n\n" + text)} | more


def chat(served, text, **more):
    body = forced(text, messages=HI, tools=[TOOL], max_tokens=300) | more
    return served.post("/v1/chat/completions", body)["choices"][0]


def messages(served, text, **more):
    body = forced(text, messages=HI, tools=[{"name": "f", "input_schema": SCHEMA}], max_tokens=300)
    return served.post("/v1/messages", body | more)


def responses(served, text, **more):
    tool = {"type": "function", "name": "f", "parameters": SCHEMA}
    body = forced(text, input="hi", tools=[tool], max_output_tokens=300)
    return served.post("/v1/responses", body | more)


def test_arguments_have_the_types_of_the_schema(served):
    meant = {"zip": "94107", "on": True}
    [call] = chat(served, CALL)["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == meant
    events = served.events("/v1/chat/completions",
                           forced(CALL, messages=HI, tools=[TOOL], max_tokens=300))
    [streamed] = [each for event in events for part in event["choices"]
                  for each in part["delta"].get("tool_calls", [])]
    assert json.loads(streamed["function"]["arguments"]) == meant
    [used] = [block for block in messages(served, CALL)["content"] if block["type"] == "tool_use"]
    assert used["input"] == meant
    [item] = [item for item in responses(served, CALL)["output"] if item["type"] == "function_call"]
    assert json.loads(item["arguments"]) == meant
    body = {"messages": HI, "tools": [TOOL], "stream": False, "options": forced(CALL, num_predict=300)}
    [call] = served.post("/api/chat", body)["message"]["tool_calls"]
    assert call["function"]["arguments"] == meant


def test_no_calls_if_none_are_wanted(served):
    message = chat(served, CALL, tool_choice="none")["message"]
    assert message["content"] == CALL and "tool_calls" not in message
    assert message["reasoning_content"] == "Hm."
    [_, text] = messages(served, CALL, tool_choice={"type": "none"})["content"]
    assert text == {"type": "text", "text": CALL}
    [_, item] = responses(served, CALL, tool_choice="none")["output"]
    assert item["content"][0]["text"] == CALL


def test_allowed_tools(served):
    """The others are not in the prompt, and no call that is required is one of theirs."""
    def tools(*names):
        return [{"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {},
                 "additionalProperties": False}}} for n in names]

    def allowed(mode, *names):
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [
            {"type": "function", "function": {"name": n}} for n in names]}}

    body = {"messages": HI, "tools": tools("f", "g", "h"), "tool_choice": allowed("auto", "h", "f")}
    rendered = served.post("/apply-template", body)["prompt"]
    assert rendered == served.post("/apply-template", {"messages": HI, "tools": tools("f", "h")})["prompt"]
    for seed in range(6):
        body |= {"tool_choice": allowed("required", "g", "h"), "seed": seed, "max_tokens": 100}
        [call] = served.post("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] in "gh"
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}
    body = {"input": "hi", "tools": [each["function"] | {"type": "function"} for each in tools("f", "g")],
            "tool_choice": choice, "max_output_tokens": 100}
    answer = served.post("/v1/responses", body)
    assert [item["name"] for item in answer["output"]] == ["g"] and answer["tool_choice"] == choice


@pytest.mark.parametrize("choice, field", [
    ({"type": "file_search"}, "tool_choice.type"), ({"type": "custom", "name": "f"}, "tool_choice.type"),
    ({}, "tool_choice.type"), ({"type": "function"}, "tool_choice.name"), ("always", "tool_choice"),
    ({"type": "function", "name": "x"}, "tool_choice"),
    ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools"),
    ({"type": "allowed_tools", "mode": "x", "tools": [{"type": "function", "name": "f"}]}, "tool_choice.mode"),
    ({"type": "allowed_tools", "tools": [{"type": "mcp"}]}, "tool_choice.tools[0].type"),
    ({"type": "allowed_tools", "tools": [{"type": "function", "name": "x"}]}, "tool_choice"),
])
def test_other_choices_are_refused(served, choice, field):
    tool = {"type": "function", "name": "f", "parameters": SCHEMA}
    body = {"input": "hi", "tools": [tool], "tool_choice": choice}
    status, error = served.error("/v1/responses", body)
    assert (status, error["param"]) == (400, field)


@pytest.mark.parametrize("given, field", [
    ([{"role": "assistant", "content": "a"}, {"role": "wizard", "content": "x"}], "input[1].role"),
    ([{"role": "user", "content": "a"}, {"role": "user"}], "input[1].content"),
    ([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": [{"type": "x"}]}],
     "input[1].content[0].type"),
    ([{"type": "reasoning", "summary": []}, {"role": "user", "content": [{"type": "input_image"}]}],
     "input[1].content[0].image_url"),
    ([{"type": "function_call_output", "call_id": "c", "output": [{"type": "x"}]}], "input[0].output[0].type"),
    ([{"type": "function_call", "name": "f", "arguments": "[" * 200}], "input[0].arguments"),
    ([], "input"), ([{"type": "reasoning", "summary": []}], "input"), (None, "input"),
])
@pytest.mark.parametrize("instructions", [{}, {"instructions": "Be brief."}])
def test_wrong_items_are_named_as_they_were_sent(served, given, field, instructions):
    if instructions and field == "input" and given:
        return  # the instructions are a conversation
    status, error = served.error("/v1/responses", {"input": given} | instructions)
    assert (status, error["param"]) == (400, field)
    assert error["message"].startswith(field + ": expected")


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": None}])
def test_tools_without_a_name_are_refused(served, name):
    body = {"input": "hi", "tools": [{"type": "function", "parameters": SCHEMA} | name], "tool_choice": "required"}
    status, error = served.error("/v1/responses", body)
    assert (status, error["param"]) == (400, "tools[0].name")


def test_one_call_at_most(served):
    twice = "A. " + CALL + "\n" + CALL + "\nB."
    both = chat(served, twice)["message"]
    assert len(both["tool_calls"]) == 2
    answer = chat(served, twice, parallel_tool_calls=False)
    assert answer["finish_reason"] == "tool_calls" and answer["message"]["content"] == "A."
    assert [call["function"] for call in answer["message"]["tool_calls"]] == [both["tool_calls"][0]["function"]]
    body = forced(twice, messages=HI, tools=[TOOL], max_tokens=300, parallel_tool_calls=False)
    events = served.events("/v1/chat/completions", body)
    deltas = [part["delta"] for event in events for part in event["choices"]]
    assert sum(len(delta.get("tool_calls", [])) for delta in deltas) == 1
    assert "".join(delta.get("content") or "" for delta in deltas) == "A."
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    for logprobs in ({}, {"logprobs": True}):
        answers = served.post("/v1/chat/completions", body | {"n": 2} | logprobs)["choices"]
        assert [len(each["message"]["tool_calls"]) for each in answers] == [1, 1]
    answer = messages(served, twice, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use"]
    assert answer["stop_reason"] == "tool_use"
    for parallel, kinds in [(False, ["reasoning", "message", "function_call"]),
                            (True, ["reasoning", "message", "function_call", "function_call", "message"])]:
        answer = responses(served, twice, parallel_tool_calls=parallel)
        assert [item["type"] for item in answer["output"]] == kinds
        assert answer["parallel_tool_calls"] is parallel and answer["status"] == "completed"


def test_tokens_of_reasoning_are_counted(served):
    """As many as the reasoning has by itself, more or less a mark."""
    thought = "A long thought about many things, and one more."
    alone = len(served.post("/tokenize", {"content": thought})["tokens"])
    grammar = {"grammar": "root ::= " + json.dumps(thought + "\n</think>\n\nDone and done.")}
    usage = served.post("/v1/responses", grammar | {"input": "hi"})["usage"]
    counted = usage["output_tokens_details"]["reasoning_tokens"]
    # A grammar does not have to spell the text by the same tokens.
    assert 0 < counted < usage["output_tokens"] and counted >= alone
    chatted = served.post("/v1/chat/completions", grammar | {"messages": HI, "n": 2, "seed": 1})["usage"]
    assert chatted["completion_tokens_details"]["reasoning_tokens"] >= 2 * alone
    none = served.post("/v1/responses", {"input": "hi", "grammar": 'root ::= "</think>Done."'})["usage"]
    assert none["output_tokens_details"]["reasoning_tokens"] == 0


def test_the_template_for_tools(begin_module, tmp_path_factory):
    """Some models have one of its own for conversations with tools."""
    pytest.importorskip("numpy")
    sys.path.insert(0, str(ROOT))
    from tests.golden.reference import gguf
    path = tmp_path_factory.mktemp("model") / "named.gguf"
    tools = (TEMPLATES / "Qwen3.5-4B.jinja").read_text()
    gguf.add_metadata(ROOT / "app" / "demo" / "infer-demo.gguf", path, {"tokenizer.chat_template.tool_use": tools})
    served = begin_module("-m", path, "-t", 1)

    def prompt(service, **more):
        return service.post("/apply-template", {"messages": HI} | more)["prompt"]

    plain = begin_module("-m", ROOT / "app" / "demo" / "infer-demo.gguf", "-t", 1)
    assert prompt(served) == prompt(served, tools=[]) == prompt(plain) == prompt(plain, tools=[TOOL])
    assert "<tools>" in prompt(served, tools=[TOOL]) and '"name": "f"' in prompt(served, tools=[TOOL])
    [call] = chat(served, CALL)["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"zip": "94107", "on": True}
    assert served.get("/props")["chat_template_tool_use"] == tools
    assert "chat_template_tool_use" not in plain.get("/props")
    other = begin_module("-m", path, "-t", 1, "--chat-template", "chatml")
    assert "<tools>" not in prompt(other, tools=[TOOL])
