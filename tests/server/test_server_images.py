"""Images in requests of each interface."""

import base64
import http.client
import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "vision"
TALL, BLOCKS = ((DATA / name).read_bytes() for name in ("tall.png", "blocks.png"))
TALL_ROWS, BLOCKS_ROWS = 15, 12
QUESTION = "What is there to see?"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


@pytest.fixture(scope="module")
def seeing(begin_module):
    return begin_module("-m", DATA / "tiny.gguf", "--mmproj", DATA / "tiny-mmproj.gguf", "-t", 1)


@pytest.fixture(scope="module")
def blind(begin_module):
    return begin_module("-m", DATA / "tiny.gguf", "-t", 1)


def coded(file):
    return base64.b64encode(file).decode()


def uri(file, kind="png"):
    return f"data:image/{kind};base64,{coded(file)}"


def part(file, **more):
    return {"type": "image_url", "image_url": {"url": uri(file), **more}}


def chat_with(*content, **more):
    return {"messages": [{"role": "user", "content": list(content)}], "max_tokens": 12,
            "temperature": 0} | more


def text(words=QUESTION):
    return {"type": "text", "text": words}


def said(answer):
    return answer["choices"][0]["message"]["content"]


def prompt_tokens(service, body, path=CHAT):
    return service.post(path, body)["usage"]["prompt_tokens"]


def test_an_answer_depends_on_the_image(seeing):
    tall = seeing.post(CHAT, chat_with(part(TALL), text()))
    assert said(seeing.post(CHAT, chat_with(part(TALL), text()))) == said(tall)
    assert said(seeing.post(CHAT, chat_with(part(BLOCKS), text()))) != said(tall)
    assert said(seeing.post(CHAT, chat_with(text()))) != said(tall)
    assert said(seeing.post(CHAT, chat_with(text(), part(TALL)))) != said(tall)


def test_tokens_of_images_are_counted(seeing):
    plain = prompt_tokens(seeing, chat_with(text()))
    # With what stands around an image.
    assert prompt_tokens(seeing, chat_with(part(TALL), text())) == plain + TALL_ROWS + 2
    assert prompt_tokens(seeing, chat_with(part(TALL), text(), part(BLOCKS))) == \
        plain + TALL_ROWS + BLOCKS_ROWS + 4


def test_forms_of_an_image(seeing):
    expected = said(seeing.post(CHAT, chat_with(part(TALL), text())))
    lines = "\n".join(coded(TALL)[i:i + 76] for i in range(0, len(coded(TALL)), 76))
    for form in (part(TALL, detail="low"), {"type": "image_url", "image_url": uri(TALL)},
                 {"type": "input_image", "image_url": uri(TALL)},
                 {"type": "image_url", "image_url": {"url": uri(TALL).rstrip("=")}},
                 {"type": "image_url", "image_url": {"url": uri(TALL, "jpeg")}},
                 {"type": "image_url", "image_url": {"url": "data:image/png;base64," + lines}}):
        assert said(seeing.post(CHAT, chat_with(form, text()))) == expected


def test_a_streamed_answer(seeing):
    body = chat_with(part(TALL), text())
    events = seeing.events(CHAT, body)
    streamed = "".join(choice["delta"].get("content") or "" for event in events
                       for choice in event["choices"])
    assert streamed == said(seeing.post(CHAT, body))
    several = seeing.post(CHAT, body | {"n": 2, "temperature": 0})
    assert [choice["message"]["content"] for choice in several["choices"]] == [streamed] * 2


