"""infer quantize and infer imatrix, from outside."""

import array
import json
import math
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

from program import INFER, ROOT, fails, infer

sys.path.insert(0, str(ROOT))

TOKENS = ",".join(str((7 * i * i + 3 * i + 1) % 300) for i in range(24))
TEXT = " ".join(f"{w} {w}{v} {v}" for w in ("a", "ca", "e", "zu", "do") for v in "abcdefghij")


def types():
    """Named by the program itself, so that a new type is tested as soon as it is there."""
    text = infer("quantize", "--help").stdout.decode()
    names = text[text.index("a mix of types:") + 15:]
    return "".join(names[:names.index("\n\n")].split()).split(",")


def synth(path, *options, type="f32", layers=2, width=256, tokens=600):
    done = infer("synth", "custom", path, "--type", type, "--layers", layers, "--embedding", width,
                 "--feed-forward", 2 * width, "--heads", 4, "--kv-heads", 2, "--tokens", tokens,
                 "--context", 512, *options)
    assert done.returncode == 0, done.stderr.decode()
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("quantize") / "f32.gguf")


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("quantize") / "experts.gguf", "--experts", 4,
                 "--experts-used", 2)


def quantize(source, path, type, *options):
    done = infer("quantize", source, path, type, "--json", *options)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def logits(path):
    out = path.with_suffix(".logits")
    done = infer("eval", "-m", path, "--tokens", TOKENS, "--logits", out, "--exact")
    assert done.returncode == 0, done.stderr.decode()
    return array.array("f", out.read_bytes())


def nmse(x, reference):
    return (sum((a - b) ** 2 for a, b in zip(x, reference, strict=True))
            / sum(b * b for b in reference))


def described(path):
    return json.loads(infer("info", path, "--json").stdout)


def types_of(path):
    return {t["name"]: t["type"] for t in described(path)["tensors"]}


@pytest.mark.parametrize("type, name", [("Q4_K_M", "Q4_K - Medium"), ("Q4_0", "Q4_0"),
                                        ("Q3_K_S", "Q3_K - Small"), ("MXFP4", "MXFP4 - Experts")])
def test_info_names_the_type_of_the_file(type, name, source, tmp_path):
    path = tmp_path / "q.gguf"
    quantize(source, path, type)
    about = described(path)
    assert about["file_type"] == name
    held = {}
    for tensor in about["tensors"]:
        of = held.setdefault(tensor["type"], {"tensors": 0, "bytes": 0})
        of["tensors"] += 1
        of["bytes"] += tensor["bytes"]
    assert about["types"] == held
    sizes = [of["bytes"] for of in about["types"].values()]
    assert sizes == sorted(sizes, reverse=True)
    text = infer("info", path).stdout.decode()
    assert f"type          {name}\n" in text
    for type, of in held.items():
        assert re.search(rf"^    {type} +\S+ \S+ in {of['tensors']} tensors$", text, re.M), type


@pytest.mark.parametrize("type", types())
def test_a_type_computes_nearly_the_same(type, source, tmp_path):
    path = tmp_path / "q.gguf"
    report = quantize(source, path, type)
    bits = report["bits_per_weight"]
    error = nmse(logits(path), logits(source))
    # The squared relative error of each matrix is a few times 4^−bits, and random layers make more
    # of it; unrelated logits would differ by 2. The mantissas of floats have fewer bits.
    bits_kept = {"F16": 11, "BF16": 8}.get(type, bits)
    assert error < min(130 * 4 ** -bits_kept, 1.3), (bits, error)
    if type not in ("F32", "COPY"):
        assert bits < 17
        assert error > 0
    tensors = {t["name"]: t for t in report["tensors"]}
    assert tensors.keys() == types_of(source).keys()
    assert {name: t["to"] for name, t in tensors.items()} == types_of(path)
    for name, to in types_of(path).items():
        if "norm" in name:
            assert to == "F32"
    again = tmp_path / "again.gguf"
    quantize(source, again, type.lower(), "-t", 1)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("type", ["Q4_K_M", "Q5_K_M"])
def test_a_mix_gives_bits_where_synth_does(type, tmp_path):
    """Which is tested by itself against the sizes of published files."""
    made = synth(tmp_path / "made.gguf", type=type.lower(), layers=9)
    source = synth(tmp_path / "source.gguf", layers=9)
    quantize(source, tmp_path / "q.gguf", type)
    assert types_of(tmp_path / "q.gguf") == types_of(made)
    assert described(tmp_path / "q.gguf")["file_type"] == described(made)["file_type"]


