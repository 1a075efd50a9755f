"""infer run and infer chat with images."""

import json

import pytest

from program import ROOT, fails, infer, infer_typed

DATA = ROOT / "tests" / "data" / "vision"
MODEL, TOWER = DATA / "tiny.gguf", DATA / "tiny-mmproj.gguf"
TALL, BLOCKS = DATA / "tall.png", DATA / "blocks.png"
TALL_ROWS, BLOCKS_ROWS = 15, 12
SHOWN = "<|vision_start|><|image_pad|><|vision_end|>"
SEEING = ["-m", MODEL, "--mmproj", TOWER]
RUN = ["run", "-q", "--json", "-n", 12, "--temp", 0, "--ignore-eos"]


def answer(prompt, *options):
    done = infer(*RUN, *SEEING, "-p", prompt, *options)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def counted(text):
    done = infer("tokenize", "-m", MODEL, "--json", stdin=text.encode())
    assert done.returncode == 0, done.stderr.decode()
    return len(json.loads(done.stdout))


def test_an_image_stands_where_the_prompt_shows_it():
    placed = answer(f"Say {SHOWN}it", "--image", TALL)
    assert placed["timings"]["prompt_tokens"] == counted(f"Say {SHOWN}it") - 1 + TALL_ROWS
    assert len(placed["tokens"]) == 12
    assert answer(f"Say {SHOWN}it", "--image", TALL)["tokens"] == placed["tokens"]
    assert answer(f"Say it{SHOWN}", "--image", TALL)["tokens"] != placed["tokens"]
    assert answer(f"Say {SHOWN}it", "--image", BLOCKS)["tokens"] != placed["tokens"]
    # The token alone is a place as well.
    bare = answer("Say <|image_pad|>it", "--image", TALL)
    assert bare["timings"]["prompt_tokens"] == placed["timings"]["prompt_tokens"] - 2


def test_without_a_place_images_stand_before_the_prompt():
    for images in ([TALL], [TALL, BLOCKS], [BLOCKS, TALL, TALL]):
        files = [word for image in images for word in ("--image", image)]
        placed = answer(SHOWN * len(images) + "Say it", *files)
        assert answer("Say it", *files)["tokens"] == placed["tokens"]
    assert answer("Say it", "--image", TALL, "--image", BLOCKS)["tokens"] != \
        answer("Say it", "--image", BLOCKS, "--image", TALL)["tokens"]


def test_the_same_text_however_it_is_computed():
    prompt = f"Say{SHOWN} what {SHOWN}it is"
    images = ["--image", TALL, "--image", BLOCKS]
    usual = answer(prompt, *images)["tokens"]
    for options in (["-b", 1], ["-b", 7], ["-t", 1], ["-c", 64], ["--mmap"], ["--spill"],
                    ["--drafter", "suffix", "--spec", 4], ["--context-shift"]):
        assert answer(prompt, *images, *options)["tokens"] == usual, options
    several = json.loads(infer(*RUN, *SEEING, *images, "-p", prompt, "-s", "1,2,3").stdout)
    assert [each["tokens"] for each in several] == [usual] * 3


def test_samplers_that_look_back_pass_over_images():
    for options in (["--repeat-penalty", 1.3, "--repeat-last-n", -1], ["--dry-multiplier", 0.8],
                    ["--presence-penalty", 1, "--frequency-penalty", 0.5]):
        long = answer("Say it", "--image", TALL, "-n", 40, *options)["tokens"]
        assert len(long) == 40 and min(long) >= 0
    number = answer("Say it", "--image", TALL, "-j", '{"type": "integer"}')
    assert number["text"].isdigit()


def test_images_with_a_context_that_is_full():
    room = 2 + TALL_ROWS + counted("Say it")
    cut = answer("Say it", "--image", TALL, "-c", room + 4, "--context-shift", "-n", 100)
    assert cut["finish_reason"] == "context" and len(cut["tokens"]) <= 5
    fails(4, *RUN, *SEEING, "-p", "Say it", "--image", TALL, "-c", room - 1, says=str(room))


def refused(code, *arguments, says):
    return fails(code, "run", "-q", "-n", 4, "-p", *arguments, says=says)


def test_what_is_wrong_is_named(tmp_path):
    two = SHOWN + "and" + SHOWN
    refused(2, two, *SEEING, "--image", TALL, says="2, found 1")
    refused(2, SHOWN, *SEEING, "--image", TALL, "--image", BLOCKS, says="1, found 2")
    refused(3, "Say", *SEEING, "--image", MODEL, says="tiny.gguf")
    refused(3, "Say", *SEEING, "--image", tmp_path / "absent.png", says="absent.png")
    refused(3, "Say", "-m", MODEL, "--image", TALL, says="mmproj")
    refused(3, "Say", "-m", MODEL, "--mmproj", tmp_path / "absent.gguf", says="absent.gguf")
    refused(2, "Say", *SEEING, "--image", TALL, "--image-max-tokens", -1,
            says="--image-max-tokens")
    broken = tmp_path / "broken.png"
    broken.write_bytes(TALL.read_bytes()[:500])
    refused(3, "Say", *SEEING, "--image", broken, says="broken.png")


