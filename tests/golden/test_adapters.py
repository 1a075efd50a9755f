"""LoRA adapters: logits are those of the model into whose weights the adapters were merged, by the
reference in float64; and files that are no adapter of the model are refused."""

import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.reference.model import Model, nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

DATA = ROOT / "tests/data/golden"
TOKENS = [1, 5, 9, 2, 7, 11, 3]
# What adapters of PEFT change, by the end of a tensor's name.
CHANGED = ("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down",
           "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps", "ffn_gate_inp", "ffn_gate_shexp",
           "ffn_up_shexp", "ffn_gate_inp_shexp", "ffn_down_shexp", "ssm_in", "ssm_out", "attn_q_a", "attn_q_b",
           "attn_kv_a_mqa", "attn_kv_b", "shortconv.in_proj", "shortconv.out_proj", "output",
           "token_embd")


def changed(name):
    return any(name == f"{end}.weight" or name.endswith(f".{end}.weight") for end in CHANGED)


def random_adapter(model, seed, ranks=(3, 8), names=changed, alpha=5.0, half=False):
    """(metadata, tensors) of an adapter of these tensors of a model; ranks take turns."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for i, name in enumerate(n for n in model.tensors if names(n)):
        *experts, n, k = model.tensors[name].shape
        rank = ranks[i % len(ranks)]
        a, b = rng.normal(0, 1, (*experts, rank, k)), rng.normal(0, 0.3, (*experts, n, rank))
        if name == "token_embd.weight":
            # It is looked up by rows: a row of A for each token.
            a, b = rng.normal(0, 1, (n, rank)), rng.normal(0, 0.3, (k, rank))
        a, b = a / np.sqrt(k), b / rank
        kind = np.float16 if half else np.float32
        tensors[name + ".lora_a"], tensors[name + ".lora_b"] = a.astype(kind), b.astype(kind)
    metadata = {"general.type": "adapter", "general.architecture": model.arch,
                "adapter.type": "lora", "adapter.lora.alpha": alpha}
    return metadata, tensors


def merged(model, adapter, scale):
    """Adds an adapter to the model's tensors; a tied output stays as it was."""
    metadata, tensors = adapter
    if "output.weight" not in model.tensors:
        model.tensors["output.weight"] = model.tensors["token_embd.weight"]
    for name in {key.rsplit(".", 1)[0] for key in tensors}:
        a = np.asarray(tensors[name + ".lora_a"], np.float64)
        b = np.asarray(tensors[name + ".lora_b"], np.float64)
        rank, alpha = b.shape[-1], metadata["adapter.lora.alpha"]
        change = a @ b.T if name == "token_embd.weight" else b @ a
        model.tensors[name] = model.tensors[name] + scale * (alpha / rank if alpha else 1) * change


def evaluate(tmp_path, path, *options):
    done = subprocess.run([os.environ["INFER_BIN"], "eval", "-m", path, "--tokens",
                           ",".join(map(str, TOKENS)), "--logits", tmp_path / "out.f32", "-ctk",
                           "f32", "-ctv", "f32", "-c", "128", *options], capture_output=True, text=True)
    if done.returncode == 0:
        done.logits = np.fromfile(tmp_path / "out.f32", "<f4").reshape(len(TOKENS), -1)
    return done


def models():
    return sorted(path.stem for path in DATA.glob("*-f32.gguf"))


@pytest.mark.parametrize("name", models())
def test_every_architecture(tmp_path, name):
    path = DATA / f"{name}.gguf"
    model = Model(path)
    first, second = random_adapter(model, 1), random_adapter(model, 2, ranks=(16,), alpha=0.0, half=True)
    gguf.write(tmp_path / "first.gguf", *first)
    gguf.write(tmp_path / "second.gguf", *second)
    done = evaluate(tmp_path, path, "--lora", tmp_path / "first.gguf", "--lora",
                    f"{tmp_path / 'second.gguf'}:-0.5")
    assert done.returncode == 0, done.stderr
    plain = model.logits(TOKENS)
    merged(model, first, 1.0)
    merged(model, second, -0.5)
    expected = model.logits(TOKENS)
    assert nmse(done.logits, expected) < 1e-9
    assert nmse(plain, expected) > 1e-3


