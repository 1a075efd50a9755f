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


def tokens_of(service, **fields):
    return service.post("/completion", {"prompt": "Once", "temperature": 0, "n_predict": 12, "return_tokens": True,
                                        **fields})


def test_tokens_that_end_the_text(service):
    usual = tokens_of(service)["tokens"]
    made = tokens_of(service, stop_token_ids=[usual[4]], ignore_eos=True)
    assert made["tokens"] == usual[:usual.index(usual[4])]
    assert made["stop_type"] == "eos"
    # Those of the model and these come later only.
    [first] = [choice for choice in (tokens_of(service, stop_token_ids=usual, min_tokens=8),)]
    assert len(first["tokens"]) >= 8 and not set(first["tokens"][:8]) & set(usual)


def test_the_end_of_the_text_waits(service):
    end = next(i for i in range(10) if tokens_of(service, allowed_token_ids=[i])["tokens"] == [])
    assert tokens_of(service, logit_bias=[[end, 100]])["tokens"] == []
    assert len(tokens_of(service, logit_bias=[[end, 100]], min_tokens=5)["tokens"]) == 5


def test_stop_strings_wait(service):
    usual = tokens_of(service)
    first = usual["content"].split()[0]
    assert tokens_of(service, stop=[first])["stop_type"] == "word"
    assert len(tokens_of(service, stop=[first], min_tokens=5)["tokens"]) >= 5
    # One that begins with the last of these tokens does not count either.
    words = service.post("/tokenize", {"content": usual["content"], "with_pieces": True})["tokens"]
    later = next(i for i in range(2, 10) if words[i]["piece"].strip() and words[i]["piece"] not in
                 [token["piece"] for token in words[:i]])
    piece = words[later]["piece"]
    assert tokens_of(service, stop=[piece], min_tokens=later)["stop_type"] == "word"
    assert len(tokens_of(service, stop=[piece], min_tokens=later + 1)["tokens"]) > later + 1


def test_tokens_that_are_allowed(service):
    usual = tokens_of(service)["tokens"]
    made = tokens_of(service, allowed_token_ids=usual[1:4])["tokens"]
    assert set(made) <= set(usual[1:4]) and made


def test_words_that_are_not(service):
    usual = tokens_of(service)["content"]
    words = service.post("/tokenize", {"content": usual, "with_pieces": True})["tokens"]
    word = next(token["piece"].strip() for token in words if len(str(token["piece"]).strip()) > 2)
    assert word not in tokens_of(service, bad_words=[word])["content"].split()


def test_words_that_are_not_among_allowed_tokens(service):
    [token] = service.post("/tokenize", {"content": "#"})["tokens"]
    assert set(tokens_of(service, allowed_token_ids=[token, 300], bad_words=["#"])["tokens"]) == {300}
    status, error = service.error(CHAT, {"messages": HI, "max_tokens": 1, "allowed_token_ids": [token],
                                         "bad_words": ["#"]})
    assert (status, error["param"]) == (400, "bad_words")


@pytest.mark.parametrize("path, fields, field", [
    (CHAT, {"truncate_prompt_tokens": 2}, "truncate_prompt_tokens"),
    (CHAT, {"include_stop_str_in_output": True}, "include_stop_str_in_output"),
    (CHAT, {"modalities": ["text", "audio"]}, "modalities"), (CHAT, {"stop_token_ids": [10**9]}, "stop_token_ids"),
    (CHAT, {"allowed_token_ids": []}, "allowed_token_ids"), (CHAT, {"min_tokens": -1}, "min_tokens"),
    (CHAT, {"bad_words": ["a word of very many tokens"]}, "bad_words"),
    ("/api/generate", {"prompt": "a", "template": "{{ .Prompt }} x"}, "template"),
    ("/api/generate", {"prompt": "a", "context": [1, 2]}, "context"),
])
def test_what_would_change_the_answer_is_refused(service, path, fields, field):
    status, error = service.error(path, {"messages": HI, "max_tokens": 1} | fields)
    assert status == 400
    assert error["param"] == field if path == CHAT else error.startswith(field + ": ")


def test_what_says_nothing_is_taken(service):
    assert content(service, modalities=["text"], include_stop_str_in_output=False, truncate_prompt_tokens=None,
                   min_tokens=0, stop_token_ids=[], bad_words=[]) == content(service)
    assert service.post("/api/generate", {"prompt": "a", "template": "", "context": [], "stream": False,
                                          "options": {"num_predict": 1}})["done"]


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
