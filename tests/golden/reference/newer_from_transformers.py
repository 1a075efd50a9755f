"""Tiny random models of Hugging Face's transformers that see, in float64: GLM-OCR, PaddleOCR-VL,
EXAONE 4.5, MiniCPM-V 4.6 and MiniCPM-OCR. Needs torch, torchvision, transformers and Pillow."""

import json

import transformers

from .whole_from_transformers import Glm4v, Whole


class GlmOcr(Glm4v):
    family = "GlmOcr"

    def more(self):
        return {"head_dim": 16}

    def make(self):
        config = transformers.GlmOcrConfig(
            text_config=self.text(rope_parameters=self.rope(), **self.more()),
            vision_config={
                "depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 40,
                "out_hidden_size": self.width, "patch_size": 4, "spatial_merge_size": 2,
                "temporal_patch_size": 2, "rms_norm_eps": 1e-5},
            image_token_id=self.id(self.pad), video_token_id=self.id("<|video|>"),
            image_start_token_id=self.id(self.begin), image_end_token_id=self.id(self.end),
            video_start_token_id=self.id("<|begin_of_video|>"),
            video_end_token_id=self.id("<|end_of_video|>"))
        return transformers.GlmOcrForConditionalGeneration(config)

    def rope(self):
        return {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0,
                "mrope_section": [2, 3, 3]}


class PaddleOcrVl(Whole):
    begin, pad, end = "<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"
    special = [pad, begin, end, "<|video_pad|>"]

    def usual(self):
        return {"size": {"shortest_edge": 4 * 64, "longest_edge": 200 * 64}, "patch_size": 4,
                "temporal_patch_size": 1, "merge_size": 2, "resample": 3,
                "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]}

    def make(self):
        rope = {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [2, 3, 3]}
        config = transformers.PaddleOCRVLConfig(
            text_config=self.text(rope_parameters=rope, head_dim=16),
            vision_config={
                "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
                "intermediate_size": 48, "image_size": 20, "patch_size": 4,
                "spatial_merge_size": 2},
            image_token_id=self.id(self.pad), video_token_id=self.id("<|video_pad|>"),
            vision_start_token_id=self.id(self.begin), vision_end_token_id=self.id(self.end),
            tie_word_embeddings=False)
        return transformers.PaddleOCRVLForConditionalGeneration(config)

    def takes(self, size):
        """An image of one line of results has more of them than the limit, or is too long."""
        return max(size) < 200 * min(size)

    def tokenizer_names(self):
        return {"extra_special_tokens": {"image_token": self.pad}}

    def processor(self):
        return transformers.PaddleOCRVLProcessor(
            transformers.PaddleOCRVLImageProcessorPil(**self.processing), self.tokenizer)


class PaddleOcrVlFlat(PaddleOcrVl):
    """As the makers write it: the text's keys stand with those of the whole."""

    def write(self, folder):
        super().write(folder)
        path = folder / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps(config.pop("text_config") | config))
        path = folder / "preprocessor_config.json"
        processor = json.loads(path.read_text())
        size = processor.pop("size")
        path.write_text(json.dumps(processor | {"min_pixels": size["shortest_edge"],
                                                "max_pixels": size["longest_edge"]}))


class Exaone45(Whole):
    begin, pad, end = "<vision>", "<|image_pad|>", "</vision>"
    special = [pad, begin, end, "<|video_pad|>"]
    windows = {"window_size": 16, "fullatt_block_indexes": [1]}

    def usual(self):
        return {"size": {"shortest_edge": 4 * 64, "longest_edge": 200 * 64}, "patch_size": 4,
                "temporal_patch_size": 2, "merge_size": 2, "resample": 3,
                "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]}

    def make(self):
        config = transformers.Exaone4_5_Config(
            text_config=self.text(model_type="exaone4", sliding_window=24, head_dim=16,
                                  sliding_window_pattern=4, num_hidden_layers=4),
            vision_config=self.windows | {
                "depth": 2, "hidden_size": 32, "num_heads": 4, "num_key_value_heads": 2,
                "intermediate_size": 48, "out_hidden_size": self.width, "patch_size": 4,
                "spatial_merge_size": 2, "temporal_patch_size": 2},
            image_token_id=self.id(self.pad), video_token_id=self.id("<|video_pad|>"))
        return transformers.Exaone4_5_ForConditionalGeneration(config)

    def takes(self, size):
        return max(size) <= 200 * min(size)

    def processor(self):
        return transformers.Exaone4_5_Processor(
            transformers.Qwen2VLImageProcessorPil(**self.processing), self.tokenizer,
            transformers.Qwen2VLVideoProcessor())


class MiniCpmV(Whole):
    """Of MiniCPM-V 4.6, whose text is Qwen 3.5's."""
    pad = "<|image_pad|>"
    names = {"image": "<image>", "slice": "<slice>", "image_id": "<image_id>"}
    special = [pad, "<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>",
               "<|video_pad|>"]
    family, mode = "MiniCPMV4_6", "16x"
    limit = 1e-9  # the text's gates make more of small differences

    def usual(self):
        return {"patch_size": 4, "scale_resolution": 48, "max_slice_nums": 9, "resample": 3,
                "downsample_mode": self.mode, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}

    def make(self):
        config = getattr(transformers, self.family + "Config")(
            text_config=self.text(
                model_type="qwen3_5_text", num_hidden_layers=4, head_dim=16,
                linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
                linear_value_head_dim=16, full_attention_interval=4,
                rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                 "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1],
                                 "mrope_interleaved": True}),
            vision_config={
                "num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 2,
                "intermediate_size": 40, "image_size": 28, "patch_size": 4},
            insert_layer_id=1, downsample_mode=self.mode, image_token_id=self.id(self.pad),
            video_token_id=self.id("<|video_pad|>"), tie_word_embeddings=False)
        return getattr(transformers, self.family + "ForConditionalGeneration")(config)

    def begins(self):
        return [self.id("<image>")]

    def spelled(self, text):
        """With the numbers of images."""
        if not self.processing.get("use_image_id", True):
            return text
        first, *rest = text.split(self.pad)
        return first + "".join(f"<image_id>{i}</image_id>{self.pad}{part}"
                               for i, part in enumerate(rest))

    def around(self):
        return 3 if self.processing.get("use_image_id", True) else 0

    def takes(self, size):
        """Here longer images are refused."""
        return max(size) <= 200 * min(size)

    def tokenizer_names(self):
        names = {"image_token": self.pad, "video_token": "<|video_pad|>"}
        for name, token in self.names.items():
            names |= {name + "_start_token": token, name + "_end_token": token.replace("<", "</")}
        return {"extra_special_tokens": names, "pad_token": "<|endoftext|>"}

    def processor(self):
        pictures = getattr(transformers, self.family + "ImageProcessor")(**self.processing)
        films = getattr(transformers, self.family + "VideoProcessor")()
        return getattr(transformers, self.family + "Processor")(pictures, films, self.tokenizer)


class MiniCpmVMore(MiniCpmV):
    mode = "4x"


class MiniCpmOcr(MiniCpmVMore):
    family = "MiniCPMOcr"
