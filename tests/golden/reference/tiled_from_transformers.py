"""Tiny random models of Hugging Face's transformers that cut images into tiles, as directories, and
what transformers computes of texts with images. Needs torch, transformers and Pillow."""

import contextlib
import json
import warnings

import numpy as np
import torch
import transformers
from PIL import Image

from . import make_vision, safetensors, tower_checkpoints

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LINES = "ĊĊ"  # two ends of lines are one token, as in the published vocabularies


@contextlib.contextmanager
def resized_by_pillow():
    """Resizing as Pillow's, where a processor has torchvision's."""
    backend = transformers.image_processing_backends.TorchvisionBackend
    theirs = backend.resize

    def resize(self, image, size, resample=None, **_):
        if image.dim() == 3:
            return resize(self, image[None], size, resample)[0]
        made = [np.asarray(Image.fromarray(each.permute(1, 2, 0).numpy()).resize(
            (int(size.width), int(size.height)), resample)) for each in image]
        return torch.tensor(np.stack(made)).permute(0, 3, 1, 2)

    backend.resize = resize
    try:
        yield
    finally:
        backend.resize = theirs


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
    limit = 1e-10
    torchvision = False  # whether its processor needs that library

    def __init__(self, **processing):
        self.words = make_vision.alphabet() + [LINES] + SPECIAL + self.special
        self.id = self.words.index
        self.processing = self.usual() | processing
        self.model = fill(self.make())

    def save(self, folder):
        self.model.float().save_pretrained(folder)

    def spelled(self, text):
        """A text as it is tokenised, with the marks of images."""
        return text

    def around(self):
        """Tokens of a mark that are not the image's, where the engine tells them."""
        return 0

    def write(self, folder):
        self.save(folder)
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
            return ids, self.outputs(given)[0].numpy()

    def outputs(self, given):
        return self.model.double()(**given).logits

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


class Idefics3Odd(Idefics3):
    """With pixels beyond whole patches, as SmolVLM 2.2B's."""
    side, scale, edge = 27, 3, 108


class Lfm2Vl(Tiled):
    torchvision = True
    special = ["<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"] + [
        f"<|img_row_{row}_col_{column}|>" for row in range(1, 11) for column in range(1, 11)
        if row * column <= 10]
    patch, places, norm, layers = 4, 5, True, ["conv", "full_attention", "conv"]

    def usual(self):
        return {"min_image_tokens": 4, "max_image_tokens": 12, "encoder_patch_size": self.patch,
                "downsample_factor": 2, "tile_size": 24, "image_mean": [0.5] * 3,
                "image_std": [0.5] * 3, "resample": 2, "max_pixels_tolerance": 2.0}

    def make(self):
        return transformers.Lfm2VlForConditionalGeneration(transformers.Lfm2VlConfig(
            text_config={"model_type": "lfm2", "vocab_size": len(self.words), "hidden_size": 32,
                         "intermediate_size": 48, "num_hidden_layers": len(self.layers),
                         "num_attention_heads": 4, "num_key_value_heads": 2,
                         "block_auto_adjust_ff_dim": False, "layer_types": self.layers,
                         "max_position_embeddings": 4096, "tie_word_embeddings": True},
            vision_config={"model_type": "siglip2_vision_model", "hidden_size": 24,
                           "intermediate_size": 40, "num_hidden_layers": 2,
                           "num_attention_heads": 2, "num_patches": self.places ** 2,
                           "patch_size": self.patch, "vision_use_head": False},
            image_token_id=self.id(self.mark), projector_hidden_size=36, downsample_factor=2,
            projector_use_layernorm=self.norm, tie_word_embeddings=True))

    def begins(self):
        return [self.id("<|image_start|>")]

    def takes(self, size):
        return max(size) <= 12 * min(size)

    def processor(self):
        """There is none with Pillow: its resizing takes the place of torchvision's."""
        pictures = transformers.Lfm2VlImageProcessor(**self.processing)
        return transformers.Lfm2VlProcessor(pictures, self.tokenizer)

    def logits(self, text, images):
        with resized_by_pillow():
            return super().logits(text, images)