def test_mixes_differ_by_layer_and_part(tmp_path):
    source = synth(tmp_path / "source.gguf", layers=16)

    def of(type, *options):
        quantize(source, tmp_path / "q.gguf", type, *options)
        return types_of(tmp_path / "q.gguf")

    t = of("Q3_K_M")
    assert t["output.weight"] == "Q6_K" and t["token_embd.weight"] == "Q3_K"
    assert [t[f"blk.{i}.attn_v.weight"] for i in range(3)] == ["Q5_K", "Q5_K", "Q4_K"]
    assert [t[f"blk.{i}.ffn_down.weight"] for i in range(2)] == ["Q5_K", "Q4_K"]
    assert t["blk.3.attn_output.weight"] == "Q4_K" and t["blk.3.ffn_up.weight"] == "Q3_K"
    t = of("Q2_K")
    assert t["blk.3.attn_v.weight"] == "Q3_K" and t["blk.3.ffn_down.weight"] == "Q3_K"
    t = of("Q4_K_S")
    assert [t[f"blk.{i}.attn_v.weight"] for i in (3, 4)] == ["Q5_K", "Q4_K"]
    assert [t[f"blk.{i}.ffn_down.weight"] for i in (1, 2)] == ["Q5_K", "Q4_K"]
    t = of("Q3_K_L", "--pure")
    assert {v for k, v in t.items() if "norm" not in k} == {"Q3_K"}
    t = of("IQ2_S", "--pure")
    assert {v for k, v in t.items() if "norm" not in k} == {"IQ2_S"}
    t = of("Q4_K_M", "--output-tensor-type", "q8_0", "--token-embedding-type", "F16",
           "--tensor-type", "blk.?.ffn_*=Q5_1", "--tensor-type", "ffn_up=bf16")
    assert t["output.weight"] == "Q8_0" and t["token_embd.weight"] == "F16"
    assert t["blk.9.ffn_up.weight"] == "Q5_1" and t["blk.10.ffn_up.weight"] == "BF16"
    assert t["blk.10.ffn_gate.weight"] == "Q4_K"


def test_experts_and_their_router(experts, tmp_path):
    path = tmp_path / "q.gguf"
    quantize(experts, path, "MXFP4")
    t = types_of(path)
    assert t["blk.0.ffn_up_exps.weight"] == "MXFP4" and t["blk.0.attn_q.weight"] == "Q8_0"
    assert t["blk.0.ffn_gate_inp.weight"] == "F32"
    assert nmse(logits(path), logits(experts)) < 0.1


def test_rows_that_are_no_whole_blocks_get_another_type(tmp_path):
    source = tmp_path / "odd.gguf"
    done = infer("synth", "custom", source, "--type", "f32", "--layers", 1, "--embedding", 96,
                 "--feed-forward", 272, "--heads", 3, "--kv-heads", 1, "--tokens", 300)
    assert done.returncode == 0, done.stderr.decode()
    for type, rows96, rows272 in [("Q4_K_M", "Q5_0", "F16"), ("IQ3_S", "IQ4_NL", "F16"),
                                  ("Q4_0", "Q4_0", "F16")]:
        path = tmp_path / "q.gguf"
        done = infer("quantize", source, path, type)
        assert done.returncode == 0, done.stderr.decode()
        t = types_of(path)
        assert t["blk.0.ffn_up.weight"] == rows96 and t["blk.0.ffn_down.weight"] == rows272
        assert "blk.0.ffn_down.weight: rows of 272 elements are not whole blocks of" in done.stderr.decode()
        assert nmse(logits(path), logits(source)) < 0.2


