"""Hugging Face directories with the vision towers of GGUF files: the same weights under the names
and in the layouts of the checkpoints. Their text is left out, as a tower needs none of it."""

import json

import numpy as np

from . import safetensors

ROPE_BLOCK = {"attn_qkv": "attn.qkv", "attn_out": "attn.proj", "ln1": "norm1", "ln2": "norm2"}
QWEN3_BLOCK = ROPE_BLOCK | {"ffn_up": "mlp.linear_fc1", "ffn_down": "mlp.linear_fc2"}
SIGLIP_BLOCK = {"ln1": "layer_norm1", "ln2": "layer_norm2", "attn_q": "self_attn.q_proj",
                "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
                "attn_out": "self_attn.out_proj", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
INTERNVL_BLOCK = {"ln1": "layernorm_before", "ln2": "layernorm_after",
                  "attn_q": "attention.q_proj", "attn_k": "attention.k_proj",
                  "attn_v": "attention.v_proj", "attn_out": "attention.projection_layer",
                  "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
INTERNVL_OWN = {  # of transformers' form → of the makers' own
    "vision_tower.embeddings.patch_embeddings.projection":
        "vision_model.embeddings.patch_embedding",
    "vision_tower.embeddings.cls_token": "vision_model.embeddings.class_embedding",
    "vision_tower.embeddings.position_embeddings": "vision_model.embeddings.position_embedding",
    "vision_tower.encoder.layer.": "vision_model.encoder.layers.",
    "layernorm_before": "norm1", "layernorm_after": "norm2", "attention.q_norm": "attn.q_norm",
    "attention.k_norm": "attn.k_norm", "attention.projection_layer": "attn.proj",
    "lambda_": "ls", "multi_modal_projector.layer_norm": "mlp1.0",
    "multi_modal_projector.linear_1": "mlp1.1", "multi_modal_projector.linear_2": "mlp1.3"}
PIXTRAL_BLOCK = {"ln1": "attention_norm", "ln2": "ffn_norm", "attn_q": "attention.q_proj",
                 "attn_k": "attention.k_proj", "attn_v": "attention.v_proj",
                 "attn_out": "attention.o_proj", "ffn_gate": "feed_forward.gate_proj",
                 "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj"}
GEMMA4_PRODUCTS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
                   "attn_v": "self_attn.v_proj", "attn_out": "self_attn.o_proj",
                   "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
                   "ffn_down": "mlp.down_proj"}
GEMMA4_NORMS = {"ln1": "input_layernorm", "ln2": "pre_feedforward_layernorm",
                "attn_post_norm": "post_attention_layernorm",
                "ffn_post_norm": "post_feedforward_layernorm", "attn_q_norm": "self_attn.q_norm",
                "attn_k_norm": "self_attn.k_norm"}


def separated(x, heads):
    """Rows of q or k whose turned pairs are neighbours → half a head apart."""
    return x.reshape(heads, x.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)


class Checkpoint:
    """What becomes of one tower: config.json, preprocessor_config.json, tensors."""

    def __init__(self, keys, tensors, architecture):
        self.keys, self.given = keys, dict(tensors)
        self.tensors = {}
        self.config = {"architectures": [architecture],
                       "text_config": {"hidden_size": self.key("projection_dim")},
                       "vision_config": {"patch_size": self.key("patch_size"),
                                         "intermediate_size": self.key("feed_forward_length")}}
        self.processor = {name: self.key(name) for name in ("image_mean", "image_std")}

    def key(self, name, absent=None):
        return self.keys.get("clip.vision." + name, absent)

    def says(self, **values):
        self.config["vision_config"] |= values

    def usual(self):
        self.says(hidden_size=self.key("embedding_length"),
                  num_hidden_layers=self.key("block_count"),
                  num_attention_heads=self.key("attention.head_count"))

    def take(self, ours, theirs):
        for part in ("weight", "bias"):
            if f"{ours}.{part}" in self.given:
                self.tensors[f"{theirs}.{part}"] = self.given.pop(f"{ours}.{part}")

    def blocks(self, prefix, names):
        for block in range(self.key("block_count")):
            for ours, theirs in names.items():
                self.take(f"v.blk.{block}.{ours}", f"{prefix}{block}.{theirs}")

    def write(self, folder, root="", dtype=np.float32):
        assert not self.given, list(self.given)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self.config))
        (folder / "preprocessor_config.json").write_text(json.dumps(self.processor))
        safetensors.write(folder / "model.safetensors",
                          {root + name: x.astype(dtype) for name, x in self.tensors.items()})


