"""infer embed: vectors of texts against float64, in every form of output, and what is refused."""

import json
import math
import struct

import pytest

from program import ROOT, fails, infer

DATA = ROOT / "tests" / "data" / "embed"


def expected(name):
    return json.loads((DATA / name / "expected.json").read_text(encoding="utf-8"))


MODELS = sorted(path.name for path in DATA.iterdir() if "vectors" in expected(path.name))
MEAN = DATA / "bert-mean"


def path_of(name):
    """A directory of Hugging Face, or the GGUF file in it."""
    file = DATA / name / "model.gguf"
    return file if file.exists() else DATA / name


def lines_of(texts):
    return "".join(json.dumps(text) + "\n" for text in texts).encode()


def embed(model, texts, *arguments):
    done = infer("embed", "-m", model, "--jsonl", "-f", "-", "--json", *arguments,
                 stdin=lines_of(texts))
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def distance(found, exact):
    """1 − cosine; `exact` has length 1."""
    length = math.sqrt(sum(x * x for x in found))
    return sum((x / length - y) ** 2 for x, y in zip(found, exact)) / 2


def test_every_family_is_there():
    assert len(MODELS) >= 10


@pytest.mark.parametrize("name", MODELS)
def test_vectors_equal_those_of_float64(name):
    known = expected(name)
    for arguments, most in (([], 1e-6), (["--exact"], 1e-10)):
        made = embed(path_of(name), known["texts"], *arguments)["embeddings"]
        assert len(made) == len(known["vectors"])
        for found, exact in zip(made, known["vectors"]):
            assert len(found) == len(exact)
            assert distance(found, exact) < most


@pytest.mark.parametrize("name", [name for name in MODELS if path_of(name).suffix != ".gguf"])
def test_a_gguf_file_gives_the_same_bits(name, tmp_path):
    texts = expected(name)["texts"]
    file = tmp_path / "model.gguf"
    done = infer("convert", DATA / name, file, "-q")
    assert done.returncode == 0, done.stderr.decode()
    assert embed(file, texts) == embed(DATA / name, texts)


def test_pooling_can_be_chosen():
    texts = expected("bert-cls")["texts"]
    each = embed(DATA / "bert-cls", texts, "--pooling", "none")["embeddings"]
    assert [vectors[0] for vectors in each] == embed(DATA / "bert-cls", texts)["embeddings"]
    last = embed(DATA / "bert-cls", texts, "--pooling", "last")["embeddings"]
    assert [vectors[-1] for vectors in each] == last


def test_forms_of_output(tmp_path):
    texts = ["the cat", "a movie", "pasta"]
    made = embed(MEAN, texts)
    assert made["tokens"] == 4 + 4 + 3
    file = tmp_path / "texts.txt"
    file.write_text("".join(text + "\n" for text in texts))
    done = infer("embed", "-m", MEAN, "-f", file)
    assert [list(map(float, line.split())) for line in done.stdout.splitlines()] == \
        made["embeddings"]
    out = tmp_path / "out.npy"
    done = infer("embed", "-m", MEAN, "-f", file, "-o", out)
    assert done.returncode == 0 and done.stdout == b""
    data = out.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    head = eval(data[10:10 + length])  # a literal of Python, by the format
    assert head == {"descr": "<f4", "fortran_order": False, "shape": (3, 24)}
    values = struct.unpack("<72f", data[10 + length:])
    for i, vector in enumerate(made["embeddings"]):
        assert list(values[24 * i:24 * i + 24]) == \
            [struct.unpack("<f", struct.pack("<f", x))[0] for x in vector]


def test_dimensions_and_lengths():
    texts = ["the cat", "a movie"]
    raw = embed(MEAN, texts, "--no-normalise", "--dimensions", 7)["embeddings"]
    for short, whole in zip(embed(MEAN, texts, "--dimensions", 7)["embeddings"], raw):
        length = math.sqrt(sum(x * x for x in whole))
        assert abs(length - 1) > 0.01
        assert short == pytest.approx([x / length for x in whole], abs=1e-6)
    fails(2, "embed", "-m", MEAN, "-f", "-", "--dimensions", 0, stdin=b"cat", says="--dimensions")
    fails(2, "embed", "-m", MEAN, "-f", "-", "--dimensions", 25, stdin=b"cat", says="0 to 24")


def test_texts_that_are_too_long():
    long_one = ["cat", "cat " * 300]
    says = fails(4, "embed", "-m", MEAN, "--jsonl", "-f", "-", stdin=lines_of(long_one))
    assert "stdin: line 2: the text has 302 tokens" in says and "at most 256" in says
    made = embed(MEAN, long_one, "--truncate")
    assert made["tokens"] == 3 + 256
    assert made["embeddings"][1] == embed(MEAN, ["cat " * 254])["embeddings"][0]


