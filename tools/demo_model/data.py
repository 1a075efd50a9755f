"""Documents as rows of tokens. python3 data.py FILE writes the held-out text."""

import random
import sys
from pathlib import Path

import numpy as np

from corpus.documents import document
from corpus.render import END_OF_TEXT, render, segments

READ_WEIGHT = 0.15  # of tokens that the model reads but does not write: questions, system prompts
HELD_OUT_SEED, HELD_OUT_BYTES = 20001, 20000


def held_out():
    """The documents of the held-out text."""
    rng, made, size = random.Random(HELD_OUT_SEED), [], 0
    while size < HELD_OUT_BYTES:
        made.append(document(rng))
        size += len(render(made[-1]).encode())
    return made


def encode(tokenizer, documents):
    """(tokens, weights) of each document."""
    parts = [list(segments(d)) + [(END_OF_TEXT, True)] for d in documents]
    texts = [text for part in parts for text, _ in part]
    codes = iter(tokenizer.encode_batch_fast(texts, add_special_tokens=False))
    for part in parts:
        tokens, weights = [], []
        for (_, written), code in zip(part, codes, strict=False):
            tokens += code.ids
            weights += [1.0 if written else READ_WEIGHT] * len(code.ids)
        yield tokens, weights


def endless(tokenizer, seed, excluded):
    """Documents as (tokens, weights), none of them one of the `excluded` texts."""
    rng = random.Random(seed)
    while True:
        made = [document(rng) for _ in range(2000)]
        yield from encode(tokenizer, [d for d in made if render(d) not in excluded])


def rows(documents, count, length):
    """`count` rows of length + 1 tokens with their weights. Each begins with a document and is
    filled with further ones; the end of the last is cut off."""
    tokens = np.zeros((count, length + 1), np.uint16)
    weights = np.zeros((count, length + 1), np.float16)
    for i in range(count):
        filled = 0
        while filled <= length:
            ids, w = next(documents)
            n = min(len(ids), length + 1 - filled)
            tokens[i, filled : filled + n] = ids[:n]
            weights[i, filled : filled + n] = w[:n]
            filled += n
    return tokens, weights


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("".join(map(render, held_out())), encoding="utf-8")
