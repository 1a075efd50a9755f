"""A long run: streams of random requests, of which some are cancelled, read slowly or left. A program:

    INFER_BIN=build/release/infer python3 tests/server/endure.py [seconds, default 600]

It tells how much the server's memory drifts after the first third, and what slow readers do to the time
between the tokens of others.
"""

import http.client
import json
import random
import socket
import statistics
import sys
import threading
import time

import load
from service import Service

STREAMS = 64
PROBES = 4
WORDS = ("the dog ran to a house and was happy because it found friend in big tree where sun shone over "
         "green field then little girl said that her cat could sing").split()


def words(numbers, most):
    return " ".join(numbers.choice(WORDS) for _ in range(numbers.randint(1, most)))


def request(numbers):
    """A path and a body."""
    more = {"max_tokens": numbers.randint(1, 60), "stream": numbers.random() < 0.8,
            "temperature": numbers.choice([0, 0.7, 1.5])}
    if numbers.random() < 0.5:
        more["seed"] = numbers.randint(0, 1 << 40)
    if numbers.random() < 0.1:
        more["json_schema"] = {"type": "object", "properties": {words(numbers, 1): {"type": "integer"}}}
    if numbers.random() < 0.1:
        more["stop"] = [words(numbers, 2)]
    text = words(numbers, 300)
    messages = [{"role": "user", "content": text}]
    kind = numbers.randrange(6)
    if kind == 0:
        return "/v1/completions", {"prompt": text, "logprobs": 2, "echo": numbers.random() < 0.3} | more
    if kind == 1:
        return "/v1/messages", {"messages": messages, "model": "any"} | more
    if kind == 2:
        return "/completion", {"prompt": text, "n_predict": more["max_tokens"]} | more
    if kind == 3:
        return "/api/generate", {"prompt": text, "stream": more["stream"],
                                 "options": {"num_predict": more["max_tokens"]}}
    return "/v1/chat/completions", {"messages": messages, "n": numbers.choice([1, 1, 1, 2])} | more


class Run:
    def __init__(self, service):
        self.service = service
        self.ends = threading.Event()
        self.slow = threading.Event()  # whether there may be slow readers
        self.lock = threading.Lock()
        self.done = {"whole": 0, "cancelled": 0, "slow": 0, "left": 0}
        self.wrong = []
        self.gaps = {False: [], True: []}  # between tokens of probes, by whether others read slowly
        self.first = {False: [], True: []}

    def count(self, kind):
        with self.lock:
            self.done[kind] += 1

    def stream(self, number):
        numbers = random.Random(number)
        while not self.ends.is_set():
            path, body = request(numbers)
            begun = time.monotonic()
            try:
                self.one(numbers, path, body)
            except (OSError, http.client.HTTPException) as failure:
                took = time.monotonic() - begun
                self.wrong.append(f"{failure!r} after {took:.0f} s: {path} {json.dumps(body)}")

    def one(self, numbers, path, body):
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
        kind = numbers.choices(["whole", "cancelled", "slow", "left"], [60, 15, 15 if self.slow.is_set() else 0, 10])[0]
        with socket.socket() as connection:
            if kind == "slow":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.settimeout(120)
            connection.connect(("127.0.0.1", self.service.port))
            sent = head.encode() + data
            if kind == "left":
                connection.sendall(sent[:numbers.randint(1, len(sent))])
                time.sleep(numbers.random() * 0.05)
                return self.count(kind)
            connection.sendall(sent)
            begun, parts, limit = time.monotonic(), 0, numbers.randint(1, 10)
            answer = b""
            while part := connection.recv(200 if kind == "slow" else 65536):
                answer = (answer + part)[:200]
                parts += 1
                if kind == "cancelled" and parts >= limit:
                    break
                if kind == "slow":
                    time.sleep(0.1)
                    if time.monotonic() - begun > 20:
                        break
            # The queue has no limit here: nothing is refused.
            if not answer.startswith(b"HTTP/1.1 200"):
                self.wrong.append(answer.decode(errors="replace"))
        self.count(kind)

    def probe(self, number):
        """An ordinary stream, whose tokens' times are kept."""
        i = 0
        while not self.ends.is_set():
            i += 1
            connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=120)
            body = {"prompt": f"Story {number} {i}", "max_tokens": 40, "ignore_eos": True, "stream": True}
            slow, last = self.slow.is_set(), time.monotonic()
            connection.request("POST", "/v1/completions", json.dumps(body))
            answer = connection.getresponse()
            times = []
            while line := answer.readline():
                if line.startswith(b"data: {"):
                    times.append(time.monotonic() - last)
                    last += times[-1]
            connection.close()
            if slow == self.slow.is_set() and times:
                with self.lock:
                    self.first[slow].append(times[0])
                    self.gaps[slow] += times[1:]


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600
    service = Service("-t", "2", "-c", "16384")
    files = service.files()
    run = Run(service)
    threads = [threading.Thread(target=run.stream, args=(i,)) for i in range(STREAMS)]
    threads += [threading.Thread(target=run.probe, args=(i,)) for i in range(PROBES)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    memory = []
    while (now := time.monotonic() - begun) < seconds:
        # Minutes with and without slow readers take turns, once all has been used.
        if int(now / 60) % 2 == 1 or now < 60:
            run.slow.set()
        else:
            run.slow.clear()
        memory.append((now, service.memory()))
        time.sleep(2)
    run.ends.set()
    for thread in threads:
        thread.join()
    load.nothing_is_left(service, files)
    after = [size for at, size in memory if at >= seconds / 3]
    tenth = max(1, len(after) // 10)
    first, last = statistics.mean(after[:tenth]), statistics.mean(after[-tenth:])
    print(f"{sum(run.done.values())} requests in {seconds:.0f} s: {run.done}; wrong: {len(run.wrong)}, {run.wrong[:3]}")
    minutes = [next(size for at, size in memory if at >= 60 * i) / 2**20 for i in range(int(memory[-1][0] / 60) + 1)]
    print("MiB by the minute: " + " ".join(f"{size:.1f}" for size in minutes))
    print(f"memory after a third {first / 2**20:.1f} MiB, at the end {last / 2**20:.1f} MiB: "
          f"drift {last / first - 1:.2%}; most {max(after) / 2**20:.1f} MiB")
    for slow, gaps in run.gaps.items():
        if len(gaps) < 100:
            continue
        marks = statistics.quantiles(gaps, n=100)
        print(f"{'with' if slow else 'without'} slow readers: first token {statistics.median(run.first[slow]):.3f} s; "
              f"between tokens median {marks[49] * 1000:.1f} ms, 95 % {marks[94] * 1000:.1f} ms, "
              f"99 % {marks[98] * 1000:.1f} ms, of {len(gaps)}")
    ended = service.end()
    assert not run.wrong
    assert ended == 0


if __name__ == "__main__":
    main()
