"""Vectors and scores over HTTP, against what the reference in float64 says."""

import base64
import json
import math
import pathlib
import socket
import struct
import time

import pytest

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "embed"


def expected(name):
    return json.loads((DATA / name / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def encoder(begin_module):
    return begin_module("-m", DATA / "bert-mean", "-t", "2")


@pytest.fixture(scope="module")
def reranker(begin_module):
    return begin_module("-m", DATA / "bert-rank", "-t", "2")


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)


def vectors_of(service, **body):
    answer = service.post("/v1/embeddings", body)
    assert [each["index"] for each in answer["data"]] == list(range(len(answer["data"])))
    return [each["embedding"] for each in answer["data"]]


def test_vectors(encoder):
    known = expected("bert-mean")
    answer = encoder.post("/v1/embeddings", {"input": known["texts"], "model": "x"})
    assert answer["object"] == "list" and answer["model"] == "x"
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0
    for found, exact in zip(answer["data"], known["vectors"]):
        assert cosine(found["embedding"], exact) > 1 - 1e-6
        assert math.hypot(*found["embedding"]) == pytest.approx(1, abs=1e-5)
    [alone] = vectors_of(encoder, input=known["texts"][0])
    assert alone == answer["data"][0]["embedding"]


def test_base64_has_the_same_bits(encoder):
    text = expected("bert-mean")["texts"][0]
    [plain] = vectors_of(encoder, input=text)
    [packed] = vectors_of(encoder, input=[text], encoding_format="base64")
    data = base64.b64decode(packed, validate=True)
    assert data == struct.pack(f"<{len(plain)}f", *plain)


def test_fewer_dimensions(encoder):
    text = expected("bert-mean")["texts"][0]
    [whole] = vectors_of(encoder, input=text)
    [short] = vectors_of(encoder, input=text, dimensions=4)
    assert len(short) == 4 and cosine(short, whole[:4]) > 1 - 1e-6
    assert math.hypot(*short) == pytest.approx(1, abs=1e-5)


def test_tokens_are_computed_as_they_are(encoder):
    text = "the cat"
    tokens = encoder.post("/tokenize", {"content": text, "add_special": True})["tokens"]
    bare = encoder.post("/tokenize", {"content": text, "add_special": False})["tokens"]
    answer = encoder.post("/v1/embeddings", {"input": tokens})
    assert answer["usage"]["prompt_tokens"] == len(tokens) == len(bare) + 2
    [whole] = vectors_of(encoder, input=text)
    assert answer["data"][0]["embedding"] == whole
    assert vectors_of(encoder, input=[tokens, "a", bare]) == [
        whole, *vectors_of(encoder, input="a"), *vectors_of(encoder, input=bare)]
    assert vectors_of(encoder, input=bare) != [whole]


def test_vectors_as_the_model_makes_them(encoder):
    [plain] = vectors_of(encoder, input="the cat", normalize=False)
    [unit] = vectors_of(encoder, input="the cat", embd_normalize=2)
    assert math.hypot(*unit) == pytest.approx(1, abs=1e-5)
    assert abs(math.hypot(*plain) - 1) > 1e-3 and cosine(plain, unit) > 1 - 1e-6


def test_control_tokens_of_a_text(encoder):
    ids = encoder.post("/tokenize", {"content": "the [SEP] cat", "add_special": True,
                                     "parse_special": True})["tokens"]
    [found] = vectors_of(encoder, input="the [SEP] cat")
    assert [found] == vectors_of(encoder, input=ids)


def test_a_dense_layer_makes_other_sizes(begin_module):
    service = begin_module("-m", DATA / "gemma-embedding", "-t", "2")
    [whole] = vectors_of(service, input="the cat")
    assert len(whole) == 12
    assert len(vectors_of(service, input="the cat", dimensions=12)[0]) == 12
    status, error = service.error("/v1/embeddings", {"input": "a", "dimensions": 13})
    assert (status, error["param"]) == (400, "dimensions") and "1 to 12" in error["message"]


@pytest.mark.parametrize("change, field", [
    ({"input": None}, "input"), ({"input": []}, "input"), ({"input": {"a": 1}}, "input"),
    ({"input": [[]]}, "input"), ({"input": [10**9]}, "input"), ({"input": [-1]}, "input"),
    ({"input": [1.5]}, "input"), ({"input": ["a", 1]}, "input"), ({"input": ["a"] * 2049}, "input"),
    ({"dimensions": 0}, "dimensions"), ({"dimensions": 10**6}, "dimensions"),
    ({"encoding_format": "hex"}, "encoding_format"), ({"model": 1}, "model"),
    ({"truncate_prompt_tokens": 4}, "truncate_prompt_tokens"), ({"embd_normalize": -1}, "embd_normalize"),
    ({"normalize": "no"}, "normalize"),
])
def test_a_wrong_field_is_named(encoder, change, field):
    status, error = encoder.error("/v1/embeddings", {"input": "a"} | change)
    assert (status, error["param"]) == (400, field)


def test_a_long_text_is_named_or_cut(encoder):
    body = {"input": ["the cat", "the cat " * 10000]}
    status, error = encoder.error("/v1/embeddings", body)
    assert status == 400 and "text 1 has" in error["message"]
    assert (error["param"], error["code"]) == ("input", "context_length_exceeded")
    assert len(vectors_of(encoder, **body, truncate=True)) == 2


def test_ollamas_paths(encoder):
    texts = expected("bert-mean")["texts"][:2]
    plain = vectors_of(encoder, input=texts)
    made = encoder.post("/api/embed", {"model": "x", "input": texts, "keep_alive": 5})
    assert made["embeddings"] == plain and made["prompt_eval_count"] > 0
    assert encoder.post("/api/embed", {"input": texts[0]})["embeddings"] == plain[:1]
    for nothing in ({}, {"input": ""}, {"input": []}):
        assert encoder.post("/api/embed", nothing)["embeddings"] == []
    older = encoder.post("/api/embeddings", {"model": "x", "prompt": texts[0]})["embedding"]
    assert cosine(older, plain[0]) > 1 - 1e-6
    assert encoder.ask("POST", "/api/embeddings", {"model": "x"})[0] == 400


def test_scores(reranker):
    known = expected("bert-rank")
    body = {"query": known["query"], "documents": known["texts"], "model": "x"}
    answer = reranker.post("/v1/rerank", body)
    scores = {result["index"]: result["relevance_score"] for result in answer["results"]}
    assert [scores[i] for i in range(len(scores))] == pytest.approx(known["scores"], abs=5e-6)
    order = [result["relevance_score"] for result in answer["results"]]
    assert order == sorted(order, reverse=True) and answer["usage"]["total_tokens"] > 0
    best = reranker.post("/v1/rerank", body | {"top_n": 1, "return_documents": True})["results"]
    assert [best[0]["index"]] == [answer["results"][0]["index"]] and len(best) == 1
    assert best[0]["document"]["text"] == known["texts"][best[0]["index"]]
    parts = [{"text": text} for text in known["texts"]]
    assert reranker.post("/rerank", body | {"documents": parts})["results"] == answer["results"]


@pytest.mark.parametrize("change, field", [
    ({"query": None}, "query"), ({"documents": None}, "documents"), ({"documents": []}, "documents"),
    ({"documents": [1]}, "documents[0]"), ({"documents": ["a", {}]}, "documents[1].text"),
    ({"top_n": 0}, "top_n"),
])
def test_what_is_wrong_with_a_ranking(reranker, change, field):
    status, error = reranker.error("/v1/rerank", {"query": "a", "documents": ["b"]} | change)
    assert (status, error["param"]) == (400, field)


def test_models_of_another_kind(service, encoder, reranker):
    status, error = service.error("/v1/embeddings", {"input": "a"})
    assert (status, error["param"]) == (400, "model") and "--embeddings" in error["message"]
    for each in (service, encoder):
        status, error = each.error("/v1/rerank", {"query": "a", "documents": ["b"]})
        assert status == 400 and "does not score" in error["message"]
        [model] = each.get("/v1/models")["data"]
        assert error["message"].startswith(model["id"] + ": ")
    status, error = reranker.error("/v1/embeddings", {"input": "a"})
    assert status == 400 and "use rerank" in error["message"]
    assert error["message"].startswith("bert-rank: ")
    hello = {"messages": [{"role": "user", "content": "Hello"}]}
    for each in (encoder, reranker):
        status, error = each.error("/v1/chat/completions", hello)
        assert (status, error["param"]) == (400, "model")
        assert "makes vectors or scores of texts" in error["message"]
        status, error = each.error("/apply-template", hello)
        assert status == 400 and "no chat template; it makes vectors" in error["message"]
    status, error = encoder.error("/v1/completions", {"prompt": "a"})
    assert (status, error["param"]) == (400, "model") and "vectors" in error["message"]


def test_a_file_that_asks_for_vectors_of_tokens(start, tmp_path):
    data = (DATA / "jina-bert-v2" / "model.gguf").read_bytes()
    key = b"jina-bert-v2.pooling_type"
    at = data.index(key) + len(key) + 4
    file = tmp_path / "model.gguf"
    file.write_bytes(data[:at] + struct.pack("<I", 0) + data[at + 4:])
    service = start("-m", file)
    for path in ("/v1/embeddings", "/api/embed"):
        status, error = service.error(path, {"input": ["the cat", "a"]})
        assert status == 400 and "--pooling" in str(error)
    assert len(vectors_of(start("-m", file, "--pooling", "mean"), input=["the cat", "a"])) == 2


def test_vectors_of_a_model_that_generates(start):
    service = start("--embeddings", "--pooling", "mean", "-t", "2")
    cat, kitten = vectors_of(service, input=["The cat sat down.", "The cat sat down!"])
    assert 0.5 < cosine(cat, kitten) < 1
    # A reader who goes away ends the work: two long requests would otherwise take all of its time.
    body = json.dumps({"input": ["Once upon a time there was a cat. " * 100] * 500}).encode()
    gone = []
    for _ in range(2):
        gone.append(socket.create_connection(("127.0.0.1", service.port)))
        gone[-1].sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                         str(len(body)).encode() + b"\r\n\r\n" + body)
    time.sleep(0.3)
    assert service.get("/health") == {"status": "ok"}  # the rest of the server goes on
    for each in gone:
        each.close()
    begun = time.monotonic()
    assert len(vectors_of(service, input="Hello")) == 1
    assert time.monotonic() - begun < 5


def test_the_clients(encoder):
    openai = pytest.importorskip("openai")
    texts = expected("bert-mean")["texts"][:2]
    with openai.OpenAI(base_url=f"http://127.0.0.1:{encoder.port}/v1", api_key="none") as client:
        made = client.embeddings.create(model="x", input=texts)
    for each, plain in zip(made.data, vectors_of(encoder, input=texts)):  # it asks for base64
        assert each.embedding == pytest.approx(plain, rel=1e-6)


def test_ollamas_client(encoder):
    ollama = pytest.importorskip("ollama")
    texts = expected("bert-mean")["texts"][:2]
    made = ollama.Client(host=f"http://127.0.0.1:{encoder.port}").embed(model="x", input=texts)
    assert [list(each) for each in made.embeddings] == vectors_of(encoder, input=texts)
