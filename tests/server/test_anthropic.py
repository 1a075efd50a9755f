"""Anthropic's interface, by hand and with its own client."""

import json

import pytest

STORY = {"model": "infer-demo", "max_tokens": 12, "temperature": 0,
         "messages": [{"role": "user", "content": "Tell me a story."}]}
TOOL = {"name": "weather", "description": "The weather", "input_schema": {
    "type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["days"], "additionalProperties": False}}


def events_of(service, body):
    status, headers, text = service.ask("POST", "/v1/messages", body | {"stream": True})
    assert status == 200 and headers["content-type"] == "text/event-stream; charset=utf-8"
    found = []
    for block in text.decode().strip().split("\n\n"):
        first, second = block.split("\n")
        event = json.loads(second.removeprefix("data: "))
        assert first == f"event: {event['type']}"
        found.append(event)
    return found


def test_a_message(service):
    message = service.post("/v1/messages", STORY)
    assert (message["type"], message["role"], message["stop_reason"]) == ("message", "assistant", "max_tokens")
    [block] = message["content"]
    assert block["type"] == "text" and block["text"].startswith("Once upon a time")
    assert message["usage"]["output_tokens"] == 12
    counted = service.post("/v1/messages/count_tokens", {"messages": STORY["messages"]})["input_tokens"]
    usage = message["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted
    events = events_of(service, STORY)
    assert [event["type"] for event in events[:2]] == ["message_start", "content_block_start"]
    assert [event["type"] for event in events[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
    assert "".join(event["delta"]["text"] for event in events
                   if event["type"] == "content_block_delta") == block["text"]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    stopped = STORY | {"stop_sequences": ["no such text", " time"]}
    message = service.post("/v1/messages", stopped)
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", " time")
    assert events_of(service, stopped)[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": " time"}


def test_a_tool(service):
    body = STORY | {"max_tokens": 100, "tools": [TOOL], "tool_choice": {"type": "any"}}
    message = service.post("/v1/messages", body)
    [call] = message["content"]
    assert (call["type"], call["name"], message["stop_reason"]) == ("tool_use", "weather", "tool_use")
    assert 1 <= call["input"]["days"] <= 9
    parts = [event["delta"]["partial_json"] for event in events_of(service, body)
             if event["type"] == "content_block_delta"]
    assert json.loads("".join(parts)) == call["input"]
    back = STORY["messages"] + [
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"],
                                      "content": [{"type": "text", "text": "sunny"}]},
                                     {"type": "text", "text": "And?"}]}]
    assert service.post("/v1/messages", STORY | {"messages": back})["content"]


def test_a_last_message_of_the_assistant_is_continued(service):
    begun = STORY["messages"] + [{"role": "assistant", "content": "Once upon a"}]
    message = service.post("/v1/messages", STORY | {"messages": begun})
    [block] = message["content"]
    assert block["text"].startswith(" time")
    parts = [{"type": "text", "text": "Once "}, {"type": "text", "text": "upon a"}]
    again = STORY["messages"] + [{"role": "assistant", "content": parts}]
    assert service.post("/v1/messages", STORY | {"messages": again})["content"] == message["content"]
    prompt = service.post("/apply-template", {"messages": begun, "continue_final_message": True})["prompt"]
    assert prompt.endswith("Once upon a")
    counted = service.post("/v1/messages/count_tokens", {"messages": begun})["input_tokens"]
    assert counted == len(service.post("/tokenize", {"content": prompt, "add_special": True})["tokens"])
    # An empty one is none.
    empty = STORY["messages"] + [{"role": "assistant", "content": ""}]
    assert service.post("/v1/messages", STORY | {"messages": empty})["content"] == \
        service.post("/v1/messages", STORY)["content"]


@pytest.mark.parametrize("change, why", [
    ({"max_tokens": None}, "max_tokens"), ({"messages": []}, "messages"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].source"),
    ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
    ({"tools": [{"input_schema": {}}], "tool_choice": {"type": "any"}}, "tools[0].name"),
    ({"tools": [{"input_schema": {}, "name": ""}]}, "tools[0].name"), ({"tool_choice": {"type": "x"}}, "tool_choice.type"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"system": 1}, "system"),
])
def test_what_is_wrong_is_named(service, change, why):
    status, _, text = service.ask("POST", "/v1/messages", STORY | change)
    error = json.loads(text)
    assert (status, error["type"], error["error"]["type"]) == (400, "error", "invalid_request_error")
    assert why in error["error"]["message"]


def test_the_client(service):
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{service.port}", api_key="none") as client:
        # Its functions no longer take a temperature by name.
        story = {k: v for k, v in STORY.items() if k != "temperature"} | {"extra_body": {"temperature": 0}}
        message = client.messages.create(**story)
        with client.messages.stream(**story) as stream:
            assert "".join(stream.text_stream) == message.content[0].text
            assert stream.get_final_message().usage.output_tokens == 12
        call = client.messages.create(**(story | {"max_tokens": 100}), tools=[TOOL],
                                      tool_choice={"type": "tool", "name": "weather"}).content[0]
        assert call.type == "tool_use" and call.input["days"]
        assert client.messages.count_tokens(model="x", messages=STORY["messages"]).input_tokens > 0
        with pytest.raises(anthropic.BadRequestError):
            client.messages.create(**(story | {"messages": []}))