def test_a_conversation_that_goes_on(seeing):
    first = chat_with(part(BLOCKS), text())
    answered = said(seeing.post(CHAT, first))
    messages = first["messages"] + [{"role": "assistant", "content": answered},
                                    {"role": "user", "content": [text("And "), part(TALL)]}]
    plain = [message | {"content": "".join(each.get("text", "") for each in message["content"])}
             if isinstance(message["content"], list) else message for message in messages]
    body = {"max_tokens": 12, "temperature": 0}
    again = seeing.post(CHAT, body | {"messages": messages})
    assert again["usage"]["prompt_tokens"] == TALL_ROWS + BLOCKS_ROWS + 4 + prompt_tokens(
        seeing, body | {"messages": plain})


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_what_was_seen_before_is_found_in_the_cache(seeing):
    words = text(" ".join(f"word{i}" for i in range(30)))
    sampled = {"temperature": 1, "seed": 1, "max_tokens": 40}
    body = chat_with(words, part(TALL), words, **sampled)
    first = seeing.post(CHAT, body)
    second = seeing.post(CHAT, body)
    assert said(second) == said(first)
    # The full pages, which the image is in.
    before = prompt_tokens(seeing, chat_with(words)) - 1
    full = second["usage"]["prompt_tokens"] // 64 * 64
    assert cached(second) >= full > before + TALL_ROWS
    # Another image in its place: what is before it.
    other = seeing.post(CHAT, chat_with(words, part(BLOCKS), words, **sampled))
    assert before // 64 * 64 <= cached(other) <= before
    assert said(other) != said(first)


def test_responses(seeing):
    def asked(*content, **more):
        return {"input": [{"role": "user", "content": list(content)}], "max_output_tokens": 12,
                "temperature": 0} | more

    image = {"type": "input_image", "image_url": uri(TALL)}
    question = {"type": "input_text", "text": QUESTION}
    answer = seeing.post("/v1/responses", asked(image, question))
    written = "".join(each["text"] for item in answer["output"] for each in item.get("content", []))
    expected = seeing.post(CHAT, chat_with(part(TALL), text()))
    assert written == said(expected)
    assert answer["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"]
    fetched = {"type": "input_image", "image_url": "https://example.org/cat.png"}
    status, error = seeing.error("/v1/responses", asked(fetched, question))
    assert status == 400 and "image_url" in error["message"]


def block(file, **more):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                        "data": coded(file)} | more}


def test_anthropic(seeing):
    body = {"max_tokens": 12, "temperature": 0,
            "messages": [{"role": "user", "content": [block(TALL), text()]}]}
    message = seeing.post(MESSAGES, body)
    expected = seeing.post(CHAT, chat_with(part(TALL), text()))
    assert message["content"][0]["text"] == said(expected)
    counted = seeing.post(MESSAGES + "/count_tokens", {"messages": body["messages"]})
    assert counted["input_tokens"] == expected["usage"]["prompt_tokens"]
    status, headers, streamed = seeing.ask("POST", MESSAGES, body | {"stream": True})
    assert status == 200
    events = [json.loads(line[6:]) for line in streamed.decode().splitlines()
              if line.startswith("data: ")]
    assert "".join(event["delta"]["text"] for event in events
                   if event["type"] == "content_block_delta") == said(expected)


def test_images_of_tools_results(seeing):
    """They are read as images of the user that follow the result."""
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1",
              "content": [{"type": "text", "text": "seen"}, block(TALL)]}

    def body(*blocks):
        return {"max_tokens": 12, "temperature": 0, "messages": [
            {"role": "user", "content": QUESTION}, {"role": "assistant", "content": [call]},
            {"role": "user", "content": list(blocks)}]}

    plain = result | {"content": "seen"}
    inside, beside = (seeing.post(MESSAGES, body(*blocks)) for blocks in ((result,), (plain, block(TALL))))
    assert inside["content"] == beside["content"]
    assert inside["usage"]["output_tokens"] == beside["usage"]["output_tokens"]
    counted = [seeing.post(MESSAGES + "/count_tokens", {"messages": body(*blocks)["messages"]})["input_tokens"]
               for blocks in ((result,), (plain,))]
    assert counted[0] >= counted[1] + TALL_ROWS
    status, _, answer = seeing.ask("POST", MESSAGES, body(result | {"content": [{"type": "video"}]}))
    assert status == 400 and b"messages[2].content[0].content[0].type: expected text or image" in answer


