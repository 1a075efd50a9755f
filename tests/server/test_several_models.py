"""Several models: by name, loaded when wanted, unloaded when others need the memory or by time."""

import datetime
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from service import BIN

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "app" / "demo"
STORY = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 8, "seed": 1}


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models")
    shutil.copy(DEMO / "infer-demo.gguf", made / "alpha.gguf")
    shutil.copy(DEMO / "infer-demo-draft.gguf", made / "alpha-draft.gguf")
    (made / "sub").mkdir()
    shutil.copy(DEMO / "infer-demo.gguf", made / "sub" / "beta.gguf")
    shutil.copytree(ROOT / "tests" / "data" / "embed" / "bert-mean", made / "encoder")
    (made / "mmproj-alpha.gguf").write_bytes(b"GGUF")
    (made / "broken.gguf").write_bytes(b"GGUF is not all")
    return made


@pytest.fixture(scope="module")
def several(begin_module, folder):
    return begin_module("--models", folder, "-c", "512", "-t", "2")


def test_models_are_named_as_other_programs_name_them(start, tmp_path):
    demo = DEMO / "infer-demo.gguf"
    blob = tmp_path / "ollama" / "blobs" / ("sha256-" + "ab" * 32)
    manifest = tmp_path / "ollama" / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "1b"
    blob.parent.mkdir(parents=True)
    shutil.copy(demo, blob)
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": [
        {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + "ab" * 32}]}))
    commit = tmp_path / "hub" / "models--org--Encoder-v1" / "snapshots" / ("0" * 40)
    shutil.copytree(ROOT / "tests" / "data" / "embed" / "bert-mean", commit)
    shutil.copy(demo, tmp_path / "Split-00001-of-00001.gguf")
    plain = tmp_path / "plain.v2"
    shutil.copytree(commit, plain)
    service = start("-m", blob, "-m", commit, "-m", f"{plain}/", "-m", tmp_path / "Split-00001-of-00001.gguf")
    assert sorted(states(service)) == ["Encoder-v1", "Split", "plain.v2", "tiny:1b"]
    assert list(states(start("-m", ".", cwd=plain))) == ["plain.v2"]
    assert list(states(start("-m", blob))) == ["tiny:1b"]


def states(service):
    return {model["id"]: model["status"] for model in service.get("/v1/models")["data"]}


def test_parts_of_a_model_are_none(start, tmp_path):
    """The folders of sentence-transformers' modules, which have weights and a configuration too."""
    embed = ROOT / "tests" / "data" / "embed"
    shutil.copytree(embed / "gemma-embedding", tmp_path / "gemma")
    shutil.copytree(embed / "bert-mean", tmp_path / "more" / "bert")
    assert (tmp_path / "gemma" / "2_Dense" / "config.json").exists()
    service = start("--models", tmp_path, "-t", "1")
    assert {model["id"] for model in service.get("/v1/models")["data"]} == {"gemma", "more/bert"}


def test_names(several):
    # A draft model and what reads images are no models of their own.
    assert list(states(several)) == ["alpha", "broken", "encoder", "sub/beta"]
    tags = several.get("/api/tags")["models"]
    assert [model["name"] for model in tags] == ["alpha", "broken", "encoder", "sub/beta"]
    assert tags[0]["size"] == (DEMO / "infer-demo.gguf").stat().st_size
    shown = several.post("/api/show", {"name": "sub/beta"})
    assert shown["model_info"]["general.parameter_count"] > 0
    status, _, text = several.ask("POST", "/api/show", {"model": "broken"})
    assert status == 503 and b"broken" in text and b"/" not in json.loads(text)["error"].encode()


def test_each_is_loaded_when_it_is_wanted(several):
    for name in ("alpha", "sub/beta", "alpha:latest"):
        answer = several.post("/v1/chat/completions", STORY | {"model": name})
        assert answer["model"] == name and answer["choices"][0]["message"]["content"]
    several.post("/v1/embeddings", {"model": "encoder", "input": "a"})
    found = states(several)
    assert [found[name] for name in ("alpha", "encoder", "sub/beta")] == ["loaded"] * 3
    assert {model["name"] for model in several.get("/api/ps")["models"]} == {"alpha", "encoder", "sub/beta"}
    # Without a name the first one is meant.
    assert several.post("/v1/chat/completions", STORY)["model"] == "alpha"
    assert several.metric("infer_model_loaded") == 3
    assert several.get("/props?model=sub%2Fbeta")["model_alias"] == "sub/beta"


def test_a_draft_model_is_found_by_its_name(several):
    before = several.metric("infer_spec_decode_num_draft_tokens_total", 'model_name="alpha"')
    several.post("/v1/chat/completions", STORY | {"model": "alpha", "max_tokens": 60, "temperature": 0, "draft_tokens": 4})
    assert several.metric("infer_spec_decode_num_draft_tokens_total", 'model_name="alpha"') > before
    assert several.metric("infer_spec_decode_num_draft_tokens_total", 'model_name="sub/beta"') == 0


