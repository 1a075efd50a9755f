"""The protocol: limits, odd requests, readers that go away, the end of the server."""

import email.utils
import http.client
import json
import re
import signal
import socket
import threading
import time

import pytest

LONG = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 900,
        "ignore_eos": True}


def request_of(body):
    """The bytes of a chat's request."""
    data = json.dumps(body).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
            str(len(data)).encode() + b"\r\n\r\n" + data)


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_what_is_there(service):
    assert service.get("/health") == {"status": "ok"}
    assert service.get("/health/ready") == {"status": "ok"}
    [model] = service.get("/v1/models")["data"]
    assert (model["id"], model["object"]) == ("infer-demo", "model")
    assert "chat_template" in service.get("/props")
    assert service.error("/nothing", None, method="GET")[0] == 404
    assert service.error("/v1/models", {})[0] == 405
    assert service.post("/v1/models/load", {"model": "any name"})["status"] == "loaded"
    assert service.error("/v1/models/unload", {})[0] == 400
    status, headers, text = service.ask("HEAD", "/v1/models")
    assert (status, text) == (200, b"") and int(headers["content-length"]) > 0


def test_the_description_names_paths_that_exist(service):
    paths = service.get("/openapi.json")["paths"]
    assert len(paths) > 20
    for path, methods in paths.items():
        path = path.replace("{name}", "infer-demo")
        assert service.ask("DELETE", path)[0] == 405
        for method in methods:
            if method == "post":
                status, _, text = service.ask("POST", path, b"7")
                assert status == 400 and re.search(b"expected (a JSON object|an array)", text)
            else:
                assert service.ask("GET", path)[0] == 200


def test_metrics_are_well_formed(service):
    service.post("/v1/completions", {"prompt": "Once", "max_tokens": 2})
    status, headers, text = service.ask("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    helped = set()
    for line in text.decode().splitlines():
        if line.startswith("#"):
            helped.add(line.split()[2])
            continue
        assert re.fullmatch(r'[a-z_]+(\{([a-z_]+="[^"]*",?)+\})? [0-9.e+-]+', line), line
        name = re.split("[{ ]", line)[0]
        assert name in helped or re.sub("_(bucket|sum|count)$", "", name) in helped
    assert service.metric("infer_generation_tokens_total") >= 2
    until(lambda: service.metric("infer_http_requests_total", 'completions",status="200"') >= 1)


def test_one_connection_for_several_requests(service):
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    for i in range(3):
        connection.request("GET", "/health", headers={"X-Request-Id": f"number-{i}"})
        answer = connection.getresponse()
        assert answer.getheader("X-Request-Id") == f"number-{i}"
        assert answer.read() == b'{"status":"ok"}'
    connection.close()
    two = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    got = service.raw(two + two[:-2] + b"Connection: close\r\n\r\n")
    assert got.count(b"HTTP/1.1 200 OK") == 2


def test_older_clients(service):
    got = service.raw(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200 OK") and got.endswith(b'{"status":"ok"}')
    body = json.dumps(LONG | {"max_tokens": 3, "stream": True}).encode()
    got = service.raw(b"POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: " +
                      str(len(body)).encode() + b"\r\n\r\n" + body)
    assert b"chunked" not in got and got.endswith(b"data: [DONE]\n\n")


def test_bodies_in_chunks(service):
    body = json.dumps({"content": "Hello"}).encode()
    parts = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 3]), body[i:i + 3])
                     for i in range(0, len(body), 3))
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    got = service.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200") and b'"tokens"' in got
    got = service.raw(head + b"Expect: 100-continue\r\nContent-Length: " + str(len(body)).encode() +
                      b"\r\n\r\n" + body)
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")


@pytest.mark.parametrize("head, status", [
    (b"GARBAGE\r\n\r\n", 400),
    (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nBad Header\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20000 + b"\r\n\r\n", 431),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000000\r\n\r\n", 413),
    # What two servers could read as two different requests.
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
     400),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
     b"\r\n0\r\n\r\n", 400),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n"
     b"\r\n0\r\n\r\n", 400),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n\r\n", 400),
    (b"GET http://localhost/health HTTP/1.1\r\n\r\n", 400),
    # Codings that hide where the body ends, or what it is.
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
     b"ffffffffffffffffff\r\n\r\n", 400),
])
def test_requests_that_are_none(service, head, status):
    got = service.raw(head)
    assert got.startswith(b"HTTP/1.1 %d " % status), got[:200]
    assert b"Connection: close" in got
    assert json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]["message"]


