"""tools/serve/ray_serve.py: two replicas on this machine, of which some are killed."""

import asyncio
import concurrent.futures
import contextlib
import http.client
import importlib
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
import types

import pytest

from service import BIN, Service

ray = pytest.importorskip("ray")
serve = pytest.importorskip("ray.serve")

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "serve"
# Slow on purpose: requests last until something is killed.
SLOW = "--isa scalar"
WHOLE, STREAMS = 32, 8
LONG = 120  # seconds for what takes a few


class Front(Service):
    """The same requests to a server that something else began."""

    def __init__(self, port, prefix=""):
        self.port, self.prefix = port, prefix

    def ask(self, method, path, *arguments, **options):
        return super().ask(method, self.prefix + path, *arguments, **options)


def wait_for(condition):
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def servers(alias):
    """The servers of replicas that run with this alias, and the processes that began them."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            # A process that is about to become a server has the words of its parent.
            if words[1:2] == [b"serve"] and alias.encode() in words:
                found[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
    return found


def running(name):
    """How many replicas Ray Serve has running."""
    deployments = serve.status().applications[name].deployments
    return deployments["Engine"].replica_states.get("RUNNING", 0) if "Engine" in deployments else 0


@pytest.fixture(scope="module")
def ray_serve():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("ray_serve")


@pytest.fixture(scope="module")
def start_app(ray_serve):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("INFER_API_KEY", raising=False)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Otherwise Ray makes one and keeps it in the user's home.
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # Ray makes sockets there: a longer path is too long for them.
        folder = tempfile.mkdtemp(prefix="ray")
        paths = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
        ray.init("local", num_cpus=8, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False,
                 _temp_dir=folder, runtime_env={"env_vars": {"PYTHONPATH": paths}})
        serve.start(http_options={"host": "127.0.0.1", "port": port})

        def begin(name, **arguments):
            app = ray_serve.app(ray_serve.Args(
                binary=os.path.abspath(BIN), options=f"--alias {name} {SLOW}", **arguments))
            serve.run(app, name=name, route_prefix="/" + name)
            return Front(port, "/" + name)
        yield begin
        serve.shutdown()
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def alias():
    return f"ray-{os.getpid()}"


@pytest.fixture(scope="module")
def front(start_app, alias):
    return start_app(alias, min_replicas=2, max_replicas=2)


def chat(i, tokens=56, **more):
    return {"messages": [{"role": "user", "content": f"Story number {i}."}], "max_tokens": tokens, "seed": i,
            "ignore_eos": True} | more


def text_of(answer):
    return answer["choices"][0]["message"]["content"]


@contextlib.contextmanager
def stream_of(front, body, headers={}):
    """A streamed answer that has begun."""
    connection = http.client.HTTPConnection("127.0.0.1", front.port, timeout=LONG)
    connection.request("POST", front.prefix + "/v1/chat/completions", json.dumps(body | {"stream": True}), headers)
    with contextlib.closing(connection), connection.getresponse() as answer:
        yield answer


def streamed(text):
    """What a streamed answer says, and the error at its end, if it has one."""
    *lines, last, empty = text.decode().split("\n\n")
    assert empty == ""
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    said = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    return said, None if last == "data: [DONE]" else json.loads(last.removeprefix("data: "))["error"]


def side_by_side(functions):
    """What each of them returns. All of them run at once."""
    results = [None] * len(functions)

    def run(i):
        results[i] = functions[i]()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture(scope="module")
def alone(begin_module):
    """What a server without Ray answers."""
    service = begin_module("-t", "2", *SLOW.split())
    return [text_of(answer) for answer in side_by_side(
        [lambda i=i: service.post("/v1/chat/completions", chat(i), timeout=LONG) for i in range(WHOLE + STREAMS)])]


def test_the_beginnings_of_prompts(ray_serve):
    def hashes(**fields):
        return ray_serve.prefix_hashes(json.dumps(fields).encode())
    said = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "x" * 1000}]
    short, both = hashes(messages=said[:1]), hashes(seed=1, messages=said)
    assert len(short) == 1 and len(both) == 6 and both[:1] == short
    assert hashes(messages=said, model="other")[0] != both[0]
    assert hashes(prompt="y" * 600)[:2] == hashes(prompt="y" * 512 + "z")[:2]
    assert hashes(prompt=list(range(300)))[0] == hashes(prompt=list(range(400)))[0]
    assert len(hashes(prompt="y" * 1_000_000)) == ray_serve.CHUNKS
    assert hashes(prompt="\ud800")
    for none in (b"", b"[1]", b"{", b'{"prompt": ""}', b'{"prompt": 1}', b'{"prompt": true}', b"[" * 100_000):
        assert len(ray_serve.prefix_hashes(none)) <= 1


def test_the_choice_of_a_replica(ray_serve):
    class Name(str):
        to_full_id_str = str.__str__

    class Router(ray_serve.PrefixRouter):
        replica_queue_len_cache = {}

        def __init__(self):
            self.initialize_state(slack=2)
    router, replicas = Router(), [types.SimpleNamespace(replica_id=Name(each)) for each in "ab"]

    def request(i, *hashes):
        return types.SimpleNamespace(metadata=types.SimpleNamespace(internal_request_id=i),
                                     kwargs={"hashes": hashes}, future=concurrent.futures.Future())

    def choose(one):
        ranks = asyncio.run(router.choose_replicas(replicas, one))
        assert sorted(each.replica_id for [each] in ranks) == ["a", "b"]
        return ranks[0][0].replica_id
    # Requests count from the choice on, before Ray tells of them, and until they end or are cancelled.
    requests = [request(i, b"%d" % i) for i in range(8)]
    chosen = [choose(each) for each in requests]
    assert chosen.count("a") == chosen.count("b") == 4
    assert len(router.given) == 8
    for each in requests[:4]:
        each.future.cancel()
    for i in range(4, 8):
        router.on_request_completed("a", i)
    # The longest known beginning counts, as long as its replica is not too busy.
    router.on_request_routed(request(10, b"1", b"12"), "a", None)
    router.on_request_routed(request(11, b"1", b"13"), "b", None)
    assert choose(request(20, b"1", b"12", b"121")) == "a"
    assert list(router.given) == [20]
    assert choose(request(21, b"1", b"13")) == "b"
    assert [choose(request(22 + i, b"1", b"12")) for i in range(4)] == ["a", "a", "a", "b"]
    router.replica_queue_len_cache["b"] = 9
    assert choose(request(30, b"1", b"13")) == "a"


def test_an_error_has_the_form_of_the_interface(ray_serve):
    def event(path):
        name, _, data = ray_serve.last_event(path, "why", 7).removesuffix("\n\n").rpartition("data: ")
        return name, json.loads(data)
    assert event("/v1/chat/completions") == (
        "", {"error": {"message": "why", "type": "unavailable_error", "code": 503}})
    assert event("/v1/messages") == (
        "event: error\n", {"type": "error", "error": {"type": "overloaded_error", "message": "why"}})
    assert event("/v1/responses") == ("event: error\n", {
        "type": "error", "sequence_number": 7, "code": "unavailable_error", "message": "why", "param": None})
    assert ray_serve.last_event("/api/chat", "why", 7) == '{"error": "why"}\n'
    answer = ray_serve.problem("/v1/chat/completions", 503, "why", "unavailable_error")
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    answer = ray_serve.problem("/v1/messages", 413, "why", "invalid_request_error")
    assert json.loads(answer.body)["error"] == {"type": "request_too_large", "message": "why"}


def test_answers_are_those_of_the_server(front, alone, alias):
    assert [model["id"] for model in front.get("/v1/models")["data"]] == [alias]
    assert text_of(front.post("/v1/chat/completions", chat(1))) == alone[1]
    events = front.events("/v1/chat/completions", chat(1))
    assert len(events) > 10
    assert "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"]) == alone[1]
    with stream_of(front, chat(1), {"X-Request-Id": "mine"}) as answer:
        assert answer.headers.get_all("X-Request-Id") == ["mine"]
        assert b'"chatcmpl-mine"' in answer.read()
    # Its errors are passed on.
    status, _, text = front.ask("POST", "/v1/messages", {"messages": []})
    assert status == 400 and json.loads(text)["type"] == "error"
    assert front.ask("GET", "/nowhere")[0] == 404
    status, error = front.error("/v1/completions", b" " * ((32 << 20) + 1))
    assert status == 413 and error["type"] == "invalid_request_error"


def test_equal_beginnings_go_to_one_replica(front):
    used = set()
    for i in range(20):
        said = [{"role": "system", "content": f"You are number {i}. " + "Tell stories of cats and dogs. " * 8}]
        replicas, cached = set(), []
        for question in ("Begin.", "Go on.", "Again."):
            said.append({"role": "user", "content": question})
            _, headers, text = front.ask("POST", "/v1/chat/completions", {"messages": said, "max_tokens": 2})
            answer = json.loads(text)
            said.append(answer["choices"][0]["message"])
            replicas.add(headers["x-replica"])
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert len(replicas) == 1
        assert cached[0] < cached[1] <= cached[2]
        used |= replicas
    # All of the 20 at one of them is no chance.
    assert len(used) == 2


def test_a_client_that_goes_away(front):
    def numbers():
        """Running requests and generated tokens of both replicas."""
        found = {}

        def both():
            _, headers, text = front.ask("GET", "/metrics")
            found[headers["x-replica"]] = [
                sum(float(line.rsplit(" ", 1)[1]) for line in text.decode().splitlines() if line.startswith(name + "{"))
                for name in ("infer_num_requests_running", "infer_generation_tokens_total")]
            return len(found) == 2
        wait_for(both)
        return [sum(column) for column in zip(*found.values())]
    tokens = numbers()[1]
    with stream_of(front, chat(1, 800, n=16)) as answer:
        assert answer.readline().startswith(b"data: ")
    wait_for(lambda: numbers()[0] == 0)
    assert numbers()[1] - tokens < 800 * 16 / 2


@pytest.mark.parametrize("victim", ["server", "replica"])
def test_one_is_killed_under_load(front, alone, alias, victim):
    begun, answered, ended = [], [], []

    def whole(i):
        status, _, text = front.ask("POST", "/v1/chat/completions", chat(i), timeout=LONG)
        answered.append(i)
        return status, text

    def stream(i):
        with stream_of(front, chat(i)) as answer:
            text = answer.readline()
            begun.append(i)
            text += answer.read()
        ended.append(i)
        return text

    def kill():
        wait_for(lambda: len(begun) == STREAMS)
        server, replica = next(iter(before.items()))
        # Each replica got about half of them.
        assert len(answered) < WHOLE / 4 and not ended
        os.kill(server if victim == "server" else replica, signal.SIGKILL)
        return server
    before = servers(alias)
    assert len(before) == 2
    results = side_by_side([kill] + [lambda i=i: whole(i) for i in range(WHOLE)] +
                           [lambda i=i: stream(i) for i in range(WHOLE, WHOLE + STREAMS)])
    killed = results.pop(0)
    assert killed in before
    for i, (status, text) in enumerate(results[:WHOLE]):
        assert status == 200, text
        assert text_of(json.loads(text)) == alone[i]
    lost = 0
    for i, text in enumerate(results[WHOLE:], WHOLE):
        got, error = streamed(text)
        if error is None:
            assert got == alone[i]
        else:
            assert error["type"] == "unavailable_error" and alone[i].startswith(got)
            lost += 1
    assert 0 < lost < STREAMS
    wait_for(lambda: running(alias) == 2 and len(servers(alias)) == 2)
    assert killed not in servers(alias)
    assert text_of(front.post("/v1/chat/completions", chat(1))) == alone[1]


def test_more_replicas_under_load_and_the_end(start_app, alone, alias):
    name = alias + "-grows"
    front = start_app(name, min_replicas=1, max_replicas=2, target_ongoing_requests=1, upscale_delay=0.1)
    assert len(servers(name)) == 1
    grown, begun = threading.Event(), []

    def load():
        while not grown.is_set():
            front.post("/v1/completions", {"prompt": "Once", "max_tokens": 20}, timeout=LONG)
        return True

    def watch():
        try:
            wait_for(lambda: running(name) == 2 and len(servers(name)) == 2)
            return True
        finally:
            grown.set()
    # A thread that failed returns nothing.
    assert all(side_by_side([watch] + [load] * 6))

    def stream(i):
        with stream_of(front, chat(i)) as answer:
            text = answer.readline()
            begun.append(i)
            return text + answer.read()

    def end():
        wait_for(lambda: len(begun) == 6)
        serve.delete(name)
    for i, text in enumerate(side_by_side([end] + [lambda i=i: stream(i) for i in range(6)])[1:]):
        assert streamed(text) == (alone[i], None)
    assert not servers(name)
