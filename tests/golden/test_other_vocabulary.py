"""A draft model whose vocabulary is another one: the built-in model with its tokens in another order
and some of them gone, so that its text is as good but its ids, and some words, are not the same."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.reference import gguf  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
PROMPT = "<|im_start|>user\nTell me a story about a fox.<|im_end|>\n<|im_start|>assistant\n"


def reordered(path, merges_kept):
    metadata, tensors = gguf.read(DEMO)
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    plain = [i for i, kind in enumerate(types) if kind == 1]
    order = np.arange(len(tokens))
    order[plain] = np.random.default_rng(1).permutation(plain)
    metadata["tokenizer.ggml.tokens"] = [tokens[i] for i in order]
    metadata["tokenizer.ggml.merges"] = metadata["tokenizer.ggml.merges"][:merges_kept]
    tensors["token_embd.weight"] = tensors["token_embd.weight"][order]
    gguf.write(path, metadata, tensors)


def run(*flags):
    done = subprocess.run([os.environ["INFER_BIN"], "run", "-q", "-m", DEMO, "-p", PROMPT, "-n", "120",
                           "--temp", "0", "--json", *flags], capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("merges_kept, least", [(None, 0.9), (1500, 0.4)])
def test_text_of_another_vocabulary_is_accepted(tmp_path, merges_kept, least):
    draft = tmp_path / "draft.gguf"
    reordered(draft, merges_kept)
    plain = run()
    for depth in ("1", "4", "auto"):
        drafted = run("-md", draft, "--drafter", "model", "--spec", depth)
        assert drafted["text"] == plain["text"]
        s = drafted["speculation"]
        if depth != "auto":
            assert s["drafted"] > 40
            assert s["accepted"] >= least * s["drafted"], s