def test_one_of_several_is_described(several):
    for model in several.get("/v1/models")["data"]:
        assert several.get("/v1/models/" + model["id"]) == model
    assert several.get("/v1/models/sub%2Fbeta")["id"] == several.get("/v1/models/sub/beta")["id"] == "sub/beta"


def test_load_and_unload(several):
    assert several.post("/v1/models/load", {"model": "sub/beta"})["status"] == "loaded"
    assert several.post("/v1/models/unload", {"model": "sub/beta"})["status"] == "unloaded"
    assert states(several)["sub/beta"] == "unloaded"
    assert several.post("/v1/models/unload", {"model": "sub/beta"})["status"] == "unloaded"
    assert several.metric("infer_generation_tokens_total", "sub/beta") == 0


def test_ollama_unloads_a_model(several):
    for path, body in (("/api/generate", {"keep_alive": 0}), ("/api/generate", {"keep_alive": "0s", "prompt": ""}),
                       ("/api/chat", {"keep_alive": 0, "messages": []}), ("/api/chat", {"keep_alive": 0.0})):
        several.post("/v1/models/load", {"model": "sub/beta"})
        answer = several.post(path, body | {"model": "sub/beta:latest"})
        assert (answer["model"], answer["done"], answer["done_reason"]) == ("sub/beta:latest", True, "unload")
        assert answer["response" if path == "/api/generate" else "message"] in ("", {"role": "assistant", "content": ""})
        assert states(several)["sub/beta"] == "unloaded"
    # Nothing is loaded to be unloaded.
    assert several.post("/api/generate", {"model": "sub/beta", "keep_alive": 0})["done_reason"] == "unload"
    # Other times have no effect, nor has this one in a request with a text.
    for keep in ("5m", -1, "-1s", 300, None, "0.5s"):
        answer = several.post("/api/generate", {"model": "sub/beta", "keep_alive": keep})
        assert answer["done_reason"] == "load"
    several.post("/api/generate", {"model": "sub/beta", "keep_alive": 0, "prompt": "Once", "stream": False,
                                   "options": {"num_predict": 1}})
    assert states(several)["sub/beta"] == "loaded"
    assert several.error("/api/generate", {"model": "none", "keep_alive": 0})[0] == 404


def test_ollama_says_when_a_model_goes(several):
    several.post("/v1/models/load", {"model": "sub/beta"})
    now = datetime.datetime.now(datetime.timezone.utc)
    [expires] = [model["expires_at"] for model in several.get("/api/ps")["models"] if model["name"] == "sub/beta"]
    # --keep is 300 seconds.
    assert 200 < (datetime.datetime.fromisoformat(expires.replace("Z", "+00:00")) - now).total_seconds() < 310


@pytest.mark.parametrize("name", [
    "../alpha", "alpha.gguf", "sub/../alpha", "/etc/passwd", "sub", "", "sub/beta/", "alpha\x00", "ALPHA",
    "alpha-draft", "mmproj-alpha", "%61lpha", "..", "x" * 5000, "a\r\nSet-Cookie: a=b",
])
def test_other_names_are_no_models(several, name):
    for path in ("/v1/chat/completions", "/v1/models/load", "/v1/models/unload", "/api/show"):
        status, headers, text = several.ask("POST", path, STORY | {"model": name})
        if name == "":
            continue  # the same as none
        assert status == 404 and "set-cookie" not in headers
        assert "there is no model" in text.decode()
    assert several.error("/v1/chat/completions", STORY | {"model": ["alpha"]})[0] == 400


def test_a_file_that_is_no_model(several, folder):
    status, error = several.error("/v1/chat/completions", STORY | {"model": "broken"})
    assert status == 503 and "broken" in error["message"] and str(folder) not in error["message"]
    assert several.post("/v1/chat/completions", STORY | {"model": "alpha"})


def begin_tight(begin, folder, made, wait):
    """Two models and memory for one of them."""
    plan = subprocess.run([BIN, "plan", folder / "alpha.gguf", "-c", "512", "-t", "1", "--json"],
                          capture_output=True, check=True)
    total = json.loads(plan.stdout)["total"]
    shutil.copy(folder / "alpha.gguf", made / "one.gguf")
    shutil.copy(folder / "alpha.gguf", made / "two.gguf")
    subprocess.run([BIN, "synth", "llama-24m", made / "large.gguf", "--type", "f32", "-q"], check=True)
    assert (made / "large.gguf").stat().st_size > total * 3 // 2
    return begin("-m", made / "one.gguf", "-m", made / "two.gguf", "-m", made / "large.gguf",
                 "-c", "512", "-t", "1", "--memory", total * 3 // 2, "--wait", wait, "--keep", "1")


@pytest.fixture(scope="module")
def tight(begin_module, folder, tmp_path_factory):
    return begin_tight(begin_module, folder, tmp_path_factory.mktemp("tight"), 1)


def hold(service, name):
    """A request that uses a model until its connection is closed: nobody reads the answer."""
    body = json.dumps(STORY | {"model": name, "max_tokens": -1, "n": 16, "ignore_eos": True, "stream": True,
                               "logprobs": True, "top_logprobs": 20}).encode()
    busy = socket.socket()
    busy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    busy.connect(("127.0.0.1", service.port))
    busy.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                 str(len(body)).encode() + b"\r\n\r\n" + body)
    until(lambda: service.metric("infer_num_requests_running", name) > 0)
    return busy


