"""Who may use the server."""

import os
import socket
import subprocess

import pytest

from service import BIN


def test_keys(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first-key\nsecond-key\r\n\n")
    service = start("--api-key-file", keys)
    assert service.get("/health") == {"status": "ok"}  # for those who watch
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer first-ke"},
                    {"Authorization": "first-key"}, {"x-api-key": ""}, {"Authorization": "Bearer "}):
        status, error = service.error("/v1/models", None, method="GET", headers=headers)
        assert (status, error["type"]) == (401, "authentication_error")
        assert service.ask("GET", "/metrics", headers=headers)[0] == 401
        assert service.ask("POST", "/nothing", headers=headers)[0] == 401
    for headers in ({"Authorization": "Bearer first-key"}, {"x-api-key": "second-key"}):
        assert service.ask("GET", "/v1/models", headers=headers)[0] == 200


def test_what_is_no_key_in_the_file(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_bytes(b"\xef\xbb\xbffirst-key\r\n# a comment\n  #another\n\t second key \n \n")
    service = start("--api-key-file", keys)
    for key, status in (("first-key", 200), ("second key", 200), ("# a comment", 401),
                        ("#another", 401), ("a comment", 401)):
        assert service.ask("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0] == status
    keys.write_bytes(b"\xef\xbb\xbf\n# none\n")
    assert "expected a key a line, found none" in refused("--api-key-file", keys)
    done = subprocess.run([BIN, "serve", "--port", "0", "--api-key-file", keys], capture_output=True,
                          text=True, timeout=60, env=os.environ | {"INFER_API_KEY": "secret"})
    assert done.returncode == 3 and "found none" in done.stderr


def test_a_key_from_the_environment(start):
    service = start(env={"INFER_API_KEY": "secret"})
    assert service.ask("GET", "/v1/models")[0] == 401
    assert service.ask("GET", "/v1/models", headers={"x-api-key": "secret"})[0] == 200
    for scheme, status in (("Bearer", 200), ("bEARER", 200), ("Basic", 401)):
        headers = {"Authorization": f"{scheme} secret"}
        assert service.ask("GET", "/v1/models", headers=headers)[0] == status


def test_white_space_around_the_key_from_the_environment(start):
    service = start(env={"INFER_API_KEY": " secret\r\n"})
    assert service.ask("GET", "/v1/models", headers={"x-api-key": "secret"})[0] == 200
    for key in (" \n", "one\ntwo"):
        assert "INFER_API_KEY: expected a key on one line" in refused("--port", "0", env={"INFER_API_KEY": key})


@pytest.mark.parametrize("origin", ["http://page.test/", "page.test", "http://", "http://page.test/x", "page.test:80"])
def test_what_is_no_origin(origin):
    assert "--allow-origin: expected * or an origin" in refused("--port", "0", "--allow-origin", origin)


def refused(*arguments, env=None):
    done = subprocess.run([BIN, "serve", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, env=os.environ | (env or {}))
    assert done.returncode != 0
    return done.stderr


def test_strangers_need_a_key(tmp_path):
    assert "--api-key-file" in refused("--host", "0.0.0.0", "--port", "0")
    empty = tmp_path / "empty"
    empty.write_text("")
    assert "is empty" in refused("--api-key-file", empty)
    assert "no-such-file" in refused("--api-key-file", "no-such-file")


def test_an_open_server(start):
    service = start("--host", "0.0.0.0", "--no-api-key")
    assert service.ask("GET", "/v1/models", headers={"Host": "example.org"})[0] == 200


def test_an_address_that_is_taken(service):
    assert "cannot be used" in refused("--port", service.port)
    assert "cannot be" in refused("--host", "203.0.113.7", "--port", "0", "--no-api-key")


@pytest.mark.parametrize("host, status", [
    ("localhost", 200), ("localhost:1234", 200), ("127.0.0.1", 200), ("[::1]:80", 200),
    ("LocalHost", 200), ("localhost.", 200), ("localhost.:80", 200), ("localhost..", 403), (".", 403),
    ("evil.example", 403), ("localhost.evil.example", 403), ("", 403), ("127.0.0.1.nip.io", 403),
])
def test_names_in_host(service, host, status):
    got = service.raw(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("path, status", [
    ("/health", 200), ("/health/live", 200), ("/health/ready", 200), ("/v1/models", 403), ("/metrics", 403),
    ("/nothing", 403),
])
def test_a_probe_without_host(service, path, status):
    assert service.raw(f"GET {path} HTTP/1.0\r\n\r\n".encode()).startswith(b"HTTP/1.1 %d " % status)
    assert service.raw(f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode()).startswith(b"HTTP/1.1 400 ")
    named = service.raw(f"GET {path} HTTP/1.0\r\nHost: evil.example\r\n\r\n".encode())
    assert named.startswith(b"HTTP/1.1 403 ")


def test_pages_of_other_sites(service, start):
    evil = {"Origin": "https://evil.example"}
    assert service.ask("POST", "/tokenize", {"content": "a"}, headers=evil)[0] == 403
    assert service.ask("OPTIONS", "/v1/chat/completions", headers=evil)[0] == 403
    own = {"Origin": f"http://127.0.0.1:{service.port}"}
    assert service.ask("POST", "/tokenize", {"content": "a"}, headers=own)[0] == 200
    friendly = start("--allow-origin", "https://Page.example:443", "--allow-host", "Name.example")
    page = {"Origin": "https://page.example"}
    status, headers, _ = friendly.ask("OPTIONS", "/v1/chat/completions", headers=page)
    assert status == 204 and headers["access-control-allow-origin"] == "https://page.example"
    status, headers, _ = friendly.ask("POST", "/tokenize", {"content": "a"}, headers=page)
    assert status == 200 and headers["access-control-allow-origin"] == "https://page.example"
    for host in ("name.example", "NAME.example.:80"):
        assert friendly.ask("GET", "/health", headers={"Host": host})[0] == 200
    assert friendly.ask("POST", "/tokenize", {"content": "a"}, headers=evil)[0] == 403


@pytest.mark.parametrize("path", ["/../etc/passwd", "/%2e%2e/etc/passwd", "/v1/models/../../x", "//", "/\\x"])
def test_paths_reach_no_files(service, path):
    got = service.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert got.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 "))


def test_every_loopback_address_is_this_machine(start):
    service = start("-t", "1", "--host", "127.0.0.2")
    with socket.create_connection(("127.0.0.2", service.port), timeout=10) as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.2:{service.port}\r\n"
                           "Connection: close\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_pages_of_other_sites_that_are_allowed(start):
    origin = "https://app.example"
    service = start("-t", "1", "--allow-origin", origin, env={"INFER_API_KEY": "secret"})
    status, headers, _ = service.ask("OPTIONS", "/v1/models", headers={
        "Origin": origin, "Access-Control-Request-Headers": "x-stainless-os, anthropic-version"})
    assert status == 204 and "content-length" not in headers
    assert headers["access-control-allow-headers"] == "x-stainless-os, anthropic-version"
    # A page can read why it was refused.
    status, headers, _ = service.ask("GET", "/v1/models", headers={"Origin": origin})
    assert (status, headers["access-control-allow-origin"]) == (401, origin)


def test_what_a_path_accepts(service):
    status, headers, _ = service.ask("DELETE", "/v1/models")
    assert (status, headers["allow"]) == (405, "GET")
    status, headers, _ = service.ask("DELETE", "/lora-adapters")
    assert (status, headers["allow"]) == (405, "GET, POST")