def test_empty_lines_before_a_request(service):
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = one[:-2] + b"Connection: close\r\n\r\n"
    for lines in (b"\r\n", b"\r\n\r\n\r\n"):
        got = service.raw(lines + one + lines + last)
        assert got.count(b"HTTP/1.1 200 OK") == 2, got
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        for part in (b"\r", b"\n", b"\r\n", last):
            connection.sendall(part)
            time.sleep(0.05)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert service.raw(b"\r" + last).startswith(b"HTTP/1.1 400 ")


LARGE = b"Content-Length: 40000000\r\n"
UNREAD = [(LARGE, 413), (b"Transfer-Encoding: gzip\r\n", 501), (b"Host: again\r\n", 400)]


@pytest.mark.parametrize("headers, status", UNREAD)
def test_refusals_before_the_body_have_the_form_of_the_interface(start, headers, status):
    service = start("-t", "1", "--allow-origin", "https://page.example")

    def ask(path):
        got = service.raw(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n"
                          "Origin: https://page.example\r\n".encode() + headers + b"\r\n")
        head, body = got.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert b"Access-Control-Allow-Origin: https://page.example" in head
        assert b"X-Request-Id: mine" in head
        return json.loads(body)

    error = ask("/v1/chat/completions")["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", None)
    assert isinstance(ask("/api/chat")["error"], str)
    made = ask("/v1/messages")
    kind = {413: "request_too_large", 501: "invalid_request_error", 400: "invalid_request_error"}[status]
    assert (made["type"], made["error"]["type"]) == ("error", kind)
    until(lambda: service.metric("infer_http_requests_total", f'messages",status="{status}"') == 1)


def test_headers_cannot_be_smuggled_into_the_answer(service):
    for name in ("x\r\nSet-Cookie: a=b", "a b", "ü", "x" * 65):
        raw = f"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: {name}\r\n\r\n"
        got = service.raw(raw.encode())
        assert b"Set-Cookie" not in got.split(b"\r\n\r\n")[0] or got.startswith(b"HTTP/1.1 400")
        assert b"X-Request-Id: a b" not in got and b"x" * 65 not in got


def test_a_reader_who_goes_away_ends_the_generation(service):
    until(lambda: service.metric("infer_num_requests_running") == 0)
    for stream in (True, False):
        before = service.metric("infer_generation_tokens_total")
        body = json.dumps(LONG | {"stream": stream, "n": 3}).encode()
        connection = socket.create_connection(("127.0.0.1", service.port))
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                           str(len(body)).encode() + b"\r\n\r\n" + body)
        until(lambda: service.metric("infer_generation_tokens_total") > before)
        connection.close()
        until(lambda: service.metric("infer_num_requests_running") == 0, seconds=5)
        assert service.metric("infer_generation_tokens_total") < before + 3 * 900
        until(lambda: service.metric("infer_kv_cache_pages", 'state="idle"') +
              service.metric("infer_kv_cache_pages", 'state="running"') == 0)


def test_many_who_go_away_leave_nothing_behind(service):
    service.post("/v1/completions", {"prompt": "Once", "max_tokens": 2})
    files = service.files()
    body = json.dumps(LONG | {"stream": True}).encode()
    request = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
               str(len(body)).encode() + b"\r\n\r\n" + body)
    for i in range(150):
        connection = socket.create_connection(("127.0.0.1", service.port))
        connection.sendall(request[:1 + i * 7 % (len(request) + 1)] if i % 3 else request)
        if i % 5 == 0:
            connection.recv(10) if i % 3 == 0 else None
        connection.close()
    until(lambda: service.metric("infer_num_requests_running") +
          service.metric("infer_num_requests_waiting") == 0, seconds=30)
    until(lambda: service.files() <= files + 1)
    assert service.post("/v1/completions", {"prompt": "Once", "max_tokens": 2})


def test_a_slow_reader_does_not_delay_others(service):
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    slow.connect(("127.0.0.1", service.port))
    body = json.dumps(LONG | {"stream": True, "logprobs": True, "top_logprobs": 20}).encode()
    slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                 str(len(body)).encode() + b"\r\n\r\n" + body)
    for _ in range(3):
        assert service.post("/v1/completions", {"prompt": "Once", "max_tokens": 3})
    slow.close()


