"""infer pull and what comes from outside: names, lists, redirects, and where the token goes."""

import json
import shutil
import ssl
import subprocess

import pytest

from hub_server import REPO, sha256
from program import fails, infer
from test_pull import NOISE, SMALL, blobs, pulled


# The token

def tokens(server):
    return {headers.get("Authorization") for _, _, headers in server.requests}


def test_the_token_stays_with_the_endpoint(hub, servers):
    hub.cdn = servers()
    hub.put("a.gguf", NOISE)
    assert pulled(REPO, "-hft", "secret")["downloaded"] == len(NOISE)
    assert tokens(hub) == {"Bearer secret"} and tokens(hub.cdn) == {None}
    assert len(hub.cdn.requests) == 1  # HEAD is answered by the hub alone


def test_where_the_token_comes_from(hub, tmp_path, monkeypatch):
    hub.put("a.gguf", SMALL)
    stored = tmp_path / "home" / ".cache" / "huggingface" / "token"
    stored.parent.mkdir(parents=True)

    def sent(*arguments):
        hub.requests.clear()
        pulled(REPO, *arguments)
        return tokens(hub)
    assert sent() == {None}
    stored.write_text("stored\n")
    assert sent() == {"Bearer stored"}
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "older")
    assert sent() == {"Bearer older"}
    monkeypatch.setenv("HF_TOKEN", "newer")
    assert sent() == {"Bearer newer"} and sent("--hf-token", "given") == {"Bearer given"}
    hub.requests.clear()
    for token in ("a\r\nX: y", "a b", "ä"):
        assert token not in fails(2, "pull", REPO, "-hft", token, says="the token for the hub")
    assert hub.requests == []


# Redirects

def redirect(hub, to, only="/resolve/"):
    hub.hook = lambda handler: handler.command == "GET" and only in handler.path and (
        handler.answer(302, Location=to) or True)


def test_redirects_without_end(hub):
    hub.put("a.gguf", SMALL)
    redirect(hub, f"/{REPO}/resolve/main/a.gguf")
    fails(1, "pull", REPO, says="redirects without end")
    assert len(hub.requests) < 20


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "", "http://", "gopher://x"])
def test_redirects_to_something_else(hub, to):
    hub.put("a.gguf", SMALL)
    redirect(hub, to)
    fails(1, "pull", REPO, says="redirects to something that is not an http or https URL")
    assert sha256(SMALL) not in blobs(hub)


def test_a_repository_that_was_renamed(hub):
    hub.put("a.gguf", SMALL, "org/new")
    hub.hook = lambda handler: f"/{REPO}/" in handler.path and (handler.answer(
        307, Location=handler.path.replace(f"/{REPO}/", "/org/new/")) or True)
    assert pulled(REPO)["downloaded"] == len(SMALL)


@pytest.fixture
def certificate(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is absent")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key", "-out",
                    tmp_path / "certificate"], check=True, capture_output=True)
    return tmp_path / "certificate"


