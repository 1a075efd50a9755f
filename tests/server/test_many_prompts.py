"""Requests with many prompts, large bodies or many tools, and the small ones beside them."""

import threading

SMALL = {"prompt": "Hi", "max_tokens": 1}


def test_a_request_with_many_prompts_leaves_room(start):
    service = start("-t", "2", "-np", "4", "-c", "4096")
    options = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}
    prompts = [f"a b c {i}" for i in range(300)]
    done = []

    def batch():
        done.append(service.post("/v1/completions", {"prompt": prompts} | options))

    thread = threading.Thread(target=batch)
    thread.start()
    most, beside = 0, 0
    while thread.is_alive():
        most = max(most, service.metric("infer_num_requests_running"))
        service.post("/v1/completions", SMALL)
        beside += thread.is_alive()
    assert 1 < most <= 66
    assert beside > 1
    choices = done[0]["choices"]
    assert [choice["index"] for choice in choices] == list(range(300))
    for i in (0, 63, 64, 299):
        alone = service.post("/v1/completions", {"prompt": prompts[i]} | options)
        assert alone["choices"][0]["text"] == choices[i]["text"]


def test_several_answers_to_each_of_many_prompts(service):
    body = {"prompt": [f"Once {i}" for i in range(40)], "n": 3, "max_tokens": 3, "seed": 7,
            "temperature": 1, "ignore_eos": True}
    choices = service.post("/v1/completions", body)["choices"]
    assert [choice["index"] for choice in choices] == list(range(120))
    expected = service.post("/v1/completions", body | {"prompt": body["prompt"][39]})["choices"]
    assert [c["text"] for c in choices[117:]] == [c["text"] for c in expected]


def test_large_bodies_do_not_hold_up_small_ones(start):
    service = start("-t", "2")
    refused = []

    def large():
        refused.append(service.error("/v1/completions", {"prompt": "ab cab c " * (1 << 20)})[0])

    threads = [threading.Thread(target=large) for _ in range(6)]
    for thread in threads:
        thread.start()
    beside = 0
    while any(thread.is_alive() for thread in threads):
        service.post("/v1/completions", SMALL)
        beside += sum(thread.is_alive() for thread in threads) > 2
    assert refused == [400] * 6
    assert beside > 0


def test_a_thousand_tools_where_a_call_is_required(start):
    service = start("-t", "2", "-c", "1024")
    tools = [{"type": "function", "function": {
        "name": f"f{i}", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}}
        for i in range(1000)]
    # The built-in model is not told of the tools, which therefore fit its context.
    answer = service.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hi"}], "tools": tools, "tool_choice": "required",
        "max_tokens": 200})
    [call] = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] in {f"f{i}" for i in range(1000)}


def test_a_zero_byte_does_not_end_a_message(service):
    assert service.error("/v1/models/a%00b", None, "GET")[1]["message"].endswith("' here")
