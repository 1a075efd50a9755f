"""Load on a server, and what must be left of it afterwards: nothing. Also a program:

    INFER_BIN=build/release/infer python3 tests/server/load.py [seconds of streams, default 600]
"""

import json
import random
import socket
import sys
import threading
import time

from service import Service

STREAMS = 64


def request_bytes(body):
    data = json.dumps(body).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
            str(len(data)).encode() + b"\r\n\r\n" + data)


def chat(i, tokens=24):
    return {"messages": [{"role": "user", "content": f"Story number {i}."}], "max_tokens": tokens,
            "seed": i, "ignore_eos": True}


def text_of(events):
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def streams_equal_single_requests(service, seconds, tokens=24):
    """Streams side by side, again and again; every text is that of the request alone. How many."""
    alone = [service.post("/v1/chat/completions", chat(i, tokens))["choices"][0]["message"]["content"]
             for i in range(STREAMS)]
    end = time.monotonic() + seconds
    wrong, done = [], []

    def stream(i):
        while True:
            text = text_of(service.events("/v1/chat/completions", chat(i, tokens)))
            (done if text == alone[i] else wrong).append(i)
            if wrong or time.monotonic() > end:
                return
    threads = [threading.Thread(target=stream, args=(i,)) for i in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"the texts of requests {sorted(set(wrong))} differ from those of single requests"
    assert len(done) >= STREAMS
    return len(done)


def slow_readers(service, count, seconds):
    """Readers that take a byte a second; others go on meanwhile."""
    readers = []
    for i in range(count):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        reader.connect(("127.0.0.1", service.port))
        reader.sendall(request_bytes(chat(i, 8) | {"stream": True}))
        readers.append(reader)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for reader in readers:
            reader.settimeout(0.001)
            try:
                reader.recv(1)
            except TimeoutError:
                pass
        service.post("/v1/chat/completions", chat(0, 4))
        time.sleep(max(0, min(1, end - time.monotonic())))
    for reader in readers:
        reader.close()


def disconnects(service, count, numbers):
    """Clients that go away at random moments of the request and of the answer."""
    for i in range(count):
        data = request_bytes(chat(i, 200) | {"stream": i % 2 == 0})
        connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        connection.sendall(data[:numbers.randint(1, len(data))] if i % 4 == 0 else data)
        if i % 3 == 0:
            time.sleep(numbers.random() * 0.02)
        connection.close()


def left(service):
    """What requests hold: calls, pages, connections."""
    return (service.metric("infer_num_requests_running") + service.metric("infer_num_requests_waiting"),
            service.metric("infer_kv_cache_pages", 'state="running"') +
            service.metric("infer_kv_cache_pages", 'state="idle"'))


def nothing_is_left(service, files, seconds=60):
    end = time.monotonic() + seconds
    while left(service) != (0, 0) or service.files() > files + 2:
        assert time.monotonic() < end, (left(service), service.files(), files)
        time.sleep(0.1)


def fill_cache(service):
    """Until each page was used: pages count as resident from then on."""
    numbers = random.Random(1)
    while service.metric("infer_kv_cache_pages", 'state="free"') > 0:
        disconnects(service, 500, numbers)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600
    service = Service("-t", "2", "-c", "512")  # a cache of one size, which does not grow
    streams_equal_single_requests(service, 0)
    files = service.files()
    fill_cache(service)
    nothing_is_left(service, files)
    # The memory of streams side by side is allocated within a minute and kept (0.5 of 33 MiB).
    streams_equal_single_requests(service, min(60, seconds / 5))
    memory = service.memory()
    done = streams_equal_single_requests(service, seconds)
    nothing_is_left(service, files)
    drift = service.memory() / memory - 1
    print(f"{done} streams in {seconds:.0f} s equal single requests; memory drifted by {drift:.2%}")
    slow_readers(service, 500, 20)
    nothing_is_left(service, files)
    print("500 slow readers left nothing")
    memory = service.memory()
    begun = time.monotonic()
    disconnects(service, 10_000, random.Random(27))
    nothing_is_left(service, files)
    print(f"10,000 disconnects left nothing after {time.monotonic() - begun:.0f} s; memory drifted by {service.memory() / memory - 1:.2%}")
    assert service.end() == 0


if __name__ == "__main__":
    main()
