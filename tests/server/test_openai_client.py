"""OpenAI's own client."""

import asyncio
import json

import pytest

openai = pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")

MESSAGES = [{"role": "user", "content": "Tell me a story."}]


@pytest.fixture(scope="module")
def client(service):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key="none") as made:
        yield made


def test_models_and_chat(client):
    assert client.models.list().data[0].id == "infer-demo"
    answer = client.chat.completions.create(model="infer-demo", messages=MESSAGES, max_tokens=10, seed=1)
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 10
    parts = client.chat.completions.create(model="infer-demo", messages=MESSAGES, max_tokens=10, seed=1,
                                           stream=True, stream_options={"include_usage": True})
    text, usage = "", None
    for part in parts:
        text += "".join(choice.delta.content or "" for choice in part.choices)
        usage = part.usage or usage
    assert text == answer.choices[0].message.content
    assert usage.completion_tokens == 10


def test_tools(client):
    tool = {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["days"], "additionalProperties": False}}}
    answer = client.chat.completions.create(model="infer-demo", messages=MESSAGES, tools=[tool],
                                            tool_choice="required", seed=1)
    [call] = answer.choices[0].message.tool_calls
    assert call.function.name == "weather"
    assert 1 <= json.loads(call.function.arguments)["days"] <= 9
    # What the tool said goes back.
    more = MESSAGES + [answer.choices[0].message.model_dump(exclude_none=True),
                       {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    assert client.chat.completions.create(model="infer-demo", messages=more, max_tokens=4).choices


def test_structured_output(client):
    class Pet(pydantic.BaseModel):
        kind: str = pydantic.Field(max_length=8)
        legs: int = pydantic.Field(ge=0, le=8)
    answer = client.chat.completions.parse(model="infer-demo", messages=MESSAGES, response_format=Pet, seed=1)
    assert isinstance(answer.choices[0].message.parsed, Pet)


def test_completions(client):
    echoed = client.completions.create(model="infer-demo", prompt="Once", max_tokens=4, echo=True)
    assert echoed.choices[0].text.startswith("Once")
    told = client.completions.create(model="infer-demo", prompt="Once upon", max_tokens=2, echo=True, logprobs=1)
    assert told.choices[0].logprobs.token_logprobs[0] is None
    assert all(value < 0 for value in told.choices[0].logprobs.token_logprobs[1:])
    answer = client.completions.create(model="infer-demo", prompt="Once", max_tokens=4, logprobs=1)
    assert len(answer.choices[0].logprobs.tokens) == 4


def test_responses(client):
    whole = client.responses.create(model="infer-demo", input="Tell me a story.", max_output_tokens=10,
                                    extra_body={"seed": 1})
    assert whole.output_text.startswith("Once upon a time")
    assert whole.status == "incomplete" and whole.usage.output_tokens == 10
    assert whole.output[-1].status == "incomplete"
    with client.responses.stream(model="infer-demo", input="Tell me a story.", max_output_tokens=10,
                                 extra_body={"seed": 1}) as stream:
        events = list(stream)
    assert "".join(event.delta for event in events
                   if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == whole.output_text
    tool = {"type": "function", "name": "weather", "strict": True, "parameters": {
        "type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["days"], "additionalProperties": False}}
    called = client.responses.create(model="infer-demo", input="Tell me a story.", tools=[tool],
                                     tool_choice="required")
    [call] = called.output
    assert call.type == "function_call" and 1 <= json.loads(call.arguments)["days"] <= 9
    more = client.responses.create(model="infer-demo", max_output_tokens=5, instructions="Be brief.", input=[
        {"role": "user", "content": [{"type": "input_text", "text": "Tell me a story."}]},
        call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
    assert more.output_text
    with pytest.raises(openai.BadRequestError) as failure:
        client.responses.create(model="infer-demo", input="x", previous_response_id="resp_1")
    assert failure.value.param == "previous_response_id"


def test_responses_with_a_schema(client):
    class Pet(pydantic.BaseModel):
        kind: str = pydantic.Field(max_length=8)
        legs: int = pydantic.Field(ge=0, le=8)
    parsed = client.responses.parse(model="infer-demo", input="A pet.", text_format=Pet)
    assert isinstance(parsed.output_parsed, Pet)


def test_errors(client):
    with pytest.raises(openai.BadRequestError) as failure:
        client.chat.completions.create(model="infer-demo", messages=[])
    assert failure.value.param == "messages" and failure.value.code is None
    with pytest.raises(openai.NotFoundError):
        client.images.generate(prompt="a cat")


def test_many_at_once(service):
    async def ask_all():
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key="none") as client:
            return await asyncio.gather(*(
                client.chat.completions.create(model="infer-demo", messages=MESSAGES, max_tokens=8, seed=i)
                for i in range(12)))
    answers = asyncio.run(ask_all())
    assert len({answer.choices[0].message.content for answer in answers}) > 1
