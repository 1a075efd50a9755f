"""DFlash and DSpark heads of Hugging Face directories: converted, they are as GGUF has them, and the
program drafts with them. The reference agrees with transformers' class."""

import json
import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.reference import dflash, gguf  # noqa: E402
from tests.golden.reference.model import Model, nmse  # noqa: E402
from tests.golden.test_head_checkpoints import GOLDEN, converted, infer, write  # noqa: E402

HEADS = GOLDEN.parent / "heads"
PARTS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_sinks": "self_attn.sinks",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GEMMA = PARTS | {"post_attention_norm": "post_attention_layernorm",
                 "ffn_norm": "pre_feedforward_layernorm",
                 "post_ffw_norm": "post_feedforward_layernorm", "layer_output_scale": "layer_scalar"}
WHOLE = {"fc": "fc", "enc.output_norm": "hidden_norm", "output_norm": "norm",
         "token_embd": "embed_tokens", "output": "lm_head", "markov_w1": "markov_head.markov_w1",
         "markov_w2": "markov_head.markov_w2", "conf_proj": "confidence_head.proj"}


def directory_of(tmp_path, name, config, parts=PARTS, whole=WHOLE, root="", leave=()):
    """(directory, keys, tensors of GGUF)."""
    metadata, tensors = gguf.read(HEADS / f"dflash-{name}.gguf")
    key = lambda k: metadata["dflash." + k]
    checkpoint = {}
    for tensor, x in tensors.items():
        if tensor in leave:
            continue
        if tensor == "d2t":
            checkpoint["d2t"] = x - np.arange(len(x))
        elif tensor.startswith("blk."):
            _, layer, part, kind = tensor.split(".", 3)
            other = parts[part]
            ending = "" if part in ("attn_sinks", "layer_output_scale") else "." + kind
            checkpoint[f"{root}layers.{layer}.{other}{ending}"] = x
        else:
            checkpoint[root + whole[tensor.removesuffix(".weight")] + ".weight"] = x
    directory = tmp_path / "head"
    directory.mkdir()
    write(directory / "model.safetensors", checkpoint)
    (directory / "config.json").write_text(json.dumps({
        "num_hidden_layers": key("block_count"), "hidden_size": key("embedding_length"),
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 38,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "vocab_size": 72,
        "block_size": key("block_size")} | config))
    return directory, metadata, tensors


def same_head(directory, metadata, tensors, name, keys, leave=()):
    path = converted(directory)
    found, made = gguf.read(path)
    for key in keys + ("dflash.target_layers", "dflash.block_size", "tokenizer.ggml.mask_token_id"):
        assert found[key] == pytest.approx(metadata[key]), key
    assert made.keys() == {tensor for tensor in tensors if tensor not in leave}
    for tensor, x in made.items():
        assert np.array_equal(np.asarray(x).reshape(-1), np.asarray(tensors[tensor]).reshape(-1)), tensor
    for head in (directory, path):
        done = infer("plan", "-m", GOLDEN / f"{name}.gguf", "-md", head, "-c", "128")
        assert done.returncode == 0, done.stderr
    return found


def test_dflash_as_gguf_has_it(tmp_path):
    directory, metadata, tensors = directory_of(tmp_path, "llama-f32", {
        "architectures": ["DFlashDraftModel"],
        "dflash_config": {"mask_token_id": 70, "target_layer_ids": [1, -1, 0]}})
    found = same_head(directory, metadata, tensors, "llama-f32", ("dflash.rope.freq_base",))
    assert "dflash.attention.sliding_window" not in found


def test_windows_and_scales(tmp_path):
    directory, metadata, tensors = directory_of(tmp_path, "qwen35-f32", {
        "architectures": ["DFlashDraftModel"], "use_sliding_window": True, "sliding_window": 9,
        "layer_types": ["sliding_attention", "full_attention"], "dflash_config": {
            "mask_token_id": 70, "target_layer_ids": [0, 3], "attention_value_scale": 0.7,
            "final_logit_softcapping": 3.0, "output_multiplier": 1.5}}, root="model.")
    same_head(directory, metadata, tensors, "qwen35-f32", tuple("dflash." + key for key in (
        "attention.sliding_window", "attention.sliding_window_pattern", "attention.value_scale",
        "final_logit_softcapping", "logit_scale")))
    text = json.loads((directory / "config.json").read_text())
    text["dflash_config"] |= {"use_swa": True, "swa_window_size": 11}
    (directory / "config.json").write_text(json.dumps(text))
    found, _ = gguf.read(converted(directory))
    assert found["dflash.attention.sliding_window"] == 11
    assert found["dflash.attention.sliding_window_pattern"] == [True, True]


def test_dspark_of_speculators(tmp_path):
    directory, metadata, tensors = directory_of(tmp_path, "muse-glimmer-f32", {
        "architectures": ["DSparkSpeculator"], "draft_vocab_size": 51, "mask_token_id": 70,
        "aux_hidden_state_layer_ids": [3, 1, 2, 0], "is_causal": True})
    found = same_head(directory, metadata, tensors, "muse-glimmer-f32", (
        "dflash.sample_from_anchor", "dflash.attention.causal"))
    assert found["dflash.has_confidence_head"]


