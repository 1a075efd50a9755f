"""Tiny random models that make vectors or scores of texts, as Hugging Face directories, and what
transformers makes of some texts with them in float64. Needs torch, transformers and tokenizers.

    python3 -m tests.golden.reference.make_embeddings tests/data/embed [NAME ...]
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the cat sits outside man plays guitar love pasta new movie is great how tall".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS = [
    "the cat sits outside", "A man plays the GUITAR!", "", "a",
    "how tall is the new man? " * 7, "pasta, love pasta; the cat is not outside. " * 11,
    "naïve café 中文 😀 the end",
]
QUERY = "how tall is the cat?"
SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 40, "max_position_embeddings": 256, "pad_token_id": 0}
DECODER = SIZES | {"num_key_value_heads": 2, "head_dim": 8, "bos_token_id": 2, "eos_token_id": 3}
GEMMA = DECODER | {"hidden_size": 16, "num_hidden_layers": 7, "query_pre_attn_scalar": 8,
                   "sliding_window": 12, "use_bidirectional_attention": True}
MODERN = SIZES | {"local_attention": 10, "num_hidden_layers": 4, "cls_token_id": 2,
                  "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}

# name → (configuration, class, arguments, pooling; None: a classifier's score)
MODELS = {
    "bert-mean": ("BertConfig", "BertModel", SIZES, "mean"),
    "bert-cls": ("BertConfig", "BertModel", SIZES, "cls"),
    "bert-rank": ("BertConfig", "BertForSequenceClassification", SIZES | {"num_labels": 1}, None),
    "xlm-roberta-rank": ("XLMRobertaConfig", "XLMRobertaForSequenceClassification",
                         SIZES | {"num_labels": 1, "type_vocab_size": 1}, None),
    "nomic-bert": ("NomicBertConfig", "NomicBertModel", SIZES, "mean"),
    "jina-bert-v3": ("JinaEmbeddingsV3Config", "JinaEmbeddingsV3Model", SIZES, "mean"),
    "modern-bert": ("ModernBertConfig", "ModernBertModel", MODERN, "cls"),
    "modern-bert-rank": ("ModernBertConfig", "ModernBertForSequenceClassification",
                         MODERN | {"num_labels": 1, "classifier_pooling": "mean"}, None),
    "eurobert": ("EuroBertConfig", "EuroBertModel", DECODER, "mean"),
    "llama-embed": ("LlamaConfig", "LlamaModel", DECODER, "mean"),
    "llama-embed-rank": ("LlamaConfig", "LlamaForSequenceClassification",
                         DECODER | {"num_labels": 1}, None),
    "gemma-embedding": ("Gemma3TextConfig", "Gemma3TextModel", GEMMA, "mean"),
    "qwen3-embedding": ("Qwen3Config", "Qwen3Model", DECODER, "lasttoken"),
    "qwen3-reranker": ("Qwen3Config", "Qwen3ForCausalLM", DECODER, None),
}
# Of Llama's classes those in which every token of a text sees all others; scores are of the mean.
BIDIRECTIONAL = {"llama-embed": "LlamaBidirectionalModel",
                 "llama-embed-rank": "LlamaBidirectionalForSequenceClassification"}
DENSE = {"gemma-embedding": [(16, 20), (20, 12)]}


def wordpiece(separators):
    tokens = SPECIAL + WORDS + list(LETTERS) + ["##" + c for c in LETTERS] + list(",.;?!")
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A" + " [SEP]" * separators + " $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def byte_level(ends):
    """Bytes, "yes" and "no"; a text ends with [SEP] if `ends`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = SPECIAL + alphabet + ["ye", "yes", "no"]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(vocabulary)},
                                     [("y", "e"), ("ye", "s"), ("n", "o")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A [SEP]", pair="$A $B [SEP]", special_tokens=[("[SEP]", 3)])
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def spread(model):
    """Weights so large that every part of the model shows in its results."""
    for name, weight in model.named_parameters():
        norm = "norm" in name.lower() or "emb_ln" in name
        if weight.dim() > 1:
            weight.data.normal_(0, 0.3)
        elif norm and name.endswith("weight"):
            weight.data.normal_(0 if "gemma" in type(model).__name__.lower() else 1, 0.2)
        else:
            weight.data.normal_(0, 0.2)


def prompt_of_reranker(query, text):
    """As on the model card of Qwen3-Reranker."""
    instruct = "Given a web search query, retrieve relevant passages that answer the query"
    return ("<|im_start|>system\nJudge whether the Document meets the requirements based on the "
            "Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\"."
            f"<|im_end|>\n<|im_start|>user\n<Instruct>: {instruct}\n<Query>: {query}\n<Document>: "
            f"{text}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


def write_modules(folder, name, pooling):
    modules = ["Transformer", "Pooling"]
    flags = {"cls": "cls_token", "mean": "mean_tokens", "lasttoken": "lasttoken"}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(
        {f"pooling_mode_{flag}": pooling == key for key, flag in flags.items()}))
    dense = []
    for i, (width, out) in enumerate(DENSE.get(name, [])):
        layer = torch.nn.Linear(width, out, bias=False)
        layer.weight.data.normal_(0, 0.3)
        part = folder / f"{i + 2}_Dense"
        part.mkdir(exist_ok=True)
        (part / "config.json").write_text(json.dumps(
            {"in_features": width, "out_features": out, "bias": False,
             "activation_function": "torch.nn.modules.linear.Identity"}))
        from safetensors.torch import save_file
        save_file({"linear.weight": layer.weight.data}, part / "model.safetensors")
        dense.append(layer.weight.data.double())
        modules.append("Dense")
    modules.append("Normalize")
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "",
          "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(modules)]))
    return dense


def make(folder, name):
    config_class, model_class, arguments, pooling = MODELS[name]
    torch.manual_seed(sum(name.encode()))
    qwen = name.startswith("qwen3")
    separators = 2 if name.startswith("xlm") else 1
    tokenizer = byte_level(pooling is not None) if qwen else wordpiece(separators)
    arguments = arguments | {"vocab_size": tokenizer.get_vocab_size()}
    if qwen:
        arguments["max_position_embeddings"] = 1024
    config = getattr(transformers, config_class)(**arguments)
    config._attn_implementation = "eager"
    model = getattr(transformers, model_class)(config)
    spread(model)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    written = json.loads((folder / "config.json").read_text())
    if "sliding_window" in arguments:  # transformers changes it when it reads it
        written["sliding_window"] = arguments["sliding_window"]
    if name in BIDIRECTIONAL:
        written |= {"architectures": [BIDIRECTIONAL[name]], "model_type": "llama_bidirec",
                    "pooling": "avg"}
    (folder / "config.json").write_text(json.dumps(written, indent=1))
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
               "sep_token": "[SEP]", "mask_token": "[MASK]"}
    if qwen:
        special = {"pad_token": "[PAD]", "eos_token": "[SEP]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    dense = write_modules(folder, name, pooling) if pooling else []
    model = model.double().eval()
    # What both sides make of rows beyond the last token differs; there are none.
    texts = [t for t in TEXTS if t] if qwen else TEXTS
    expected = {"texts": texts}
    rows = []
    for text in texts:
        if pooling is None and qwen:
            ids = tokenizer.encode(prompt_of_reranker(QUERY, text)).ids
            types = [0] * len(ids)
        else:
            encoded = tokenizer.encode(QUERY, text) if pooling is None else tokenizer.encode(text)
            ids, types = encoded.ids, encoded.type_ids
        given = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        if getattr(config, "type_vocab_size", 0) > 1:
            given["token_type_ids"] = torch.tensor([types])
        if name in BIDIRECTIONAL:
            given["attention_mask"] = torch.zeros(1, 1, len(ids), len(ids), dtype=torch.double)
        with torch.no_grad():
            out = (model.model if name == "llama-embed-rank" else model)(**given)
        if pooling is None and qwen:
            yes, no = tokenizer.token_to_id("yes"), tokenizer.token_to_id("no")
            both = out.logits[0, -1, [yes, no]]
            rows.append(torch.softmax(both, 0)[0].item())
        elif name == "llama-embed-rank":
            rows.append(model.score(out.last_hidden_state[0].mean(0))[0].item())
        elif pooling is None:
            rows.append(out.logits[0, 0].item())
        else:
            h = out.last_hidden_state[0]
            v = {"mean": h.mean(0), "cls": h[0], "lasttoken": h[-1]}[pooling]
            for weight in dense:
                v = weight @ v
            rows.append((v / v.norm()).tolist())
    if pooling is None:
        expected |= {"query": QUERY, "scores": rows}
    else:
        expected |= {"vectors": rows}
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False))


if __name__ == "__main__":
    for wanted in sys.argv[2:] or MODELS:
        make(Path(sys.argv[1]) / wanted, wanted)
