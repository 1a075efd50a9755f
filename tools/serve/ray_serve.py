"""Ray Serve: replicas of `infer serve` behind one address.

    serve run ray_serve:app model=/models/model.gguf threads=8 min_replicas=2 max_replicas=4

docs/server.md says what the arguments are and what is tried again.
"""

import asyncio
import collections
import concurrent.futures
import hashlib
import json
import os
import random
import re
import shlex
import subprocess
import sys
import threading
import urllib.parse

import aiohttp
import pydantic
import ray.exceptions
import ray.serve.exceptions
import yarl
from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.request_router import RequestRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

BODY_BYTES = 32 << 20  # as the server has it
CHUNK, CHUNKS = 256, 256  # characters a hash adds, and the most hashes of a prompt
PREFIXES = 100_000  # that a router remembers
# Headers of one connection, and those that the sender of a message sets anew.
HOP = {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding",
       "upgrade"}
OWN = HOP | {"x-request-id"}  # what Ray has in an answer; the server gets the same id
# What it looks like when a replica dies. ConnectionError is that of Engine.answer.
LOST = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError,
        ray.serve.exceptions.ReplicaUnavailableError, ConnectionError)


class Args(pydantic.BaseModel, extra="forbid"):
    model: str = ""  # a file that every machine has; none: the built-in model
    options: str = ""  # further options of infer serve
    binary: str = "infer"
    threads: int = 1  # of a replica; Ray reserves as many CPUs
    gpus: float = 0  # that Ray reserves for a replica
    min_replicas: int = 1
    max_replicas: int = 1
    target_ongoing_requests: float = 8  # a replica; more requests start further replicas
    max_ongoing_requests: int = 32  # a replica; further requests wait
    upscale_delay: float = 30  # seconds
    downscale_delay: float = 600
    drain: int = 30  # seconds that running answers may take when a replica ends
    slack: int = 4  # requests that the replica with the cached prompt may have more than the idlest
    tries: int = 3  # replicas that a request may lose
    gateways: int = 1  # processes that choose the replica


def prefix_hashes(body):
    """Hashes of ever longer beginnings of a request's prompt; none if it has no prompt."""
    try:
        fields = json.loads(body)
        said = next(fields[name] for name in ("messages", "prompt", "input") if fields.get(name))
    except (ValueError, AttributeError, StopIteration, RecursionError):
        return []
    # A conversation goes on with further messages, so each ends with a hash. Tokens are one text.
    pieces = said if isinstance(said, list) and isinstance(said[0], dict) else [said]
    before = [fields.get(name) for name in ("model", "tools", "system", "instructions")]
    state = hashlib.blake2b(json.dumps(before).encode(), digest_size=8)
    hashes = []
    for piece in pieces:
        text = piece if isinstance(piece, str) else json.dumps(piece)
        for begin in range(0, len(text), CHUNK):
            if len(hashes) == CHUNKS:
                return hashes
            state.update(text[begin:begin + CHUNK].encode(errors="surrogatepass"))
            hashes.append(state.digest())
    return hashes


