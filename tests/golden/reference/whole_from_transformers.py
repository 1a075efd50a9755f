"""More tiny random models of Hugging Face's transformers that see, as directories, and what
transformers computes of texts with images, all of it in float64. Needs torch, torchvision,
transformers and Pillow."""

import contextlib
import json

import safetensors.torch  # noqa: F401  (before in_doubles(): it has a table of torch's types)
import torch
import transformers

from . import from_transformers, safetensors as files
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
    torchvision = True
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
        state = {name: x.float() for name, x in self.model.state_dict().items()}
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


class Glm5Next(Glm4v):
    """Of GLM-5.3-Flash. Images are filled up with black to whole results. The index has so many heads
    that no two blocks score 0: of such blocks transformers may choose another."""
    limit = 1e-9  # gates, streams and the index make more of small differences

    def usual(self):
        return {"min_image_tokens": 4, "max_image_tokens": 90, "patch_size": 4,
                "temporal_patch_size": 2, "merge_size": 2, "resample": 3,
                "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]}

    def make(self):
        text = from_transformers.GLM5_NEXT | {
            "vocab_size": len(self.words), "hidden_size": self.width, "pad_token_id": 0,
            "max_position_embeddings": 4096, "tie_word_embeddings": False, "index_n_heads": 32}
        config = transformers.Glm5NextConfig(
            text_config=text,
            vision_config={
                "depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48,
                "out_hidden_size": self.width, "projection_intermediate_size": 72, "patch_size": 4,
                "spatial_merge_size": 2, "temporal_patch_size": 2, "swiglu_limit": 0.4},
            image_token_id=self.id(self.pad), video_token_id=self.id("<|video|>"),
            image_start_token_id=self.id(self.begin), image_end_token_id=self.id(self.end),
            video_start_token_id=self.id("<|begin_of_video|>"),
            video_end_token_id=self.id("<|end_of_video|>"))
        config._experts_implementation = "eager"
        return transformers.Glm5NextForConditionalGeneration(config)

    def processor(self):
        pictures = transformers.Glm5NextImageProcessor(**self.processing)
        return transformers.Glm5NextProcessor(pictures, self.tokenizer,
                                              transformers.Glm5NextVideoProcessor())


class KimiK25(Whole):
    """Images are filled up with black to whole results."""
    begin, pad, end = "<|media_begin|>", "<|media_pad|>", "<|media_end|>"
    special = [pad, begin, end, "<|media_content|>", "<|kimi_k25_video_placeholder|>"]
    class_name = "Kimi_K25ForConditionalGeneration"
    places = 6

    def usual(self):
        return {"size": {"max_height": 40, "max_width": 40}, "max_patches": 400, "patch_size": 4,
                "merge_size": 2, "resample": 3, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}

    def make(self):
        text = {"model_type": "deepseek_v3", "num_hidden_layers": 2, "q_lora_rank": 14,
                "kv_lora_rank": 18, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 12,
                "moe_intermediate_size": 10, "n_routed_experts": 8, "num_experts_per_tok": 3,
                "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
                "num_key_value_heads": 4, "routed_scaling_factor": 1.4,
                "rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}
        config = transformers.Kimi_K25Config(
            text_config=self.text() | text,
            vision_config={
                "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
                "intermediate_size": 48, "patch_size": 4, "pos_emb_height": self.places,
                "pos_emb_width": self.places, "merge_kernel_size": [2, 2]},
            projection_hidden_size=32, image_token_id=self.id(self.pad),
            video_token_id=self.id("<|kimi_k25_video_placeholder|>"), tie_word_embeddings=False)
        config._experts_implementation = "eager"
        return transformers.Kimi_K25ForConditionalGeneration(config)

    # What transformers writes otherwise than the makers, and reads all the same.
    names = {"language_model.model.blocks.": "language_model.model.layers.",
             "model.mm_projector.": "mm_projector.",
             "vision_tower.encoder.patch_embed.": "vision_tower.patch_embed."}

    def write(self, folder):
        super().write(folder)
        path = folder / "model.safetensors"
        tensors = files.read(path)
        for theirs, own in self.names.items():
            tensors = {name.replace(theirs, own): x for name, x in tensors.items()}
        files.write(path, tensors)

    def processor(self):
        pictures = transformers.Kimi_K25ImageProcessor(**self.processing)
        return transformers.Kimi_K25Processor(pictures, self.tokenizer,
                                              transformers.Kimi_K25VideoProcessor())


class KimiVl(KimiK25):
    """The same weights as Kimi-VL has them, which transformers reads with its own code alone."""
    begin = "<|media_start|>"
    special = [KimiK25.pad, begin, KimiK25.end, "<|media_content|>", "<|kimi_k25_video_placeholder|>"]

    def usual(self):
        return super().usual() | {"size": {"max_height": 512, "max_width": 512}}

    names = KimiK25.names | {"mm_projector.proj.0": "multi_modal_projector.linear_1",
                             "mm_projector.proj.2": "multi_modal_projector.linear_2",
                             "mm_projector.pre_norm": "multi_modal_projector.pre_norm"}

    def write(self, folder):
        super().write(folder)
        config = json.loads((folder / "config.json").read_text())
        config["architectures"] = ["KimiVLForConditionalGeneration"]
        (folder / "config.json").write_text(json.dumps(config))
        own = {key: x for key, x in self.processing.items() if key not in ("size", "max_patches")}
        (folder / "preprocessor_config.json").write_text(json.dumps(
            own | {"in_token_limit": self.processing["max_patches"], "pad_input": True}))


class Llama4(Whole):
    pad = "<|image|>"
    special = [pad, "<|image_start|>", "<|image_end|>", "<|patch|>", "<|tile_x_separator|>",
               "<|tile_y_separator|>"]

    def usual(self):
        return {"size": {"height": 24, "width": 24}, "max_patches": 9, "resize_to_max_canvas": False,
                "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}

    def make(self):
        text = {"num_hidden_layers": 4, "intermediate_size": 24, "intermediate_size_mlp": 40,
                "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 1,
                "interleave_moe_layer_step": 2, "attention_chunk_size": 64, "use_qk_norm": True,
                "rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}
        config = transformers.Llama4Config(
            text_config=self.text() | text,
            vision_config={
                "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                "intermediate_size": 128, "image_size": 24, "patch_size": 4,
                "vision_output_dim": 40, "projector_input_dim": 40, "projector_output_dim": 40,
                "pixel_shuffle_ratio": 0.5},
            image_token_index=self.id("<|patch|>"), boi_token_index=self.id("<|image_start|>"),
            eoi_token_index=self.id("<|image_end|>"), tie_word_embeddings=False)
        return transformers.Llama4ForConditionalGeneration(config)

    def begins(self):
        return [self.id("<|image_start|>")]

    def around(self):
        return 0

    def outputs(self, given):
        """transformers 5.24 passes on what its text models do not return."""
        transformers.modeling_outputs.MoeCausalLMOutputWithPast.image_outputs = None
        return super().outputs(given)

    def processor(self):
        pictures = transformers.Llama4ImageProcessor(**self.processing)
        return transformers.Llama4Processor(pictures, self.tokenizer, patch_size=4)
