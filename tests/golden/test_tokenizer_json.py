"""Directories with a tokenizer.json: the ids of the library `tokenizers`, which wrote it, against ours,
from the directory and from what `infer convert` makes of it.

The vocabularies are real ones, with the steps that the models they belong to publish.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys

import pytest

tokenizers = pytest.importorskip("tokenizers")
np = pytest.importorskip("numpy")
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,  # noqa: E402
                        pre_tokenizers, processors, trainers)

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from tests.golden.reference import gguf  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)
VOCABULARIES = pathlib.Path(__file__).parents[1] / "data" / "vocab"

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
EXTRA = ("Hello  World\u00a0 12345678 caf\u00e9 cafe\u0301 \u1100\u1161\u11a8 \U0001f600\U0001f468"
         "\u200d\U0001f469 \u4f60\u597d\u3002 it's IT'S 'Tis \t\n\n  x\r\n\r\n   y  ... !!!??? a_b-c "
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0627\u0644 \u00bd\u2167 <s>tag</s> \ufffd \ufeff end ")


def infer(*arguments, stdin=""):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, arguments)], input=stdin.encode(),
                          capture_output=True, timeout=120)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, shape in tensors.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(size)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def directory(folder, tokenizer, vocabulary, config=None):
    """A Llama of one small layer with this vocabulary."""
    n, f = 16, 16
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": [vocabulary, n], "model.norm.weight": [n],
               layer + "input_layernorm.weight": [n], layer + "post_attention_layernorm.weight": [n]}
    tensors |= {f"{layer}self_attn.{p}_proj.weight": [n, n] for p in "qkvo"}
    tensors |= {f"{layer}mlp.{p}_proj.weight": [f, n] for p in ("gate", "up")}
    tensors[layer + "mlp.down_proj.weight"] = [n, f]
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary,
        "hidden_size": n, "intermediate_size": f, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": True}))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def vocabulary_of(name):
    metadata, _ = gguf.read(VOCABULARIES / f"{name}.gguf")
    return {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}


def samples(name):
    texts = (VOCABULARIES / f"{name}.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    ids = (VOCABULARIES / f"{name}.gguf.out").read_text().splitlines()
    return [(text, [int(i) for i in line.split()]) for text, line in zip(texts, ids)]


def kinds(v):
    return list(zip(v["tokens"], v["token_type"]))


def add_tokens(tokenizer, v, **flags):
    """Those that are no ordinary text, in the order of their ids."""
    for token, kind in kinds(v):
        if kind in (CONTROL, UNKNOWN):
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False, **flags)])
        elif kind == USER_DEFINED and not token.startswith("[PAD"):
            tokenizer.add_tokens([AddedToken(token, normalized=False, **flags)])


def byte_level(name, steps, whole=False, normaliser=None):
    v = vocabulary_of(name)
    count = len(v["tokens"])
    while v["token_type"][count - 1] != NORMAL:
        count -= 1
    vocab = {token: i for i, token in enumerate(v["tokens"][:count])}
    merges = [tuple(merge.split(" ")) for merge in v["merges"]]
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=whole))
    t.pre_tokenizer = steps if not isinstance(steps, list) else pre_tokenizers.Sequence(steps)
    t.decoder = decoders.ByteLevel()
    if normaliser:
        t.normalizer = normaliser
    add_tokens(t, v)
    return t, v


def split(pattern, behaviour="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behaviour, invert)


def bytes_only(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def sentencepiece_merges(v):
    """Every pair of tokens that makes another, the best result first: what transformers' conversion
    of a SentencePiece model writes."""
    ids = {token: i for i, (token, kind) in enumerate(kinds(v)) if kind == NORMAL}
    merges = []
    for token, i in ids.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                merges.append((-v["scores"][i], ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(merges)]


def sentencepiece(name, legacy=True, scheme="always", cut=False, fallback=True, **flags):
    v = vocabulary_of(name)
    vocab = {t: i for i, (t, kind) in enumerate(kinds(v)) if not t.startswith("[PAD")}
    unknown = "<unk>"
    t = Tokenizer(models.BPE(vocab=vocab, merges=sentencepiece_merges(v), unk_token=unknown,
                             fuse_unk=True, byte_fallback=fallback))
    if legacy:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                             normalizers.Replace(" ", "\u2581")])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=cut)
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    add_tokens(t, v, **flags)
    return t, v


def wordpiece(name):
    v = vocabulary_of(name)

    def published(token):
        if token.startswith("[") and token.endswith("]"):
            return token
        return token[1:] if token.startswith("\u2581") else "##" + token
    t = Tokenizer(models.WordPiece({published(token): i for i, token in enumerate(v["tokens"])},
                                   unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True,
                                              strip_accents=None, lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)])
    add_tokens(t, v)
    return t, v


DEEPSEEK = [split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"),
            split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
            pre_tokenizers.Digits(individual_digits=True), bytes_only()]
REAL = {
    "gpt-2": lambda: byte_level("gpt-2", bytes_only(True)),
    "starcoder": lambda: byte_level("starcoder", [pre_tokenizers.Digits(individual_digits=True),
                                                  bytes_only(True)]),
    "deepseek-coder": lambda: byte_level("deepseek-coder", DEEPSEEK),
    "llama-bpe": lambda: byte_level("llama-bpe", [split(LLAMA3), bytes_only()], whole=True),
    "llama-spm": lambda: sentencepiece("llama-spm"),
    "phi-3": lambda: sentencepiece("phi-3", rstrip=True),
    "bert-bge": lambda: wordpiece("bert-bge"),
}


def tokenize(model, text, *flags):
    done = infer("tokenize", "-m", model, "--json", *flags, stdin=text)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def detokenize(model, ids):
    done = infer("detokenize", "-m", model, stdin=json.dumps(ids))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def agree(model, tokenizer, *texts):
    for text in texts:
        assert tokenize(model, text, "--no-bos") == ids_of(tokenizer, text), repr(text)


def converted(folder, tmp_path):
    path = tmp_path / "out.gguf"
    done = infer("convert", folder, path)
    assert done.returncode == 0, done.stderr.decode()
    return path


@pytest.mark.parametrize("name", REAL)
def test_real_vocabularies(name, tmp_path):
    tokenizer, v = REAL[name]()
    cases = samples(name)
    assert len(cases) > 40
    for text, ids in cases:
        assert ids_of(tokenizer, text) == ids  # the file says what the model's own tokenizer does
    folder = directory(tmp_path / "m", tokenizer, len(v["tokens"]))
    path = converted(folder, tmp_path)
    everything = (VOCABULARIES / f"{name}.gguf.inp").read_bytes().decode()
    for model in (folder, path):
        agree(model, tokenizer, everything, EXTRA)
        for text, ids in cases[::9]:
            assert tokenize(model, text, "--no-bos", "--no-special") == ids
    if name != "bert-bge":
        ids = tokenize(folder, everything, "--no-bos", "--no-special")
        assert detokenize(folder, ids) == everything
    found, _ = gguf.read(path)
    assert found["tokenizer.ggml.model"] == v["model"]
    if name not in ("bert-bge", "llama-spm", "phi-3"):
        assert found["tokenizer.ggml.pre"] == v["pre"]
        assert found["tokenizer.ggml.merges"] == v["merges"]
    padded = [a for a, b in zip(found["tokenizer.ggml.tokens"], v["tokens"]) if a != b]
    assert padded == []


STEPS = {
    "matches only, inverted": [split(LLAMA3, "removed", True), bytes_only()],
    "an unknown expression": [split(r"\p{Lu}\p{Ll}*|\p{L}+|\d{2}| ?[^\s\p{L}\d]+|\s+"), bytes_only()],
    "possessive": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| "
                         r"?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"), bytes_only()],
    "gaps that are dropped": [split(r"\w+|[^\w\s]+", "removed", True), bytes_only()],
    "to the word before": [split(r"\s", "merged_with_previous"), bytes_only()],
    "to the word behind": [split(r"\s", "merged_with_next"), bytes_only()],
    "side by side": [split(r"[\p{L}]", "contiguous"), bytes_only()],
    "a literal": [pre_tokenizers.Split("..", "isolated"), bytes_only(True)],
    "punctuation": [pre_tokenizers.Punctuation("isolated"), bytes_only(True)],
    "runs of digits": [pre_tokenizers.Digits(individual_digits=False), bytes_only(True)],
    "hexadecimal and Han": [split(r"\h{2}|[\p{Han}\u3042]+|\S+"), bytes_only()],
    "nothing": [bytes_only()],
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("whole", [False, True])
def test_other_steps(steps, whole, tmp_path):
    tokenizer, v = byte_level("gpt-2", STEPS[steps], whole)
    folder = directory(tmp_path / "m", tokenizer, len(v["tokens"]))
    agree(folder, tokenizer, (VOCABULARIES / "gpt-2.gguf.inp").read_bytes().decode(), EXTRA, "", " ",
          "aaaa..bb...", "x y  z")
    done = infer("convert", folder, tmp_path / "out.gguf")
    if steps == "matches only, inverted":
        assert done.returncode == 0, done.stderr.decode()
        agree(tmp_path / "out.gguf", tokenizer, EXTRA)
    else:
        assert done.returncode == 3 and b"no name in GGUF" in done.stderr, done.stderr.decode()
        assert not (tmp_path / "out.gguf").exists()


def test_text_is_composed(tmp_path):
    tokenizer, v = byte_level("gpt-2", bytes_only(True), normaliser=normalizers.NFC())
    folder = directory(tmp_path / "m", tokenizer, len(v["tokens"]))
    assert ids_of(tokenizer, "e\u0301") == ids_of(tokenizer, "\u00e9")
    agree(folder, tokenizer, EXTRA, "e\u0301", "\u1100\u1161\u11a8")


@pytest.mark.parametrize("options", [{"legacy": False}, {"legacy": False, "scheme": "first"},
                                     {"legacy": False, "scheme": "never"},
                                     {"legacy": False, "cut": True},
                                     {"legacy": False, "cut": True, "scheme": "first"},
                                     {"fallback": False}])
def test_spaces_as_marks(options, tmp_path):
    tokenizer, v = sentencepiece("llama-spm", **options)
    folder = directory(tmp_path / "m", tokenizer, len(v["tokens"]))
    agree(folder, tokenizer, (VOCABULARIES / "llama-spm.gguf.inp").read_bytes().decode(), EXTRA,
          *(" " * n + "x" + " " * (2 * n) for n in (3, 7, 15, 16, 17, 24)), "a</s>b</s> c", "</s> x", " lead", "  two", "\u2581mark", " ", "trail ")


def test_merges_that_are_not_sentencepiece(tmp_path):
    """A BPE that was trained on characters: a token is made by one pair alone."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    text = (VOCABULARIES.parent / "README.md").read_text()
    t.train_from_iterator([text], trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "<s>"],
                                                      show_progress=False))
    folder = directory(tmp_path / "m", t, t.get_vocab_size())
    agree(folder, t, text, "quantised weights tokens", "\u4e00 unknown \u4e01\u4e02", " x  y")
    done = infer("convert", folder, tmp_path / "out.gguf")
    assert done.returncode == 3 and b"no name in GGUF" in done.stderr