class PrefixRouter(RequestRouter):
    """Sends a request to the replica that had the longest beginning of its prompt, unless that is busy."""

    def initialize_state(self, slack):
        self.slack = slack
        self.homes = collections.OrderedDict()  # hash: the replica that had it; the latest is last
        self.given = {}  # requests that no length of a queue has yet: id: request and replica

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        if pending_request is None:
            return [candidate_replicas]
        own, hashes = pending_request.metadata.internal_request_id, pending_request.kwargs["hashes"]
        self.given = {key: each for key, each in self.given.items()
                      if key != own and not each[0].future.cancelled()}
        # Ray forgets the length of a queue that did not change for some seconds. That counts as 0 here;
        # Ray asks the replica before it sends a request there.
        busy = {each.replica_id: self.replica_queue_len_cache.get(each.replica_id) or 0
                for each in candidate_replicas}
        for _, replica_id in self.given.values():
            if replica_id in busy:
                busy[replica_id] += 1
        most = min(busy.values()) + self.slack
        home = next((found for found in map(self.homes.get, reversed(hashes))
                     if found in busy and busy[found] <= most), None)

        def rank(replica):
            # Gateways know nothing of each other: equally busy replicas come in an order that depends on
            # the prompt's beginning alone.
            name = replica.replica_id.to_full_id_str().encode()
            tie = hashlib.blake2b(hashes[0] + name).digest() if hashes else random.randbytes(8)
            return replica.replica_id != home, busy[replica.replica_id], tie
        ranked = sorted(candidate_replicas, key=rank)
        self.given[own] = pending_request, ranked[0].replica_id
        return [[replica] for replica in ranked]

    def on_request_completed(self, replica_id, internal_request_id):
        self.given.pop(internal_request_id, None)

    def on_request_routed(self, pending_request, replica_id, result):
        self.given.pop(pending_request.metadata.internal_request_id, None)
        for each in pending_request.kwargs["hashes"]:
            self.homes[each] = replica_id
            self.homes.move_to_end(each)
        while len(self.homes) > PREFIXES:
            self.homes.popitem(last=False)


@serve.deployment
class Engine:
    """A replica: one `infer serve` on a free port of this machine's own address."""

    async def __init__(self, args):
        command = [args.binary, "serve", "--port", "0", "-t", str(args.threads), "--drain", str(args.drain)]
        command += ["-m", args.model] * bool(args.model) + shlex.split(args.options)
        # Ray ends it with this process, even if that is killed.
        self.child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
        self.ending = False
        port = concurrent.futures.Future()
        threading.Thread(target=self.watch, args=(port,), daemon=True).start()
        self.address = f"http://127.0.0.1:{await asyncio.wrap_future(port)}"
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False,
                                          connector=aiohttp.TCPConnector(limit=0))
        while await self.status("/health/ready") != 200:
            await asyncio.sleep(0.1)

    def watch(self, port):
        """Passes on what the server says, and ends this process with the server."""
        said = ""
        for line in self.child.stderr:
            sys.stderr.write(line)
            found = re.search(r"served at http://.*:(\d+)$", line.strip())
            if found and not port.done():
                port.set_result(int(found[1]))
            elif not port.done():
                said += line
        code = self.child.wait()
        if not port.done():
            port.set_exception(RuntimeError(f"infer serve ended with {code}: {said}"))
        elif not self.ending:
            # Ray sees at once that the replica is gone: its requests fail, and no other comes here.
            os._exit(1)

    async def status(self, path):
        async with self.http.get(self.address + path) as answer:
            return answer.status

    async def check_health(self):
        status = await self.status("/health/live")
        if status != 200:
            raise RuntimeError(f"/health/live: {status}")

    async def answer(self, method, target, headers, body, hashes):
        """Status, headers, and the whole body if its length is known; otherwise its parts follow."""
        try:
            async with self.http.request(
                    method, yarl.URL(self.address + target, encoded=True), data=body, headers=headers,
                    skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                    allow_redirects=False) as answer:
                kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in OWN]
                kept.append(("X-Replica", serve.get_replica_context().replica_id.unique_id))
                if answer.content_length is not None:
                    yield answer.status, kept, await answer.read()
                    return
                yield answer.status, kept, None
                async for part in answer.content.iter_any():
                    yield part
        except aiohttp.ClientError as error:
            # If the server died, this process ends meanwhile, and the request does not come back here.
            await asyncio.sleep(1)
            raise ConnectionError(f"the server ended the connection: {error}") from error

    async def __del__(self):
        # Ray calls it when the last request has its answer, or the time to drain is over.
        self.ending = True
        self.child.terminate()
        await asyncio.to_thread(self.child.wait)


# Kinds of errors that Anthropic's interface has names of its own for.
ANTHROPIC_KINDS = {413: "request_too_large", 503: "overloaded_error"}