def test_input_that_is_wrong(tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    fails(3, "embed", "-m", MEAN, "-f", empty, says="is empty")
    fails(3, "embed", "-m", MEAN, "-f", tmp_path / "none", says="cannot open")
    fails(3, "embed", "-m", MEAN, "--jsonl", "-f", "-", stdin=b'"a"\nb\n', says="line 2")
    fails(3, "embed", "-m", MEAN, "--jsonl", "-f", "-", stdin=b'"a"\n\n', says="line 2")
    fails(2, "embed", "-m", MEAN, "-f", "-", "-o", tmp_path / "x.txt", stdin=b"a", says=".npy")
    # An empty line is a text of the tokens that surround one; bytes that are no UTF-8 are unknown.
    done = infer("embed", "-m", MEAN, "-f", "-", stdin=b"\n\xff\xfe a\ncat\r\n")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3
    assert json.loads(infer("embed", "-m", MEAN, "-f", "-", "--json", stdin=b"cat\r\n").stdout) == \
        embed(MEAN, ["cat"])


def test_a_text_without_tokens():
    # This vocabulary adds nothing around a text.
    reranker = DATA / "qwen3-reranker"
    fails(3, "embed", "-m", reranker, "--pooling", "last", "-f", "-", stdin=b"cat\n\n",
          says="stdin: line 2: the text is empty")


def test_a_classifier_of_several_labels_does_not_rank(tmp_path):
    folder = copy_of(DATA / "bert-rank", tmp_path)
    data = (folder / "model.safetensors").read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    header, out = json.loads(data[8:size]), b""
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        part = data[size + begin:size + end] * (2 if name.startswith("classifier.") else 1)
        if name.startswith("classifier."):
            tensor["shape"][0] = 2
        tensor["data_offsets"] = [len(out), len(out) + len(part)]
        out += part
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + out)
    fails(3, "rerank", "-m", folder, "-q", "a", "-f", "-", stdin=b"cat", says="has 2 labels")


def test_control_tokens_of_a_text():
    [with_mark] = embed(MEAN, ["the [SEP] cat"])["embeddings"]
    [letters] = embed(MEAN, ["the [ SEP ] cat"])["embeddings"]
    assert distance(with_mark, letters) > 1e-3


def test_models_that_are_not_of_the_kind(model, tmp_path):
    for command in ("run", "chat"):
        arguments = ("-p", "a", "-st") if command == "chat" else ("a",)
        fails(3, command, "-m", MEAN, *arguments, says="use embed or rerank")
    fails(3, "embed", "-m", DATA / "bert-rank", "-f", "-", stdin=b"cat", says="use rerank")
    fails(2, "run", "-m", model, "-md", path_of("jina-bert-v2"), "a", says="nothing to draft")
    fails(3, "imatrix", "-m", MEAN, "-f", "-", "-o", tmp_path / "im.gguf", stdin=b"cat " * 600,
          says="vectors of texts")
    fails(3, "eval", "-m", MEAN, "--tokens", "1,2", "--logits", tmp_path / "l.f32", says="use embed")
    fails(2, "embed", "-m", MEAN, "-md", model, "-f", "-", stdin=b"cat", says="nothing to draft")


def test_a_model_that_generates_makes_vectors(tmp_path):
    """The same weights as a class with an output: the last token's vector by default."""
    folder = tmp_path / "qwen"
    folder.mkdir()
    source = DATA / "qwen3-embedding"
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    config = json.loads((source / "config.json").read_text())
    config |= {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    known = expected("qwen3-embedding")
    assert embed(folder, known["texts"]) == embed(source, known["texts"])
    done = infer("run", "-m", folder, "a", "-n", 2)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("change, says", [
    ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, "cls and mean"),
    ({"pooling_mode_max_tokens": True}, "max"),
    ({"pooling_mode_mean_tokens": 3}, "pooling_mode_mean_tokens"),
    ({"pooling_mode_mean_tokens": False}, "none"), ({"pooling_mode": ["mean", "cls"]}, "a string"),
])
def test_damaged_pooling(tmp_path, change, says):
    folder = copy_of(MEAN, tmp_path)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(change))
    fails(3, "embed", "-m", folder, "-f", "-", stdin=b"cat", says=says)


@pytest.mark.parametrize("config", [
    {}, {"pooling_mode": ["mean"]}, {"pooling_mode": "mean", "pooling_mode_cls_token": True}])