def warnings(*arguments):
    done = infer("quantize", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return [line for line in done.stderr.decode().splitlines() if "warning: " in line]


def test_one_line_of_warning_for_weights_alike(tmp_path):
    source = synth(tmp_path / "odd.gguf", layers=5, width=96)
    one, other = warnings(source, tmp_path / "q.gguf", "Q4_0", "--tensor-type", "ffn_up=Q4_K")
    assert "blk.0.ffn_up.weight and 4 more: rows of 96 elements are not whole blocks of Q4_K" in one
    assert "output.weight: rows of 96 elements are not whole blocks of Q6_K" in other


def test_a_type_that_is_not_what_one_expects_is_told(source, experts, tmp_path):
    out = tmp_path / "q.gguf"
    assert "model has none" in warnings(source, out, "MXFP4")[0]
    assert warnings(experts, out, "MXFP4") == []
    for type in ("IQ2_XXS", "iq2_xs", "IQ2_S", "Q2_K_S"):
        assert "without an importance matrix" in warnings(source, out, type)[0]
    imatrix(source, tmp_path / "i.gguf", text=TEXT * 8)
    assert not any("without" in w for w in warnings(source, out, "Q2_K_S", "--imatrix",
                                                    tmp_path / "i.gguf"))
    assert warnings(source, out, "Q4_K_M") == []


def test_a_pattern_without_a_weight_is_an_error(source, tmp_path):
    fails(2, "quantize", source, tmp_path / "q.gguf", "Q4_0", "--tensor-type", "ffn_upp=Q8_0",
          says="ffn_upp")
    fails(2, "quantize", source, tmp_path / "q.gguf", "Q4_0", "--tensor-type", "_norm=Q8_0",
          says="_norm")
    assert not any(tmp_path.iterdir())


def test_a_name_for_the_output_is_made(source, tmp_path):
    for name, made in (("m.gguf", "m-Q4_0.gguf"), ("m-f16.gguf", "m-Q4_0.gguf"),
                       ("M-BF16.gguf", "M-Q4_0.gguf"), ("m.v1", "m.v1-Q4_0.gguf")):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        shutil.copy(source, folder / name)
        assert warnings(folder / name, "q4_0") == []
        assert {p.name for p in folder.iterdir()} == {name, made}
        before = (folder / made).read_bytes()
        (folder / made).write_bytes(b"mine")
        fails(1, "quantize", folder / name, "q4_0", says="--force")
        assert (folder / made).read_bytes() == b"mine"
        warnings(folder / name, "q4_0", "--force")
        assert (folder / made).read_bytes() == before
    fails(2, "quantize", source, says="type")
    fails(2, "quantize", source, tmp_path / "other.gguf", says="Q4_K_M")


def test_what_is_small_in_gemma_3n_stays(tmp_path):
    source = ROOT / "tests" / "data" / "golden" / "gemma3n-f32.gguf"
    report = quantize(source, tmp_path / "q.gguf", "q8_0", "--token-embedding-type", "q4_0")
    types = {tensor["name"]: tensor["to"] for tensor in report["tensors"]}
    kept = [name for name in types if any(part in name for part in ("altup", "laurel", "per_layer_model_proj"))]
    assert len(kept) > 5 and {types[name] for name in kept} == {"F32"}
    assert types["token_embd.weight"] == types["per_layer_token_embd.weight"] != "Q8_0"


def test_nothing_is_added_to_what_other_programs_keep(source, tmp_path, monkeypatch):
    blob = tmp_path / "ollama" / "blobs" / ("sha256-" + "ab" * 32)
    manifest = tmp_path / "ollama" / "manifests" / "registry.ollama.ai" / "me" / "tiny" / "f16"
    cached = tmp_path / "hub" / "models--org--r" / "snapshots" / "0123" / "sub" / "M-F16.gguf"
    for path in (blob, manifest, cached):
        path.parent.mkdir(parents=True)
    shutil.copy(source, blob)
    shutil.copy(source, cached)
    manifest.write_text(json.dumps({"layers": [
        {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + "ab" * 32}]}))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for path in (blob, cached):
        assert warnings(path, "q8_0") == []
        assert len(list(path.parent.iterdir())) == 1
    assert {path.name for path in here.iterdir()} == {"me-tiny-Q8_0.gguf", "M-Q8_0.gguf"}


def test_the_directory_where_one_is(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "tests" / "data" / "golden" / "hf-nf4", folder)
    monkeypatch.chdir(folder)
    infer("quantize", ".", "q8_0", "--allow-requantize")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["model-Q8_0.gguf"]


def test_what_is_quantised_is_not_quantised_again_by_accident(source, tmp_path):
    q8, q4 = tmp_path / "q8.gguf", tmp_path / "q4.gguf"
    quantize(source, q8, "Q8_0")
    fails(3, "quantize", q8, q4, "Q4_0", says="--allow-requantize")
    assert not q4.exists()
    quantize(q8, q4, "Q4_0", "--allow-requantize")
    assert types_of(q4)["blk.0.attn_q.weight"] == "Q4_0"
    # Types that are not quantised add no errors of that kind.
    for type in ("F32", "F16", "BF16"):
        quantize(q8, tmp_path / "plain.gguf", type, "--force")
        assert types_of(tmp_path / "plain.gguf")["blk.0.attn_q.weight"] == type
    # The same type is copied, bit for bit.
    quantize(q4, tmp_path / "same.gguf", "Q4_0")
    quantize(q4, tmp_path / "copy.gguf", "copy")
    assert (tmp_path / "copy.gguf").read_bytes() == q4.read_bytes()
    assert logits(tmp_path / "same.gguf") == logits(q4)


def test_metadata(source, tmp_path):
    path = tmp_path / "q.gguf"
    quantize(source, path, "Q5_K_S")
    before, after = described(source)["metadata"], described(path)["metadata"]
    assert after["general.file_type"] == "16" and after["general.quantization_version"] == "2"
    for key in ("general.file_type", "general.quantization_version"):
        before.pop(key), after.pop(key)
    assert before == after


def test_bad_requests(source, tmp_path):
    out = tmp_path / "out.gguf"
    fails(2, "quantize", source, out, "Q4_K_X", says="Q4_K_M")
    fails(2, "quantize", source, out, "IQ1_S", says="IQ2_XXS")
    fails(2, "quantize", source, out)
    fails(2, "quantize", source, out, "Q4_0", "--tensor-type", "ffn_up", says="PATTERN=TYPE")
    fails(2, "quantize", source, out, "Q4_0", "--tensor-type", "ffn_up=Q9", says="Q9")
    fails(3, "quantize", source, out, "Q4_0", "--tensor-type", "ffn_up=IQ1_S", says="IQ2_XXS")
    fails(2, "quantize", source, out, "Q4_0", "--output-tensor-type", "Q8_1", says="Q8_0")
    fails(3, "quantize", tmp_path / "missing.gguf", out, "Q4_0", says="missing.gguf")
    fails(1, "quantize", source, tmp_path / "no" / "folder.gguf", "Q4_0", says="folder.gguf")
    fails(3, "quantize", source, out, "Q4_0", "--imatrix", tmp_path / "none", says="none")
    text = tmp_path / "text"
    text.write_text("no importance in here")
    fails(3, "quantize", source, out, "Q4_0", "--imatrix", text, says="text")
    fails(3, "quantize", source, out, "Q4_0", "--imatrix", source, says="imatrix")
    assert not out.exists()


def test_the_input_is_never_replaced(source, tmp_path):
    own = tmp_path / "own.gguf"
    shutil.copy(source, own)
    before = own.read_bytes()
    link = tmp_path / "link.gguf"
    link.symlink_to(own)
    hard = tmp_path / "hard.gguf"
    hard.hardlink_to(own)
    for target in (own, link, hard):
        fails(2, "quantize", own, target, "Q4_0", says="input")
    assert own.read_bytes() == before


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_no_number_is_named(bad, source, tmp_path):
    broken = tmp_path / "broken.gguf"
    data = bytearray(source.read_bytes())
    data[-4:] = struct.pack("<f", bad)  # the last value of the last matrix
    broken.write_bytes(data)
    for type in ("Q4_K_M", "F16", "IQ2_XS"):
        text = fails(3, "quantize", broken, tmp_path / "q.gguf", type, says="output.weight")
        assert "column 255 of row 599" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.gguf"]


def test_numbers_beyond_f16_are_refused_for_it_alone(source, tmp_path):
    large = tmp_path / "large.gguf"
    data = bytearray(source.read_bytes())
    data[-4:] = struct.pack("<f", 1e6)
    large.write_bytes(data)
    fails(3, "quantize", large, tmp_path / "q.gguf", "F16", says="65504")
    # The scale of a block of Q4_0 ends at 65504 too; Q8_0 has larger levels.
    fails(3, "quantize", large, tmp_path / "q.gguf", "Q4_0", "--pure", says="as Q4_0 can hold")
    quantize(large, tmp_path / "q.gguf", "Q8_0")
    quantize(large, tmp_path / "q.gguf", "BF16")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.gguf"
    return synth(path, width=1024, tokens=8000, layers=4)


def test_an_interruption_leaves_nothing(large, tmp_path):
    process = subprocess.Popen([INFER, "quantize", large, tmp_path / "q.gguf", "IQ3_S"],
                               stderr=subprocess.PIPE)
    while not any(tmp_path.iterdir()):  # until it writes
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.stderr.close()
    assert not any(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(large, tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, 5 << 20))
    fails(1, "quantize", large, tmp_path / "q.gguf", "Q8_0", says="q.gguf", preexec_fn=limit)
    assert not any(tmp_path.iterdir())


def imatrix(model, path, *options, text=TEXT):
    done = infer("imatrix", "-m", model, "-f", "-", "-o", path, "--json", *options,
                 stdin=text.encode())
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_importance_is_measured_and_used(source, tmp_path):
    path = tmp_path / "imatrix.gguf"
    report = imatrix(source, path, "--chunk", 64)
    assert report["weights"] == 2 * 7 + 1 and report["chunks"] >= 2
    info = described(path)
    assert info["metadata"]["general.type"] == "imatrix"
    shapes = {t["name"]: t["shape"] for t in info["tensors"]}
    assert shapes["blk.1.ffn_down.weight.in_sum2"][0] == 512
    assert shapes["blk.1.ffn_down.weight.counts"] == [1]
    plain, better = tmp_path / "plain.gguf", tmp_path / "better.gguf"
    quantize(source, plain, "Q2_K", "--pure")
    report = quantize(source, better, "Q2_K", "--pure", "--imatrix", path)
    assert all(t["importance"] for t in report["tensors"]
               if t["to"] == "Q2_K" and t["name"] != "token_embd.weight")
    assert plain.read_bytes() != better.read_bytes()
    metadata = described(better)["metadata"]
    assert metadata["quantize.imatrix.file"].endswith("imatrix.gguf")
    assert metadata["quantize.imatrix.entries_count"] == "15"
    # Of another model: refused by the first weight that does not fit.
    other = synth(tmp_path / "other.gguf", width=512)
    fails(3, "quantize", other, tmp_path / "q.gguf", "Q2_K", "--imatrix", path, says="columns")


def test_importance_does_not_depend_on_threads_or_steps(source, tmp_path):
    a, b, c = (tmp_path / f"{name}.gguf" for name in "abc")
    imatrix(source, a, "-t", 1, "--chunk", 64)
    imatrix(source, b, "-t", 2, "--chunk", 64)
    imatrix(source, c, "-b", 10, "--chunk", 64)
    assert a.read_bytes() == b.read_bytes() == c.read_bytes()


def test_importance_of_experts(experts, tmp_path):
    path = tmp_path / "imatrix.gguf"
    imatrix(experts, path, "--chunk", 64)
    shapes = {t["name"]: t["shape"] for t in described(path)["tensors"]}
    assert shapes["blk.0.ffn_up_exps.weight.in_sum2"] == [256, 4]
    assert shapes["blk.0.ffn_up_exps.weight.counts"] == [1, 4]
    quantize(experts, tmp_path / "q.gguf", "IQ2_XS", "--imatrix", path)


def test_importance_bad_requests(source, tmp_path):
    out = tmp_path / "i.gguf"
    fails(2, "imatrix", "-m", source, "-o", out, says="-f")
    fails(2, "imatrix", "-m", source, "-f", "-", "-o", out, stdin=b"", says="too few")
    fails(3, "imatrix", "-m", tmp_path / "none", "-f", "-", "-o", out, stdin=b"a b c")
    assert not out.exists()


def test_the_sums_are_those_of_the_activations(tmp_path):
    """The first layer's input is known: the embeddings of the tokens, normalised."""
    np = pytest.importorskip("numpy")
    from tests.golden.reference import gguf
    source = synth(tmp_path / "f32.gguf", layers=1)
    path = tmp_path / "imatrix.gguf"
    report = imatrix(source, path, "--chunk", 50)
    ids = json.loads(infer("tokenize", "-m", source, "--json", stdin=TEXT.encode()).stdout)
    ids = np.array(ids[:report["tokens"]])
    ids[::50] = 1  # each chunk begins with the token that begins a text
    _, tensors = gguf.read(source)
    x = tensors["token_embd.weight"][ids].astype(np.float64)
    x *= tensors["blk.0.attn_norm.weight"] / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    _, measured = gguf.read(path)
    for name in ("attn_q", "attn_k", "attn_v"):
        sums = measured[f"blk.0.{name}.weight.in_sum2"].reshape(-1)
        assert np.allclose(sums, (x * x).sum(0), rtol=1e-5)
    # The last layer and the output see every token too.
    counts = [tensor.reshape(-1) for name, tensor in measured.items() if name.endswith(".counts")]
    assert len(counts) == 7 + 1 and all(count == [len(ids)] for count in counts)


def test_the_older_format_of_importance_is_read(source, tmp_path):
    def old(entries):
        data = struct.pack("<i", len(entries))
        for name, steps, values in entries:
            data += struct.pack("<i", len(name)) + name.encode()
            data += struct.pack(f"<ii{len(values)}f", steps, len(values), *values)
        return data + struct.pack("<ii", 3, 4) + b"text"

    path = tmp_path / "imatrix.dat"
    values = [float(1 + i % 7) for i in range(256)]
    path.write_bytes(old([("blk.0.attn_q.weight", 3, values)]))
    report = quantize(source, tmp_path / "q.gguf", "Q3_K_S", "--imatrix", path)
    assert [t["name"] for t in report["tensors"] if t["importance"]] == ["blk.0.attn_q.weight"]
    assert described(tmp_path / "q.gguf")["metadata"]["quantize.imatrix.dataset"] == "text"
    data = path.read_bytes()
    for cut in (2, 4, 6, 20, 30, 40, 500, len(data) - 2):
        path.write_bytes(data[:cut])
        fails(3, "quantize", source, tmp_path / "q.gguf", "Q3_K_S", "--imatrix", path)
    path.write_bytes(old([("blk.0.attn_q.weight", 3, [math.nan] * 256)]))
    fails(3, "quantize", source, tmp_path / "q.gguf", "Q3_K_S", "--imatrix", path, says="finite")
    huge = struct.pack("<ii1sii", 1, 1, b"x", 1, 2 ** 31 - 1)
    path.write_bytes(huge)
    fails(3, "quantize", source, tmp_path / "q.gguf", "Q3_K_S", "--imatrix", path, says="ends")


def test_importance_helps_a_trained_model(tmp_path):
    """The built-in one: how far the distributions over a text move that was not measured."""
    source = ROOT / "app" / "demo" / "infer-demo.gguf"
    text = (ROOT / "tests" / "data" / "demo_heldout.txt").read_text()[:16000]
    held = tmp_path / "held.txt"
    held.write_text(text[len(text) // 2:])
    path, base, small = tmp_path / "imatrix.gguf", tmp_path / "base", tmp_path / "q.gguf"
    imatrix(source, path, text=text[:len(text) // 2])
    run = ("perplexity", "-f", held, "--json", "-m")
    assert infer(*run, source, "--save-base", base).returncode == 0

    def divergence(type, *options):
        quantize(source, small, type, "--allow-requantize", *options)
        done = infer(*run, small, "--kl-base", base)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)["divergence"]["mean"]

    for type in ("IQ2_XXS", "Q3_K_S"):
        assert divergence(type, "--imatrix", path) < 0.9 * divergence(type)


def test_quantising_while_loading(source, tmp_path):
    weights, exact = {}, {}
    for kind in ("", "q8_0", "nf4"):
        option = ["--quantize", kind] if kind else []
        done = infer("plan", "-m", source, "--json", *option)
        assert done.returncode == 0, done.stderr
        weights[kind] = json.loads(done.stdout)["weights"]
        out = tmp_path / "logits"
        done = infer("eval", "-m", source, "--tokens", TOKENS, "--logits", out, "--exact", *option)
        assert done.returncode == 0, done.stderr
        exact[kind] = array.array("f", out.read_bytes())
    assert weights["nf4"] < weights["q8_0"] < weights[""]
    assert 0 < nmse(exact["q8_0"], exact[""]) < 1e-3
    assert nmse(exact["q8_0"], exact[""]) < nmse(exact["nf4"], exact[""]) < 0.2
    fails(2, "plan", "-m", source, "--quantize", "q9", says="'q9': expected one of q4_0")
