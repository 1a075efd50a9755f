"""Tiny random models of Hugging Face's transformers that cut images into tiles, as directories, and
what transformers computes of texts with images. Needs torch, transformers and Pillow."""

import json
import warnings

import numpy as np
import torch
import transformers

from . import make_vision

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LINES = "ĊĊ"  # two ends of lines are one token, as in the published vocabularies


def fill(model):
    """Random weights; transformers makes some of them 0."""
    torch.manual_seed(7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_tokens" in name or "position_embedding" in name or "cls_token" in name:
                weight.normal_(0, 0.5)
            elif weight.dim() > 1:
                weight.normal_(0, 1.2 / weight[0].numel() ** 0.5)
            else:
                around_one = "norm" in name and name.endswith("weight") or "lambda" in name
                weight.normal_(1 if around_one else 0, 0.2)
    return model.eval()


class Tiled:
    """A model, and its processor. `special`: tokens of its vocabulary; the first one is the mark of
    an image, which `bounds` encloses if there is anything around all tiles."""
    special, mark = [], "<image>"

    def __init__(self, **processing):
        self.words = make_vision.alphabet() + [LINES] + SPECIAL + self.special
        self.id = self.words.index
        self.processing = self.usual() | processing
        self.model = fill(self.make())

    def write(self, folder):
        self.model.float().save_pretrained(folder)
        count = len(SPECIAL + self.special)
        added = [{"id": i, "content": token, "special": True, "single_word": False,
                  "lstrip": False, "rstrip": False, "normalized": False}
                 for i, token in enumerate(self.words) if i >= len(self.words) - count]
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                 "use_regex": False}
        plain = self.words[:-count]
        bpe = {"type": "BPE", "vocab": {token: i for i, token in enumerate(plain)},
               "merges": [["Ċ", "Ċ"]]}
        (folder / "tokenizer.json").write_text(json.dumps(
            {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": level,
             "post_processor": None, "decoder": level, "model": bpe}))
        (folder / "preprocessor_config.json").write_text(json.dumps(self.processing))
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json"), **self.tokenizer_names())

    def tokenizer_names(self):
        return {}

    def logits(self, text, images):
        """(ids, logits of each) of a text with a mark for each image."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = self.processor()(text=text, images=images, return_tensors="pt")
        given.pop("attention_mask", None)
        given.pop("token_type_ids", None)
        ids = given["input_ids"][0].tolist()
        given = {name: x.double() if x.is_floating_point() else x for name, x in given.items()}
        with torch.no_grad():
            return ids, self.model.double()(**given).logits[0].numpy()

    def takes(self, size):
        """Whether transformers keeps to its limits with an image of this size."""
        return True

    def own_rows(self, ids, lengths):
        """Rows that the engine tells: of an image, of which so many rows are known, its last."""
        told, at, lengths = [], 0, list(lengths)
        while at < len(ids):
            at += lengths.pop(0) if ids[at] in self.begins() and lengths else 1
            told.append(at - 1)
        assert not lengths
        return told


class Idefics3(Tiled):
    special = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"] + [
        f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    family, side, patch, scale, edge, tied = "Idefics3", 24, 4, 2, 96, False

    def usual(self):
        return {"size": {"longest_edge": self.edge}, "max_image_size": {"longest_edge": self.side},
                "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 1,
                "do_image_splitting": True, "do_rescale": True, "rescale_factor": 1 / 255}

    def make(self):
        make = getattr(transformers, self.family + "ForConditionalGeneration")
        config = getattr(transformers, self.family + "Config")
        return make(config(
            text_config={"model_type": "llama", "vocab_size": len(self.words), "hidden_size": 32,
                         "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "num_key_value_heads": 2, "max_position_embeddings": 4096,
                         "rms_norm_eps": 1e-5, "pad_token_id": 0,
                         "tie_word_embeddings": self.tied},
            vision_config={"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
                           "num_attention_heads": 2, "image_size": self.side,
                           "patch_size": self.patch},
            image_token_id=self.id(self.mark), scale_factor=self.scale,
            tie_word_embeddings=self.tied))

    def begins(self):
        return [self.id("<fake_token_around_image>")]

    def processor(self):
        """SmolVLM's own makes the same of images, and needs more for films."""
        pictures = getattr(transformers, self.family + "ImageProcessorPil")
        results = (self.side // self.patch // self.scale) ** 2
        return transformers.Idefics3Processor(pictures(**self.processing), self.tokenizer,
                                              image_seq_len=results)


class SmolVlm(Idefics3):
    family, side, patch, scale, edge, tied = "SmolVLM", 32, 4, 4, 128, True