@pytest.mark.parametrize("name", ["bert-mean", "modern-bert", "gemma-embedding", "qwen3-embedding"])
def test_vectors_of_texts(tmp_path, name):
    program, model = os.environ["INFER_BIN"], tmp_path / "model.gguf"
    subprocess.run([program, "convert", ROOT / "tests/data/embed" / name, model, "-q"], check=True)

    def vectors(path, *options):
        done = subprocess.run([program, "embed", path, *options], input="one two\nthree\n",
                              capture_output=True, text=True, check=True)
        return np.array([[float(x) for x in line.split()] for line in done.stdout.splitlines()])

    metadata, tensors = gguf.read(model)

    class Encoder:
        arch = metadata["general.architecture"]

    Encoder.tensors = dict(tensors)
    adapter = random_adapter(Encoder, 1, names=lambda n: changed(n) and tensors[n].ndim == 2)
    gguf.write(tmp_path / "adapter.gguf", *adapter)
    plain, adapted = vectors(model), vectors(model, "--lora", tmp_path / "adapter.gguf")
    tied = "output.weight" not in tensors
    merged(Encoder, adapter, 1.0)
    if tied:
        Encoder.tensors.pop("output.weight")
    gguf.write(tmp_path / "merged.gguf", metadata, Encoder.tensors)
    assert np.abs(adapted - vectors(tmp_path / "merged.gguf")).max() < 1e-5
    assert np.abs(adapted - plain).max() > 0.01


def refused(tmp_path, change, model="llama-f32"):
    """What `eval` says to an adapter after `change` of its metadata and tensors: code and message."""
    path = DATA / f"{model}.gguf"
    metadata, tensors = random_adapter(Model(path), 1)
    change(metadata, tensors)
    gguf.write(tmp_path / "adapter.gguf", metadata, tensors)
    done = evaluate(tmp_path, path, "--lora", tmp_path / "adapter.gguf")
    assert "adapter.gguf" in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("change, named", [
    (lambda m, t: m.pop("general.type"), "general.type"),
    (lambda m, t: m.update({"adapter.type": "dora"}), "adapter.type"),
    (lambda m, t: m.update({"general.architecture": "qwen2"}), "general.architecture"),
    (lambda m, t: m.update({"adapter.lora.alpha": float("nan")}), "adapter.lora.alpha"),
    (lambda m, t: m.update({"adapter.alora.invocation_tokens": [1, 2]}), "invocation_tokens"),
    (lambda m, t: t.pop("blk.0.attn_q.weight.lora_b"), "blk.0.attn_q.weight.lora_b"),
    (lambda m, t: t.pop("blk.0.attn_q.weight.lora_a"), "blk.0.attn_q.weight.lora_a"),
    (lambda m, t: t.update({"blk.0.attn_norm.weight": np.ones(32)}), "blk.0.attn_norm.weight"),
    (lambda m, t: t.update({"lora_magnitude": np.ones(32)}), "lora_magnitude"),
    (lambda m, t: t.update({"blk.9.x.weight.lora_a": np.ones((2, 3)),
                            "blk.9.x.weight.lora_b": np.ones((3, 2))}), "blk.9.x.weight"),
    (lambda m, t: t.update({"blk.0.attn_q.weight.lora_a": np.ones((3, 5))}), "blk.0.attn_q.weight.lora_a"),
    (lambda m, t: t.update({"blk.0.attn_q.weight.lora_b": np.ones((7, 3))}), "blk.0.attn_q.weight.lora_b"),
    (lambda m, t: t.update({"blk.0.attn_q.weight.lora_a": np.ones((0, 32)),
                            "blk.0.attn_q.weight.lora_b": np.ones((32, 0))}), "blk.0.attn_q.weight.lora_"),
    (lambda m, t: t.update({"token_embd.weight.lora_a": np.ones((3, 5))}), "token_embd.weight.lora_"),
    (lambda m, t: t.update({"blk.0.attn_norm.weight.lora_a": np.ones((1, 32)),
                            "blk.0.attn_norm.weight.lora_b": np.ones((1, 1))}),
     "blk.0.attn_norm.weight.lora_a"),
])
def test_what_is_wrong_is_named(tmp_path, change, named):
    code, said = refused(tmp_path, change)
    assert code == 3 and named in said, said


def test_instruction_sets_give_the_same_bits(tmp_path):
    path = DATA / "llama-odd-f32.gguf"
    gguf.write(tmp_path / "adapter.gguf", *random_adapter(Model(path), 3, half=True))
    options = ["--lora", tmp_path / "adapter.gguf"]
    expected = evaluate(tmp_path, path, *options).logits
    for isa in ("scalar", "avx2", "avx512"):
        done = evaluate(tmp_path, path, *options, "--isa", isa)
        assert done.returncode != 0 or (done.logits == expected).all(), isa