def rope_tower(m, **more):
    """What the towers of Qwen have in common."""
    m.says(depth=m.key("block_count"), num_heads=m.key("attention.head_count"),
           temporal_patch_size=2, spatial_merge_size=m.key("spatial_merge_size"), **more)
    kernels = [m.given.pop("v.patch_embd.weight" + end) for end in ("", ".1")]
    m.tensors["visual.patch_embed.proj.weight"] = np.stack(kernels, axis=2)
    m.processor["size"] = {"shortest_edge": m.key("image_min_pixels"),
                           "longest_edge": m.key("image_max_pixels")}


def qwen2(keys, tensors):
    """Of Qwen2-VL, or if it has windows of Qwen2.5-VL or EXAONE 4.5."""
    period = keys.get("clip.vision.n_wa_pattern")
    exaone = keys["clip.projector_type"] == "exaone4_5"
    family = "Exaone4_5_" if exaone else "Qwen2_5_VL" if period else "Qwen2VL"
    m = Checkpoint(keys, tensors, family + "ForConditionalGeneration")
    if exaone:
        m.says(num_key_value_heads=m.key("attention.head_count_kv"))
    if period:
        rope_tower(m, hidden_size=m.key("embedding_length"), window_size=m.key("window_size"),
                   fullatt_block_indexes=list(range(period - 1, m.key("block_count"), period)))
        parts = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    else:
        rope_tower(m, embed_dim=m.key("embedding_length"), hidden_size=m.key("projection_dim"))
        parts = {"ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
    m.blocks("visual.blocks.", ROPE_BLOCK | parts)
    m.take("v.post_ln", "visual.merger.ln_q")
    m.take("mm.0", "visual.merger.mlp.0")
    m.take("mm.2", "visual.merger.mlp.2")
    return m


def qwen3(keys, tensors):
    m = Checkpoint(keys, tensors, "Qwen3VLForConditionalGeneration")
    flags = m.key("is_deepstack_layers")
    layers = [i for i, flag in enumerate(flags) if flag]
    rope_tower(m, hidden_size=m.key("embedding_length"), hidden_act="gelu_pytorch_tanh",
               deepstack_visual_indexes=layers)
    m.tensors["visual.patch_embed.proj.bias"] = m.given.pop("v.patch_embd.bias")
    m.take("v.position_embd", "visual.pos_embed")
    m.blocks("visual.blocks.", QWEN3_BLOCK)
    m.take("v.post_ln", "visual.merger.norm")
    m.take("mm.0", "visual.merger.linear_fc1")
    m.take("mm.2", "visual.merger.linear_fc2")
    for i, layer in enumerate(layers):
        for ours, theirs in {"norm": "norm", "fc1": "linear_fc1", "fc2": "linear_fc2"}.items():
            m.take(f"v.deepstack.{layer}.{ours}", f"visual.deepstack_merger_list.{i}.{theirs}")
    return m


def gemma3(keys, tensors):
    """The norm's weights are changed in `tensors` to what the checkpoint's less one come back to."""
    m = Checkpoint(keys, tensors, "Gemma3ForConditionalGeneration")
    m.usual()
    side = m.key("image_size")
    m.says(image_size=side)
    m.config["mm_tokens_per_image"] = (
        side // m.key("patch_size") // m.key("projector.scale_factor")) ** 2
    v, mm = "vision_tower.vision_model.", "multi_modal_projector."
    m.take("v.patch_embd", v + "embeddings.patch_embedding")
    m.take("v.position_embd", v + "embeddings.position_embedding")
    m.blocks(v + "encoder.layers.", SIGLIP_BLOCK)
    m.take("v.post_ln", v + "post_layernorm")
    norm = "mm.soft_emb_norm.weight"
    less = (m.given.pop(norm) - 1).astype(np.float32)
    tensors[norm] = less + np.float32(1)
    m.tensors[mm + "mm_soft_emb_norm.weight"] = less
    m.tensors[mm + "mm_input_projection_weight"] = m.given.pop("mm.input_projection.weight")
    return m


def idefics3(keys, tensors):
    m = Checkpoint(keys, tensors, "Idefics3ForConditionalGeneration")
    m.usual()
    side = m.key("image_size")
    m.says(image_size=side)
    m.config["scale_factor"] = m.key("projector.scale_factor")
    m.processor |= {"size": {"longest_edge": m.key("preproc_image_size")},
                    "max_image_size": {"longest_edge": side}, "resample": 1}
    v = "vision_model."
    m.take("v.patch_embd", v + "embeddings.patch_embedding")
    m.take("v.position_embd", v + "embeddings.position_embedding")
    m.blocks(v + "encoder.layers.", SIGLIP_BLOCK)
    m.take("v.post_ln", v + "post_layernorm")
    m.take("mm.model.fc", "connector.modality_projection.proj")
    return m


def lfm2(keys, tensors):
    m = Checkpoint(keys, tensors, "Lfm2VlForConditionalGeneration")
    m.usual()
    results = lambda end: m.key(f"image_{end}_pixels") // (2 * m.key("patch_size")) ** 2
    m.config |= {"downsample_factor": m.key("projector.scale_factor"),
                 "projector_use_layernorm": "mm.input_norm.weight" in m.given}
    m.processor |= {"resample": 2, "min_image_tokens": results("min"),
                    "max_image_tokens": results("max"), "tile_size": m.key("preproc_image_size"),
                    "min_tiles": m.key("preproc_min_tiles"),
                    "max_tiles": m.key("preproc_max_tiles")}
    v = "vision_tower.vision_model."
    kernel = m.given.pop("v.patch_embd.weight").transpose(0, 2, 3, 1)
    m.tensors[v + "embeddings.patch_embedding.weight"] = kernel.reshape(len(kernel), -1)
    m.take("v.patch_embd", v + "embeddings.patch_embedding")
    m.take("v.position_embd", v + "embeddings.position_embedding")
    m.blocks(v + "encoder.layers.", SIGLIP_BLOCK)
    m.take("v.post_ln", v + "post_layernorm")
    m.take("mm.input_norm", "multi_modal_projector.layer_norm")
    m.take("mm.1", "multi_modal_projector.linear_1")
    m.take("mm.2", "multi_modal_projector.linear_2")
    return m


def llava(keys, tensors):
    """With a further layer, which is not used."""
    m = Checkpoint(keys, tensors, "LlavaForConditionalGeneration")
    m.usual()
    side, count = m.key("image_size"), m.key("block_count")
    m.says(model_type="clip_vision_model", image_size=side, num_hidden_layers=count + 1,
           layer_norm_eps=m.key("attention.layer_norm_epsilon"))
    m.config |= {"vision_feature_layer": -2, "vision_feature_select_strategy": "default"}
    m.processor |= {"resample": 3, "size": {"shortest_edge": side},
                    "crop_size": {"height": side, "width": side}}
    v = "vision_tower.vision_model."
    m.take("v.patch_embd", v + "embeddings.patch_embedding")
    m.tensors[v + "embeddings.class_embedding"] = m.given.pop("v.class_embd")
    m.take("v.position_embd", v + "embeddings.position_embedding")
    m.take("v.pre_ln", v + "pre_layrnorm")
    m.blocks(v + "encoder.layers.", SIGLIP_BLOCK)
    m.tensors[f"{v}encoder.layers.{count}.mlp.fc1.weight"] = np.ones((4, 4))
    m.tensors[v + "post_layernorm.weight"] = np.ones(4)
    m.take("mm.0", "multi_modal_projector.linear_1")
    m.take("mm.2", "multi_modal_projector.linear_2")
    return m


def llava_next(keys, tensors):
    m = llava(keys, {name: x for name, x in tensors.items() if "newline" not in name})
    m.config["architectures"] = ["LlavaNextForConditionalGeneration"]
    sides = m.key("image_grid_pinpoints")
    grids = [[height, width] for width, height in zip(sides[::2], sides[1::2])]
    m.config["image_grid_pinpoints"] = grids
    m.processor |= {"image_grid_pinpoints": grids, "do_pad": True}
    m.tensors["image_newline"] = tensors["model.image_newline"]
    return m


def internvl(keys, tensors):
    m = Checkpoint(keys, tensors, "InternVLForConditionalGeneration")
    m.usual()
    side = m.key("image_size")
    m.says(image_size=[side, side], patch_size=[m.key("patch_size")] * 2)
    m.config["downsample_ratio"] = 1 / m.key("projector.scale_factor")
    m.processor |= {"size": {"height": side, "width": side}, "resample": 3,
                    "min_patches": m.key("preproc_min_tiles"),
                    "max_patches": m.key("preproc_max_tiles")}
    v = "vision_tower."
    m.take("v.patch_embd", v + "embeddings.patch_embeddings.projection")
    m.tensors[v + "embeddings.cls_token"] = m.given.pop("v.class_embd")[None, None]
    m.tensors[v + "embeddings.position_embeddings"] = m.given.pop("v.position_embd.weight")[None]
    m.blocks(v + "encoder.layer.", INTERNVL_BLOCK)
    for block in range(m.key("block_count")):
        for i in (1, 2):
            m.tensors[f"{v}encoder.layer.{block}.lambda_{i}"] = m.given.pop(
                f"v.blk.{block}.ls{i}.weight")
    for i, theirs in {0: "layer_norm", 1: "linear_1", 3: "linear_2"}.items():
        m.take(f"mm.model.mlp.{i}", f"multi_modal_projector.{theirs}")
    return m


def internvl_own_tensors(tensors):
    """The tensors of InternVLForConditionalGeneration's tower, as InternVLChatModel has them."""
    left, made = dict(tensors), {}
    for name in list(left):
        if "attention.q_proj" in name:
            rows = [left.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv"]
            left[name.replace("attention.q_proj", "attn.qkv")] = np.concatenate(rows)
    for name, x in left.items():
        for theirs, own in INTERNVL_OWN.items():
            name = name.replace(theirs, own)
        made[name] = x
    return made


def internvl_own_config(config, processor):
    """(configuration, processor's) of InternVLChatModel. How images are cut is in the former."""
    sees, text = dict(config["vision_config"]), config["text_config"]
    side = sees["image_size"][0]
    own = {"model_type": "intern_vit_6b", "architectures": ["InternVisionModel"],
           "image_size": side, "patch_size": sees["patch_size"][0],
           "norm_type": sees.get("norm_type", "layer_norm"), "hidden_act": "gelu",
           "qk_normalization": sees.get("use_qk_norm", False),
           "qkv_bias": sees.get("attention_bias", True), "layer_norm_eps": 1e-6}
    own |= {key: sees[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers",
                                       "num_attention_heads")}
    whole = {"architectures": ["InternVLChatModel"], "model_type": "internvl_chat",
             "llm_config": text, "vision_config": own, "force_image_size": side,
             "downsample_ratio": config["downsample_ratio"], "ps_version": "v2",
             "select_layer": -1, "dynamic_image_size": True, "use_thumbnail": True,
             "min_dynamic_patch": processor["min_patches"],
             "max_dynamic_patch": processor["max_patches"]}
    pixels = {key: processor[key] for key in ("image_mean", "image_std", "resample")} | {
        "size": side, "crop_size": side, "do_center_crop": True, "do_normalize": True,
        "do_resize": True, "feature_extractor_type": "CLIPFeatureExtractor"}
    return whole, pixels


def internvl_own(keys, tensors):
    m = internvl(keys, tensors)
    m.tensors = internvl_own_tensors(m.tensors)
    m.config, m.processor = internvl_own_config(m.config, m.processor)
    return m


def pixtral(keys, tensors):
    m = Checkpoint(keys, tensors, "Mistral3ForConditionalGeneration")
    m.usual()
    m.says(image_size=m.key("image_size"),
           hidden_act="silu" if keys.get("clip.use_silu") else "gelu")
    m.config["spatial_merge_size"] = m.key("spatial_merge_size", 1)
    m.given.pop("v.token_embd.img_break", None)  # the text's embedding has it
    for name, x in m.given.items():
        if ".attn_q." in name or ".attn_k." in name:
            m.given[name] = separated(x, m.key("attention.head_count"))
    v, mm = "vision_tower.", "multi_modal_projector."
    m.take("v.patch_embd", v + "patch_conv")
    m.take("v.pre_ln", v + "ln_pre")
    m.blocks(v + "transformer.layers.", PIXTRAL_BLOCK)
    m.take("mm.input_norm", mm + "norm")
    m.take("mm.patch_merger", mm + "patch_merger.merging_layer")
    m.take("mm.1", mm + "linear_1")
    m.take("mm.2", mm + "linear_2")
    return m


def gemma4(keys, tensors):
    m = Checkpoint(keys, tensors, "Gemma4ForConditionalGeneration")
    m.usual()
    m.says(pooling_kernel_size=m.key("projector.scale_factor"))
    v = "vision_tower."
    kernel = m.given.pop("v.patch_embd.weight").transpose(0, 2, 3, 1)
    m.tensors[v + "patch_embedder.input_proj.weight"] = kernel.reshape(len(kernel), -1)
    m.tensors[v + "patch_embedder.position_embedding_table"] = m.given.pop("v.position_embd.weight")
    m.blocks(v + "encoder.layers.", GEMMA4_NORMS)
    m.blocks(v + "encoder.layers.",
             {ours: theirs + ".linear" for ours, theirs in GEMMA4_PRODUCTS.items()})
    for name in [name for name in m.given if name.endswith(("_min", "_max"))]:
        _, _, block, product, bound = name.split(".")
        m.tensors[f"{v}encoder.layers.{block}.{GEMMA4_PRODUCTS[product]}.{bound}"] = m.given.pop(
            name).reshape(())
    for name in ("std_bias", "std_scale"):
        if "v." + name in m.given:
            m.tensors[v + name] = m.given.pop("v." + name)
    m.take("mm.input_projection", "embed_vision.embedding_projection")
    return m


def glm4v(keys, tensors):
    """Of GLM-4.1V, or of GLM-5.3-Flash."""
    next_one = keys["clip.projector_type"] == "glm5v"
    m = Checkpoint(keys, tensors, f"Glm{'5Next' if next_one else '4v'}ForConditionalGeneration")
    m.says(depth=m.key("block_count"), num_heads=m.key("attention.head_count"),
           hidden_size=m.key("embedding_length"), out_hidden_size=m.key("projection_dim"),
           rms_norm_eps=m.key("attention.layer_norm_epsilon"), spatial_merge_size=2)
    least, most = (m.key(f"image_{end}_pixels") for end in ("min", "max"))
    area = (2 * m.key("patch_size")) ** 2
    m.processor |= {"patch_size": m.key("patch_size"), "temporal_patch_size": 2, "merge_size": 2}
    if next_one:
        m.says(swiglu_limit=m.key("swiglu_clamp"))
        m.processor |= {"min_image_tokens": least // area, "max_image_tokens": most // area}
    else:
        m.processor["size"] = {"shortest_edge": 2 * least, "longest_edge": 2 * most}
    kernels = [m.given.pop("v.patch_embd.weight" + end) for end in ("", ".1")]
    m.tensors["visual.patch_embed.proj.weight"] = np.stack(kernels, axis=2)
    m.tensors["visual.patch_embed.proj.bias"] = m.given.pop("v.patch_embd.bias")
    m.take("v.norm_embd", "visual.post_conv_layernorm")
    m.take("v.position_embd", "visual.embeddings.position_embedding")
    m.blocks("visual.blocks.", ROPE_BLOCK | {
        "attn_q_norm": "attn.q_norm", "attn_k_norm": "attn.k_norm",
        "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"})
    m.take("v.post_ln", "visual.post_layernorm")
    m.take("mm.patch_merger", "visual.downsample")
    m.take("mm.model.fc", "visual.merger.proj")
    m.take("mm.post_norm", "visual.merger.post_projection_norm")
    for part in ("gate", "up", "down"):
        m.take("mm." + part, f"visual.merger.{part}_proj")
    return m


def glm_ocr(keys, tensors):
    m = glm4v(keys, tensors)
    m.config["architectures"] = ["GlmOcrForConditionalGeneration"]
    return m


def paddle(keys, tensors):
    m = Checkpoint(keys, tensors, "PaddleOCRVLForConditionalGeneration")
    m.usual()
    m.processor |= {"min_pixels": m.key("image_min_pixels"), "max_pixels": m.key("image_max_pixels"),
                    "patch_size": m.key("patch_size"), "temporal_patch_size": 1, "merge_size": 2}
    v = "visual.vision_model."
    m.take("v.patch_embd", v + "embeddings.patch_embedding")
    m.take("v.position_embd", v + "embeddings.position_embedding")
    m.blocks(v + "encoder.layers.", SIGLIP_BLOCK)
    m.take("v.post_ln", v + "post_layernorm")
    m.take("mm.input_norm", "mlp_AR.pre_norm")
    m.take("mm.1", "mlp_AR.linear_1")
    m.take("mm.2", "mlp_AR.linear_2")
    return m


def dots(keys, tensors):
    m = Checkpoint(keys, tensors, "DotsOCRForCausalLM")
    m.usual()
    m.config["vision_config"]["embed_dim"] = m.config["vision_config"].pop("hidden_size")
    m.config |= m.config.pop("text_config")
    m.says(rms_norm_eps=m.key("attention.layer_norm_epsilon"), spatial_merge_size=2)
    m.processor |= {"min_pixels": m.key("image_min_pixels"), "max_pixels": m.key("image_max_pixels"),
                    "patch_size": m.key("patch_size"), "merge_size": 2}
    v = "vision_tower."
    m.take("v.patch_embd", v + "patch_embed.patchifier.proj")
    m.take("v.pre_ln", v + "patch_embed.patchifier.norm")
    m.blocks(v + "blocks.", ROPE_BLOCK | {
        "ffn_gate": "mlp.fc1", "ffn_up": "mlp.fc3", "ffn_down": "mlp.fc2"})
    m.take("mm.post_norm", v + "post_trunk_norm")
    m.take("mm.input_norm", v + "merger.ln_q")
    m.take("mm.0", v + "merger.mlp.0")
    m.take("mm.2", v + "merger.mlp.2")
    return m


def minicpm(keys, tensors):
    m = Checkpoint(keys, tensors, "MiniCPMV4_6ForConditionalGeneration")
    m.usual()
    merges = m.key("projector.scale_factor") == 4
    m.config["downsample_mode"] = "16x" if merges else "4x"
    if merges:
        m.config["insert_layer_id"] = m.key("wa_layer_indexes")[0]
    m.processor |= {"scale_resolution": m.key("image_size"), "patch_size": m.key("patch_size"),
                    "max_slice_nums": m.key("preproc_max_tiles"),
                    "downsample_mode": m.config["downsample_mode"]}
    v = "vision_tower."
    m.take("v.patch_embd", v + "embeddings.patch_embedding")
    m.take("v.position_embd", v + "embeddings.position_embedding")
    m.blocks(v + "encoder.layers.", SIGLIP_BLOCK)
    m.take("v.post_ln", v + "post_layernorm")
    for ours, theirs in {"ln1": "layer_norm1", "attn_q": "self_attn.q_proj",
                         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
                         "attn_out": "self_attn.out_proj", "ds_ln": "pre_norm",
                         "ds_ffn_up": "linear_1", "ds_ffn_down": "linear_2"}.items():
        m.take("v.vit_merger." + ours, v + "vit_merger." + theirs)
    for ours, theirs in {"input_norm": "pre_norm", "up": "linear_1", "down": "linear_2"}.items():
        m.take("mm." + ours, "merger.mlp.0." + theirs)
    return m


def kimi(keys, tensors):
    """Of Kimi-VL, or of Kimi K2.5, whose queries and keys are sorted for files."""
    k25 = keys["clip.projector_type"] == "kimik25"
    m = Checkpoint(keys, tensors, f"Kimi{'K25' if k25 else 'VL'}ForConditionalGeneration")
    if k25:
        m.says(projector_hidden_act="gelu", projector_ln_eps=1e-5, vt_hidden_size=m.key("embedding_length"),
               vt_num_hidden_layers=m.key("block_count"),
               vt_num_attention_heads=m.key("attention.head_count"),
               vt_intermediate_size=m.key("feed_forward_length"), merge_kernel_size=[2, 2])
        del m.config["vision_config"]["intermediate_size"]
    else:
        m.usual()
        m.says(merge_kernel_size=[2, 2])
    limit = m.key("image_max_pixels") // m.key("patch_size") ** 2
    if k25:
        m.processor["media_proc_cfg"] = {"in_patch_limit": limit, "patch_limit_on_one_side": 512}
    else:
        m.processor |= {"in_token_limit": limit, "pad_input": True}
    v, heads = "vision_tower.", m.key("attention.head_count")
    for block in range(m.key("block_count")):
        for part in ("weight", "bias"):
            name = f"v.blk.{block}.attn_qkv.{part}"
            if not k25:
                m.given[name] = np.concatenate(
                    [m.given.pop(f"v.blk.{block}.attn_{x}.{part}") for x in "qkv"])
                continue
            q, k, rest = np.split(m.given[name], 3)
            q, k = (x.reshape(heads, 2, len(x) // heads // 4, 2, -1).swapaxes(1, 2).reshape(x.shape)
                    for x in (q, k))
            m.given[name] = np.concatenate([q, k, rest])
    m.take("v.patch_embd", v + "patch_embed.proj")
    m.tensors[v + "patch_embed.pos_emb.weight"] = table = m.given.pop("v.position_embd.weight")
    if not k25:
        side = round(len(table) ** 0.5)
        m.tensors[v + "patch_embed.pos_emb.weight"] = table.reshape(side, side, -1)
    m.blocks(v + "encoder.blocks.", {"attn_qkv": "wqkv", "attn_out": "wo", "ln1": "norm0",
                                     "ln2": "norm1", "ffn_up": "mlp.fc0", "ffn_down": "mlp.fc1"})
    m.take("v.post_ln", v + "encoder.final_layernorm")
    mm, first, second = ("mm_projector.", "proj.0", "proj.2") if k25 else (
        "multi_modal_projector.", "linear_1", "linear_2")
    m.take("mm.input_norm", mm + "pre_norm")
    m.take("mm.1", mm + first)
    m.take("mm.2", mm + second)
    return m


def llama4(keys, tensors):
    m = Checkpoint(keys, tensors, "Llama4ForConditionalGeneration")
    m.usual()
    side = m.key("image_size")
    m.says(image_size=side, norm_eps=1e-5, pixel_shuffle_ratio=1 / m.key("projector.scale_factor"))
    m.processor |= {"size": {"height": side, "width": side}, "resample": 2,
                    "max_patches": m.key("preproc_max_tiles"), "resize_to_max_canvas": False}
    v = "vision_model."
    m.take("v.patch_embd", v + "patch_embedding.linear")
    m.tensors[v + "class_embedding"] = m.given.pop("v.class_embd")
    m.tensors[v + "positional_embedding_vlm"] = m.given.pop("v.position_embd.weight")
    m.take("v.pre_ln", v + "layernorm_pre")
    m.blocks(v + "model.layers.", {
        "ln1": "input_layernorm", "ln2": "post_attention_layernorm", "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2", "attn_out": "self_attn.o_proj",
        **{f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"}})
    m.take("v.post_ln", v + "layernorm_post")
    for i in (1, 2):
        m.take(f"mm.model.mlp.{i}", f"{v}vision_adapter.mlp.fc{i}")
    m.take("mm.model.fc", "multi_modal_projector.linear_1")
    return m