def problem(path, status, message, kind):
    """An error in the form of the interface that was asked."""
    if path.startswith("/api/"):
        body = {"error": message}
    elif path.startswith("/v1/messages"):
        kind = ANTHROPIC_KINDS.get(status, kind)
        body = {"type": "error", "error": {"type": kind, "message": message}}
    else:
        body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    return Response(json.dumps(body), status, {"Retry-After": "1"} if status == 503 else None, "application/json")


def last_event(path, message, sent):
    """The same as an event of an answer that has begun; the number of events before it."""
    kind = "unavailable_error"
    if path.startswith("/api/"):
        return json.dumps({"error": message}) + "\n"
    if path.startswith("/v1/messages"):
        error = {"type": ANTHROPIC_KINDS[503], "message": message}
        event, data = "event: error\n", {"type": "error", "error": error}
    elif path.startswith("/v1/responses"):
        event, data = "event: error\n", {"type": "error", "sequence_number": sent, "code": kind,
                                         "message": message, "param": None}
    else:
        event, data = "", {"error": {"message": message, "type": kind, "code": 503}}
    return f"{event}data: {json.dumps(data)}\n\n"


async def whole_events(parts, end):
    """The same bytes in parts that end where an event ends, so that an error can follow each."""
    rest = b""
    async for part in parts:
        events, found, rest = (rest + part).rpartition(end)
        if found:
            yield events + found
    if rest:
        yield rest


@serve.deployment
class Gateway:
    """Passes each request to a replica, and to another one if that dies before the answer begins."""

    def __init__(self, engine, tries):
        self.engine = engine.options(stream=True, method_name="answer")
        self.tries = tries

    async def __call__(self, request: Request):
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES:
                return problem(path, 413, f"the body is larger than {BODY_BYTES} bytes", "invalid_request_error")
        target = urllib.parse.quote(path) + ("?" + request.url.query if request.url.query else "")
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP]
        hashes = prefix_hashes(body)
        for _ in range(self.tries):
            parts = self.engine.remote(request.method, target, headers, body, hashes=hashes)
            try:
                status, kept, whole = await anext(parts)
                if whole is not None:
                    answer = Response(whole, status)
                else:
                    end = b"\n\n" if ("Content-Type", "text/event-stream") in kept else b"\n"
                    events = whole_events(parts, end)
                    answer = StreamingResponse(self.stream(path, end, await anext(events, b""), events), status)
            except LOST as error:
                reason = error
                continue
            answer.raw_headers += [(name.lower().encode("latin-1"), value.encode("latin-1"))
                                   for name, value in kept]
            return answer
        print(f"{request.method} {path}: {self.tries} replicas were lost: {reason}", file=sys.stderr)
        return problem(path, 503, f"{self.tries} replicas were lost while they answered", "unavailable_error")

    async def stream(self, path, end, first, events):
        sent = first.count(end)
        try:
            yield first
            async for event in events:
                sent += event.count(end)
                yield event
        except LOST:
            yield last_event(path, "the replica that answered was lost", sent)


def app(args: Args) -> serve.Application:
    ends = {"graceful_shutdown_timeout_s": args.drain + 10, "graceful_shutdown_wait_loop_s": 0.5}
    engine = Engine.options(
        autoscaling_config={"min_replicas": args.min_replicas, "max_replicas": args.max_replicas,
                            "target_ongoing_requests": args.target_ongoing_requests,
                            "upscale_delay_s": args.upscale_delay, "downscale_delay_s": args.downscale_delay},
        max_ongoing_requests=args.max_ongoing_requests,
        ray_actor_options={"num_cpus": args.threads, "num_gpus": args.gpus},
        request_router_config=RequestRouterConfig(request_router_class=PrefixRouter,
                                                  request_router_kwargs={"slack": args.slack}),
        health_check_period_s=2, health_check_timeout_s=30, **ends)
    # A gateway only passes bytes on: requests wait for replicas, not for it.
    gateway = Gateway.options(num_replicas=args.gateways, max_ongoing_requests=100_000,
                              ray_actor_options={"num_cpus": 0}, **ends)
    return gateway.bind(engine.bind(args), args.tries)
