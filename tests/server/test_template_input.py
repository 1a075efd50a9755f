"""What requests become for the templates of many models."""

import json
import pathlib
import re

import pytest

TEMPLATES = pathlib.Path(__file__).parents[1] / "data" / "templates"

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "Where"}},
              "required": ["city"]}
# The second has nothing that is optional.
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather",
                                           "parameters": PARAMETERS}},
         {"type": "function", "function": {"name": "now"}}]


def call(name, arguments, number):
    return {"id": f"call_{'0123456789abcdef' * 2}_0_{number}", "type": "function",
            "function": {"name": name, "arguments": arguments}}


def turn(question, name, arguments, number, result, answer):
    made = call(name, arguments, number)
    return [{"role": "user", "content": question},
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": made["id"], "content": result},
            {"role": "assistant", "content": answer}]


CONVERSATION = (turn("Is it warm?", "weather", '{"city": "Oslo"}', 0, "minus 4", "It is cold.")
                + turn("How late is it?", "now", "", 1, "noon", "It is twelve.")
                + [{"role": "user", "content": "And tomorrow?"}])
SHOWN = ["Is it warm?", "minus 4", "It is cold.", "How late is it?", "noon", "It is twelve.", "And tomorrow?"]
# These fail in other programs as well, as their recorded results say, or have no tools.
FAILS = {"Kimi-K2-Instruct": "append", "MiroThinker": "tool", "google-gemma-2-2b-it": "alternate",
         "llama-cpp-deepseek-r1": ""}
SHOWS_NO_CALLS = {"HuggingFaceTB-SmolLM3-3B", "LFM2-8B-A1B", "LFM2.5-Instruct",
                  "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "ibm-granite-granite-3.3-2B-Instruct"}


@pytest.fixture
def with_template(start):
    return lambda name: start("--chat-template-file", TEMPLATES / f"{name}.jinja")


def applied(service, messages, **more):
    return service.post("/apply-template", {"messages": messages} | more)["prompt"]


def tokens(service, text):
    return len(service.post("/tokenize", {"content": text, "add_special": True})["tokens"])


def without_ids(messages):
    """The messages as ollama's interface has them."""
    plain = json.loads(json.dumps(messages))
    for message in plain:
        message.pop("tool_call_id", None)
        for each in message.get("tool_calls", []):
            del each["id"], each["type"]
            each["function"]["arguments"] = json.loads(each["function"]["arguments"] or "{}")
    return plain


@pytest.mark.parametrize("name", sorted(path.stem for path in TEMPLATES.glob("*.jinja")))
def test_a_conversation_with_tools(with_template, name):
    service = with_template(name)
    if name in FAILS:
        status, error = service.error("/apply-template", {"messages": CONVERSATION, "tools": TOOLS})
        assert status == 400 and FAILS[name] in error["message"]
        return
    for messages in (CONVERSATION, without_ids(CONVERSATION), CONVERSATION[:3]):
        text = applied(service, messages, tools=TOOLS)
        at = 0
        for shown in SHOWN if len(messages) > 3 else SHOWN[:2]:
            assert shown in text[at:]
            at = text.index(shown, at)
        if name not in SHOWS_NO_CALLS:
            assert "Oslo" in text


@pytest.mark.parametrize("name", sorted({path.stem for path in TEMPLATES.glob("*.jinja")} - {"MiroThinker"}))
def test_the_last_message_is_continued(with_template, name):
    service = with_template(name)
    question = {"role": "user", "content": "Name a colour."}
    # White space at its ends stays, and what looks like reasoning is text.
    for begun in ("The colour is", " A <b>\n\nred ", "1</think>2"):
        text = applied(service, [question, {"role": "assistant", "content": begun}], continue_final_message=True)
        assert text.endswith(begun)
        assert "Name a colour." in text
        assert text.count("The colour is") == (begun == "The colour is")


@pytest.mark.parametrize("name", ["mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2-24B-Instruct-2506"])
def test_ids_of_nine_characters(with_template, name):
    service = with_template(name)

    def ids(messages):
        return re.findall(r'(?:"id": "|CALL_ID\]|call_id": "|TOOL_RESULTS\])(\w{9})\b',
                          applied(service, messages, tools=TOOLS))
    found = ids(CONVERSATION)
    assert len(found) == 4
    assert found[0] == found[1] != found[2] == found[3]
    assert ids(CONVERSATION[:3]) == found[:2]
    plain = ids(without_ids(CONVERSATION))
    assert plain[0] == plain[1] != plain[2] == plain[3]
    # A client's own stay.
    own = json.loads(json.dumps(CONVERSATION).replace(call("now", "", 1)["id"], "Abcdef789"))
    assert ids(own)[2:] == ["Abcdef789"] * 2
    # Results without ids in another order have names.
    both = [{"role": "user", "content": "Both?"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {}}},
                                                 {"function": {"name": "now", "arguments": {}}}]},
            {"role": "tool", "name": "now", "content": "noon"}, {"role": "tool", "content": "minus 4"}]
    first, second, third, fourth = ids(both)
    assert (first, second) == (fourth, third)
    brief = [{"role": "system", "content": "Be brief."}] + without_ids(CONVERSATION)
    options = {"options": {"num_predict": 1}, "stream": False}
    assert service.post("/api/chat", {"messages": brief, "tools": TOOLS} | options)["done"]


