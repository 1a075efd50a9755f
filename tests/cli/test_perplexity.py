"""infer perplexity against the logits that infer eval writes."""

import json
import math
import struct

import numpy
import pytest

from program import ROOT, fails, infer

GOLDEN = ROOT / "tests" / "data" / "golden"
MODEL = GOLDEN / "llama-q4_0.gguf"
CHUNK = 32


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("The quick brown fox jumps over the lazy dog, and then it sleeps. " * 12)
    return path


def measure(text, *arguments):
    done = infer("perplexity", "-m", MODEL, "-f", text, "--chunk", CHUNK, "--json", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def log_probabilities(tokens, tmp_path):
    out = tmp_path / "logits.f32"
    done = infer("eval", "-m", MODEL, "--tokens", ",".join(map(str, tokens)), "--logits", out,
                 "-ctk", "f16", "-ctv", "f16")
    assert done.returncode == 0, done.stderr.decode()
    logits = numpy.fromfile(out, dtype=numpy.float32).reshape(len(tokens), -1).astype(float)
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))


def test_it_is_that_of_the_logits(text, tmp_path):
    done = infer("tokenize", "-m", MODEL, "-f", text, "--json", "--no-special")
    tokens = json.loads(done.stdout)
    surprises = []
    for begin in range(0, len(tokens) // CHUNK * CHUNK, CHUNK):
        chunk = tokens[begin:begin + CHUNK]
        rows = log_probabilities([tokens[0]] + chunk[1:] if begin else chunk, tmp_path)
        surprises += [-rows[i, chunk[i + 1]] for i in range(CHUNK // 2, CHUNK - 1)]
    found = measure(text)
    assert found["tokens"] == len(surprises)
    first_is_bos = infer("tokenize", "-m", MODEL, "--json", stdin=b"x").stdout
    if tokens[0] == json.loads(first_is_bos)[0]:
        assert found["perplexity"] == pytest.approx(math.exp(numpy.mean(surprises)), rel=1e-5)
    assert measure(text, "--chunks", 1)["tokens"] == CHUNK // 2 - 1


def test_divergence_from_a_saved_run(text, tmp_path):
    base = tmp_path / "base"
    plain = measure(text, "--save-base", base)
    same = measure(text, "--kl-base", base)
    assert same["perplexity"] == plain["perplexity"]
    assert same["divergence"]["base_perplexity"] == plain["perplexity"]
    assert same["divergence"]["base_exact"] is True
    assert same["divergence"]["mean"] < 2e-5  # 16 bits a token
    assert same["divergence"]["same_top"] == 1
    other = measure(text, "--kl-base", base, "-ctk", "q4_0", "-ctv", "q4_0")
    assert other["divergence"]["mean"] > same["divergence"]["mean"]
    assert other["divergence"]["largest"] >= other["divergence"]["percentile_99"]

    broken = tmp_path / "broken"
    newer = bytearray(base.read_bytes())
    newer[8] = 3
    broken.write_bytes(newer)
    fails(3, "perplexity", "-m", MODEL, "-f", text, "--chunk", CHUNK, "--kl-base", broken,
          says="saved by")
    broken.write_bytes(base.read_bytes()[:-5])
    fails(3, "perplexity", "-m", MODEL, "-f", text, "--chunk", CHUNK, "--kl-base", broken,
          says="ends before")
    broken.write_bytes(b"not a run")
    fails(3, "perplexity", "-m", MODEL, "-f", text, "--chunk", CHUNK, "--kl-base", broken,
          says="saved by")
    other_text = tmp_path / "other.txt"
    other_text.write_text("Another text altogether, long enough. " * 40)
    fails(2, "perplexity", "-m", MODEL, "-f", other_text, "--chunk", CHUNK, "--chunks", 2,
          "--kl-base", base, says="another text")


def test_a_base_of_the_first_version_is_read(text, tmp_path):
    """Its rows lack the float64 of the token that follows."""
    base, old = tmp_path / "base", tmp_path / "old"
    plain = measure(text, "--save-base", base)
    data = base.read_bytes()
    vocabulary, chunks = struct.unpack("<II", data[16:24])
    begin, row = 24 + chunks * CHUNK * 4, 8 + 8 + 2 * vocabulary
    rows = [data[at + 8:at + row] for at in range(begin, len(data), row)]
    assert len(rows) == plain["tokens"] and len(data) == begin + len(rows) * row
    old.write_bytes(data[:8] + struct.pack("<I", 1) + data[12:begin] + b"".join(rows))
    new, found = (measure(text, "--kl-base", path) for path in (base, old))
    rounded = found["divergence"].pop("base_perplexity")
    assert rounded == pytest.approx(new["divergence"].pop("base_perplexity"), rel=1e-3)
    assert found["divergence"] == new["divergence"] | {"base_exact": False}
    done = infer("perplexity", "-m", MODEL, "-f", text, "--chunk", CHUNK, "--kl-base", old)
    assert b"divergence from the base (perplexity about " in done.stdout


def test_what_cannot_be_measured(text, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("Short")
    fails(2, "perplexity", "-m", MODEL, "-f", short, says="do not fill a chunk")
    fails(2, "perplexity", "-m", MODEL, says="no text")
    fails(3, "perplexity", "-m", MODEL, "-f", tmp_path / "none")