@pytest.fixture(scope="module")
def pinging(begin_module):
    return begin_module("-t", "1", "-c", "4096", "--sse-ping-interval", "0.01")


@pytest.mark.parametrize("path, sign", [
    ("/v1/chat/completions", b": \n\n"), ("/v1/completions", b": \n\n"), ("/v1/responses", b": \n\n"),
    ("/completion", b": \n\n"), ("/v1/messages", b'event: ping\ndata: {"type":"ping"}\n\n'), ("/api/chat", b""),
])
def test_a_stream_that_has_nothing_to_send(service, pinging, path, sign):
    """Signs come while the prompt is computed. They stand between events."""
    long = path + " ".join(str(i % 10) for i in range(1500))  # none finds another's in the cache
    body = {"messages": [{"role": "user", "content": long}], "prompt": long, "input": long, "max_tokens": 2,
            "n_predict": 2, "max_output_tokens": 2, "temperature": 0, "stream": True, "options": {"num_predict": 2}}
    if path == "/v1/responses":
        del body["prompt"]
    status, _, text = pinging.ask("POST", path, body)
    assert status == 200 and b'"error":{' not in text, text
    if not sign:  # every line is JSON
        assert all(json.loads(line) for line in text.splitlines())
        return
    assert text.count(sign) >= 1
    events = text.replace(sign, b"").decode().split("\n\n")
    assert events[-1] == "" and all(re.match(r"(event: .*\n)?data: [\[{]", event) for event in events[:-1])
    short = {"messages": [{"role": "user", "content": "a"}], "prompt": "a", "input": "a"}
    status, _, text = service.ask("POST", path, {name: short.get(name, value) for name, value in body.items()})
    assert status == 200 and sign not in text


def test_texts_are_the_same_together_and_alone(service):
    bodies = [{"messages": [{"role": "user", "content": f"Story number {i}."}], "max_tokens": 40,
               "seed": i} for i in range(16)]
    alone = [service.post("/v1/chat/completions", body)["choices"] for body in bodies]
    together = [None] * len(bodies)

    def ask(i):
        together[i] = service.post("/v1/chat/completions", bodies[i])["choices"]
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_the_end_waits_for_answers(start):
    service = start("-t", "2")
    connection = socket.create_connection(("127.0.0.1", service.port))
    connection.sendall(request_of(LONG | {"max_tokens": 300, "stream": True}))
    got = connection.recv(100)
    idle = socket.create_connection(("127.0.0.1", service.port))
    service.process.send_signal(signal.SIGTERM)
    while part := connection.recv(65536):
        got += part
    assert got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert idle.recv(10) == b""
    assert service.process.wait(timeout=20) == 0
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", service.port), timeout=5)


def test_new_work_is_refused_while_the_server_ends(start):
    service = start("-t", "1", "-np", "1")
    kept = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    kept.request("GET", "/health/ready")
    assert kept.getresponse().read() == b'{"status":"ok"}'
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as stream:
        stream.sendall(request_of(LONG | {"n": 4, "stream": True}))
        got = stream.recv(100)
        service.process.send_signal(signal.SIGTERM)
        until(lambda: service.ask("GET", "/health/ready")[0] == 503)
        status, headers, text = service.ask("GET", "/health/ready")
        assert (status, headers["connection"], json.loads(text)) == (503, "close", {"status": "draining"})
        assert service.ask("GET", "/health")[0] == 200
        status, headers, text = service.ask("POST", "/v1/completions", {"prompt": "Once"})
        assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
        assert "is ending" in json.loads(text)["error"]["message"]
        kept.request("POST", "/v1/completions", b'{"prompt": "Once"}')
        answer = kept.getresponse()
        assert (answer.status, answer.getheader("connection")) == (503, "close")
        while part := stream.recv(65536):
            got += part
    assert got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert service.process.wait(timeout=20) == 0


def test_the_end_does_not_wait_for_ever(start):
    service = start("-t", "2", "--drain", "0")
    connection = socket.create_connection(("127.0.0.1", service.port))
    connection.sendall(request_of(LONG | {"stream": True}))
    got = connection.recv(10)
    service.process.send_signal(signal.SIGTERM)
    while part := connection.recv(65536):
        got += part
    assert b"the server is ending" in got and b"unavailable_error" in got
    assert got.endswith(b"\r\n0\r\n\r\n")
    assert service.process.wait(timeout=20) == 0