def test_ids_stay_where_templates_take_any(with_template):
    text = applied(with_template("GigaChat3-10B-A1.8B"), CONVERSATION, tools=TOOLS)
    again = applied(with_template("GigaChat3-10B-A1.8B"), without_ids(CONVERSATION), tools=TOOLS)
    assert text == again


def test_two_calls_at_once(with_template):
    calls = [call("weather", '{"city": "Oslo"}', 0), call("now", "", 1)]
    messages = [{"role": "user", "content": "Both?"}, {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": calls[1]["id"], "content": "noon"},
                {"role": "tool", "tool_call_id": calls[0]["id"], "content": "minus 4"}]
    # This template takes one in a message.
    text = applied(with_template("meta-llama-Llama-3.2-3B-Instruct"), messages, tools=TOOLS)
    assert re.search(r'Both\?.*"name": "weather".*minus 4.*"name": "now".*noon', text, re.DOTALL)
    text = applied(with_template("Qwen-Qwen2.5-7B-Instruct"), messages, tools=TOOLS)
    assert re.search(r'Both\?.*"name": "weather".*"name": "now".*noon.*minus 4', text, re.DOTALL)


def test_a_template_that_wants_several_other_forms(start, tmp_path):
    path = tmp_path / "strict.jinja"
    path.write_text("""{%- for m in messages %}
    {%- if m.tool_calls %}
        {%- if m.tool_calls|length > 1 %}{{ raise_exception('one call') }}{% endif %}
        {%- if m.tool_calls[0].id|length != 9 %}{{ raise_exception('nine characters') }}{% endif %}
        {{- '[' + m.tool_calls[0].function.arguments + ']' }}
    {%- endif %}
    {%- if m.content == 'no' %}{{ raise_exception('never') }}{% endif %}
    {{- m.content }}
{%- endfor %}""")
    service = start("--chat-template-file", path)
    calls = [call("weather", '{"city": "Oslo"}', 0), call("now", "", 1)]
    messages = [{"role": "user", "content": "Both?"}, {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "content": "minus 4"}, {"role": "tool", "content": "noon"}]
    assert applied(service, messages) == 'Both?[{"city":"Oslo"}]minus 4[{}]noon'
    # What no form helps against is said as it was at first.
    status, error = service.error("/apply-template", {"messages": messages + [{"role": "user", "content": "no"}]})
    assert status == 400 and "one call" in error["message"]


def thinking_turn(name, text=""):
    messages = turn("Is it warm?", "weather", '{"city": "Oslo"}', 0, "minus 4", "")[:3]
    messages[1] |= {name: "I look it up.", "content": text}
    return messages


def test_reasoning_of_earlier_turns(with_template):
    service = with_template("openai-gpt-oss-120b")
    shown = "<|channel|>analysis<|message|>I look it up.<|end|>"
    for name in ("reasoning_content", "reasoning", "thinking"):
        assert shown in applied(service, thinking_turn(name), tools=TOOLS)
        # Templates of this kind take either reasoning or text.
        text = applied(service, thinking_turn(name, "One moment."), tools=TOOLS)
        assert "<|message|>I look it up.\n\nOne moment.<|end|>" in text
    counted = {len(applied(with_template("Qwen3.5-4B"), thinking_turn(name), tools=TOOLS))
               for name in ("reasoning_content", "reasoning", "thinking")}
    assert len(counted) == 1
    expected = tokens(service, applied(service, thinking_turn("thinking"), tools=TOOLS))
    plain = {"messages": without_ids(thinking_turn("thinking")), "tools": TOOLS, "stream": False,
             "options": {"num_predict": 1}}
    assert service.post("/api/chat", plain)["prompt_eval_count"] == expected
    blocks = [{"role": "user", "content": "Is it warm?"},
              {"role": "assistant", "content": [
                  {"type": "thinking", "thinking": "I look it up.", "signature": ""},
                  {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}}]},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "minus 4"}]}]
    tools = [{"name": "weather", "description": "The weather", "input_schema": PARAMETERS}]
    assert service.post("/v1/messages/count_tokens", {"messages": blocks, "tools": tools})["input_tokens"] == tokens(
        service, applied(service, thinking_turn("thinking"), tools=TOOLS[:1]))