@pytest.mark.parametrize("image, field", [
    ({"image_url": {"url": "https://example.org/cat.png"}}, "messages[0].content[1].image_url.url"),
    ({"image_url": "data:image/png;base64,!"}, "messages[0].content[1].image_url"),
])
def test_a_wrong_address_is_named(seeing, image, field):
    status, error = seeing.error(CHAT, chat_with(text(), {"type": "image_url"} | image))
    assert (status, error["param"]) == (400, field)


@pytest.mark.parametrize("wrong, why", [
    (block(TALL, type="url", url="https://example.org/cat.png"), "source.type"),
    ({"type": "image"}, "source"), (block(TALL, data="!"), "base64"), (block(b"no image"), "image"),
    (block(TALL[:300]), "image"),
])
def test_what_is_wrong_for_anthropic(seeing, wrong, why):
    body = {"max_tokens": 4, "messages": [{"role": "user", "content": [wrong, text()]}]}
    status, _, answer = seeing.ask("POST", MESSAGES, body)
    error = json.loads(answer)
    assert (status, error["error"]["type"]) == (400, "invalid_request_error"), answer
    assert why in error["error"]["message"]


def test_ollama(seeing):
    body = {"stream": False, "options": {"num_predict": 12, "temperature": 0},
            "messages": [{"role": "user", "content": QUESTION, "images": [coded(TALL)]}]}
    whole = seeing.post("/api/chat", body)
    expected = seeing.post(CHAT, chat_with(part(TALL), text()))
    assert whole["message"]["content"] == said(expected)
    assert whole["prompt_eval_count"] == expected["usage"]["prompt_tokens"]
    status, _, lines = seeing.ask("POST", "/api/chat", body | {"stream": True})
    assert status == 200
    assert "".join(json.loads(line)["message"]["content"]
                   for line in lines.decode().splitlines()) == said(expected)
    generated = {key: value for key, value in body.items() if key != "messages"}
    one = seeing.post("/api/generate", generated | {"prompt": QUESTION, "images": [coded(TALL)]})
    assert one["response"] == said(expected)
    none = seeing.post("/api/generate", generated | {"prompt": QUESTION, "images": []})
    assert none["response"] == said(seeing.post(CHAT, chat_with(text())))


@pytest.mark.parametrize("images", ["AAAA", [5], ["!"], [coded(b"no image")], [coded(TALL[:300])]])
def test_what_is_wrong_for_ollama(seeing, images):
    for path, body in (("/api/chat", {"messages": [{"role": "user", "content": "x",
                                                    "images": images}]}),
                       ("/api/generate", {"prompt": "x", "images": images})):
        status, _, answer = seeing.ask("POST", path, body | {"stream": False})
        assert status == 400 and "image" in json.loads(answer)["error"], (path, answer)