def test_too_many_requests(start):
    service = start("-t", "1", "-np", "1", "--queue", "1")
    codes = []

    def ask():
        codes.append(service.ask("POST", "/v1/chat/completions", LONG | {"max_tokens": 200}))
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [status for status, _, _ in codes]
    assert found.count(200) >= 1 and found.count(429) >= 1 and set(found) <= {200, 429}
    for status, headers, text in codes:
        if status == 429:
            assert headers["retry-after"] == "1"
            assert json.loads(text)["error"]["type"] == "rate_limit_error"


def test_a_request_counts_once_however_many_answers_it_has(start):
    service = start("-t", "1", "-np", "1", "--queue", "0")
    body = {"prompt": "Once", "max_tokens": 3, "ignore_eos": True}
    assert len(service.post("/v1/completions", body | {"n": 5})["choices"]) == 5
    assert len(service.post("/v1/completions", body | {"prompt": ["Once"] * 5})["choices"]) == 5
    assert len(service.post("/completion", body | {"prompt": ["Once"] * 5})) == 5
    assert len(service.post("/v1/chat/completions", LONG | {"max_tokens": 3, "n": 5})["choices"]) == 5
    assert service.metric("infer_requests_refused_total") == 0
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(request_of(LONG | {"n": 4, "stream": True}))
        assert connection.recv(10)
        status, error = service.error("/v1/completions", body)
        assert status == 429 and "--queue" in error["message"]
        assert service.metric("infer_requests_refused_total") == 1
    until(lambda: service.ask("POST", "/v1/completions", body)[0] == 200)


def test_a_target_in_absolute_form(service):
    def ask(target, host="localhost"):
        head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        got = service.raw(head.encode())
        return int(got.split()[1]), got.partition(b"\r\n\r\n")[2]
    assert ask("http://localhost/health") == (200, b'{"status":"ok"}')
    assert ask(f"HTTP://127.0.0.1:{service.port}/health?x=/") == (200, b'{"status":"ok"}')
    assert ask("https://localhost/v1/models")[0] == 200
    status, page = ask("http://localhost")
    assert status == 200 and page == ask("/")[1]
    assert ask("http://localhost?x=1")[1] == page
    assert ask("http://localhost/nothing")[0] == 404
    # The host in the target counts.
    assert ask("http://localhost/health", host="example.org")[0] == 200
    assert ask("http://example.org/health")[0] == 403


def test_one_model_is_described(service):
    [listed] = service.get("/v1/models")["data"]
    assert service.get("/v1/models/infer-demo") == listed
    assert service.get("/v1/models/infer%2Ddemo") == listed
    status, error = service.error("/v1/models/other", None, method="GET")
    assert (status, error["param"]) == (404, "model") and "'other'" in error["message"]
    assert service.error("/v1/models/infer-demo", {})[0] == 405
    assert service.metric("infer_http_requests_total", 'path="/v1/models/",status="200"') >= 2


def test_the_access_log(start):
    service = start("--access-log")
    service.post("/v1/completions", {"prompt": "secret words", "max_tokens": 2},
                 headers={"X-Request-Id": "this-one"})
    service.ask("GET", "/nothing")
    service.end()
    log = service.process.stdout.read().decode()
    assert "secret" not in log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [(line["path"], line["status"]) for line in lines] == [("/v1/completions", 200), ("/nothing", 404)]
    assert lines[0]["id"] == "this-one" and lines[0]["seconds"] > 0 and lines[0]["complete"]


def test_every_answer_has_a_date(service):
    body = {"prompt": "Once", "max_tokens": 1, "stream": True}
    for method, path, sent, status in (("GET", "/health", None, 200), ("GET", "/nothing", None, 404),
                                       ("POST", "/v1/completions", body, 200)):
        got, headers, _ = service.ask(method, path, sent)
        assert got == status
        assert re.fullmatch(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
                            r"\d{4} \d\d:\d\d:\d\d GMT", headers["date"])
        date = email.utils.parsedate_to_datetime(headers["date"])
        assert date.strftime("%a") == headers["date"][:3]
        assert abs(date.timestamp() - time.time()) < 30
    assert b"\r\nDate: " in service.raw(b"nonsense\r\n\r\n")
