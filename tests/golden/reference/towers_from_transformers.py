"""Tiny random models of Hugging Face's transformers that see, with the towers of Gemma 3, Mistral
Small 3.1 and Gemma 4, as GGUF files: the names, keys and changes of layout are those that
llama.cpp's converter makes. Needs torch and transformers."""

import numpy as np
import torch
import transformers

from . import gguf, make_towers, towers
from .from_transformers import permuted

PATCH, WINDOW, EDGE = 4, 9, 96
WIDTH, HEADS, KV_HEADS, HEAD, INNER = 32, 4, 2, 16, 40
SEES, SEES_HEADS, SEES_INNER, BLOCKS = 48, 4, 56, 2
TEXT = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "max_position_embeddings": 1024}
VISION = {"hidden_size": SEES, "intermediate_size": SEES_INNER, "num_attention_heads": SEES_HEADS,
          "num_hidden_layers": BLOCKS, "patch_size": PATCH}
LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm"}
MISTRAL_LAYER = LAYER | {"post_attention_layernorm": "ffn_norm"}
GEMMA_LAYER = LAYER | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm"}
SIGLIP_BLOCK = {"layer_norm1": "ln1", "layer_norm2": "ln2", "self_attn.q_proj": "attn_q",
                "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                "self_attn.out_proj": "attn_out", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"}
PIXTRAL_BLOCK = {"attention_norm": "ln1", "ffn_norm": "ln2", "attention.q_proj": "attn_q",
                 "attention.k_proj": "attn_k", "attention.v_proj": "attn_v",
                 "attention.o_proj": "attn_out", "feed_forward.gate_proj": "ffn_gate",
                 "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down"}
GEMMA4_BLOCK = LAYER | {
    "self_attn.o_proj": "attn_out", "input_layernorm": "ln1", "pre_feedforward_layernorm": "ln2",
    "post_attention_layernorm": "attn_post_norm", "post_feedforward_layernorm": "ffn_post_norm",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}


def layers_of(state, prefix, ours, names):
    """Tensors of all layers, under our names."""
    found = {}
    for name, value in state.items():
        if not name.startswith(prefix):
            continue
        layer, _, part = name[len(prefix):].replace(".linear.", ".").partition(".")
        module, _, end = part.rpartition(".")
        if module in names:
            found[f"{ours}{layer}.{names[module]}.{end}"] = value.reshape(value.shape or (1,))
    return found


class Family:
    """A model of random weights, its files, and what it computes."""

    def __init__(self, text):
        """text: of make_towers, whose vocabulary the model has."""
        self.vocabulary = {key: value for key, value in text[0].items() if "tokenizer." in key}
        self.words = self.vocabulary["tokenizer.ggml.tokens"].index
        self.count = len(self.vocabulary["tokenizer.ggml.tokens"])
        torch.manual_seed(7)
        self.model = self.make().eval()
        with torch.no_grad():
            for name, value in [*self.model.named_parameters(), *self.model.named_buffers()]:
                self.fill(name, value)
        self.state = {name: value.numpy() for name, value in self.model.state_dict().items()}

    def fill(self, name, value):
        if name.endswith(("inv_freq", "embed_scale", "position_ids")):
            return
        if name.endswith("_min") or name.endswith("_max"):
            value.uniform_(*((-1.3, -0.9) if name.endswith("_min") else (0.7, 1.1)))
        elif "embed_tokens" in name or "position_embedding" in name:
            value.normal_(0, 0.5)
        elif value.dim() > 1:
            value.normal_(0, 1.2 / value[0].numel() ** 0.5)
        else:
            around_one = "norm" in name or "ln_pre" in name or "scal" in name
            value.normal_(1 if around_one and not name.endswith("bias") else 0, 0.2)

    def text_keys(self, arch, layers, **more):
        keys = {"block_count": layers, "context_length": 1024, "embedding_length": WIDTH,
                "feed_forward_length": INNER, "attention.head_count": HEADS,
                "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
                "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-6,
                "rope.dimension_count": HEAD, "vocab_size": self.count}
        keys |= {key.replace("__", "."): value for key, value in more.items()}
        return {"general.architecture": arch} | self.vocabulary | {
            f"{arch}.{key}": value for key, value in keys.items()}

    def tower_keys(self, projector, **more):
        return make_towers.tower_keys(projector, WIDTH, **{
            "patch_size": PATCH, "embedding_length": SEES, "feed_forward_length": SEES_INNER,
            "block_count": BLOCKS, "attention__head_count": SEES_HEADS} | more)

    def text_tensors(self, names):
        b = "model.language_model."
        return {"token_embd.weight": self.state[b + "embed_tokens.weight"],
                "output_norm.weight": self.state[b + "norm.weight"],
                **layers_of(self.state, b + "layers.", "blk.", names)}

    def write(self, text_path, tower_path):
        gguf.write(text_path, *self.text())
        gguf.write(tower_path, *self.tower())

    def pixels(self, rgb):
        """(3, height, width)."""
        keys = self.tower()[0]
        x = (rgb / 255 - keys["clip.vision.image_mean"]) / keys["clip.vision.image_std"]
        return x.transpose(2, 0, 1)

    def logits(self, tokens, images):
        """(rows, vocabulary). `tokens` have one place for each image."""
        ids, left = [], list(images)
        for token in tokens:
            ids += self.rows(left.pop(0)) if token == self.words(self.seen.image_token) else [token]
        ids = torch.tensor([ids])
        given = self.given(ids, images) if images else {}
        with torch.no_grad():
            return self.model.double()(input_ids=ids, **given).logits[0].numpy()


