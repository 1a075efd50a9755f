"""Traces by OpenTelemetry, sent to a small collector here."""

import http.server
import json
import os
import secrets
import socket
import subprocess
import threading
import time

import pytest

from service import BIN

CHAT = {"messages": [{"role": "user", "content": "A very secret question"}], "max_tokens": 8, "seed": 1}


class Collector:
    """Keeps what is posted to it, and answers with a status; 0: never."""

    def __init__(self, status=200, answer=b"{}"):
        self.status, self.answer, self.posts = status, answer, []
        self.ends = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.posts.append((self.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(body)))
                if not outer.status:
                    outer.ends.wait()
                    return
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.answer)))
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def spans(self):
        return [span for _, _, body in list(self.posts) for each in body["resourceSpans"]
                for scope in each["scopeSpans"] for span in scope["spans"]]

    def of(self, trace, count):
        """Its spans by name, when so many have come."""
        wait_for(lambda: len([span for span in self.spans() if span["traceId"] == trace]) >= count)
        found = [span for span in self.spans() if span["traceId"] == trace]
        assert len(found) == count
        return {span["name"]: span for span in found}

    def close(self):
        self.ends.set()
        self.server.shutdown()
        self.server.server_close()


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def collect():
    collectors = []

    def begin(*arguments, **options):
        collectors.append(Collector(*arguments, **options))
        return collectors[-1]
    yield begin
    for collector in collectors:
        collector.close()


def traced(flags="01", state=None):
    """A trace, its caller's span, and the headers that say so."""
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    headers = {"traceparent": f"00-{trace}-{caller}-{flags}"}
    return trace, caller, headers | ({"tracestate": state} if state else {})


def attributes(span):
    def value(of):
        [(kind, found)] = of.items()
        if kind == "arrayValue":
            return [value(each) for each in found["values"]]
        return int(found) if kind == "intValue" else found
    return {each["key"]: value(each["value"]) for each in span["attributes"]}


def times(span):
    return int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])


def spans_of(service, state):
    return service.metric(f"infer_trace_spans_{state}_total")


def test_the_spans_of_a_request(start, collect):
    collector = collect()
    service = start("-t", "2", "--otlp-endpoint", collector.url,
                    env={"OTEL_SERVICE_NAME": "stories", "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b,x-key=1",
                         "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"})
    trace, caller, headers = traced(state="vendor=1")
    before = time.time_ns()
    answer = service.post("/v1/chat/completions", CHAT | {"temperature": 0.5, "top_k": 7}, headers=headers)
    spans = collector.of(trace, 5)
    request, whole = spans["POST /v1/chat/completions"], spans["chat infer-demo"]
    assert request["parentSpanId"] == caller and request["kind"] == 2 and request["status"] == {}
    assert all(span["traceState"] == "vendor=1" for span in spans.values())
    found = attributes(request)
    assert found["http.response.status_code"] == 200 and found["http.route"] == "/v1/chat/completions"
    assert whole["parentSpanId"] == request["spanId"] and whole["kind"] == 1
    found = attributes(whole)
    assert found["gen_ai.operation.name"] == "chat" and found["gen_ai.request.model"] == "infer-demo"
    assert found["gen_ai.request.max_tokens"] == 8 and found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.request.top_k"] == 7 and found["gen_ai.request.seed"] == 1
    assert "gen_ai.request.top_p" not in found
    assert found["gen_ai.usage.input_tokens"] == answer["usage"]["prompt_tokens"]
    assert found["gen_ai.usage.output_tokens"] == 8
    assert found["gen_ai.response.finish_reasons"] == ["length"]
    assert len({span["spanId"] for span in spans.values()}) == 5
    last = before
    for name in ("queue", "prompt", "generation"):
        span = spans[name]
        assert span["parentSpanId"] == whole["spanId"]
        begin, end = times(span)
        assert last <= begin <= end
        last = end if name != "queue" else begin
    assert times(whole)[0] <= times(spans["queue"])[0] and last <= times(whole)[1] <= time.time_ns()

    path, sent, body = collector.posts[0]
    assert path == "/v1/traces" and sent["content-type"] == "application/json"
    assert (sent["x-team"], sent["x-key"]) == ("a b", "1")
    [resource] = body["resourceSpans"]
    assert attributes(resource["resource"]) == {"deployment.environment.name": "test", "service.name": "stories"}
    # Nothing of what was asked and answered.
    said = json.dumps([post[2] for post in collector.posts])
    assert "secret" not in said and answer["choices"][0]["message"]["content"][:12] not in said
    assert spans_of(service, "exported") == 5 and spans_of(service, "dropped") == 0