def charsmap():
    """x becomes "ab", and xy "b": a trie of units by hand, and what it leads to."""
    units = [0] * 1024
    units[0] = 256 << 10
    x = 256 ^ ord("x")
    units[x] = 512 << 10 | 1 << 8 | ord("x")
    units[x ^ 512] = 1 << 31
    y = x ^ 512 ^ ord("y")
    units[y] = 64 << 10 | 1 << 8 | ord("y")
    units[y ^ 64] = 1 << 31 | 3
    return struct.pack("<1025I", 4 * len(units), *units) + b"ab\0b\0"


def test_charsmap_by_what_readers_take_for_one_character(tmp_path):
    t = Tokenizer(models.Unigram([("<unk>", 0.0)] + [(c, -2.0) for c in "\u2581aby\u0301\u20d0"], 0, False))
    t.normalizer = normalizers.Precompiled(charsmap())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    folder = directory(tmp_path / "m", t, t.get_vocab_size())
    assert len(ids_of(t, "x\u0301b")) == 4
    for model in (folder, converted(folder, tmp_path)):
        agree(model, t, "xbxy", "x\u0301b", "x\u0301\u0301b", "x\u20d0\u0301b", "x\u20d0b", "b\u0301x", "xyx x")


@pytest.mark.parametrize("runs", [False, True])
def test_unigram(runs, tmp_path):
    t = Tokenizer(models.Unigram())
    if runs:
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                   pre_tokenizers.Metaspace()])
    else:
        t.normalizer = normalizers.Sequence([normalizers.Strip(),
                                             normalizers.Replace(Regex(" {2,}"), " ")])
        t.pre_tokenizer = pre_tokenizers.Metaspace()
    text = (VOCABULARIES.parent / "README.md").read_text()
    t.train_from_iterator([text], trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
        show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    folder = directory(tmp_path / "m", t, t.get_vocab_size() + 5, {"eos_token": "</s>"})
    path = converted(folder, tmp_path)
    line = text.replace("\n", " ")
    for model in (folder, path):
        agree(model, t, line, "quantised  weights", "\u4e00 unknown \u4e01\u4e02", " x  y ", "logits")
        assert tokenize(model, "logits") == t.encode("logits").ids
    found, _ = gguf.read(path)
    assert found["tokenizer.ggml.tokens"][-1] == f"[PAD{t.get_vocab_size() + 4}]"


def added_by_all_flags(tokenizer):
    for content, flags in {"<tool>": {}, "<|raw|>": {"normalized": False}, "caf\u00e9": {}, " x": {},
                           "tag": {"single_word": True}, "[L]": {"lstrip": True, "normalized": False},
                           "[R]": {"rstrip": True}, "\n\n": {"normalized": False},
                           "\u2581\u2581\u2581": {"normalized": False}}.items():
        tokenizer.add_tokens([AddedToken(content, **flags)])
    for content, normalized in {"<end>": False, "<tag>": True}.items():
        tokenizer.add_special_tokens([AddedToken(content, special=True, normalized=normalized)])


ADDED_TEXTS = ["a<tool>b <tool>b", "<tool> x  x<|raw|> x", "cafe\u0301 caf\u00e9 decaf\u00e9s", "tag tags tag-tag_tag",
               "a [L] [R] \n\n b[L]\n\n[R]\n\n", "a   b\u2581\u2581\u2581c \u2581", "x<end> y <end>", "<tag> a <tag>b<tag>"]


@pytest.mark.parametrize("name", [*REAL, "metaspace", "metaspace first", "nfc"])
def test_added_tokens(name, tmp_path):
    if name == "nfc":
        tokenizer, _ = byte_level("gpt-2", bytes_only(True), normaliser=normalizers.NFC())
    elif name.startswith("metaspace"):
        tokenizer, _ = sentencepiece("llama-spm", legacy=False,
                                     scheme="first" if name.endswith("first") else "always")
    else:
        tokenizer, _ = REAL[name]()
    added_by_all_flags(tokenizer)
    folder = directory(tmp_path / "m", tokenizer, tokenizer.get_vocab_size())
    for model in (folder, converted(folder, tmp_path)):
        agree(model, tokenizer, EXTRA, *ADDED_TEXTS)


def test_what_stands_around_a_text(tmp_path):
    tokenizer, v = byte_level("llama-bpe", [split(LLAMA3), bytes_only()], whole=True)
    begin, end, turn = (tokenizer.token_to_id(token) for token in
                        ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(), processors.TemplateProcessing(
            single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)])])
    folder = directory(tmp_path / "m", tokenizer, len(v["tokens"]),
                       {"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>"},
                        "tokenizer_class": "PreTrainedTokenizerFast"})
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [end, turn]}))
    path = converted(folder, tmp_path)
    for model in (folder, path):
        for text in ("Hi", "a<|eot_id|> b", ""):
            assert tokenize(model, text) == tokenizer.encode(text).ids
    found, _ = gguf.read(path)
    assert found["tokenizer.ggml.bos_token_id"] == begin
    assert found["tokenizer.ggml.eos_token_id"] == turn
    assert found["tokenizer.ggml.eot_token_id"] == end
    assert found["tokenizer.ggml.add_bos_token"] is True