def test_dspark_for_gemma(tmp_path):
    """Its table of tokens and output are the model's, even if the file has an output."""
    directory, metadata, tensors = directory_of(tmp_path, "gemma4-f32", {
        "architectures": ["Gemma4DSparkModel"], "mask_token_id": 70, "target_layer_ids": [-1, 1, 0],
        "attention_k_eq_v": True, "layer_types": ["full_attention"] * 2, "global_head_dim": 10,
        "head_dim": 6, "num_global_key_value_heads": 2, "num_key_value_heads": 4,
        "tie_word_embeddings": True, "rope_parameters": {"full_attention": {
            "rope_type": "proportional", "partial_rotary_factor": 0.6, "rope_theta": 5e5}}}, GEMMA,
        WHOLE | {"conf_proj": "confidence_proj"}, leave=("rope_freqs.weight",))
    found = same_head(directory, metadata, tensors, "gemma4-f32", (
        "dflash.attention.scale", "dflash.hidden_activation", "dflash.rope.freq_base"))
    assert found["dflash.embedding_scale"] == pytest.approx(30 ** 0.5)
    assert found["dflash.sample_from_anchor"] and found["dflash.has_confidence_head"]


@pytest.mark.parametrize("config, named", [
    ({"architectures": ["DFlash2DraftModel"]}, "DFlash 2"),
    ({"rope_is_neox_style": False}, "rope_is_neox_style"),
    ({"hidden_act": "relu"}, "hidden_act 'relu'"),
    ({"dflash_config": {"mask_token_id": 70}}, "target_layer_ids")])
def test_other_heads_are_named(tmp_path, config, named):
    directory, *_ = directory_of(tmp_path, "llama-f32", {
        "architectures": ["DFlashDraftModel"],
        "dflash_config": {"mask_token_id": 70, "target_layer_ids": [1, -1, 0]}} | config)
    done = infer("convert", directory, tmp_path / "out.gguf")
    assert done.returncode == 3 and named in done.stderr, done.stderr


def test_other_transitions_are_named(tmp_path):
    directory, *_ = directory_of(tmp_path, "muse-glimmer-f32", {
        "architectures": ["DSparkDraftModel"], "draft_vocab_size": 51, "mask_token_id": 70,
        "target_layer_ids": [1], "markov_head_type": "gated"})
    done = infer("convert", directory, tmp_path / "out.gguf")
    assert done.returncode == 3 and "markov_head_type 'gated'" in done.stderr, done.stderr


def test_the_reference_agrees_with_transformers(tmp_path):
    """Of the class of Muse Glimmer's drafter, whose windows count the tokens before a row."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "MuseGlimmerAssistantModel"):
        pytest.skip("this transformers has no DFlash")
    from transformers.cache_utils import DFlashCache
    main = Model(GOLDEN / "muse-glimmer-f32.gguf")
    tokens = json.loads((GOLDEN / "muse-glimmer-f32.json").read_text())["tokens"][:40]
    main.logits(tokens)
    width, layers = main.width, [0, 2]
    config = transformers.MuseGlimmerAssistantConfig(
        hidden_size=width, intermediate_size=38, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=10, sliding_window=9, block_size=6, mask_token_id=70,
        layer_types=["sliding_attention", "full_attention"], target_layer_ids=layers,
        rope_parameters={"rope_type": "default", "rope_theta": 5e5}, max_position_embeddings=64)
    model = transformers.MuseGlimmerAssistantModel._from_config(
        config, attn_implementation="eager", dtype=torch.float64).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            value = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
            tensor.copy_(1 + 0.2 * value if "norm" in name else 1.5 * value / tensor.shape[-1] ** 0.5)
    model.float().save_pretrained(tmp_path / "head")
    model.double()
    path = converted(tmp_path / "head")
    head = dflash.Head(path, main)
    assert head.key("attention.sliding_window") == 10
    assert head.key("target_layers") == [1, 3]
    states = head.states()
    table = main.tensors["token_embd.weight"]
    output = main.tensors.get("output.weight", table)
    taken = torch.tensor(np.concatenate([main.entered[layer + 1] for layer in layers], axis=1))
    for length in (3, 20, 40):
        noise = torch.tensor(table[[tokens[length - 1]] + [70] * 5])[None]
        cache = DFlashCache(config=config)
        cache.set_previous_accepted_tokens(length - 1)
        with torch.no_grad():
            made = model(noise_embeds=noise, context_hidden_states=taken[None, :length - 1],
                         position_ids=torch.arange(length + 5)[None],
                         cache=cache).last_hidden_state[0].numpy()
        error = nmse(head.block(tokens[:length], states[:length - 1]), made @ output.T)
        print(f"{length} {error:.3g}")
        assert error <= 1e-10
    done = infer("plan", "-m", GOLDEN / "muse-glimmer-f32.gguf", "-md", tmp_path / "head", "-c", "128")
    assert done.returncode == 0, done.stderr