@pytest.mark.parametrize("wrong, why", [
    ({"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}, "image_url"),
    ({"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/cat.png"}}, "image_url"),
    ({"type": "image_url", "image_url": {"url": "file:///etc/hostname"}}, "image_url"),
    ({"type": "image_url", "image_url": {"url": "data:image/png;base64,!!!"}}, "image_url"),
    ({"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}}, "image_url"),
    ({"type": "image_url"}, "image_url"), ({"type": "image_url", "image_url": 5}, "image_url"),
    ({"type": "image_url", "image_url": {}}, "image_url.url"),
    ({"type": "image_url", "image_url": {"url": 5}}, "image_url.url"),
    ({"type": "image"}, "type"),
    ({"type": "image_url", "image_url": {"url": uri(b"")}}, "image 1"),
    ({"type": "image_url", "image_url": {"url": uri(b"no image")}}, "image 1"),
    ({"type": "image_url", "image_url": {"url": uri(TALL[:300])}}, "image 1"),
])
def test_what_is_wrong_is_named(seeing, wrong, why):
    status, error = seeing.error(CHAT, chat_with(wrong, text()))
    assert status == 400 and why in error["message"], error
    assert seeing.error(CHAT, chat_with(wrong, text(), stream=True))[0] == 400


def test_a_text_that_pretends_to_hold_an_image(seeing):
    """It is a place too many."""
    status, error = seeing.error(CHAT, chat_with(part(TALL), text("<|image_pad|>")))
    assert status == 400 and "2, found 1" in error["message"]
    assert said(seeing.post(CHAT, chat_with(text("<|image_pad|>"))))


def test_a_context_that_is_too_short(start):
    short = start("-m", DATA / "tiny.gguf", "--mmproj", DATA / "tiny-mmproj.gguf", "-c", 64)
    for count in (4, 1000):  # no more are read than the context could hold
        status, error = short.error(CHAT, chat_with(*[part(TALL)] * count, text()))
        assert status == 400 and "do not fit: the context holds 64" in error["message"], error
    assert "75 tokens" in error["message"]
    assert said(short.post(CHAT, chat_with(part(TALL), text("And?")))) is not None


def test_what_generates_does_not_keep_an_image_out(start, tmp_path):
    """The rows of such an image, 16, are computed in one step, of 19 rows here."""
    pytest.importorskip("numpy")
    sys.path.insert(0, str(ROOT))
    from tests.golden.reference import gguf, make_towers, png
    metadata, tensors = make_towers.gemma3_text()
    gguf.write(tmp_path / "model.gguf", metadata | {"gemma3.context_length": 16384}, tensors)
    gguf.write(tmp_path / "tower.gguf", *make_towers.gemma3_tower())
    service = start("-m", tmp_path / "model.gguf", "--mmproj", tmp_path / "tower.gguf", "-c", 16384, "-np", 3,
                    "-b", 19, "-t", 1)
    streams = []
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        connection.request("POST", "/completion", json.dumps(
            {"prompt": "a", "n_predict": 8000, "ignore_eos": True, "stream": True}))
        streams.append((connection, connection.getresponse()))
    for _, answer in streams:
        answer.readline()
    image = png.encode(png.blocks(32, 32, seed=1))
    assert service.post(CHAT, chat_with(part(image), text("a"), max_tokens=2))["usage"]["completion_tokens"] == 2
    processing = 6  # its own request counts until the whole answer is sent
    while processing == 6:
        processing = sum(slot["is_processing"] for slot in service.get("/slots"))
    assert processing == 5  # the others go on
    for connection, _ in streams:
        connection.close()


def test_a_model_that_sees_no_images(blind):
    for path, body in ((CHAT, chat_with(part(TALL), text())),
                       (MESSAGES, {"max_tokens": 4, "messages": [
                           {"role": "user", "content": [block(TALL)]}]}),
                       ("/api/chat", {"stream": False, "messages": [
                           {"role": "user", "content": "x", "images": [coded(TALL)]}]}),
                       ("/v1/responses", {"input": [{"role": "user", "content": [
                           {"type": "input_image", "image_url": uri(TALL)}]}]})):
        status, _, answer = blind.ask("POST", path, body)
        assert status == 400 and b"mmproj" in answer, (path, answer)
        assert b"tiny was loaded" in answer and str(DATA).encode() not in answer
    assert said(blind.post(CHAT, chat_with(text())))


def test_a_shown_template(seeing):
    prompt = seeing.post("/apply-template", chat_with(text("See: "), part(TALL)))["prompt"]
    assert "See: <|vision_start|><|image_pad|><|vision_end|>" in prompt


def test_the_clients(seeing):
    openai = pytest.importorskip("openai")
    expected = said(seeing.post(CHAT, chat_with(part(TALL), text())))
    with openai.OpenAI(base_url=f"http://127.0.0.1:{seeing.port}/v1", api_key="none") as client:
        answer = client.chat.completions.create(model="x", **chat_with(part(TALL), text()))
        assert answer.choices[0].message.content == expected
