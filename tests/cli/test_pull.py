"""infer pull and -hf: models of the hub by their names, from a server of the test's own."""

import json
import pathlib
import random
import resource
import signal
import subprocess
import time

import pytest

from hub_server import COMMIT, REPO, git_hash, sha256
from program import INFER, ROOT, fails, infer

SMALL = (ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf").read_bytes()
NOISE = random.Random(1).randbytes(300_000)


def pulled(*arguments, **options):
    """What --json reports of a pull that succeeds."""
    done = infer("pull", *arguments, "--json", **options)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def start(*arguments):
    return subprocess.Popen([INFER, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def blobs(hub):
    folder = hub.folder / "blobs"
    return {p.name: p.read_bytes() for p in folder.iterdir()} if folder.exists() else {}


def test_what_reads_images_is_fetched_when_an_image_is_given(hub):
    data = ROOT / "tests" / "data" / "vision"
    hub.put("tiny-Q4_K_M.gguf", (data / "tiny.gguf").read_bytes())
    pulled(REPO)
    question = ["run", "-hf", REPO, "-p", "What is it?", "-n", 4, "-c", 256, "-t", 1]
    image = ["--image", data / "tall.png"]
    fails(3, *question, *image, says="nothing reads images")
    hub.put("mmproj-F16.gguf", (data / "tiny-mmproj.gguf").read_bytes())
    before = len(hub.requests)
    assert infer(*question).returncode == 0
    fails(3, *question, *image, "--offline", says="nothing reads images")
    assert len(hub.requests) == before
    done = infer(*question, *image)
    assert done.returncode == 0 and b"images are read by" in done.stderr, done.stderr.decode()
    assert infer(*question, *image, "--offline").returncode == 0


# What is there afterwards

def test_a_file_is_laid_out_as_the_hub_s_own_programs_have_it(hub):
    hub.put("tiny-Q4_0.gguf", SMALL)
    report = pulled(REPO)
    path = hub.folder / "snapshots" / COMMIT / "tiny-Q4_0.gguf"
    assert report == {
        "path": str(path), "repository": REPO, "commit": COMMIT, "bytes": len(SMALL),
        "sha256": sha256(SMALL), "downloaded": len(SMALL),
        "files": [{"path": str(path), "bytes": len(SMALL), "sha256": sha256(SMALL),
                   "downloaded": len(SMALL)}]}
    assert path.is_symlink() and str(path.readlink()) == f"../../blobs/{sha256(SMALL)}"
    assert blobs(hub) == {sha256(SMALL): SMALL}
    assert (hub.folder / "refs" / "main").read_text() == COMMIT
    assert all(headers["User-Agent"].startswith("infer/") for _, _, headers in hub.requests)
    # Other commands find it, and pull finds it whole.
    assert [m["path"] for m in json.loads(infer("list", "--json").stdout)] == [str(path)]
    assert json.loads(infer("info", "tiny-q4", "--json").stdout)["path"] == str(path)
    done = infer("pull", REPO)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{path}\n", b"")
    assert pulled(REPO)["downloaded"] == 0 and hub.sent == len(SMALL)


@pytest.mark.parametrize("wanted, path", [
    (REPO, "tiny-Q4_K_M.gguf"), (REPO + ":q8_0", "sub/tiny-Q8_0.gguf"), (REPO + ":UD-Q4_K_M",
    "tiny-UD-Q4_K_M.gguf"), (REPO + ":IQ2", "tiny.IQ2_XXS.gguf"), (REPO + ":bf16", "BF16/t-bf16.gguf"),
    ("hf.co/" + REPO, "tiny-Q4_K_M.gguf"), ("https://huggingface.co/" + REPO, "tiny-Q4_K_M.gguf")])
def test_the_quantisation_is_chosen_by_its_name(hub, wanted, path):
    for name in ("mmproj-Q4_K_M.gguf", "tiny-Q4_K_M.gguf", "sub/tiny-Q8_0.gguf", "tiny.IQ2_XXS.gguf",
                 "tiny-UD-Q4_K_M.gguf", "BF16/t-bf16.gguf", "README.md", "config.json"):
        hub.put(name, name.encode())
    assert pulled(wanted)["path"].endswith(f"/{COMMIT}/{path}")
    assert len(blobs(hub)) == (1 if "/" in path else 2)  # with what reads images beside the model


@pytest.mark.parametrize("names, wanted", [
    (["mmproj-b-f16.gguf", "mmproj-a-F32.gguf", "mmproj-c-F16.gguf"], "mmproj-b-f16.gguf"),
    (["mmproj-model.gguf", "mmproj-BF16.gguf"], "mmproj-BF16.gguf"),
    (["sub/mmproj-F16.gguf", "mmproj.gguf", "x-mmproj-F16.gguf"], "mmproj.gguf"),
    (["sub/mmproj-F16.gguf", "mmproj.txt"], None)])
def test_what_reads_images_is_fetched_as_well(hub, names, wanted):
    for name in ("tiny-Q4_0.gguf", *names):
        hub.put(name, name.encode())
    report = pulled(REPO)
    assert report["path"].endswith("/tiny-Q4_0.gguf")
    found = [p.name for p in (hub.folder / "snapshots" / COMMIT).iterdir()]
    assert sorted(found) == sorted(filter(None, ["tiny-Q4_0.gguf", wanted]))
    assert json.loads(infer("pull", REPO, "-hff", "tiny-Q4_0.gguf", "--json").stdout)["path"] == report["path"]


def test_what_is_chosen_where_nothing_is_said(hub):
    for names, path in ((["b-Q6_K.gguf", "a-Q5_0.gguf"], "a-Q5_0.gguf"),
                        (["a-Q2_K.gguf", "t-Q8_0.gguf"], "t-Q8_0.gguf")):
        for name in names:
            hub.put(name, name.encode())
        assert pulled(REPO)["path"].endswith(path)
    fails(3, "pull", REPO + ":Q3_K_M", says="has no GGUF file of Q3_K_M; it has Q2_K, Q5_0, Q6_K, Q8_0")
    hub.put("other-Q8_0.gguf", b"x")
    fails(2, "pull", REPO + ":Q8_0", says="several files match: other-Q8_0.gguf, t-Q8_0.gguf")
    assert pulled(REPO, "-hff", "other-Q8_0.gguf")["path"].endswith("/other-Q8_0.gguf")
    fails(3, "pull", REPO, "-hff", "absent.gguf", says="no file absent.gguf; its models are a-Q2_K.gguf, a-Q5")


def test_all_parts_are_fetched(hub):
    parts = [hub.put(f"big-Q4_0-0000{i}-of-00003.gguf", NOISE[i * 100:]) for i in (1, 2, 3)]
    report = pulled(REPO + ":Q4_0")
    assert report["path"].endswith("00001-of-00003.gguf") and len(report["files"]) == 3
    assert set(blobs(hub)) == {sha256(part) for part in parts}
    del hub.files[REPO, "big-Q4_0-00002-of-00003.gguf"]
    fails(3, "pull", REPO, says="00002-of-00003.gguf is missing")


def test_a_directory_of_safetensors(hub):
    kept = ["config.json", "tokenizer.json", "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors", "model.safetensors.index.json", "chat_template.jinja",
            "chat_template.json", "preprocessor_config.json", "processor_config.json", "tokenizer.model"]
    for name in [*kept, "consolidated.safetensors", "onnx/model.safetensors", "pytorch_model.bin",
                 "vocab.json"]:
        hub.put(name, name.encode())
    report = pulled(REPO)
    folder = hub.folder / "snapshots" / COMMIT
    assert report["path"] == str(folder) and report["sha256"] is None
    assert sorted(p.name for p in folder.iterdir()) == sorted(kept)
    assert git_hash(b"config.json") in blobs(hub)
    before = len(hub.requests)
    done = infer("info", "-hf", REPO)
    assert str(folder).encode() in done.stderr and len(hub.requests) == before
    fails(3, "pull", REPO + ":Q4_0", says="has no GGUF files")
    del hub.files[REPO, "tokenizer.json"]
    pulled(REPO)
    del hub.files[REPO, "tokenizer.model"]
    fails(3, "pull", REPO, says="lacks config.json, tokenizer.json")


def test_a_directory_of_an_embedding_model_with_its_modules(hub):
    kept = ["config.json", "tokenizer.json", "model.safetensors", "modules.json", "1_Pooling/config.json",
            "2_Dense/config.json", "2_Dense/model.safetensors"]
    for name in [*kept, "onnx/config.json", "onnx/model.safetensors", "1_Pooling/README.json", "x_1/config.json"]:
        hub.put(name, name.encode())
    pulled(REPO)
    folder = hub.folder / "snapshots" / COMMIT
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()) == sorted(kept)


def test_pull_takes_the_newer_version_and_hf_what_is_there(hub):
    hub.put("tiny-Q4_0.gguf", SMALL)
    first = json.loads(infer("info", "-hf", REPO, "--json").stdout)["path"]
    asked = len(hub.requests)
    hub.put("tiny-Q4_0.gguf", NOISE)
    hub.commit = "f" * 40
    for command in (["info"], ["plan"], ["tokenize", "-p", "x"], ["template", "--input", "/dev/null"],
                    ["run", "-n", 1, "Once"], ["bench", "-p", 4, "-n", 1, "-r", 1],
                    ["eval", "--tokens", "1,2", "--logits", "-"]):
        done = infer(*command, "-hfr", REPO)
        assert done.returncode == (3 if command[0] == "template" else 0), done.stderr.decode()
    assert len(hub.requests) == asked
    newer = pulled(REPO)["path"]
    assert newer == first.replace(COMMIT, hub.commit)
    listed = json.loads(infer("list", "--json").stdout)
    assert [model["path"] for model in listed] == [newer]  # the older one is not there twice


def test_flags_beside_hf(hub):
    hub.put("tiny-Q4_0.gguf", SMALL)
    fails(2, "info", "-m", "x", "-hf", REPO, says="-m and -hf")
    fails(2, "info", "-hff", "x", says="-hff: needs -hf")
    fails(2, "pull", says="no model given")
    fails(2, "pull", REPO + ":Q4_0", "-hff", "x", says="leave out the quantisation")
    fails(3, "run", "-hf", REPO, "-p", "x", "--offline", says="--offline")
    assert hub.requests == []
    # A word without a flag is the prompt.
    done = infer("run", "-hf", REPO, "-hff", "tiny-Q4_0.gguf", "Once", "-n", 1, "-hfd", REPO, "-q")
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()


# Interrupted transfers

def test_a_cut_connection_goes_on_where_it_ended(hub):
    hub.put("a.gguf", NOISE)
    hub.cuts = [100_000, 50_000]
    report = pulled(REPO)
    assert hub.fetched() == [None, "bytes=100000-", "bytes=150000-"]
    assert hub.sent == len(NOISE) == report["downloaded"]
    assert blobs(hub) == {sha256(NOISE): NOISE}


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_keeps_what_came(hub, number, code):
    hub.put("a.gguf", NOISE)
    hub.cuts = [100_000]
    hub.proceed.clear()
    process = start("pull", REPO)
    part = hub.folder / "blobs" / (sha256(NOISE) + ".incomplete")
    deadline = time.monotonic() + 60
    while not part.exists() or part.stat().st_size < 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code and out == b""
    assert b"the same command continues" in err and b"error" not in err
    assert blobs(hub) == {part.name: NOISE[:100_000]}
    hub.proceed.set()
    assert pulled(REPO)["downloaded"] == 200_000
    assert hub.fetched() == [None, "bytes=100000-"]
    assert blobs(hub) == {sha256(NOISE): NOISE}


def leave_part(hub, content):
    (hub.folder / "blobs").mkdir(parents=True)
    (hub.folder / "blobs" / (sha256(NOISE) + ".incomplete")).write_bytes(content)


def test_a_server_that_ignores_ranges(hub):
    hub.put("a.gguf", NOISE)
    hub.ranges = False
    leave_part(hub, NOISE[:1000])
    assert pulled(REPO)["downloaded"] == len(NOISE)
    assert blobs(hub) == {sha256(NOISE): NOISE} and hub.fetched() == ["bytes=1000-"]


@pytest.mark.parametrize("content, came", [(NOISE, 0), (NOISE + b"x", len(NOISE)), (b"", len(NOISE))],
                         ids=["whole", "longer", "empty"])
def test_a_part_of_any_size(hub, content, came):
    hub.put("a.gguf", NOISE)
    leave_part(hub, content)
    assert pulled(REPO)["downloaded"] == came
    assert blobs(hub) == {sha256(NOISE): NOISE}


@pytest.mark.parametrize("range_given", ["bytes 0-299999/300000", "bytes 1000-299999/400000", "x", ""])
def test_a_part_that_is_another_than_was_asked_for(hub, range_given):
    hub.put("a.gguf", NOISE)
    leave_part(hub, NOISE[:1000])

    def hook(handler):
        if "Range" in handler.headers:
            handler.answer(206, NOISE[1000:], Content_Range=range_given)
            return True
    hub.hook = hook
    assert pulled(REPO)["downloaded"] == len(NOISE)
    assert blobs(hub) == {sha256(NOISE): NOISE} and hub.fetched() == ["bytes=1000-", None]


def test_a_range_that_is_refused_starts_over(hub):
    hub.put("a.gguf", NOISE)
    leave_part(hub, NOISE[:1000])
    hub.hook = lambda handler: "Range" in handler.headers and (handler.answer(416) or True)
    assert pulled(REPO)["downloaded"] == len(NOISE)


def serve_files_with(hub, status, body=b"", times=1, **headers):
    """The next requests for a file's bytes get this answer."""
    left = [times]

    def hook(handler):
        if handler.command == "GET" and "/resolve/" in handler.path and left[0] > 0:
            left[0] -= 1
            handler.answer(status, body, **headers)
            return True
    hub.hook = hook


def test_a_wrong_part_is_removed(hub):
    hub.put("a.gguf", NOISE)
    leave_part(hub, b"\0" * 1000)
    text = fails(3, "pull", REPO, says=f"expected {sha256(NOISE)}; it was removed")
    assert "a.gguf: the downloaded file has the hash" in text
    assert blobs(hub) == {} and not (hub.folder / "snapshots" / COMMIT).exists()
    assert pulled(REPO)["downloaded"] == len(NOISE)


@pytest.mark.parametrize("body, says", [(NOISE[:-1], "has 299999 bytes, expected 300000"),
                                        (NOISE + b"x", "has 300001 bytes, expected 300000")],
                         ids=["short", "long"])
def test_a_file_of_another_size(hub, body, says):
    hub.put("a.gguf", NOISE)
    serve_files_with(hub, 200, body)
    fails(3, "pull", REPO, says=says)
    assert sha256(NOISE) not in blobs(hub)


@pytest.mark.parametrize("body, code, says", [(NOISE[:-1], 1, "ended after 299999 of 300000 bytes"),
                                              (NOISE + b"x" * 10, 3, "more than the 300000 bytes")],
                         ids=["short", "long"])
def test_another_size_that_is_not_announced(hub, body, code, says):
    hub.put("a.gguf", NOISE)

    def hook(handler):
        if handler.command == "GET" and "/resolve/" in handler.path:
            handler.close_connection = True
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
            return True
    hub.hook = hook
    fails(code, "pull", REPO, says=says)
    assert sha256(NOISE) not in blobs(hub) and len(hub.requests) < 20


def test_a_small_file_is_checked_as_well(hub):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        hub.put(name, name.encode())
    hub.hook = lambda handler: (handler.command == "GET" and handler.path.endswith("/config.json") and
                                (handler.answer(200, b"config.jsoN") or True))
    fails(3, "pull", REPO, says="config.json: the downloaded file has the hash")
    assert git_hash(b"config.json") not in blobs(hub)


# Answers that are none

@pytest.mark.parametrize("status, headers, code, says", [
    (401, {}, 3, "HF_TOKEN"), (403, {"X-Error-Code": "GatedRepo"}, 3, "accept the licence at"),
    (404, {}, 3, "is not on http://127.0.0.1"), (418, {}, 1, "status 418"),
    (429, {"Retry-After": "3600"}, 1, "again in 3600 seconds")])
def test_refusals_are_said(hub, status, headers, code, says):
    hub.hook = lambda handler: handler.answer(status, b"\x1b[2Jno", **headers) or True
    text = fails(code, "pull", REPO, says=says)
    assert REPO in text and len(hub.requests) == 1


def test_a_file_that_may_not_be_read(hub):
    hub.put("a.gguf", NOISE)
    hub.hook = lambda handler: "/resolve/" in handler.path and (handler.answer(403) or True)
    assert REPO + ": a.gguf" in fails(3, "pull", REPO, "-hft", "secret", says="access is refused (403)")


@pytest.mark.parametrize("status, headers", [(429, {"Retry-After": "2"}), (503, {"Retry-After": "1"}),
                                             (500, {}), (429, {"Retry-After": "soon"})])
def test_a_server_that_is_busy_is_asked_again(hub, status, headers):
    hub.put("a.gguf", NOISE)
    serve_files_with(hub, status, b"busy", **headers)
    begun = time.monotonic()
    assert pulled(REPO)["downloaded"] == len(NOISE)
    assert time.monotonic() - begun >= (2 if headers.get("Retry-After") == "2" else 0.5)


def test_it_does_not_ask_without_end(hub):
    hub.hook = lambda handler: handler.answer(500) or True
    fails(1, "pull", REPO, says="status 500")
    assert 3 <= len(hub.requests) <= 8


def test_no_server(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    fails(1, "pull", REPO, says=f"{REPO}: cannot reach http://127.0.0.1:1: ")


@pytest.mark.parametrize("endpoint", ["ftp://x", "file:///etc", "x", "http://", "https://h/?x"])
def test_an_endpoint_that_is_none(hub, monkeypatch, endpoint):
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    fails(2, "pull", REPO, says="HF_ENDPOINT: expected a URL of http or https")


def test_model_endpoint_comes_first(hub, servers, monkeypatch):
    other = servers()
    other.put("a.gguf", SMALL)
    monkeypatch.setenv("MODEL_ENDPOINT", other.url + "/")
    pulled(REPO)
    assert hub.requests == [] and other.requests[0][1].startswith("/api/models/")


def test_a_full_disk(hub):
    hub.put("a.gguf", NOISE)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    fails(1, "pull", REPO, says="the downloaded part is kept", preexec_fn=limit)
    assert blobs(hub) == {sha256(NOISE) + ".incomplete": NOISE[:100_000]}
    assert pulled(REPO)["downloaded"] == 200_000


def test_room_is_asked_for_before(hub):
    hub.put("a.gguf", SMALL)
    entry = hub.entries(REPO)[0]
    entry["lfs"]["size"] = 1 << 44
    hub.hook = lambda handler: "/api/" in handler.path and (
        handler.answer(200, json.dumps([entry]).encode()) or True)
    fails(1, "pull", REPO, says="are missing; HF_HUB_CACHE names another folder")
    assert hub.fetched() == [] and blobs(hub) == {}


def test_no_folder_to_download_to(hub, monkeypatch):
    hub.put("a.gguf", SMALL)
    monkeypatch.delenv("HOME")
    fails(1, "pull", REPO, says="no folder for downloads")
    fails(1, "run", "-hf", REPO, "-p", "x", says="no folder for downloads")
    assert hub.requests == [] and infer("list").returncode == 0


def test_two_at_once_share_the_work(hub):
    hub.put("a.gguf", NOISE)
    hub.cuts = [100_000]
    hub.proceed.clear()
    first = start("pull", REPO)
    assert hub.halted.wait(60)
    second = start("pull", REPO)
    line = b""
    while b"waiting" not in line:
        line = second.stderr.readline()
        assert line != b""
    hub.proceed.set()
    for process in (first, second):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and out.endswith(b"a.gguf\n"), err.decode()
    assert hub.sent == len(NOISE) and blobs(hub) == {sha256(NOISE): NOISE}


@pytest.mark.parametrize("flags", [[], ["-q"]])
def test_what_is_said_meanwhile(hub, flags):
    hub.put("a.gguf", NOISE)
    done = infer("pull", REPO, *flags)
    assert done.stderr.decode().splitlines() == ([] if flags else [
        f"{REPO}: downloading 292.97 KiB", f"{REPO}: downloaded"])
    assert pathlib.Path(done.stdout.decode().strip()).read_bytes() == NOISE


def test_no_libcurl(hub, tmp_path, monkeypatch):
    """Files that are no libraries stand before it where the loader looks."""
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    fails(1, "pull", REPO, says="needs libcurl")
    assert "package libcurl4" in fails(1, "run", "-hf", REPO, "-p", "x")
    assert infer("version").returncode == 0