class Gemma3(Family):
    seen, shown = towers.Gemma3, ["<start_of_image>", "<end_of_image>"]
    side, results, layers = 32, 16, 7  # pixels of an image, and what becomes of it

    def __init__(self):
        super().__init__(make_towers.gemma3_text())

    def make(self):
        self.row = self.words("<|endoftext|>")  # stands for what the tower makes
        return transformers.Gemma3ForConditionalGeneration(transformers.Gemma3Config(
            text_config=TEXT | {"vocab_size": self.count, "num_hidden_layers": self.layers,
                                "sliding_window": WINDOW, "query_pre_attn_scalar": 10},
            vision_config=VISION | {"image_size": self.side}, image_token_index=self.row,
            mm_tokens_per_image=self.results, boi_token_index=self.words(self.shown[0]),
            eoi_token_index=self.words(self.shown[1])))

    def fill(self, name, value):
        super().fill(name, value)
        if "norm.weight" in name and "vision" not in name or "layernorm.weight" in name and (
                "language" in name):
            value -= 1  # is added when it is used

    def text(self):
        tensors = self.text_tensors(GEMMA_LAYER)
        tensors = {name: value + 1 if "norm" in name else value for name, value in tensors.items()}
        return self.text_keys("gemma3", self.layers, attention__sliding_window=WINDOW,
                              rope__freq_base=1e6, attention__scale=10 ** -0.5), tensors

    def tower(self):
        v, mm = "model.vision_tower.", "model.multi_modal_projector."
        tensors = layers_of(self.state, v + "encoder.layers.", "v.blk.", SIGLIP_BLOCK)
        tensors |= {
            "v.position_embd.weight": self.state[v + "embeddings.position_embedding.weight"],
            "mm.input_projection.weight": self.state[mm + "mm_input_projection_weight"],
            "mm.soft_emb_norm.weight": self.state[mm + "mm_soft_emb_norm.weight"] + 1}
        for part in ("weight", "bias"):
            tensors["v.patch_embd." + part] = self.state[v + "embeddings.patch_embedding." + part]
            tensors["v.post_ln." + part] = self.state[v + "post_layernorm." + part]
        return self.tower_keys("gemma3", image_size=self.side, projector__scale_factor=2), tensors

    def rows(self, image):
        return [self.words(self.shown[0])] + [self.row] * self.results

    def given(self, ids, images):
        return {"pixel_values": torch.tensor(np.stack([self.pixels(image) for image in images])),
                "token_type_ids": (ids == self.row).int()}


