"""Makes tests/data/bigram.gguf, a trained model whose vocabulary is not the built-in model's:
python3 -m tests.golden.reference.make_bigram

Its pieces are SentencePiece's: single characters, and the beginnings of frequent words. It has
learnt from tests/data/demo_heldout.txt which piece follows which. Embeddings are one-hot and the
layer adds nothing, so the logits are the logarithms of those frequencies.
"""

import collections
import pathlib

import numpy as np

from . import gguf

DATA = pathlib.Path(__file__).parents[2] / "data"
PIECES = 256
SPACE = "\u2581"


def words_of(text):
    """The text in words, each with the space before it."""
    return [word for word in text.replace(" ", " " + SPACE).split(" ") if word]


def vocabulary(text):
    characters = sorted(set(text.replace(" ", SPACE)) | set("<|>_{}[]\"0123456789") | {"\n", SPACE})
    pieces = ["<unk>", "<s>", "</s>", *characters]
    for word, _ in collections.Counter(words_of(text)).most_common():
        for end in range(2, len(word) + 1):
            if word[:end] not in pieces:
                pieces.append(word[:end])
        if len(pieces) >= PIECES:
            break
    return pieces[:PIECES], len(characters)


def encode(word, rank):
    """SentencePiece's BPE: the pair whose piece has the best score is joined first."""
    parts = list(word)
    while True:
        pairs = [(rank[a + b], at) for at, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in rank]
        if not pairs:
            return parts
        at = min(pairs)[1]
        parts[at:at + 2] = ["".join(parts[at:at + 2])]


def main():
    text = (DATA / "demo_heldout.txt").read_text().replace("<|endoftext|>", "")
    pieces, characters = vocabulary(text)
    ids = {piece: i for i, piece in enumerate(pieces)}
    rank = {piece: i for piece, i in ids.items() if i >= 3}
    sequence = [ids[part] for word in words_of(text) for part in encode(word, rank)]
    counts = np.full((PIECES, PIECES), 0.01)
    np.add.at(counts, (sequence[1:], sequence[:-1]), 1)
    counts[:3] = 1e-4  # no special token is ever likely
    logits = np.log(counts / counts.sum(axis=0))

    heads_dim, inner = 2, 2
    shapes = {"attn_q": (heads_dim, PIECES), "attn_k": (heads_dim, PIECES),
              "attn_v": (heads_dim, PIECES), "attn_output": (PIECES, heads_dim),
              "ffn_gate": (inner, PIECES), "ffn_up": (inner, PIECES), "ffn_down": (PIECES, inner)}
    tensors = {"token_embd.weight": np.eye(PIECES, dtype=np.float16),
               "output_norm.weight": np.ones(PIECES),
               # The norm makes √PIECES of the one in a one-hot row.
               "output.weight": (logits / np.sqrt(PIECES)).astype(np.float16)}
    for norm in ("attn_norm", "ffn_norm"):
        tensors[f"blk.0.{norm}.weight"] = np.ones(PIECES)
    for name, shape in shapes.items():
        tensors[f"blk.0.{name}.weight"] = np.zeros(shape, np.float16)
    metadata = {
        "general.architecture": "llama", "general.name": "bigrams",
        "llama.block_count": 1, "llama.context_length": 1024, "llama.embedding_length": PIECES,
        "llama.feed_forward_length": inner, "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1, "llama.attention.key_length": heads_dim,
        "llama.attention.value_length": heads_dim, "llama.rope.dimension_count": heads_dim,
        "llama.attention.layer_norm_rms_epsilon": 1e-9, "llama.vocab_size": PIECES,
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": [float(-i) for i in range(PIECES)],
        "tokenizer.ggml.token_type": [2, 3, 3] + [1] * (PIECES - 3),
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    gguf.write(DATA / "bigram.gguf", metadata, tensors)
    print(f"{PIECES} pieces, {characters} of them characters; trained on {len(sequence)}")


if __name__ == "__main__":
    main()