def test_which_requests_are_traced(start, collect):
    collector = collect()
    service = start("-t", "2", env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/"})
    body = {"prompt": ["Once", "The dog"], "max_tokens": 3, "n": 2, "best_of": 2}
    service.post("/v1/completions", body)
    bad = [f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01", f"ff-{'1' * 32}-{'1' * 16}-01",
           f"00-{'1' * 32}-{'1' * 16}-01-x", f"00-{'A' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'1' * 16}-0",
           f"00{'1' * 53}", "", "x" * 8000, traced(flags="00")[2]["traceparent"],
           traced(flags="02")[2]["traceparent"]]
    for parent in bad:
        service.post("/v1/completions", body, headers={"traceparent": parent})
    trace, caller, headers = traced()
    service.post("/v1/completions", body, headers=headers)
    spans = collector.of(trace, 5)
    found = attributes(spans["text_completion infer-demo"])
    assert found["gen_ai.request.choice.count"] == 4
    assert found["gen_ai.response.finish_reasons"] == ["length"] * 4
    assert found["gen_ai.usage.output_tokens"] == 12
    later, _, headers = traced()
    status, _ = service.error("/v1/chat/completions", {"messages": 7}, headers=headers)
    assert status == 400
    request = collector.of(later, 1)["POST /v1/chat/completions"]
    assert request["status"] == {} and attributes(request)["http.response.status_code"] == 400
    other, _, headers = traced()
    service.ask("GET", "/a/secret/path", headers=headers)
    assert attributes(collector.of(other, 1)["GET"])["http.response.status_code"] == 404
    assert "secret" not in json.dumps(collector.spans())
    assert {span["traceId"] for span in collector.spans()} == {trace, later, other}


def test_a_client_that_goes_away(start, collect):
    collector = collect()
    service = start("-t", "2", "--otlp-endpoint", collector.url)
    trace, _, headers = traced()
    body = json.dumps(CHAT | {"max_tokens": 400, "ignore_eos": True, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\ntraceparent: "
                           + headers["traceparent"].encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert connection.recv(100)
    spans = collector.of(trace, 2)
    assert all(attributes(span)["error.type"] == "cancelled" for span in spans.values())
    assert all(span["status"] == {"code": 2} for span in spans.values())


@pytest.mark.parametrize("kind", ["hangs", "refuses", "partly", "absent"])
def test_a_collector_that_does_not_take_them(start, collect, kind):
    collector = collect(status={"hangs": 0, "refuses": 400}.get(kind, 200),
                        answer=b'{"partialSuccess":{"rejectedSpans":"3"}}' if kind == "partly" else b"{}")
    url = collector.url
    if kind == "absent":
        with socket.create_server(("127.0.0.1", 0)) as free:
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
    service = start("-t", "2", "--otlp-endpoint", url, env={"OTEL_EXPORTER_OTLP_TIMEOUT": "500"})
    answer = service.post("/v1/chat/completions", CHAT)["choices"]
    for _ in range(4):
        _, _, headers = traced()
        assert service.post("/v1/chat/completions", CHAT, headers=headers)["choices"] == answer
    wait_for(lambda: spans_of(service, "dropped") >= (3 if kind == "partly" else 20))
    wait_for(lambda: spans_of(service, "dropped") + spans_of(service, "exported") == 20)
    if kind != "partly":
        assert spans_of(service, "exported") == 0
        assert url.encode() in service.said
    assert service.end() == 0


def test_spans_that_nobody_takes_are_bounded(start, collect):
    collector = collect(status=0)
    service = start("-t", "2", "--otlp-endpoint", collector.url)
    wait_for(lambda: service.ask("GET", "/health", headers=traced()[2])[0] == 200 and collector.posts)
    for _ in range(2600):
        service.ask("GET", "/health", headers=traced()[2])
    # The batch that is being sent, and those that wait.
    assert spans_of(service, "exported") == 0
    assert spans_of(service, "dropped") >= 2600 - 2048 - 512
    assert service.post("/v1/chat/completions", CHAT, headers=traced()[2])["choices"]
    assert service.end() == 0


def test_a_collector_that_comes_back(start, collect):
    collector = collect(status=503)
    service = start("-t", "2", "--otlp-endpoint", collector.url)
    trace, _, headers = traced()
    service.post("/v1/chat/completions", CHAT, headers=headers)
    wait_for(lambda: collector.posts)
    collector.status = 200
    wait_for(lambda: spans_of(service, "exported") == 5)
    assert spans_of(service, "dropped") == 0
    assert service.end() == 0


def test_what_waits_is_sent_at_the_end(start, collect):
    collector = collect()
    service = start("-t", "2", "--otlp-endpoint", collector.url)
    trace, _, headers = traced()
    service.post("/v1/chat/completions", CHAT, headers=headers)
    assert service.end() == 0
    assert len([span for span in collector.spans() if span["traceId"] == trace]) == 5


@pytest.mark.parametrize("flags, env, says", [
    (["--otlp-endpoint", "localhost 4318"], {}, "--otlp-endpoint: expected a URL"),
    ([], {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "ftp://x/y"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: expected a URL"),
    (["--otlp-endpoint", "http://x"], {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
    (["--otlp-endpoint", "http://x"], {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT"),
    (["--otlp-endpoint", "http://x"], {"OTEL_EXPORTER_OTLP_HEADERS": "a"}, "OTEL_EXPORTER_OTLP_HEADERS"),
    (["--otlp-endpoint", "http://x"], {"OTEL_EXPORTER_OTLP_HEADERS": "a=%0d%0ab"}, "OTEL_EXPORTER_OTLP_HEADERS"),
    (["--otlp-endpoint", "http://x"], {"OTEL_RESOURCE_ATTRIBUTES": "=1"}, "OTEL_RESOURCE_ATTRIBUTES"),
])
def test_wrong_options_are_named(flags, env, says):
    done = subprocess.run([BIN, "serve", "--port", "0", *flags], env=os.environ | env, capture_output=True,
                          timeout=60)
    assert done.returncode in (1, 2)
    assert says in done.stderr.decode()


def test_traces_can_be_turned_off(start, collect):
    collector = collect()
    for env in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}):
        service = start("-t", "2", env=env | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
        service.post("/v1/chat/completions", CHAT, headers=traced()[2])
        assert b"infer_trace_spans" not in service.ask("GET", "/metrics")[2]
        assert service.end() == 0
    assert collector.posts == []
