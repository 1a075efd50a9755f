"""A cache without -c: it begins small and grows for what needs it, and for nothing else."""

import concurrent.futures
import re
import subprocess
import time

import pytest

from service import BIN


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Trained for 20,000 tokens, so small that a prompt of thousands takes a moment."""
    path = tmp_path_factory.mktemp("long") / "long.gguf"
    subprocess.run([BIN, "synth", "custom", path, "--layers", "1", "--embedding", "32", "--feed-forward", "32",
                    "--heads", "1", "--kv-heads", "1", "--tokens", "500", "--context", "20000"], check=True,
                   stderr=subprocess.DEVNULL)
    return path


def pages(service):
    text = service.ask("GET", "/metrics")[2].decode()
    counts = re.findall(r'infer_kv_cache_pages\{.*state="(\w+)"\} (\d+)', text)
    assert len(counts) == 4, text
    return {kind: int(count) for kind, count in counts}


def prompt(length, first=7):
    return [first] + [3 + i % 400 for i in range(length - 1)]


def test_a_prompt_longer_than_the_first_cache(start, model):
    service = start("-m", model, "-t", "1")
    assert service.get("/v1/models")["data"][0]["max_model_len"] == 20000
    before = sum(pages(service).values())
    assert before == 64
    answer = service.post("/v1/completions", {"prompt": prompt(6000), "max_tokens": 4, "ignore_eos": True})
    assert answer["usage"]["completion_tokens"] == 4
    assert before < sum(pages(service).values()) < 4 * before
    error = service.post("/v1/completions", {"prompt": prompt(20001), "max_tokens": 4}, expect=400)["error"]
    assert error["code"] == "context_length_exceeded"


def test_a_cache_of_a_given_size_stays_so(start, model):
    service = start("-m", model, "-t", "1", "-c", "4096")
    error = service.post("/v1/completions", {"prompt": prompt(6000), "max_tokens": 4}, expect=400)["error"]
    assert error["code"] == "context_length_exceeded"
    for first in range(3, 8):
        service.post("/v1/completions", {"prompt": prompt(2000, first), "max_tokens": 1})
    assert sum(pages(service).values()) == 64


def test_beginnings_are_kept_while_memory_is_free(start, model):
    service = start("-m", model, "-t", "1")
    cached = [[service.post("/v1/completions", {"prompt": prompt(2000, first), "max_tokens": 1})["usage"]
               ["prompt_tokens_details"]["cached_tokens"] for first in range(3, 9)] for _ in range(2)]
    assert cached[0] == [0] * 6
    assert all(tokens >= 1984 for tokens in cached[1])


def test_answers_that_have_ended_hold_no_pages(start, model):
    service = start("-m", model, "-t", "1")
    body = {"prompt": [prompt(5, first) for first in range(3, 67)], "n": 8, "max_tokens": 130, "ignore_eos": True}
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.post, "/v1/completions", body)
        idle = [0]
        while not asked.done():
            idle.append(pages(service)["idle"])
            time.sleep(0.01)
    answer = asked.result()
    assert len(answer["choices"]) == 512
    assert answer["usage"]["completion_tokens"] == 512 * 130
    # Those of answers that are about to be closed: 64 answers at once have 3 pages each.
    assert max(idle) <= 3 * 64


def test_several_models_grow_within_their_parts(start, model, tmp_path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).symlink_to(model)
    service = start("--models", tmp_path, "-t", "1", "--memory", "400M")
    for name in "abab":
        answer = service.post("/v1/completions", {"model": name, "prompt": prompt(6000), "max_tokens": 2})
        assert answer["usage"]["prompt_tokens"] == 6000
    models = {model["id"]: model for model in service.get("/v1/models")["data"]}
    assert [models[name]["status"] for name in "ab"] == ["loaded", "loaded"]


# A model of its own, and layers that predict the next token.
@pytest.mark.parametrize("drafter", ["model", "mtp"])
def test_drafters_follow_long_texts(start, model, tmp_path, drafter):
    drafts = ("-md", model)
    if drafter == "mtp":
        drafts = ()
        model = tmp_path / "mtp.gguf"
        subprocess.run([BIN, "synth", "mimo-7b", model, "--layers", "1", "--embedding", "32", "--feed-forward", "32",
                        "--heads", "1", "--kv-heads", "1", "--head-dim", "32", "--tokens", "500", "--context", "20000"],
                       check=True, stderr=subprocess.DEVNULL)
    service = start("-m", model, *drafts, "--drafter", drafter, "-t", "1")
    before = service.metric("infer_spec_decode_num_draft_tokens_total")
    body = {"prompt": prompt(6000), "max_tokens": 40, "temperature": 0, "ignore_eos": True}
    plain = service.post("/v1/completions", body | {"draft_tokens": 0})
    assert service.metric("infer_spec_decode_num_draft_tokens_total") == before
    drafted = service.post("/v1/completions", body | {"draft_tokens": 4})
    assert service.metric("infer_spec_decode_num_draft_tokens_total") > before
    assert drafted["choices"] == plain["choices"]
