"""Tiny random models of Hugging Face's transformers whose tower keeps an image's form, as directories,
and what transformers computes of texts with images, all of it in float64. Needs torch, torchvision,
transformers and Pillow."""

import contextlib

import torch
import transformers

from .tiled_from_transformers import Tiled, resized_by_pillow


@contextlib.contextmanager
def in_doubles():
    """What transformers computes in float32 whatever the model's type is."""
    kept = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept


class Whole(Tiled):
    """`begin` and `end` stand around an image, whose token is `pad`."""
    begin, pad, end = "", "<image>", ""
    width, heads, unit = 64, 4, 8

    def __init__(self, **processing):
        self.mark = self.begin + self.pad + self.end
        with in_doubles():
            super().__init__(**processing)
            self.model.double()
        # What weights of a directory hold.
        for weight in self.model.parameters():
            weight.data = weight.data.to(torch.bfloat16).double()

    def save(self, folder):
        state = {name: x.to(torch.bfloat16) for name, x in self.model.state_dict().items()}
        self.model.save_pretrained(folder, state_dict=state)

    def text(self, **more):
        return {"vocab_size": len(self.words), "hidden_size": self.width, "intermediate_size": 48,
                "num_hidden_layers": 2, "num_attention_heads": self.heads,
                "num_key_value_heads": 2, "max_position_embeddings": 4096,
                "tie_word_embeddings": False} | more

    def begins(self):
        return [self.id(self.pad)]

    def around(self):
        """Tokens of a mark that are not the image's."""
        return bool(self.begin) + bool(self.end)

    def logits(self, text, images):
        with in_doubles(), resized_by_pillow():
            return super().logits(text, images)


class Glm4v(Whole):
    """Of GLM-4.1V. Pixels are counted as those of two equal images."""
    begin, pad, end = "<|begin_of_image|>", "<|image|>", "<|end_of_image|>"
    special = [pad, begin, end, "<|video|>", "<|begin_of_video|>", "<|end_of_video|>"]
    family = "Glm4v"

    def usual(self):
        return {"size": {"shortest_edge": 2 * 4 * 64, "longest_edge": 2 * 200 * 64},
                "patch_size": 4, "temporal_patch_size": 2, "merge_size": 2, "resample": 3,
                "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]}

    def rope(self):
        return {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5,
                "mrope_section": [1, 2, 1]}

    def make(self):
        config = getattr(transformers, self.family + "Config")(
            text_config=self.text(rope_parameters=self.rope(), **self.more()),
            vision_config={
                "depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 72,
                "out_hidden_size": self.width, "image_size": 20, "patch_size": 4,
                "spatial_merge_size": 2, "temporal_patch_size": 2, "rms_norm_eps": 1e-5},
            image_token_id=self.id(self.pad), video_token_id=self.id("<|video|>"),
            image_start_token_id=self.id(self.begin), image_end_token_id=self.id(self.end),
            video_start_token_id=self.id("<|begin_of_video|>"),
            video_end_token_id=self.id("<|end_of_video|>"))
        config._experts_implementation = "eager"  # the others have no float64
        return getattr(transformers, self.family + "ForConditionalGeneration")(config)

    def more(self):
        return {"model_type": "glm4v_text"}

    def takes(self, size):
        """An image of one line of results has more of them than the limit."""
        return True

    def processor(self):
        pictures = transformers.Glm4vImageProcessor(**self.processing)
        return transformers.Glm4vProcessor(pictures, self.tokenizer,
                                           transformers.Glm4vVideoProcessor())


class Glm4vMoe(Glm4v):
    """Of GLM-4.5V."""
    family = "Glm4vMoe"

    def more(self):
        return {"head_dim": 16, "moe_intermediate_size": 24, "n_routed_experts": 6,
                "num_experts_per_tok": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.3}


class Glm46v(Glm4v):
    family = "Glm46V"


class Glm46vMoe(Glm4vMoe):
    family = "Glm46V"

    def more(self):
        return super().more() | {"model_type": "glm4v_moe_text"}
