"""What requests may take: memory of bodies and answers, and the time of others."""

import base64
import json
import pathlib
import socket
import struct
import threading
import time
import zlib

import pytest

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


def beside(service, requests):
    """Sends requests at the same time. The threads, and the list that gets the answers as they come."""
    answers = []
    threads = [threading.Thread(target=lambda path=path, body=body: answers.append(
        service.ask("POST", path, body, timeout=120))) for path, body in requests]
    for thread in threads:
        thread.start()
    return threads, answers


@pytest.mark.parametrize("length", [b"Transfer-Encoding: chunked\r\n", b"Content-Length: 30000000\r\n"])
def test_bodies_count_as_they_arrive(service, length):
    """Connections that say a body comes and send nothing of it: all would be more than 1 GiB."""
    idle = []
    for _ in range(40):
        idle.append(socket.create_connection(("127.0.0.1", service.port)))
        idle[-1].sendall(HEAD + length + b"\r\n")
    time.sleep(0.2)
    body = json.dumps({"prompt": "Once", "max_tokens": 1}).encode()
    assert service.ask("POST", "/v1/completions", body)[0] == 200
    for connection in idle:
        connection.close()
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    assert service.raw(chunked).startswith(b"HTTP/1.1 200")


def test_bodies_of_very_many_values(service):
    def body(value, count):
        return b'{"content":"a","tokens":[5],"x":[' + b",".join([value] * count) + b"]}"
    for value in (b"{}", b"5", b'"a"', b'{"a":5}'):
        status, error = service.error("/tokenize", body(value, 1_000_000))
        assert status == 400 and "more than 1000000 values" in error["message"]
    assert service.ask("POST", "/tokenize", body(b"5", 900_000))[0] == 200
    # Commas in texts are none between values.
    assert service.ask("POST", "/tokenize", {"content": "a", "x": ",[{" * 1_000_000})[0] == 200


def test_long_names_take_longer_to_compare(service):
    def body(count, length):
        names = ",".join(f'"{i:0{length}}":0' for i in range(count))
        return ('{"content":"a","x":{' + names + "}}").encode()
    assert service.ask("POST", "/tokenize", body(2000, 60))[0] == 200
    status, error = service.error("/tokenize", body(6000, 2000))
    assert status == 400 and "too many names" in error["message"]


def test_pieces_of_very_many_tokens(service):
    text = "a1 " * 600_000
    count = len(service.post("/tokenize", {"content": text})["tokens"])
    assert count > 1_000_000
    status, error = service.error("/tokenize", {"content": text, "with_pieces": True})
    assert status == 400 and f"false for more than 1000000 tokens, where there are {count}" in error["message"]


@pytest.mark.parametrize("path, more, field", [
    ("/v1/chat/completions", {"logprobs": True, "top_logprobs": 20, "max_tokens": 900}, "top_logprobs"),
    ("/v1/chat/completions", {"logprobs": True, "top_logprobs": 20, "max_completion_tokens": 900}, "top_logprobs"),
    ("/v1/completions", {"logprobs": 20, "max_tokens": 900}, "logprobs"),
])
def test_log_probabilities_of_generated_tokens(service, path, more, field):
    asked = {"messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi", "n": 128} | more
    status, error = service.error(path, asked)
    assert (status, error["param"]) == (400, field)
    assert "2097152" in error["message"]
    assert service.ask("POST", path, asked | {"n": 1, "max_tokens": 2})[0] == 200


def png(side, salt):
    """One colour, in very few bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes([salt]) * side) * side
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def test_images_keep_no_others_waiting(start):
    """Small requests whose images are large."""
    service = start("-m", DATA / "vision" / "tiny.gguf", "--mmproj", DATA / "vision" / "tiny-mmproj.gguf",
                    "-t", "1", "-c", "2048")

    def asked(*images):
        urls = ["data:image/png;base64," + base64.b64encode(image).decode() for image in images]
        return {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url}} for url in urls]}], "max_tokens": 1}
    large = [("/v1/chat/completions", asked(png(6000, 2 * i), png(6000, 2 * i + 1))) for i in range(5)]
    threads, answers = beside(service, large)
    time.sleep(0.1)
    assert service.ask("POST", "/v1/completions", {"prompt": [5, 6], "max_tokens": 1})[0] == 200
    assert not answers
    # A small image has its turn before all the large ones have been read.
    assert service.ask("POST", "/v1/chat/completions", asked(png(64, 1)))[0] == 200
    assert len(answers) < 5
    for thread in threads:
        thread.join()
    assert {status for status, _, _ in answers} == {200}


@pytest.fixture
def encoder(start):
    return start("-m", DATA / "embed" / "bert-mean", "-t", "1", "--drain", "0")


LARGE = {"input": ["a cat and a kitten " * 3] * 2048, "truncate": True}


def test_small_texts_do_not_wait_for_large_ones(encoder):
    threads, answers = beside(encoder, [("/v1/embeddings", LARGE)] * 4)
    time.sleep(0.1)
    assert encoder.ask("POST", "/v1/embeddings", {"input": "a"})[0] == 200
    assert not answers
    for thread in threads:
        thread.join()
    assert {status for status, _, _ in answers} == {200}


def test_vectors_end_with_the_server(encoder):
    """Those that are computed, and those that wait."""
    threads, answers = beside(encoder, [("/v1/embeddings", LARGE)] * 6)
    time.sleep(0.3)
    assert encoder.end() == 0
    for thread in threads:
        thread.join()
    ended = [json.loads(text)["error"] for status, _, text in answers if status == 503]
    assert len(answers) == 6 and ended
    assert all("the server is ending" in error["message"] for error in ended)
