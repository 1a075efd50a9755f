"""A tiny random Qwen3-VL of Hugging Face's transformers against the reference of the models that
see, and against the engine.

transformers computes norms, softmax and RoPE angles in float32 even in a float64 model, so it
agrees to that rounding; a wrong formula shows as 1e-6 and more.
"""

import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf, make_vision, png  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402
from tests.golden.reference.vision import SeeingModel  # noqa: E402

if not hasattr(transformers, "Qwen3VLForConditionalGeneration"):
    pytest.skip("this version of transformers has no Qwen3-VL", allow_module_level=True)

LIMIT = 1e-10
BLOCK = {"norm1": "ln1", "norm2": "ln2", "attn.qkv": "attn_qkv", "attn.proj": "attn_out",
         "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down"}
LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def filled(model):
    """With random weights."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, 1.5 / weight[0].numel() ** 0.5)
            else:
                weight.normal_(1 if "norm" in name and name.endswith("weight") else 0, 0.2)
    return model.eval()


def random_model(layers, deepstack, side, words, experts=None):
    """experts: further keys of a text model with experts."""
    text, tower = make_vision.text_model()[0], make_vision.tower()[0]
    key = lambda name: text["qwen3vl." + name]
    sees = lambda name: tower["clip.vision." + name]
    rope = {"rope_type": "default", "rope_theta": key("rope.freq_base"), "mrope_interleaved": True,
            "mrope_section": key("rope.dimension_sections")[:3]}
    torch.manual_seed(7)
    family = "Qwen3VL" if experts is None else "Qwen3VLMoe"
    config = getattr(transformers, family + "Config")(
        text_config=(experts or {}) | dict(
            vocab_size=key("vocab_size"), hidden_size=key("embedding_length"),
            intermediate_size=key("feed_forward_length"), num_hidden_layers=layers,
            num_attention_heads=key("attention.head_count"),
            num_key_value_heads=key("attention.head_count_kv"),
            head_dim=key("attention.key_length"), rope_parameters=rope,
            max_position_embeddings=key("context_length"), tie_word_embeddings=False),
        vision_config=dict(
            depth=sees("block_count"), hidden_size=sees("embedding_length"),
            intermediate_size=sees("feed_forward_length"), num_heads=sees("attention.head_count"),
            patch_size=sees("patch_size"), spatial_merge_size=sees("spatial_merge_size"),
            temporal_patch_size=2, out_hidden_size=sees("projection_dim"),
            num_position_embeddings=side * side, deepstack_visual_indexes=deepstack,
            hidden_act="gelu_pytorch_tanh"),
        image_token_id=words("<|image_pad|>"), video_token_id=words("<|video_pad|>"),
        vision_start_token_id=words("<|vision_start|>"),
        vision_end_token_id=words("<|vision_end|>"))
    config._experts_implementation = "eager"  # the others have no float64
    model = getattr(transformers, family + "ForConditionalGeneration")(config)
    return filled(model)


def write(model, deepstack, text_path, tower_path):
    """The two files of a model, as llama.cpp's converter names what is in them."""
    config = model.config
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    layers = config.text_config.num_hidden_layers
    text = make_vision.text_model()[0] | {"qwen3vl.block_count": layers,
                                          "qwen3vl.n_deepstack_layers": len(deepstack)}
    tensors = {"output.weight": state["lm_head.weight"],
               "token_embd.weight": state["model.language_model.embed_tokens.weight"],
               "output_norm.weight": state["model.language_model.norm.weight"]}
    for layer in range(layers):
        for theirs, ours in LAYER.items():
            tensors[f"blk.{layer}.{ours}.weight"] = state[
                f"model.language_model.layers.{layer}.{theirs}.weight"]
    gguf.write(text_path, text, tensors)

    depth = config.vision_config.depth
    tower = make_vision.tower()[0] | {
        "clip.vision.image_min_pixels": 1,  # no image is scaled
        "clip.vision.is_deepstack_layers": [i in deepstack for i in range(depth)]}
    see = lambda name: state["model.visual." + name]
    kernel = see("patch_embed.proj.weight")
    tensors = {"v.patch_embd.weight": kernel[:, :, 0], "v.patch_embd.weight.1": kernel[:, :, 1],
               "v.patch_embd.bias": see("patch_embed.proj.bias"),
               "v.position_embd.weight": see("pos_embed.weight")}
    names = {f"blocks.{i}.{theirs}": f"v.blk.{i}.{ours}"
             for i in range(depth) for theirs, ours in BLOCK.items()}
    names |= {"merger.norm": "v.post_ln", "merger.linear_fc1": "mm.0", "merger.linear_fc2": "mm.2"}
    for i, layer in enumerate(deepstack):
        for theirs, ours in {"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"}.items():
            names[f"deepstack_merger_list.{i}.{theirs}"] = f"v.deepstack.{layer}.{ours}"
    for theirs, ours in names.items():
        for part in ("weight", "bias"):
            tensors[f"{ours}.{part}"] = see(f"{theirs}.{part}")
    gguf.write(tower_path, tower, tensors)