class Mistral3(Family):
    seen, shown = towers.Mistral3, ["[IMG]", "[IMG_END]"]
    layers, merged = 3, 2

    def __init__(self):
        super().__init__(make_towers.mistral3_text())

    def make(self):
        return transformers.Mistral3ForConditionalGeneration(transformers.Mistral3Config(
            text_config=transformers.MistralConfig(
                **TEXT, vocab_size=self.count, num_hidden_layers=self.layers, rms_norm_eps=1e-5,
                sliding_window=None, tie_word_embeddings=False),
            vision_config=transformers.PixtralVisionConfig(
                **VISION, image_size=EDGE, head_dim=SEES // SEES_HEADS),
            image_token_index=self.words("[IMG]"), spatial_merge_size=self.merged,
            tie_word_embeddings=False))

    def text(self):
        tensors = self.text_tensors(MISTRAL_LAYER) | {"output.weight": self.state["lm_head.weight"]}
        for part, heads in (("attn_q", HEADS), ("attn_k", KV_HEADS)):
            for layer in range(self.layers):
                name = f"blk.{layer}.{part}.weight"
                tensors[name] = permuted(tensors[name], heads)
        return self.text_keys("mistral3", self.layers, rope__scaling__original_context_length=1024,
                              attention__layer_norm_rms_epsilon=1e-5), tensors

    def tower(self):
        v, mm = "model.vision_tower.", "model.multi_modal_projector."
        tensors = layers_of(self.state, v + "transformer.layers.", "v.blk.", PIXTRAL_BLOCK)
        for name in tensors:
            if "attn_q" in name or "attn_k" in name:
                tensors[name] = permuted(tensors[name], SEES_HEADS)
        for theirs, ours in {v + "patch_conv": "v.patch_embd", v + "ln_pre": "v.pre_ln",
                             mm + "norm": "mm.input_norm", mm + "linear_1": "mm.1",
                             mm + "patch_merger.merging_layer": "mm.patch_merger",
                             mm + "linear_2": "mm.2"}.items():
            tensors[ours + ".weight"] = self.state[theirs + ".weight"]
        embedded = self.state["model.language_model.embed_tokens.weight"]
        tensors["v.token_embd.img_break"] = embedded[self.words("[IMG_BREAK]")]
        keys = self.tower_keys("pixtral", image_size=EDGE, spatial_merge_size=self.merged,
                               attention__layer_norm_epsilon=1e-5)
        activation = {"silu": "clip.use_silu", "gelu": "clip.use_gelu"}
        return keys | {activation[self.model.config.vision_config.hidden_act]: True}, tensors

    def rows(self, image):
        lines, columns = (side // PATCH // self.merged for side in image.shape[:2])
        line = [self.words("[IMG]")] * columns + [self.words("[IMG_BREAK]")]
        return (line * lines)[:-1]

    def given(self, ids, images):
        """Images beside others are filled up to the largest sides."""
        sizes = [image.shape[:2] for image in images]
        pixels = np.zeros((len(images), 3, *np.max(sizes, axis=0)))
        for at, image in zip(pixels, images):
            at[:, :image.shape[0], :image.shape[1]] = self.pixels(image)
        return {"pixel_values": torch.tensor(pixels), "image_sizes": torch.tensor(sizes)}


class Gemma4(Family):
    seen, shown = towers.Gemma4, ["<|image>", "<|image|>", "<image|>"]
    layers, places, pooled = 6, 24, 3
    large = False

    def __init__(self):
        super().__init__(make_towers.gemma4_text())

    def make(self):
        self.sliding = [layer % 3 < 2 for layer in range(self.layers)]
        kinds = ["sliding_attention" if slides else "full_attention" for slides in self.sliding]
        self.per_layer, self.shared = (0, 0) if self.large else (8, 3)
        return transformers.Gemma4ForConditionalGeneration(transformers.Gemma4Config(
            text_config=TEXT | {
                "vocab_size": self.count, "num_hidden_layers": self.layers, "layer_types": kinds,
                "global_head_dim": HEAD, "sliding_window": WINDOW, "pad_token_id": 0,
                "hidden_size_per_layer_input": self.per_layer, "final_logit_softcapping": 5.0,
                "vocab_size_per_layer_input": self.count, "num_kv_shared_layers": self.shared,
                "use_bidirectional_attention": "vision" if self.large else None},
            vision_config=VISION | {
                "num_key_value_heads": SEES_HEADS, "head_dim": SEES // SEES_HEADS,
                "position_embedding_size": self.places, "pooling_kernel_size": self.pooled,
                "use_clipped_linears": not self.large, "standardize": self.large},
            audio_config=None, image_token_id=self.words("<|image|>"),
            boi_token_id=self.words("<|image>"), eoi_token_id=self.words("<image|>")))

    def text(self):
        b = "model.language_model."
        tensors = self.text_tensors(GEMMA_LAYER)
        turning = HEAD // 2 // 4  # a quarter of the pairs
        tensors["rope_freqs.weight"] = np.array([1.0] * turning + [1e30] * (HEAD // 2 - turning))
        for layer in range(self.layers):
            tensors[f"blk.{layer}.layer_output_scale.weight"] = self.state[
                f"{b}layers.{layer}.layer_scalar"]
        if self.per_layer:
            for theirs, ours in {"embed_tokens_per_layer": "per_layer_token_embd",
                                 "per_layer_model_projection": "per_layer_model_proj",
                                 "per_layer_projection_norm": "per_layer_proj_norm"}.items():
                tensors[ours + ".weight"] = self.state[f"{b}{theirs}.weight"]
        return self.text_keys(
            "gemma4", self.layers, attention__sliding_window=WINDOW, rope__freq_base=1e6,
            attention__sliding_window_pattern=self.sliding, attention__key_length_swa=HEAD,
            attention__value_length_swa=HEAD, rope__dimension_count_swa=HEAD,
            rope__freq_base_swa=1e4, final_logit_softcapping=5.0,
            embedding_length_per_layer_input=self.per_layer,
            attention__shared_kv_layers=self.shared), tensors

    def tower(self):
        v = "model.vision_tower."
        tensors = layers_of(self.state, v + "encoder.layers.", "v.blk.", GEMMA4_BLOCK)
        kernel = self.state[v + "patch_embedder.input_proj.weight"]
        kernel = kernel.reshape(SEES, PATCH, PATCH, 3).transpose(0, 3, 1, 2)
        tensors |= {
            "v.patch_embd.weight": np.ascontiguousarray(kernel),
            "v.position_embd.weight": self.state[v + "patch_embedder.position_embedding_table"],
            "mm.input_projection.weight": self.state[
                "model.embed_vision.embedding_projection.weight"]}
        tensors |= {f"v.{name}": self.state[v + name] for name in ("std_bias", "std_scale")
                    if v + name in self.state}
        return self.tower_keys("gemma4v", projector__scale_factor=self.pooled, image_size=224,
                               image_mean=[0.0] * 3, image_std=[1.0] * 3), tensors

    def rows(self, image):
        patches = image.shape[0] * image.shape[1] // PATCH ** 2
        return [self.words("<|image|>")] * (patches // self.pooled ** 2)

    def given(self, ids, images):
        """Images beside others are filled up with patches that have no place."""
        most = max(image.shape[0] * image.shape[1] // PATCH ** 2 for image in images)
        pixels = np.zeros((len(images), most, 3 * PATCH ** 2))
        places = np.full((len(images), most, 2), -1)
        for i, image in enumerate(images):
            rows, columns = (side // PATCH for side in image.shape[:2])
            x = (image / 255).reshape(rows, PATCH, columns, PATCH, 3).transpose(0, 2, 1, 3, 4)
            pixels[i, :rows * columns] = x.reshape(rows * columns, -1)
            row, column = np.mgrid[:rows, :columns].reshape(2, -1)
            places[i, :rows * columns] = np.stack([column, row], axis=1)
        return {"pixel_values": torch.tensor(pixels), "image_position_ids": torch.tensor(places),
                "mm_token_type_ids": (ids == self.words("<|image|>")).int()}


class Gemma4Large(Gemma4):
    large = True