def test_one_model_makes_room_for_another(tight):
    first = tight.post("/v1/chat/completions", STORY | {"model": "one"})["choices"]
    second = tight.post("/v1/chat/completions", STORY | {"model": "two"})["choices"]
    assert first == second
    assert states(tight) == {"one": "unloaded", "two": "loaded", "large": "unloaded"}


def test_no_model_goes_for_one_that_never_fits(tight):
    assert tight.post("/v1/chat/completions", STORY | {"model": "two"})["choices"]
    status, headers, text = tight.ask("POST", "/v1/chat/completions", STORY | {"model": "large"})
    assert status == 503 and "do not fit" in json.loads(text)["error"]["message"]
    assert "retry-after" not in headers  # waiting does not help
    assert states(tight) == {"one": "unloaded", "two": "loaded", "large": "unloaded"}


def test_a_request_waits_for_its_model(tight):
    busy = hold(tight, "two")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(
        tight.ask("POST", "/v1/chat/completions", STORY | {"model": "one"})))
    waiting.start()
    time.sleep(0.2)
    assert states(tight) == {"one": "unloaded", "two": "loaded", "large": "unloaded"}
    busy.close()
    waiting.join()
    assert answers[0][0] == 200
    assert states(tight) == {"one": "loaded", "two": "unloaded", "large": "unloaded"}


def test_requests_that_wait_take_little_memory(start, folder, tmp_path):
    """Each body of 1.2 MB would be 16 MB or more as a tree of values."""
    tight = begin_tight(start, folder, tmp_path, 60)
    busy = hold(tight, "two")
    before = tight.memory()
    body = (b'{"model":"one","prompt":[5],"max_tokens":1,"x":[' + b"{}," * 400_000 + b"0]}")
    answers = []
    waiting = [threading.Thread(target=lambda: answers.append(tight.ask("POST", "/v1/completions", body)))
               for _ in range(10)]
    for thread in waiting:
        thread.start()
    time.sleep(3)
    assert tight.memory() - before < 100 << 20
    assert not answers  # all of them wait
    busy.close()
    for thread in waiting:
        thread.join()
    assert [status for status, _, _ in answers] == [200] * 10


def test_a_request_does_not_wait_for_ever(tight):
    busy = hold(tight, "one")
    status, headers, text = tight.ask("POST", "/v1/chat/completions", STORY | {"model": "two"})
    assert (status, headers["retry-after"]) == (503, "1")
    assert json.loads(text)["error"]["type"] == "unavailable_error"
    status, _, _ = tight.ask("POST", "/v1/models/unload", {"model": "one"})
    assert status == 503  # it is in use
    assert states(tight) == {"one": "loaded", "two": "unloaded", "large": "unloaded"}
    busy.close()
    # Nobody uses it, and nobody wants another one: it goes after --keep.
    until(lambda: states(tight) == {"one": "unloaded", "two": "unloaded", "large": "unloaded"})


def test_hangup_reads_models_and_keys_again(start, folder, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(folder / "alpha.gguf", models / "alpha.gguf")
    shutil.copy(folder / "alpha.gguf", models / "old.gguf")
    keys = tmp_path / "keys"
    keys.write_text("first\n")
    service = start("--models", models, "--api-key-file", keys, "-c", "512", "-t", "1")
    first, second = {"x-api-key": "first"}, {"x-api-key": "second"}

    def names(headers):
        return [model["id"] for model in service.get("/v1/models", headers=headers)["data"]]
    assert names(first) == ["alpha", "old"]
    service.post("/v1/models/load", {"model": "old"}, headers=first)
    (models / "alpha.gguf").rename(models / "new.gguf")
    (models / "old.gguf").unlink()
    keys.write_text("second\n")
    service.process.send_signal(signal.SIGHUP)
    until(lambda: service.ask("GET", "/v1/models", headers=first)[0] == 401)
    assert names(second) == ["new"]
    assert service.post("/v1/chat/completions", STORY | {"model": "new"}, headers=second)
    # What cannot be read changes nothing.
    keys.unlink()
    service.process.send_signal(signal.SIGHUP)
    until(lambda: b"all stays as it was" in service.said)
    assert names(second) == ["new"]


def test_what_cannot_be_served(tmp_path):
    def refused(*arguments):
        done = subprocess.run([BIN, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        return done.stderr
    assert "found none" in refused("--models", tmp_path)
    assert "cannot be read" in refused("--models", tmp_path / "absent")
    demo = DEMO / "infer-demo.gguf"
    assert "two models are named" in refused("-m", demo, "-m", demo)
    assert "--alias" in refused("-m", demo, "-m", DEMO / "infer-demo-draft.gguf", "--alias", "x")
