"""Makes tests/data/demo_continuations.json, what the built-in model says in float64:
python3 -m tests.golden.reference.make_continuations

Needs the package `tokenizers`. A prompt is refused here if some token is nearly as likely as the
best one: 8-bit activations might then choose the other.
"""

import json
import pathlib

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from . import gguf
from .model import Model

ROOT = pathlib.Path(__file__).parents[3]
DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
PROMPTS = [
    "Once upon a time there was a small fox",
    "<|im_start|>user\nTell me a story about a fox.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nCount from 1 to 10.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhat can infer do?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nName three fruits.<|im_end|>\n<|im_start|>assistant\n",
]
MOST = 120
LEAST_MARGIN = 0.1  # of two logits
# The published expression of Qwen2's pre-tokenizer.
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def tokenizer():
    metadata, _ = gguf.read(DEMO)
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([token for token, kind in zip(tokens, types) if kind == 3])
    return made


def main():
    model, vocabulary = Model(DEMO), tokenizer()
    ends = {model.metadata[f"tokenizer.ggml.{key}_token_id"] for key in ("eos", "eot")}
    recorded = []
    for prompt in PROMPTS:
        given = vocabulary.encode(prompt).ids
        tokens, margin = list(given), np.inf
        while len(tokens) < len(given) + MOST:
            logits = model.logits(tokens)[-1]
            second, best = np.sort(logits)[-2:]
            if best - second < LEAST_MARGIN:
                break
            margin = min(margin, best - second)
            tokens.append(int(np.argmax(logits)))
            if tokens[-1] in ends:
                tokens.pop()
                break
        text = vocabulary.decode(tokens[len(given):])
        print(f"{len(tokens) - len(given)} tokens, margin {margin:.3f}: {text!r}")
        recorded.append({"prompt": prompt, "prompt_tokens": given, "text": text,
                         "tokens": tokens[len(given):]})
    path = ROOT / "tests" / "data" / "demo_continuations.json"
    path.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
