"""Known attacks, each a test, and bytes that are no requests at all."""

import gzip
import json
import random
import socket
import statistics
import time

import pytest

HEAD = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
BODY = b'{"content":"a"}'


def status_of(answer):
    """0: the connection ended without an answer."""
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize("lines", [
    b"Content-Length: 15\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 15\r\n",
    b"Content-Length: 15\r\nContent-Length: 16\r\n", b"Content-Length: 15, 15\r\n", b"Content-Length: +15\r\n",
    b"Content-Length: 0x0f\r\n", b"Content-Length: 15 15\r\n", b"Content-Length : 15\r\n", b"Content-Length:\r\n",
    b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n",
    b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b" Content-Length: 15\r\n",
    b"X: a\r\n\tContent-Length: 15\r\n", b"X: a\nContent-Length: 15\r\n", b"X: a\x00b\r\nContent-Length: 15\r\n",
])
def test_what_two_servers_could_read_differently(service, lines):
    """The second request would be taken as one of its own by a server that reads the lengths otherwise."""
    got = service.raw(HEAD + lines + b"\r\n" + BODY + b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert got.count(b"HTTP/1.1 ") <= 1 and b"infer_steps_total" not in got
    assert b"\r\n\r\n" not in got or status_of(got) != 200 or b'"tokens"' in got


def test_the_rest_after_a_refusal_is_no_request(service):
    got = service.raw(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\nContent-Length: 1\r\n\r\n" +
                      BODY + b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert got.count(b"HTTP/1.1 ") == 1 and status_of(got) == 400


def test_compressed_bodies_are_refused(service):
    bomb = gzip.compress(b'{"content":"' + b"a" * 10_000_000 + b'"}')
    for coding in ("gzip", "deflate", "br", "zstd", "x-gzip, identity"):
        status, _, text = service.ask("POST", "/tokenize", bomb, headers={"Content-Encoding": coding})
        assert status == 415 and b"compressed" in text
    status, _, _ = service.ask("POST", "/tokenize", BODY, headers={"Content-Encoding": "identity"})
    assert status == 200


@pytest.mark.parametrize("value", [
    "-1", "1e400", "-1e400", "99999999999999999999", "1e15", "9223372036854775808", "-9223372036854775809",
    "0.5", '"5"', "[5]", "{}", "true", "NaN", "Infinity", "0x10", "01", "1_000",
])
def test_numbers(service, value):
    for path, field in (("/v1/completions", "top_k"), ("/v1/completions", "n"), ("/completion", "n_predict"),
                        ("/v1/completions", "priority")):
        body = f'{{"prompt": "a", "max_tokens": 1, "n_predict": 1, "{field}": {value}}}'.encode()
        status, _, text = service.ask("POST", path, body)
        fine = value == "-1" and field in ("n_predict", "priority", "top_k")
        assert status in ((200, 400) if fine else (400,)), text


@pytest.mark.parametrize("body", [
    b"[" * 100_000, b'{"a":' * 100_000, b'{"content":' + b"[" * 101 + b"]" * 101 + b"}", b'{"content": "\\ud800"}',
    b'{"content": "\xff\xfe"}', b"\x00", b"", b"null", b'{"content": "a"', b'{"content": "a"}{}', b"\xef\xbb\xbf[]",
    b'{"messages": [{"role": "user", "content": [' + b'{"type": "text"},' * 50_000 + b"{}]}]}",
])
def test_bodies_that_are_no_json(service, body):
    for path in ("/tokenize", "/v1/chat/completions"):
        status, _, text = service.ask("POST", path, body)
        assert status == 400 and json.loads(text)["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/apply-template", "/api/chat"])
def test_json_within_a_string_is_no_deeper(service, path):
    arguments = '{"a":' + "[" * 80_000 + "]" * 80_000 + "}"
    call = {"function": {"name": "f", "arguments": arguments}}
    status, error = service.error(path, {"messages": [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [call]}]})
    assert status == 400 and "arguments" in str(error)


@pytest.mark.parametrize("tools", [[{}], [1], [{"function": {"name": 5}}, {"function": {"name": 6}}]])
def test_tools_behind_the_checks(service, tools):
    status, error = service.error("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "tool_choice": "required",
        "chat_template_kwargs": {"tools": tools}})
    assert status == 400 and error["param"] == "tools"


def test_objects_of_very_many_names(service):
    """They take quadratic time to parse."""
    def body(count):
        return ("{" + ",".join(f'"{i:07}":0' for i in range(count)) + ',"content":"a"}').encode()
    assert service.ask("POST", "/tokenize", body(2000))[0] == 200
    status, error = service.error("/tokenize", body(20_000))
    assert status == 400 and "too many names" in error["message"]


