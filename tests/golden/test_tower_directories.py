"""Towers in Hugging Face directories: the same bits as from GGUF files, and directories in which
something is missing or wrong."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import (  # noqa: E402
    gguf, make_newer_towers, make_towers, make_vision, png, safetensors, tower_checkpoints)

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

KINDS = {  # text, tower, its checkpoint, the token of an image, the size of one
    "qwen3": (make_vision.text_model, make_vision.tower, tower_checkpoints.qwen3, "<|image_pad|>",
              (96, 64)),
    "qwen2": (make_towers.qwen2_text, lambda: make_towers.qwen2_tower(False),
              tower_checkpoints.qwen2, "<|image_pad|>", (24, 40)),
    "qwen2.5": (make_towers.qwen2_text, lambda: make_towers.qwen2_tower(True),
                tower_checkpoints.qwen2, "<|image_pad|>", (24, 40)),
    "gemma3": (make_towers.gemma3_text, make_towers.gemma3_tower, tower_checkpoints.gemma3,
               "<start_of_image>", (32, 32)),
    "idefics3": (make_towers.llama_text, make_towers.idefics3_tower, tower_checkpoints.idefics3,
                 "<image>", (40, 24)),
    "lfm2": (make_towers.lfm2_text, make_towers.lfm2_tower, tower_checkpoints.lfm2, "<image>",
             (40, 24)),
    "lfm2-without-norm": (make_towers.lfm2_text, lambda: make_towers.lfm2_tower(norm=False),
                          tower_checkpoints.lfm2, "<image>", (40, 24)),
    "llava": (make_towers.llama_text, make_towers.llava_tower, tower_checkpoints.llava, "<image>",
              (40, 24)),
    "llava-next": (make_towers.llama_text, make_towers.llava_next_tower,
                   tower_checkpoints.llava_next, "<image>", (40, 24)),
    "internvl": (make_towers.qwen_text, make_towers.internvl_tower, tower_checkpoints.internvl,
                 "<IMG_CONTEXT>", (40, 24)),
    "internvl-own": (make_towers.qwen_text, make_towers.internvl_tower,
                     tower_checkpoints.internvl_own, "<IMG_CONTEXT>", (40, 24)),
    "glm4v": (make_towers.glm4_text, make_towers.glm4v_tower, tower_checkpoints.glm4v, "<|image|>",
              (40, 24)),
    "glm5v": (make_towers.glm5_text, make_towers.glm5v_tower, tower_checkpoints.glm4v, "<|image|>",
              (38, 21)),
    "glm-ocr": (make_towers.glm4_text, make_newer_towers.glm_ocr_tower, tower_checkpoints.glm_ocr,
                "<|image|>", (40, 24)),
    "paddleocr": (make_newer_towers.paddle_text, make_newer_towers.paddle_tower,
                  tower_checkpoints.paddle, make_newer_towers.PADDLE_WORDS[1], (40, 24)),
    "exaone4.5": (make_newer_towers.exaone_text, make_newer_towers.exaone_tower,
                  tower_checkpoints.qwen2, "<|image_pad|>", (40, 24)),
    "dots-ocr": (make_newer_towers.dots_text, make_newer_towers.dots_tower, tower_checkpoints.dots,
                 "<|imgpad|>", (40, 24)),
    "minicpm-v": (make_newer_towers.minicpm_text, make_newer_towers.minicpm_tower,
                  tower_checkpoints.minicpm, "<|image_pad|>", (40, 24)),
    "minicpm-v-4x": (make_newer_towers.minicpm_text,
                     lambda: make_newer_towers.minicpm_tower(merges=False),
                     tower_checkpoints.minicpm, "<|image_pad|>", (40, 24)),
    "kimi-k25": (make_towers.kimi_text, lambda: make_towers.kimi_tower(True), tower_checkpoints.kimi,
                 "<|media_pad|>", (38, 21)),
    "kimi-vl": (make_towers.kimi_text, lambda: make_towers.kimi_tower(False),
                tower_checkpoints.kimi, "<|media_pad|>", (38, 21)),
    "llama4": (make_towers.llama4_text, make_towers.llama4_tower, tower_checkpoints.llama4,
               "<|image|>", (40, 24)),
    "mistral3": (make_towers.mistral3_text, lambda: make_towers.pixtral_tower(break_row=False),
                 tower_checkpoints.pixtral, "[IMG]", (64, 48)),
    "pixtral": (make_towers.mistral3_text,
                lambda: make_towers.pixtral_tower(merged=1, break_row=False, silu=False),
                tower_checkpoints.pixtral, "[IMG]", (32, 24)),
    "gemma4": (make_towers.gemma4_text, make_towers.gemma4_tower, tower_checkpoints.gemma4,
               "<|image|>", (60, 36)),
    "gemma4-large": (lambda: make_towers.gemma4_text(True),
                     lambda: make_towers.gemma4_tower(large=True), tower_checkpoints.gemma4,
                     "<|image|>", (60, 36)),
}


class Pair:
    """A text model, its tower as a file, and as a checkpoint."""

    def __init__(self, folder, name, dtype=np.float32):
        text, tower, checkpoint, mark, size = KINDS[name]
        self.folder, self.most = folder, "40" if name == "llava-next" else "16"
        metadata, tensors = text()
        gguf.write(folder / "model.gguf", metadata, tensors)
        keys, tensors = tower()
        tensors = {name: x.astype(dtype).astype(np.float32) for name, x in tensors.items()}
        self.checkpoint = checkpoint(keys, tensors)
        gguf.write(folder / "tower.gguf", keys, tensors)
        (folder / "image.png").write_bytes(png.encode(png.blocks(*size, seed=3, side=5)))
        self.tokens = f"5,{metadata['tokenizer.ggml.tokens'].index(mark)},6,70"

    def evaluate(self, *options):
        out = self.folder / "out.f32"
        out.unlink(missing_ok=True)
        done = subprocess.run(
            [os.environ["INFER_BIN"], "eval", "-m", self.folder / "model.gguf", "--image",
             self.folder / "image.png", "--tokens", self.tokens, "--logits", out, "-c", "128",
             "--image-max-tokens", self.most, *options],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        self.error = (done.stderr.decode().splitlines() or [""])[-1]
        return done.returncode, out.read_bytes() if out.exists() else b""

    def tower(self, name):
        code, logits = self.evaluate("--mmproj", self.folder / name)
        assert code == 0 and logits, self.error
        return logits

    def refused(self, *named, code=3):
        """A checkpoint as it is now. named: what the message names."""
        self.checkpoint.write(self.folder / "dir")
        found, _ = self.evaluate("--mmproj", self.folder / "dir")
        assert found == code and self.error.startswith("infer: error: "), (found, self.error)
        for each in (str(self.folder / "dir"), *named):
            assert each in self.error, self.error
        shutil.rmtree(self.folder / "dir")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("root", ["", "model."])
def test_the_same_bits_as_a_file(tmp_path, kind, root):
    pair = Pair(tmp_path, kind)
    pair.checkpoint.write(tmp_path / "dir", root)
    assert pair.tower("dir") == pair.tower("tower.gguf")


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision(tmp_path, kind):
    pair = Pair(tmp_path, kind, np.float16)
    pair.checkpoint.write(tmp_path / "dir", dtype=np.float16)
    told = np.frombuffer(pair.tower("dir"), "<f4")
    wanted = np.frombuffer(pair.tower("tower.gguf"), "<f4")
    assert ((told - wanted) ** 2).sum() <= 1e-6 * (wanted ** 2).sum()


@pytest.fixture
def pair(tmp_path, request):
    return Pair(tmp_path, getattr(request, "param", "qwen3"))


def only(*names):
    return pytest.mark.parametrize("pair", names, indirect=True)


@only(*KINDS)
def test_no_tensor_may_be_missing(pair):
    m = pair.checkpoint
    for name in list(m.tensors):
        if "layers.2" in name or "post_layernorm" in name and "vision_feature_layer" in m.config:
            continue  # is not used
        # What may be absent: biases, bounds, and with them what they stand beside.
        if name.endswith((".bias", "_min", "_max", "std_bias", "std_scale")) or ".norm" in name:
            continue
        if "blocks.1" in name or "layers.1" in name:  # like those of the first one
            continue
        kept = m.tensors.pop(name)
        pair.refused("is missing")
        m.tensors[name] = kept


def test_unknown_tensors_are_refused(pair):
    pair.checkpoint.tensors["visual.blocks.0.attn.gate.weight"] = np.ones((4, 4))
    pair.refused("visual.blocks.0.attn.gate.weight", "has no place")


def test_shapes(pair):
    m = pair.checkpoint
    name = "visual.patch_embed.proj.weight"
    m.tensors[name] = m.tensors[name][:, :, :1]
    pair.refused(name, "expected")


@pytest.mark.parametrize("key", ["depth", "hidden_size", "num_heads", "patch_size"])
def test_keys_that_are_needed(pair, key):
    m = pair.checkpoint
    for wrong in (None, 0, -1, 1 << 40, "many", 1.5):
        m.says(**{key: wrong})
        pair.refused(f"hf.config.vision_config.{key}")


def test_widths_have_to_agree(pair):
    pair.checkpoint.config["text_config"]["hidden_size"] += 4
    pair.refused()


@pytest.mark.parametrize("layers", [[9], [-1], [1, 0], [0, 0], ["x"], [1 << 40]])
def test_layers_that_are_added(pair, layers):
    pair.checkpoint.says(deepstack_visual_indexes=layers)
    pair.refused("deepstack_visual_indexes")


@only("qwen2.5")
@pytest.mark.parametrize("layers", [[], [0, 1, 2], [-1], [0], [1, 0], [2], [(1 << 63) - 1], ["x"], "x"])
def test_layers_that_see_the_whole(pair, layers):
    pair.checkpoint.says(fullatt_block_indexes=layers)
    pair.refused("fullatt_block_indexes")


def test_activations(pair):
    pair.checkpoint.says(hidden_act="relu")
    pair.refused("hidden_act 'relu'")


@pytest.mark.parametrize("wrong", [[0.5], "grey", [0.5, 0.5, 0.0], {}])
def test_colours(pair, wrong):
    pair.checkpoint.processor["image_std"] = wrong
    if wrong == {}:  # nothing is said of them
        pair.checkpoint.write(pair.folder / "dir")
        assert pair.evaluate("--mmproj", pair.folder / "dir")[0] == 0
    else:
        pair.refused("image_std")


@pytest.mark.parametrize("wrong", [-1, "large", 1 << 60])
def test_pixels(pair, wrong):
    pair.checkpoint.processor["size"] = {"shortest_edge": 1, "longest_edge": wrong}
    pair.refused("max_pixels")


def test_newer_files_say_it_of_the_whole(pair):
    pair.checkpoint.write(pair.folder / "dir")
    path = pair.folder / "dir" / "preprocessor_config.json"
    (pair.folder / "dir" / "processor_config.json").write_text(
        json.dumps({"image_processor": json.loads(path.read_text())}))
    path.unlink()
    assert pair.tower("dir") == pair.tower("tower.gguf")


def test_a_processor_that_is_no_json(pair):
    pair.checkpoint.write(pair.folder / "dir")
    (pair.folder / "dir" / "preprocessor_config.json").write_text('{"image_mean": [')
    assert pair.evaluate("--mmproj", pair.folder / "dir")[0] == 3
    assert "preprocessor_config.json" in pair.error


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "", None])
def test_models_that_do_not_see(pair, architecture):
    pair.checkpoint.config["architectures"] = [] if architecture is None else [architecture]
    pair.refused("Qwen3VLForConditionalGeneration")


@only("pixtral")
def test_pixtral_is_a_llava(pair):
    m = pair.checkpoint
    m.config["architectures"] = ["LlavaForConditionalGeneration"]
    m.config["text_config"]["model_type"] = "mistral"
    del m.config["spatial_merge_size"]
    m.says(model_type="pixtral")
    m.write(pair.folder / "dir")
    assert pair.tower("dir") == pair.tower("tower.gguf")
    shutil.rmtree(pair.folder / "dir")
    m.says(model_type="siglip_vision_model")
    pair.refused("a tower of 'siglip_vision_model'")


@only("mistral3")
def test_features_of_another_layer(pair):
    pair.checkpoint.config["vision_feature_layer"] = -2
    pair.refused("vision_feature_layer")


@only("idefics3")
def test_processing_that_is_not_done(pair):
    m = pair.checkpoint
    usual = dict(m.processor)
    for key, wrong in {"do_resize": False, "do_rescale": False, "do_normalize": False,
                       "rescale_factor": 1.0, "resample": 3,
                       "max_image_size": {"longest_edge": 20}}.items():
        m.processor = usual | {key: wrong}
        pair.refused(key)


@only("qwen3", "qwen2", "gemma3", "gemma4", "mistral3", "pixtral")
def test_processing_of_pixels_that_is_not_done(pair, request):
    m = pair.checkpoint
    usual = dict(m.processor)
    normalises = "gemma4" not in request.node.name
    for key, wrong in {"do_resize": False, "do_rescale": False, "do_normalize": not normalises,
                       "rescale_factor": 1 / 127.5, "resample": 0, "do_pan_and_scan": True}.items():
        m.processor = usual | {key: wrong}
        pair.refused(key)


@only("mistral3", "pixtral", "gemma4")
def test_the_largest_size_of_an_image_is_the_processors(pair, request):
    pair.most = "0"  # as the model says
    pair.checkpoint.write(pair.folder / "usual")
    key = {"max_soft_tokens": 4} if "gemma4" in request.node.name else {"size": {"longest_edge": 16}}
    pair.checkpoint.processor |= key
    pair.checkpoint.write(pair.folder / "smaller")
    assert pair.tower("smaller") != pair.tower("usual")


@only("glm4v")
def test_other_settings_of_glm4v(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config["vision_config"])
    for key, wrong in {"temporal_patch_size": 1, "patch_size": 8, "merge_size": 4, "resample": 2,
                       "do_resize": False}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused(key)
    for size in (-1, "large", 1 << 60):
        m.processor = usual[0] | {"size": {"shortest_edge": 1, "longest_edge": size}}
        pair.refused("max_pixels")
    m.processor = usual[0]
    for key, wrong in {"hidden_act": "gelu", "temporal_patch_size": 3, "spatial_merge_size": 0,
                       "depth": 0, "rope_parameters": {"rope_theta": 5000.0}}.items():
        m.config["vision_config"] = usual[1] | {key: wrong}
        pair.refused("rope_theta" if key == "rope_parameters" else key)


@only("paddleocr")
def test_other_settings_of_paddleocr(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config["vision_config"])
    for key, wrong in {"temporal_patch_size": 2, "patch_size": 8, "merge_size": 4, "resample": 2,
                       "do_normalize": False, "max_pixels": "many"}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused(key)
    m.processor = usual[0]
    for key, wrong in {"hidden_act": "gelu", "spatial_merge_size": 0, "num_hidden_layers": 0,
                       "rope_parameters": {"rope_theta": 5000.0}}.items():
        m.config["vision_config"] = usual[1] | {key: wrong}
        pair.refused("rope_theta" if key == "rope_parameters" else key)


@only("minicpm-v")
def test_other_settings_of_minicpm(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config), dict(m.config["vision_config"])
    for key, wrong in {"patch_size": 8, "resample": 2, "do_resize": False, "max_slice_nums": 0,
                       "scale_resolution": 1, "downsample_mode": "4x",
                       "small_image_upsize": "adaptive"}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused("image_size" if key == "scale_resolution" else key)
    m.processor = usual[0]
    for key, wrong in {"insert_layer_id": 2, "merger_times": 2, "drop_vision_last_layer": True,
                       "downsample_mode": "8x"}.items():
        m.config = usual[1] | {key: wrong}
        pair.refused(key)
    m.config = usual[1]
    for key, wrong in {"hidden_act": "gelu", "window_kernel_size": [2, 4]}.items():
        m.config["vision_config"] = usual[2] | {key: wrong}
        pair.refused(key)


@only("paddleocr")
def test_what_paddleocr_has_no_use_for(pair):
    m = pair.checkpoint
    v = "visual.vision_model."
    m.tensors[v + "embeddings.packing_position_embedding.weight"] = np.ones((4, 4))
    m.tensors[v + "head.probe"] = np.ones((1, 1, 4))
    m.write(pair.folder / "dir")
    assert pair.tower("dir") == pair.tower("tower.gguf")


@only("exaone4.5")
def test_other_settings_of_exaone(pair):
    m = pair.checkpoint
    usual = dict(m.config["vision_config"])
    for key, wrong in {"num_key_value_heads": 3, "hidden_act": "gelu", "window_size": 0}.items():
        m.config["vision_config"] = usual | {key: wrong}
        pair.refused({"num_key_value_heads": "head_count_kv"}.get(key, key))
    m.config["vision_config"] = usual | {"fullatt_block_indexes": [0]}
    pair.refused("fullatt_block_indexes")


@only("glm5v")
def test_other_settings_of_glm5v(pair):
    m = pair.checkpoint
    usual = dict(m.processor)
    for key in ("min_image_tokens", "max_image_tokens"):
        for wrong in (0, -1, "many", 1 << 40):
            m.processor = usual | {key: wrong}
            pair.refused(key)
    m.processor = usual | {"patch_expand_factor": 2}
    pair.refused("patch_expand_factor")
    m.processor = usual
    for wrong in (0, -1.0):
        m.says(swiglu_limit=wrong)
        pair.refused("swiglu_clamp")


@only("kimi-k25", "kimi-vl")
def test_other_settings_of_kimi(pair, request):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config["vision_config"])
    limit = "in_token_limit" if "kimi-vl" in request.node.name else "max_patches"
    for key, wrong in {"patch_size": 8, "resample": 2, "pad_input": False, limit: 0,
                       "media_proc_cfg": {"fixed_output_tokens": 64}, "size": {"max_height": -1}
                       }.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused({"media_proc_cfg": "fixed_output_tokens", "size": "max_height"}.get(key, key))
    m.processor = usual[0]
    for key, wrong in {"hidden_act": "relu", "merge_kernel_size": [2, 4], "projector_hidden_act": "silu",
                       "mm_projector_type": "mlp", "merge_type": "sd2", "projector_ln_eps": 1e-3,
                       "patch_size": 0}.items():
        m.config["vision_config"] = usual[1] | {key: wrong}
        pair.refused({"projector_ln_eps": "layer_norm_eps"}.get(key, key))


@only("llama4")
def test_other_settings_of_llama4(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config["vision_config"])
    for key, wrong in {"resample": 3, "size": {"height": 16, "width": 32}, "max_patches": 0,
                       "resize_to_max_canvas": True}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused("size.width" if key == "size" else key)
    m.processor = usual[0]
    for key, wrong in {"hidden_act": "silu", "pixel_shuffle_ratio": 0.3, "image_size": 18,
                       "norm_eps": "small"}.items():
        m.config["vision_config"] = usual[1] | {key: wrong}
        m.processor = {}
        pair.refused(key)


@only("lfm2")
def test_other_settings_of_lfm2(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config)
    for key, wrong in {"encoder_patch_size": 8, "downsample_factor": 4, "tile_size": 20,
                       "min_tiles": 0, "max_tiles": 1 << 20, "max_image_tokens": 0,
                       "min_image_tokens": -1, "resample": 3}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused("preproc_image_size" if key == "tile_size" else key)
    m.processor = usual[0]
    for key, wrong in {"vision_feature_layer": -2, "projector_hidden_act": "silu",
                       "projector_use_layernorm": False, "downsample_factor": 0}.items():
        m.config = usual[1] | {key: wrong}
        pair.refused("layer_norm" if key == "projector_use_layernorm" else key)


@only("llava")
def test_other_settings_of_llava(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config), dict(m.config["vision_config"])
    for key, wrong in {"resample": 2, "do_center_crop": False, "do_pad": True,
                       "size": {"shortest_edge": 32},
                       "crop_size": {"height": 8, "width": 16}}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused(key)
    m.processor = usual[0]
    for key, wrong in {"vision_feature_select_strategy": "full", "projector_hidden_act": "silu"
                       }.items():
        m.config = usual[1] | {key: wrong}
        pair.refused(key)
    for layer in ([-2, -5], 0, 4, -4, "last"):
        m.config = usual[1] | {"vision_feature_layer": layer}
        pair.refused("vision_feature_layer")
    m.config = usual[1]
    for key, wrong in {"image_size": 18, "hidden_act": "silu", "patch_size": 0}.items():
        m.config["vision_config"] = usual[2] | {key: wrong}
        m.processor = usual[0] | {"size": {}, "crop_size": {}}
        pair.refused(key)


@only("llava-next")
def test_other_settings_of_llava_next(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config)
    for key, wrong in {"resample": 2, "do_center_crop": False, "size": {"height": 16, "width": 12},
                       "image_grid_pinpoints": [[12, 24]]}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused("size.height" if key == "size" else key)
    m.processor = {key: x for key, x in usual[0].items() if key != "image_grid_pinpoints"}
    for wrong in ([[12, 25]], [[12]], [[12, 24, 36]], [[12, -12]], [[0, 12]], [[12 << 10, 12 << 10]],
                  [["x", 12]], [[12, 24]] * 300, None):
        m.config["image_grid_pinpoints"] = wrong
        pair.refused("image_grid_pinpoints")
    m.config = usual[1] | {"vision_feature_select_strategy": "full"}
    pair.refused("vision_feature_select_strategy")
    del m.tensors["image_newline"]
    m.config = usual[1]
    pair.refused("image_newline")


@only("internvl")
def test_other_settings_of_internvl(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config), dict(m.config["vision_config"])
    for key, wrong in {"resample": 2, "size": {"height": 16, "width": 32}, "min_patches": 0,
                       "max_patches": 1 << 20}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused("size.width" if key == "size" else key)
    m.processor = usual[0]
    for key, wrong in {"vision_feature_layer": -2, "vision_feature_select_strategy": "full",
                       "projector_hidden_act": "silu", "downsample_ratio": 0.3}.items():
        m.config = usual[1] | {key: wrong}
        pair.refused(key)
    for ratio in (0, -0.5, 1e-9, "half"):
        m.config = usual[1] | {"downsample_ratio": ratio}
        pair.refused("downsample_ratio")
    m.config = usual[1]
    for key, wrong in {"use_qk_norm": True, "use_mean_pooling": False, "norm_type": "rms_norm"
                       }.items():
        m.config["vision_config"] = usual[2] | {key: wrong}
        pair.refused("norm")
    for key, wrong in {"norm_type": "batch_norm", "image_size": [16, 32], "patch_size": [4, 4, 4], "hidden_act": "silu",
                       "use_absolute_position_embeddings": False}.items():
        m.config["vision_config"] = usual[2] | {key: wrong}
        pair.refused(key)


@only("internvl-own")
def test_other_settings_of_internvl_in_its_own_form(pair):
    m = pair.checkpoint
    usual = dict(m.processor), dict(m.config), dict(m.config["vision_config"])
    for key, wrong in {"resample": 2, "size": 32, "do_normalize": False}.items():
        m.processor = usual[0] | {key: wrong}
        pair.refused(key)
    m.processor = usual[0] | {"size": {"height": 16, "width": 32}}
    pair.refused("size.width")
    m.processor = usual[0]
    for key, wrong in {"force_image_size": 32, "ps_version": "v1", "downsample_ratio": 0.3,
                       "pad2square": True, "use_thumbnail": False, "max_dynamic_patch": 0, "min_dynamic_patch": 1 << 20,
                       "llm_config": {}}.items():
        m.config = usual[1] | {key: wrong}
        pair.refused({"llm_config": "projection_dim"}.get(key, key))
    for layer in (0, 4, -4, "last"):
        m.config = usual[1] | {"select_layer": layer}
        pair.refused("select_layer")
    m.config = dict(usual[1])
    del m.config["ps_version"]
    pair.refused("ps_version 'v1'")
    m.config = usual[1]
    for key, wrong in {"qk_normalization": True, "norm_type": "rms_norm", "image_size": [16, 16],
                       "hidden_act": "silu", "model_type": "siglip_vision_model"}.items():
        m.config["vision_config"] = usual[2] | {key: wrong}
        pair.refused({"qk_normalization": "q_norm", "norm_type": "norm1",
                      "model_type": "a tower of 'siglip_vision_model'"}.get(key, key))
    m.config["vision_config"] = usual[2] | {"qk_normalization": True, "layer_norm_eps": 1e-5}
    pair.refused("layer_norm_eps")
    m.config["vision_config"] = usual[2]
    m.tensors["mlp1.4.weight"] = np.ones((4, 4))
    pair.refused("mlp1.4.weight", "has no place")


@only("internvl-own")
def test_layers_behind_those_that_internvl_selects(pair):
    m = pair.checkpoint
    count = m.config["vision_config"]["num_hidden_layers"]
    m.says(num_hidden_layers=count + 2)
    for layer in (count, count + 1):
        m.tensors[f"vision_model.encoder.layers.{layer}.norm1.weight"] = np.ones(4)
    wanted = pair.tower("tower.gguf")
    for selected in (-3, count):
        m.config["select_layer"] = selected
        m.write(pair.folder / "dir")
        assert pair.tower("dir") == wanted
        shutil.rmtree(pair.folder / "dir")


@only("internvl-own")
def test_colours_of_internvl_are_imagenets_if_nothing_is_said(pair):
    m = pair.checkpoint
    m.processor |= {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    m.write(pair.folder / "said")
    m.processor = {}
    m.write(pair.folder / "unsaid")
    assert pair.tower("said") == pair.tower("unsaid") != pair.tower("tower.gguf")


@only("internvl-own")
def test_internvl_without_tiles(pair):
    m = pair.checkpoint
    m.config |= {"dynamic_image_size": False, "use_thumbnail": False}
    m.write(pair.folder / "dir")
    found = pair.tower("dir")
    assert found != pair.tower("tower.gguf")
    m.config |= {"dynamic_image_size": True, "max_dynamic_patch": 1}
    m.write(pair.folder / "one")
    assert pair.tower("one") == found


@only("idefics3")
@pytest.mark.parametrize("key", ["size", "max_image_size"])
def test_sides_of_images_and_tiles(pair, key):
    for wrong in (0, -16, 1 << 40, "long", 1.5):
        pair.checkpoint.processor[key] = {"longest_edge": wrong}
        pair.refused(f"{key}.longest_edge")


@only("idefics3")
def test_results_are_of_whole_squares(pair):
    pair.checkpoint.config["scale_factor"] = 3
    pair.refused("image_size", "multiple of 3 patches of 4")
    pair.checkpoint.config["scale_factor"] = 0
    pair.refused("scale_factor")


def test_other_directories(pair):
    (pair.folder / "empty").mkdir()
    assert pair.evaluate("--mmproj", pair.folder / "empty")[0] in (2, 3)
    assert str(pair.folder / "empty") in pair.error


def test_what_lies_with_the_model(pair):
    """--image without --mmproj."""
    wanted = pair.tower("tower.gguf")
    code, _ = pair.evaluate()
    assert code == 3 and "mmproj" in pair.error
    shutil.copy(pair.folder / "tower.gguf", pair.folder / "mmproj-F16.gguf")
    assert pair.evaluate() == (0, wanted)
    shutil.copy(pair.folder / "tower.gguf", pair.folder / "mmproj-other.gguf")
    code, _ = pair.evaluate()
    assert code == 3 and "--mmproj" in pair.error
