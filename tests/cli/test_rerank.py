"""infer rerank: scores against float64, their order, and what is refused."""

import json

import pytest

from program import ROOT, fails, infer

DATA = ROOT / "tests" / "data" / "embed"


def expected(name):
    return json.loads((DATA / name / "expected.json").read_text(encoding="utf-8"))


MODELS = sorted(path.name for path in DATA.iterdir() if "scores" in expected(path.name))


def path_of(name):
    """A directory of Hugging Face, or the GGUF file in it."""
    file = DATA / name / "model.gguf"
    return file if file.exists() else DATA / name


def rerank(model, query, texts, *arguments):
    lines = "".join(json.dumps(text) + "\n" for text in texts).encode()
    done = infer("rerank", "-m", model, "-q", query, "--jsonl", "-f", "-", "--json", *arguments,
                 stdin=lines)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)["results"]


def test_every_family_is_there():
    assert len(MODELS) >= 4


@pytest.mark.parametrize("name", MODELS)
def test_scores_equal_those_of_float64(name):
    known = expected(name)
    for arguments in ([], ["--exact"]):
        results = rerank(path_of(name), known["query"], known["texts"], *arguments)
        found = {result["index"]: result["score"] for result in results}
        assert [found[i] for i in range(len(found))] == pytest.approx(known["scores"], abs=5e-6)
        assert [result["score"] for result in results] == sorted(found.values(), reverse=True)
        for result in results:
            assert result["text"] == known["texts"][result["index"]]


@pytest.mark.parametrize("name", [name for name in MODELS if path_of(name).suffix != ".gguf"])
def test_a_gguf_file_gives_the_same_bits(name, tmp_path):
    known = expected(name)
    file = tmp_path / "model.gguf"
    done = infer("convert", DATA / name, file, "-q")
    if b"has no name in GGUF" in done.stderr:
        pytest.skip("a pre-tokenizer that GGUF has no name for")
    assert done.returncode == 0, done.stderr.decode()
    arguments = known["query"], known["texts"]
    assert rerank(file, *arguments) == rerank(DATA / name, *arguments)


def test_lines_and_the_best_ones(tmp_path):
    known = expected("bert-rank")
    texts = [text for text in known["texts"] if text and len(text) < 100]
    file = tmp_path / "texts.txt"
    file.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    done = infer("rerank", "-m", DATA / "bert-rank", "-q", known["query"], "-f", file, "--top", 2)
    assert done.returncode == 0, done.stderr.decode()
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    best = rerank(DATA / "bert-rank", known["query"], texts)[:2]
    assert [(int(index), text) for _, index, text in rows] == \
        [(result["index"], result["text"]) for result in best]


def test_texts_that_are_too_long():
    model = DATA / "bert-rank"
    says = fails(4, "rerank", "-m", model, "-q", "cat", "-f", "-", stdin=b"cat\n" + b"cat " * 300)
    assert "stdin: line 2: the text has 304 tokens" in says and "at most 256" in says
    assert len(rerank(model, "cat", ["cat", "cat " * 300], "--truncate")) == 2
    # Nothing is left for the text.
    fails(4, "rerank", "-m", model, "-q", "cat " * 300, "-f", "-", "--truncate", stdin=b"cat")


def test_what_is_refused(model):
    fails(2, "rerank", "-m", DATA / "bert-rank", "-f", "-", stdin=b"cat", says="--query")
    fails(3, "rerank", "-m", DATA / "bert-mean", "-q", "cat", "-f", "-", stdin=b"cat",
          says="no classifier")
    fails(3, "rerank", "-m", model, "-q", "cat", "-f", "-", stdin=b"cat", says="no classifier")
    fails(3, "rerank", "-m", DATA / "bert-rank", "-q", "cat", "-f", "-", stdin=b"", says="is empty")