def test_images_of_a_form_that_no_model_takes(tmp_path):
    """A line of pixels, 201 times as long as it is wide."""
    numpy = pytest.importorskip("numpy")
    import sys
    sys.path.insert(0, str(ROOT))
    from tests.golden.reference import png
    path = tmp_path / "line.png"
    path.write_bytes(png.encode(numpy.zeros((1, 201, 3), numpy.uint8)))
    refused(3, "Say", *SEEING, "--image", path, says="line.png")
    path.write_bytes(png.encode(numpy.zeros((1, 200, 3), numpy.uint8)))
    assert answer("Say", "--image", path)["tokens"]


def chat(lines, *options, code=0):
    done = infer_typed("chat", "--json", *SEEING, "-n", 6, "--temp", 0, *options, lines=lines)
    assert done.returncode == code, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def turns(events):
    return [event for event in events if event["event"] == "end"]


def said(events):
    """The texts of the answers."""
    texts = [""]
    for event in events:
        if event["event"] == "content":
            texts[-1] += event["text"]
        elif event["event"] == "end":
            texts.append("")
    return texts[:-1]


def rendered(*messages):
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages) + \
        "<|im_start|>assistant\n"


def test_chat_shows_the_image_with_the_first_message():
    events = chat(["What is it?", "And now?"], "--image", TALL)
    first, second = turns(events)
    expected = counted(rendered(("user", SHOWN + "What is it?"))) - 1 + TALL_ROWS
    assert first["prompt_tokens"] == expected
    # The second turn adds what is new alone.
    assert second["prompt_tokens"] + second["reused_tokens"] <= counted(
        "<|im_end|>\n" + rendered(("user", "And now?"))) + 1
    assert second["context_used"] > first["context_used"]
    assert chat(["What is it?"])[:1] != events[:1]
    # The image is part of the answer's prompt in `run` as well.
    plain = answer(rendered(("user", SHOWN + "What is it?")), "--image", TALL, "-n", 6)
    assert first["generated_tokens"] < 6 or plain["text"] == said(events)[0]


def test_an_image_for_a_later_message():
    events = chat(["Hello", f"/image {TALL}", "What is it?", "And now?"])
    first, second, third = turns(events)
    # The longer question and the image, then neither.
    more = counted(SHOWN + "What is it?") - 1 + TALL_ROWS - counted("And now?")
    assert second["prompt_tokens"] == third["prompt_tokens"] + more
    assert first["reused_tokens"] == second["reused_tokens"] == third["reused_tokens"] == 0
    other = chat(["Hello", f"/image {BLOCKS}", "What is it?", "And now?"])
    assert said(other)[0] == said(events)[0] and said(other)[1:] != said(events)[1:]
    two = turns(chat([f"/image {TALL}", f"/image {BLOCKS}", "What is it?"]))
    assert two[0]["prompt_tokens"] == counted(
        rendered(("user", SHOWN + SHOWN + "What is it?"))) - 2 + TALL_ROWS + BLOCKS_ROWS


def test_a_turn_with_an_image_may_be_taken_back():
    events = chat([f"/image {TALL}", "What is it?", "/undo", "Hello"])
    plain = chat(["Hello"])
    assert said(events)[1] == said(plain)[0]
    again = chat([f"/image {TALL}", "What is it?", "/undo", f"/image {TALL}", "What is it?"])
    assert said(again)[1] == said(again)[0] == said(events)[0]


def test_conversations_with_images_are_saved_and_loaded(tmp_path):
    saved = tmp_path / "saved.json"
    chat([f"/image {TALL}", "What is it?", f"/save {saved}"])
    events = chat([f"/load {saved}", "And now?"])
    whole = chat([f"/image {TALL}", "What is it?", "And now?"])
    assert said(events)[0] == said(whole)[1]


def test_a_template_that_knows_only_texts():
    """Images stand before their message's text."""
    shown = chat(["What is it?", "And now?"], "--image", TALL)
    events = chat(["What is it?", "And now?"], "--image", TALL, "--chat-template", "chatml")
    assert said(events) == said(shown)
    assert [turn["prompt_tokens"] for turn in turns(events)] == \
        [turn["prompt_tokens"] for turn in turns(shown)]


def test_the_oldest_turns_are_dropped_with_their_images():
    lines = ["What is it?", *(f"And {i}?" for i in range(6))]
    events = chat(lines, "--image", TALL, "--context-shift", "-c", 96)
    assert len(turns(events)) == len(lines)
    assert turns(events)[-1]["dropped_messages"] > 0
    assert all(turn["context_used"] <= 96 for turn in turns(events))


@pytest.mark.parametrize("name, says, code", [("absent.png", "absent.png", 3),
                                              (MODEL, "tiny.gguf", 3), ("", "/image", 1)])
def test_a_wrong_image_for_a_message(name, says, code):
    """In a pipe that is the end."""
    last = chat(["Hello", f"/image {name}", "What is it?"], code=code)[-1]
    assert (last["event"], last["code"]) == ("error", code) and says in last["message"]


@pytest.mark.parametrize("options, says", [
    ([*SEEING, "--image", MODEL], "tiny.gguf"), (["-m", MODEL, "--image", TALL], "mmproj"),
    ([*SEEING, "--image", "absent.png"], "absent.png")])
def test_what_is_wrong_in_a_chat(options, says):
    done = infer("chat", "--json", *options)
    assert done.returncode == 3
    [event] = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert (event["event"], event["code"]) == ("error", 3) and says in event["message"]
    assert says in done.stderr.decode().splitlines()[-1]
