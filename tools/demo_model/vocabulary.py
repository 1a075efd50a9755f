"""The vocabulary: byte-level BPE with single digits, cut as tokenizer.ggml.pre "qwen2" says."""

import random

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from corpus.documents import document
from corpus.render import SPECIAL, segments

SIZE = 4096
PRE = "qwen2"
# Words with one character before them, single digits, runs of symbols, white space.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train(seed, documents):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    rng = random.Random(seed)

    def texts():
        for _ in range(documents):
            for text, _ in segments(document(rng)):
                for special in SPECIAL:
                    text = text.replace(special, " ")
                yield text.strip()

    tokenizer.train_from_iterator(texts(), trainer)
    assert tokenizer.get_vocab_size() == SIZE
    return tokenizer