def test_certificates_are_checked(hub, servers, certificate, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    secure, plain = servers(), servers()
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    secure.handle_error = lambda *_: None
    secure.put("a.gguf", SMALL)
    secure.url = secure.url.replace("http:", "https:")
    monkeypatch.setenv("HF_ENDPOINT", secure.url)
    fails(1, "pull", REPO, says="cannot be trusted")
    assert secure.requests == []
    monkeypatch.setenv("CURL_CA_BUNDLE", str(certificate))
    secure.cdn = plain
    fails(1, "pull", REPO, "-hft", "secret", says="from https to http")
    assert plain.requests == []
    secure.cdn = None
    assert pulled(REPO)["downloaded"] == len(SMALL)


# Names

@pytest.mark.parametrize("name", ["x", "../x", "/etc/passwd", "a/b/c", "a//b", "../../x/y", "a/..",
                                  ".a/b", "a/b--c", "a/b:", "a/b:c/d", "a/b:../x", "a b/c", "a/b?c",
                                  "a/b#c", "a/\x1b[2J", "a/" + "b" * 97, "a/b%2e", "ä/b", "a/b:q:r"])
def test_names_that_are_none(hub, name):
    text = fails(2, "pull", name, says="expected USER/REPO")
    fails(2, "run", "-p", "x", "-hf", name, says="expected USER/REPO")
    assert hub.requests == [] and "\x1b" not in text


@pytest.mark.parametrize("part", ["00001-of-00000", "00000-of-00002", "00003-of-00002"])
def test_parts_of_files_that_are_none(hub, part):
    name = f"x-Q4_0-{part}.gguf"
    hub.put(name, SMALL)
    assert pulled(REPO)["path"].endswith(name)
    assert pulled(REPO, "-hff", name)["path"].endswith(name)


def test_a_list_of_many_parts_takes_no_time(hub):
    hub.put("config.json", b"{}")
    hub.put("tokenizer.json", b"{}")
    for i in range(10_000):
        hub.put(f"{i}-00001-of-00002.safetensors", b"")
    fails(3, "pull", REPO, says="a part of 0-00001-of-00002.safetensors is missing")


@pytest.mark.parametrize("path", ["../../../x.gguf", "/tmp/x.gguf", "a/../../x.gguf", "a//x.gguf",
                                  "./x.gguf", "a\0b.gguf", "\x1b[2J.gguf", "a\\..\\x.gguf",
                                  "\u202ex.gguf", "a" * 300 + ".gguf", "..\n/x.gguf"],
                         ids=range(11))
def test_paths_that_are_none(hub, tmp_path, path):
    entry = {"type": "file", "path": path, "size": 1, "oid": "0" * 40,
             "lfs": {"oid": "0" * 64, "size": 1}}
    hub.hook = lambda handler: handler.answer(200, json.dumps([entry]).encode()) or True
    text = fails(3, "pull", REPO, says="has no GGUF file")
    assert "\x1b" not in text and "\u202e" not in text
    assert not hub.folder.exists() and len(hub.requests) == 1
    if "\0" not in path:
        fails(2, "pull", REPO, "-hff", path, says="expected the path of a file")


@pytest.mark.parametrize("path", ["../x.json", "\u30e2\u30c7\u30eb.gguf", "\x1b[2J.jinja"], ids=range(3))
def test_a_path_that_is_none_keeps_nothing_else_out(hub, path):
    hub.put("x-Q4_0.gguf", SMALL)
    hub.put(path, b"{}")
    assert pulled(REPO)["path"].endswith("x-Q4_0.gguf")


@pytest.mark.parametrize("commit", ["", "../../x", "main", "0" * 39, "0" * 65, "A" * 40, "/" * 40])
def test_commits_that_are_none(hub, commit):
    hub.put("a.gguf", SMALL)
    hub.commit = commit
    fails(3, "pull", REPO, says="names no commit")
    assert not hub.folder.exists()


GOOD = {"type": "file", "path": "a.gguf", "size": 1, "oid": "0" * 40, "lfs": {"oid": "0" * 64, "size": 1}}


@pytest.mark.parametrize("body", [
    b"", b"{", b"{}", b"7", b"[7]", b"[[]]", b"null", b"\xff", b"[" * 100_000, b'{"a":' * 100_000,
    b"[" * 50 + b"]" * 50,
    *(json.dumps([{**GOOD, **change}]).encode() for change in (
        {"lfs": {"oid": "0" * 64, "size": -1}}, {"lfs": {"oid": "0" * 64, "size": 1.5}},
        {"lfs": {"oid": "0" * 64, "size": "1"}}, {"lfs": {"oid": "0" * 64, "size": 1 << 62}},
        {"lfs": {"oid": "../../x", "size": 1}}, {"lfs": {"oid": 7, "size": 1}}, {"lfs": {}},
        {"lfs": None, "oid": "x"}, {"lfs": 7, "size": None}, {"lfs": {"oid": "0" * 40, "size": 1}}))],
    ids=range(21))
def test_lists_that_are_none(hub, body):
    hub.hook = lambda handler: handler.answer(200, body) or True
    fails(3, "pull", REPO, says="the hub's list of files is wrong")
    assert not hub.folder.exists()


@pytest.mark.parametrize("entry", [{}, {"type": 7}, {"type": "directory", "path": "a.gguf"},
                                   {"type": "file"}, {"type": "file", "path": 7},
                                   {"type": "file", "path": "../x.exe", "size": -1}])
def test_entries_that_mean_nothing_are_passed_over(hub, entry):
    hub.put("a.gguf", SMALL)
    listed = json.dumps([entry, *hub.entries(REPO)]).encode()
    hub.hook = lambda handler: "/api/" in handler.path and (handler.answer(200, listed) or True)
    assert pulled(REPO)["downloaded"] == len(SMALL)


def test_a_list_that_is_too_long(hub):
    hub.hook = lambda handler: handler.answer(200, b" " * (5 << 20)) or True
    fails(3, "pull", REPO, says="is longer than")


# Pages

def test_a_list_of_several_pages(hub):
    for i in range(10):
        hub.put(f"{i}-Q{i}_0.gguf", b"x")
    hub.put("z-Q4_K_M.gguf", SMALL)
    hub.page = 3
    assert pulled(REPO)["path"].endswith("/z-Q4_K_M.gguf")
    assert sum("/api/" in path for _, path, _ in hub.requests) == 4


def test_pages_of_another_host_are_not_read(hub, servers):
    other = servers()
    for to in (other.url, "file:///etc/passwd", "//example.invalid"):
        hub.hook = lambda handler, to=to: handler.answer(
            200, json.dumps([GOOD]).encode(), Link=f'<{to}/x>; rel="next"') or True
        fails(3, "pull", REPO, "-hft", "secret", says="its next page on the same host")
    assert other.requests == []


def test_pages_without_end(hub):
    hub.hook = lambda handler: handler.answer(200, b"[]", Link='</next>; rel="next"') or True
    fails(3, "pull", REPO, says="fewer pages")
    assert len(hub.requests) <= 101


# Nothing unasked

@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline(hub, monkeypatch, name):
    hub.put("a.gguf", SMALL)
    monkeypatch.setenv(name, "1")
    fails(3, "pull", REPO, says=f"{REPO}: nothing is downloaded: {name} is set")
    fails(3, "run", "-hf", REPO, "-p", "x", says=f"{name} is set")
    assert hub.requests == []
    monkeypatch.setenv(name, "0")
    pulled(REPO)
    monkeypatch.setenv(name, "1")
    assert infer("info", "-hf", REPO).returncode == 0


def test_no_other_way_to_a_model_opens_a_connection(hub):
    hub.put("a.gguf", SMALL)
    fails(3, "info", REPO)
    fails(3, "run", "-m", REPO + ":Q4_0", "-p", "x")
    assert infer("list").returncode == 0
    assert hub.requests == []


def test_a_link_in_place_of_a_part_is_not_followed(hub, tmp_path):
    hub.put("a.gguf", NOISE)
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    (hub.folder / "blobs").mkdir(parents=True)
    (hub.folder / "blobs" / (sha256(NOISE) + ".incomplete")).symlink_to(victim)
    fails(1, "pull", REPO, says=".incomplete: cannot open")
    assert victim.read_bytes() == b"kept"