@pytest.mark.parametrize("name", ["Qwen3.5-4B", "Qwen-Qwen2.5-7B-Instruct", "GLM-4.6"])
def test_items_of_a_response_are_one_answer(with_template, name):
    service = with_template(name)
    calls = [call("weather", '{"city": "Oslo"}', 0), call("now", "{}", 1)]
    results = [{"role": "tool", "tool_call_id": each["id"], "content": text}
               for each, text in zip(calls, ("minus 4", "noon"))]
    messages = [{"role": "user", "content": "Is it warm?"},
                {"role": "assistant", "content": "One moment.", "reasoning_content": "I look it up.",
                 "tool_calls": calls}] + results
    chat = service.post("/v1/chat/completions", {"messages": messages, "tools": TOOLS, "max_tokens": 1})
    thoughts = [{"content": [{"type": "reasoning_text", "text": "I look it up."}], "summary": []},
                {"summary": [{"type": "summary_text", "text": "I look it up."}]},
                {"content": [{"type": "reasoning_text", "text": "I look it up."}],
                 "summary": [{"type": "summary_text", "text": "Another text, which is longer."}]}]
    for thought in thoughts:
        for content in ("One moment.", [{"type": "output_text", "text": "One "},
                                        {"type": "output_text", "text": "moment."}]):
            items = [{"role": "user", "content": "Is it warm?"},
                     {"type": "reasoning", "id": "rs_1"} | thought,
                     {"type": "message", "role": "assistant", "content": content}]
            items += [{"type": "function_call", "call_id": each["id"]} | each["function"] for each in calls]
            items += [{"type": "function_call_output", "call_id": each["tool_call_id"], "output": each["content"]}
                      for each in results]
            tools = [{"type": "function"} | tool["function"] for tool in TOOLS]
            response = service.post("/v1/responses", {"input": items, "tools": tools, "max_output_tokens": 1})
            assert response["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]


def test_answers_of_several_items(service):
    story = {"role": "user", "content": "Tell me a story."}
    for items, said in (([{"role": "assistant"}, {"role": "assistant", "content": "Once."}], "Once."),
                        ([{"role": "assistant", "content": "Once."},
                          {"role": "assistant", "content": [{"type": "output_text", "text": "Twice."}]}],
                         "Once.\n\nTwice.")):
        response = service.post("/v1/responses", {"input": [story] + items + [story], "max_output_tokens": 1})
        assert response["usage"]["input_tokens"] == tokens(
            service, applied(service, [story, {"role": "assistant", "content": said}, story]))


def test_whether_to_think(with_template):
    question = [{"role": "user", "content": "Name a colour."}]
    for name, shown in (("ibm-granite-granite-3.3-2B-Instruct", "<think></think>"),
                        ("deepseek-ai-DeepSeek-V3.2", None), ("Cohere2MoE", None), ("Qwen3.5-4B", None),
                        ("ByteDance-Seed-OSS", None)):
        service = with_template(name)
        texts = [[applied(service, question, chat_template_kwargs={variable: value})
                  for variable in ("enable_thinking", "thinking", "reasoning")] for value in (False, True)]
        assert [len(set(each)) for each in texts] == [1, 1]
        [without, thinks] = [each[0] for each in texts]
        assert without != thinks
        if shown:
            assert shown in thinks and shown not in without
        counts = [tokens(service, text) for text in (without, thinks)]
        for value, count in zip((False, True), counts):
            body = {"messages": question, "thinking": {"type": "enabled" if value else "disabled"}}
            assert service.post("/v1/messages/count_tokens", body)["input_tokens"] == count
            body = {"messages": question, "think": value, "stream": False, "options": {"num_predict": 1}}
            assert service.post("/api/chat", body)["prompt_eval_count"] == count
    # What is said by name stays.
    service = with_template("deepseek-ai-DeepSeek-V3.2")
    both = applied(service, question, chat_template_kwargs={"enable_thinking": True, "thinking": False})
    assert both == applied(service, question, chat_template_kwargs={"thinking": False})


def test_whether_to_think_as_a_word(start):
    service = start("--chat-template", "{% if thinking_mode is defined %}mode {{ thinking_mode }}{% endif %}.")
    question = [{"role": "user", "content": "Name a colour."}]
    for value, word in ((True, "enabled"), (False, "disabled")):
        assert f"mode {word}." in applied(service, question, chat_template_kwargs={"enable_thinking": value})
    assert "mode" not in applied(service, question)
    assert "mode adaptive." in applied(service, question, chat_template_kwargs={
        "enable_thinking": True, "thinking_mode": "adaptive"})


@pytest.mark.parametrize("messages", [
    [{"role": "user", "content": "x"}],
    [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}],
    [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "tool_calls": [call("now", "", 0)]}],
])
def test_what_cannot_be_continued(service, messages):
    status, error = service.error("/v1/chat/completions", {"messages": messages, "continue_final_message": True})
    assert (status, error["param"]) == (400, "continue_final_message")