def pixels_of(rgb, vision):
    """As transformers' processors arrange an image: the squares of patches that become one, each
    patch twice, as a video of two equal images."""
    keys = make_vision.tower()[0]
    x = (rgb / 255 - keys["clip.vision.image_mean"]) / keys["clip.vision.image_std"]
    side, merged = vision.patch_size, vision.spatial_merge_size
    rows, columns = (n // side for n in x.shape[:2])
    x = np.stack([x, x]).transpose(0, 3, 1, 2)
    x = x.reshape(1, 2, 3, rows // merged, merged, side, columns // merged, merged, side)
    x = x.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(rows * columns, -1)
    return torch.tensor(x), [1, rows, columns]


def logits_of(model, tokens, images):
    """`tokens` have one place for each image."""
    vision = model.config.vision_config
    seen = [pixels_of(image, vision) for image in images]
    ids, left = [], list(seen)
    for token in tokens:
        count = 1
        if token == model.config.image_token_id:
            _, (_, rows, columns) = left.pop(0)
            count = rows * columns // vision.spatial_merge_size ** 2
        ids += [token] * count
    given = {"input_ids": torch.tensor([ids])}
    given["mm_token_type_ids"] = (given["input_ids"] == model.config.image_token_id).int()
    if seen:
        given["pixel_values"] = torch.cat([pixels for pixels, _ in seen]).double()
        given["image_grid_thw"] = torch.tensor([grid for _, grid in seen])
    with torch.no_grad():
        return model.double()(**given).logits[0].numpy()


CASES = {  # layers, blocks whose results are added, side of the learned places, sizes of images
    "two-images": (3, [0, 2], 6, [(64, 48), (32, 80)]),
    "one-line": (3, [1], 6, [(160, 16)]),
    "a-square-of-one": (4, [0, 1, 2], 5, [(16, 16), (16, 16), (48, 16)]),
    "nothing-added": (2, [], 7, [(96, 96)]),
    "no-image": (3, [0, 2], 6, []),
}


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    layers, deepstack, side, sizes = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    names = make_vision.vocabulary()["tokenizer.ggml.tokens"]
    model = random_model(layers, deepstack, side, names.index)
    write(model, deepstack, folder / "model.gguf", folder / "tower.gguf")
    images = [png.blocks(width, height, seed=i) for i, (width, height) in enumerate(sizes)]
    shown = [names.index(f"<|{name}|>") for name in ("vision_start", "image_pad", "vision_end")]
    tokens = [5, 70, 256, 9]
    for _ in images:
        tokens += shown + [41, 100]
    return folder, tokens, images, logits_of(model, tokens, images)


def test_reference_agrees_with_transformers(made):
    folder, tokens, images, logits = made
    model = SeeingModel(folder / "model.gguf", folder / "tower.gguf")
    error = nmse(model.all_logits(tokens, images), logits)
    print(f"{folder.name:20} {error:.3g}")
    assert error <= LIMIT


def test_engine_agrees_with_transformers(made):
    if not os.environ.get("INFER_BIN"):
        pytest.skip("INFER_BIN does not name the program")
    folder, tokens, images, logits = made
    files = []
    for i, image in enumerate(images):
        path = folder / f"{i}.png"
        path.write_bytes(png.encode(image))
        files += ["--image", path]
    out = folder / "logits.f32"
    subprocess.run([os.environ["INFER_BIN"], "eval", "-m", folder / "model.gguf", "--mmproj",
                    folder / "tower.gguf", *files, "--logits", out, "--exact", "--tokens",
                    ",".join(map(str, tokens))], check=True)
    model = SeeingModel(folder / "model.gguf", folder / "tower.gguf")
    model.place(tokens, images)
    told = logits[model.ends]  # of an image those after its last result
    error = nmse(np.fromfile(out, "<f4").reshape(told.shape), told)
    print(f"{folder.name:20} {error:.3g}")
    assert error <= LIMIT