def test_a_pooling_that_is_a_mean(tmp_path, config):
    folder = copy_of(MEAN, tmp_path)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"type": "sentence_transformers.models.Dropout", "path": "9_Dropout"})
    (folder / "modules.json").write_text(json.dumps(modules))
    assert embed(folder, ["the cat"]) == embed(MEAN, ["the cat"])


def copy_of(model, to):
    for path in sorted(model.rglob("*")):
        at = to / "model" / path.relative_to(model)
        at.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            at.write_bytes(path.read_bytes())
    return to / "model"


def test_damaged_modules(tmp_path):
    folder = copy_of(DATA / "gemma-embedding", tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    dense = next(m for m in modules if m["type"].endswith("Dense"))
    config = folder / dense["path"] / "config.json"
    kept = config.read_text()

    def refused(says):
        fails(3, "embed", "-m", folder, "-f", "-", stdin=b"cat", says=says)
    config.write_text(kept.replace("Identity", "Tanh"))
    refused("activation_function")
    config.write_text(kept.replace("{", '{"use_residual": true,', 1))
    refused("use_residual")
    config.write_text(kept.replace("{", '{"module_input_name": "token_embeddings",', 1))
    refused("module_input_name")
    config.write_text(kept)
    (folder / dense["path"] / "model.safetensors").write_bytes(b"")
    refused("model.safetensors")
    for text, says in (("{}", "expected an array"), ("[", "not valid JSON"),
                       ('[{"type": "x.Pooling", "path": "../other"}]', "the name of a folder"),
                       ('[{"type": "x.Pooling", "path": ""}]', "the name of a folder"),
                       ('[{"type": "x.WordWeights", "path": "1"}]', "WordWeights"),
                       ('[{"type": "x.Transformer"}, {"type": "x.Normalize"}, {"type": "x.Pooling", "path": "1"}]',
                        "'x.Normalize' in this place"),
                       ('[{"type": "x.Dense", "path": "1"}]', "'x.Dense' in this place"),
                       ('[{"type": "x.Transformer"}, {"type": "x.Transformer"}]', "'[1].type'"),
                       ('[{"type": 3}]', "a string")):
        (folder / "modules.json").write_text(text)
        refused(says)


def test_a_gguf_file_with_a_wrong_pooling(tmp_path):
    data = (DATA / "jina-bert-v2" / "model.gguf").read_bytes()
    key = b"jina-bert-v2.pooling_type"
    at = data.index(key) + len(key) + 4  # behind the value's type
    file = tmp_path / "model.gguf"
    for value, says in ((9, "pooling_type"), (4, "no classifier")):
        file.write_bytes(data[:at] + struct.pack("<I", value) + data[at + 4:])
        fails(3, "embed", "-m", file, "-f", "-", stdin=b"cat", says=says)


def test_a_gguf_file_that_asks_for_vectors_of_tokens(tmp_path):
    data = (DATA / "jina-bert-v2" / "model.gguf").read_bytes()
    key = b"jina-bert-v2.pooling_type"
    at = data.index(key) + len(key) + 4
    file = tmp_path / "model.gguf"
    file.write_bytes(data[:at] + struct.pack("<I", 0) + data[at + 4:])
    texts = ["the cat", "a"]
    of_tokens = embed(file, texts)["embeddings"]
    assert len(of_tokens) == 2 and all(isinstance(vector, list) for text in of_tokens for vector in text)
    assert of_tokens == embed(file, texts, "--pooling", "none")["embeddings"]


@pytest.mark.parametrize("name", ["bert-mean", "bert-rank", "gemma-embedding"])
def test_planned_memory_is_used(name):
    done = infer("plan", "-m", path_of(name), "--check", "--json")
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    used = report["used"]
    for part in ("weights", "kv", "activations", "scratch"):
        assert report[part] == used[part], part
    assert used["kv"] == 0


def test_a_text_for_a_vocabulary_that_is_missing(tmp_path):
    folder = copy_of(MEAN, tmp_path)
    (folder / "tokenizer.json").unlink()
    fails(3, "embed", "-m", folder, "-f", "-", stdin=b"cat", says="no vocabulary")


def test_json_says_what_was_written(tmp_path):
    out = tmp_path / "v.npy"
    done = infer("embed", "-m", ROOT / "tests" / "data" / "embed" / "bert-mean", "-o", out, "--json", stdin=b"t3 t4\nt5\n")
    report = json.loads(done.stdout)
    assert report["output"] == str(out) and report["vectors"] == 2
    assert report["dimensions"] > 0 and report["tokens"] > 2 and out.stat().st_size > 128