class InternVl(Tiled):
    mark = "<IMG_CONTEXT>"
    special = ["<IMG_CONTEXT>", "<img>", "</img>", "<video>"]
    side, patch, text, norm, keys = 24, 4, "qwen2", "layer_norm", False

    def usual(self):
        return {"size": {"height": self.side, "width": self.side}, "resample": 3,
                "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
                "crop_to_patches": False, "min_patches": 1, "max_patches": 6}

    def make(self):
        return transformers.InternVLForConditionalGeneration(transformers.InternVLConfig(
            text_config={"model_type": self.text, "vocab_size": len(self.words), "hidden_size": 32,
                         "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 4096,
                         "tie_word_embeddings": False},
            vision_config={"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
                           "num_attention_heads": 2, "image_size": [self.side] * 2,
                           "patch_size": [self.patch] * 2, "norm_type": self.norm,
                           "use_qk_norm": self.keys, "attention_bias": not self.keys},
            image_token_id=self.id(self.mark), tie_word_embeddings=False))

    def begins(self):
        return [self.id("<img>")]

    def tokenizer_names(self):
        return {"extra_special_tokens": {"start_image_token": "<img>", "end_image_token": "</img>",
                                         "context_image_token": self.mark, "video_token": "<video>"}}

    def processor(self):
        pictures = transformers.GotOcr2ImageProcessorPil(**self.processing)
        films = transformers.InternVLVideoProcessor()
        return transformers.InternVLProcessor(pictures, self.tokenizer, films,
                                              image_seq_length=(self.side // self.patch // 2) ** 2)


class InternVl6B(InternVl):
    """With the norms of the largest tower, and another text."""
    text, norm, keys = "qwen3", "rms_norm", True


class InternVlOwn(InternVl):
    """The same weights in the makers' own form, which transformers reads with their own code alone."""

    def write(self, folder):
        super().write(folder)
        tensors = tower_checkpoints.internvl_own_tensors(
            safetensors.read(folder / "model.safetensors"))
        safetensors.write(folder / "model.safetensors", tensors)
        config = json.loads((folder / "config.json").read_text())
        config, processing = tower_checkpoints.internvl_own_config(config, self.processing)
        text = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}[self.text]
        config["llm_config"]["architectures"] = [text]
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "preprocessor_config.json").write_text(json.dumps(processing))


class InternVlOwn6B(InternVlOwn, InternVl6B):
    pass


class Llava(Tiled):
    special = ["<image>"]
    side, patch, feature, text = 24, 4, -2, "llama"

    def usual(self):
        return {"size": {"shortest_edge": self.side}, "resample": 3, "do_center_crop": True,
                "crop_size": {"height": self.side, "width": self.side}}

    def make(self):
        return transformers.LlavaForConditionalGeneration(
            transformers.LlavaConfig(**self.config()))

    def config(self):
        return dict(
            text_config={"model_type": self.text, "vocab_size": len(self.words), "hidden_size": 32,
                         "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "num_key_value_heads": 2, "max_position_embeddings": 4096,
                         "pad_token_id": 0, "tie_word_embeddings": False},
            vision_config={"model_type": "clip_vision_model", "hidden_size": 24,
                           "intermediate_size": 40, "num_hidden_layers": 3,
                           "num_attention_heads": 2, "image_size": self.side,
                           "patch_size": self.patch},
            image_token_id=self.id(self.mark), vision_feature_layer=self.feature,
            tie_word_embeddings=False)

    def begins(self):
        return [self.id(self.mark)]

    def processor(self):
        pictures = transformers.CLIPImageProcessorPil(**self.processing)
        return transformers.LlavaProcessor(
            pictures, self.tokenizer, patch_size=self.patch, num_additional_image_tokens=1,
            vision_feature_select_strategy="default", image_token=self.mark)


class LlavaWhole(Llava):
    """With the results of the tower's last layer."""
    feature = -1


class LlavaNext(Llava):
    """Of LLaVA 1.6, with another text."""
    grids, text = [(1, 2), (2, 1), (2, 2), (3, 1), (1, 3)], "mistral"

    def usual(self):
        return super().usual() | {"image_grid_pinpoints": self.sizes()}

    def sizes(self):
        return [[self.side * n for n in grid] for grid in self.grids]

    def make(self):
        config = transformers.LlavaNextConfig(
            **self.config(), image_grid_pinpoints=self.sizes(),
            image_seq_length=(self.side // self.patch) ** 2)
        return transformers.LlavaNextForConditionalGeneration(config)

    def takes(self, size):
        """A line becomes no line of results: transformers then fails or has an empty image."""
        return max(size) <= 2 * self.side * min(size)

    def processor(self):
        pictures = transformers.LlavaNextImageProcessorPil(**self.processing)
        return transformers.LlavaNextProcessor(
            pictures, self.tokenizer, patch_size=self.patch, num_additional_image_tokens=1,
            vision_feature_select_strategy="default", image_token=self.mark)


class LlavaNextMore(LlavaNext):
    """With grids that images are cut finer by, and all layers."""
    grids, text, feature = [(1, 1), (4, 3), (2, 5), (1, 6), (5, 2), (6, 1)], "qwen2", -1


class SmolVlm(Idefics3):
    family, side, patch, scale, edge, tied = "SmolVLM", 32, 4, 4, 128, True