@pytest.mark.parametrize("path, biases", [
    ("/v1/completions", {"42": None}), ("/completion", [[42, None]]), ("/v1/completions", {"42": "1"}),
])
def test_biases_that_are_no_numbers(service, path, biases):
    status, error = service.error(path, {"prompt": "a", "max_tokens": 1, "logit_bias": biases})
    assert status == 400 and "logit_bias.42" in error["message"]


def test_nothing_is_read_from_strangers(start):
    """The answer comes although no byte of the body was sent."""
    service = start("-t", "1", env={"INFER_API_KEY": "secret"})
    got = service.raw(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n")
    assert status_of(got) == 401
    got = service.raw(b"POST /tokenize HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 30000000\r\n\r\n")
    assert status_of(got) == 403


def test_a_body_that_is_too_large_gets_its_answer(service):
    status, _, text = service.ask("POST", "/tokenize", b'{"content":"' + b"a" * 40_000_000 + b'"}')
    assert status == 413 and json.loads(text)["error"]["code"] == 413


def test_a_log_that_nobody_reads_holds_nothing_up(start):
    service = start("-t", "1", "--access-log")
    for _ in range(600):  # a pipe holds some 300 lines
        assert service.ask("GET", "/v1/models", timeout=10)[0] == 200


@pytest.mark.parametrize("host", [
    b"", b"evil.example", b"localhost.evil.example", b"localhost@evil.example", b"[::1].evil.example",
    b"127.0.0.1.evil.example:80", b"localhost, evil.example",
])
def test_names_of_other_hosts(service, host):
    got = service.raw(b"POST /tokenize HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\nContent-Length: 15\r\n\r\n" +
                      BODY)
    assert status_of(got) in (400, 403)
    without = service.raw(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert status_of(without) == 400


def test_names_of_models_make_no_headers(service):
    name = "x\r\nSet-Cookie: a=b\r\n\r\n<script>"
    status, headers, text = service.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "model": name})
    assert status == 200 and "set-cookie" not in headers and json.loads(text)["model"] == name
    _, _, metrics = service.ask("GET", "/metrics")
    assert b"Set-Cookie" not in metrics


def test_a_wrong_key_takes_as_long_wherever_it_differs(start):
    key = "k" * 40
    service = start("-t", "1", env={"INFER_API_KEY": key})

    def seconds(given):
        begun = time.perf_counter()
        assert service.ask("GET", "/v1/models", headers={"x-api-key": given})[0] == 401
        return time.perf_counter() - begun
    first, last = [], []
    for _ in range(60):
        first.append(seconds("x" + key[1:]))
        last.append(seconds(key[:-1] + "x"))
    # A comparison that stops early would differ by nanoseconds, a sleep or a lookup by more.
    assert abs(statistics.median(first) - statistics.median(last)) < 0.003


def mutated(random_numbers, data):
    data = bytearray(data)
    for _ in range(random_numbers.randint(1, 6)):
        at = random_numbers.randrange(len(data) + 1)
        kind = random_numbers.randrange(4)
        if kind == 0:
            data[at:at] = random_numbers.randbytes(random_numbers.randint(1, 4))
        elif kind == 1:
            del data[at:at + random_numbers.randint(1, 8)]
        elif kind == 2 and at < len(data):
            data[at] = random_numbers.randrange(256)
        else:
            data[at:at] = random_numbers.choice([b"\r\n", b"\n", b"\r\n\r\n", b":", b"\x00", b" ", b"{", b"[",
                                                 b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n",
                                                 b"ffffffff\r\n", b"-1", b"0\r\n\r\n"])
    return bytes(data)


def test_random_bytes(service):
    """Requests with random changes, whole, in chunks and in slow parts: an answer or an end, never a 5xx."""
    numbers = random.Random(27)
    chat = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}).encode()
    requests = [
        HEAD + b"Content-Length: 15\r\n\r\n" + BODY,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY[:5] + b"\r\na;x=y\r\n" + BODY[5:] + b"\r\n0\r\nT: a\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
        str(len(chat)).encode() + b"\r\n\r\n" + chat,
        b"GET /v1/models?model=%2e%2e HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n",
        numbers.randbytes(300),
    ]
    files = service.files()
    end = time.monotonic() + 2
    count = 0
    while time.monotonic() < end:
        data = mutated(numbers, numbers.choice(requests))
        with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
            try:
                if count % 10 == 0:
                    for at in range(0, len(data), 40):
                        connection.sendall(data[at:at + 40])
                        time.sleep(0.001)
                else:
                    connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                got = b""
                while part := connection.recv(65536):
                    got += part
            except OSError:  # it was refused before all was sent
                got = b""
        count += 1
        assert status_of(got) < 500 or status_of(got) == 501, (data, got)  # an unknown transfer coding
    assert count > 100
    assert service.post("/tokenize", {"content": "a"})["tokens"]
    while service.files() > files + 2:
        assert time.monotonic() < end + 10
        time.sleep(0.05)
