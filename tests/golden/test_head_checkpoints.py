"""Next-token layers of Hugging Face directories: converted, they are where GGUF has them, and the
program drafts with them."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf  # noqa: E402

GOLDEN = pathlib.Path(__file__).parents[1] / "data/golden"

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)


def infer(*args):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, args)], capture_output=True, text=True)


def write(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        kind, dtype = {"i": ("<i8", "I64"), "b": ("?", "BOOL")}.get(np.asarray(x).dtype.kind,
                                                                    ("<f4", "F32"))
        raw = np.asarray(x, kind).tobytes()
        header[name] = {"dtype": dtype, "shape": list(np.shape(x)),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def converted(directory):
    out = directory.parent / "converted.gguf"
    done = infer("convert", directory, out)
    assert done.returncode == 0, done.stderr
    return out


def apart(x, heads):
    """The rows that RoPE turns together half a head apart, as checkpoints have them."""
    return x.reshape(heads, -1, 2, x.shape[1]).transpose(0, 2, 1, 3).reshape(x.shape)


EAGLE = {"token_embd": "embed_tokens", "fc": "fc", "output_norm": "norm", "output": "lm_head",
         "blk.0.attn_norm": "midlayer.input_layernorm", "blk.0.attn_norm_2": "midlayer.hidden_norm",
         "blk.0.ffn_norm": "midlayer.post_attention_layernorm",
         "blk.0.ffn_gate": "midlayer.mlp.gate_proj", "blk.0.ffn_up": "midlayer.mlp.up_proj",
         "blk.0.ffn_down": "midlayer.mlp.down_proj"} | {
    f"blk.0.attn_{name}": f"midlayer.self_attn.{of}_proj"
    for name, of in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o"))}


def of_speculators(config, whole):
    """The same configuration in the layout of vLLM's `speculators`."""
    for key in ("architectures", "draft_vocab_size", "tie_word_embeddings"):
        config.pop(key)
    return {"architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3",
            "draft_vocab_size": 40, "target_hidden_size": None,
            "transformer_layer_config": config} | whole


@pytest.mark.parametrize("layout", ["plain", "nested", "speculators"])
def test_eagle3_as_gguf_has_it(tmp_path, layout):
    metadata, tensors = gguf.read(GOLDEN.parent / "heads/eagle3-llama-f32.gguf")
    checkpoint = {EAGLE[name.removesuffix(".weight")] + ".weight": x
                  for name, x in tensors.items() if name != "d2t"}
    for part, heads in (("q", 4), ("k", 2)):
        name = f"midlayer.self_attn.{part}_proj.weight"
        checkpoint[name] = apart(checkpoint[name], heads)
    checkpoint["d2t"] = tensors["d2t"] - np.arange(len(tensors["d2t"]))
    checkpoint["t2d"] = np.isin(np.arange(72), tensors["d2t"])
    directory = tmp_path / "eagle"
    directory.mkdir()
    write(directory / "model.safetensors", checkpoint)
    key = lambda name: metadata["eagle3." + name]
    config = {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1,
              "hidden_size": key("embedding_length"), "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 38,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
              "vocab_size": 72, "draft_vocab_size": 40, "tie_word_embeddings": False}
    layers = key("target_layers")
    ids = "eagle_aux_hidden_state_layer_ids"
    if layout == "speculators":
        config = of_speculators(config, {ids: layers, "norm_before_residual": False})
        checkpoint = {name.replace("midlayer.", "layers.0."): x for name, x in checkpoint.items()}
        checkpoint["verifier_lm_head.weight"] = np.zeros((72, 4))
        write(directory / "model.safetensors", checkpoint)
    else:
        nested = layout == "nested"
        config |= {"eagle_config": {ids: [l - 1 for l in layers]}} if nested else {ids: layers}
    (directory / "config.json").write_text(json.dumps(config))
    path = converted(directory)
    found, made = gguf.read(path)
    for name in ("target_layers", "attention.head_count", "rope.freq_base"):
        assert found["eagle3." + name] == key(name)
    assert made.keys() == tensors.keys()
    for name, x in tensors.items():
        assert np.array_equal(np.asarray(made[name]).reshape(-1), np.asarray(x).reshape(-1)), name
    main = GOLDEN / "llama-f32.gguf"
    for head in (directory, path):
        done = infer("plan", "-m", main, "-md", head, "-c", "128")
        assert done.returncode == 0, done.stderr


def test_eagle3_of_speculators_with_norms(tmp_path):
    """The norm before "fc", and the one before the sum, which vLLM takes where nothing is said."""
    _, tensors = gguf.read(GOLDEN.parent / "heads/eagle3-llama-f32.gguf")
    there = lambda name: EAGLE[name.removesuffix(".weight")].replace("midlayer.", "layers.0.")
    checkpoint = {there(name) + ".weight": x for name, x in tensors.items() if name != "d2t"}
    checkpoint["d2t"] = tensors["d2t"] - np.arange(len(tensors["d2t"]))
    checkpoint["input_norm.weight"] = np.full(tensors["fc.weight"].shape[1], 1.25)
    directory = tmp_path / "eagle"
    directory.mkdir()
    write(directory / "model.safetensors", checkpoint)
    config = {"speculators_model_type": "eagle3", "architectures": ["Eagle3Speculator"],
              "norm_before_fc": True, "transformer_layer_config": {
                  "num_hidden_layers": 1, "hidden_size": tensors["fc.weight"].shape[0],
                  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10,
                  "intermediate_size": 38, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
                  "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
                  "vocab_size": 72}}
    (directory / "config.json").write_text(json.dumps(config))
    found, made = gguf.read(converted(directory))
    assert found["eagle3.norm_before_residual"] and found["eagle3.norm_before_fc"]
    assert found["eagle3.rope.freq_base"] == 5e5
    assert np.all(made["enc.output_norm.weight"] == 1.25)
    done = infer("plan", "-m", GOLDEN / "llama-f32.gguf", "-md", directory, "-c", "128")
    assert done.returncode == 0, done.stderr
    (directory / "config.json").write_text(json.dumps(config | {"speculators_model_type": "peagle"}))
    done = infer("convert", directory, tmp_path / "out.gguf")
    assert done.returncode == 3 and "speculators_model_type 'peagle'" in done.stderr


def drafts(path):
    done = infer("plan", "-m", path, "--drafter", "mtp", "-c", "128")
    assert done.returncode == 0, done.stderr


GLM = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
       "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
       "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
       "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
       "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate",
       "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
       "ffn_up_shexp": "mlp.shared_experts.up_proj",
       "ffn_down_shexp": "mlp.shared_experts.down_proj", "nextn.eh_proj": "eh_proj",
       "nextn.enorm": "enorm", "nextn.hnorm": "hnorm", "nextn.embed_tokens": "embed_tokens",
       "nextn.shared_head_norm": "shared_head.norm", "nextn.shared_head_head": "shared_head.head"}


HY_V3 = GLM | {"ffn_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router.gate",
               "ffn_gate_shexp": "mlp.shared_mlp.gate_proj", "ffn_up_shexp": "mlp.shared_mlp.up_proj",
               "ffn_down_shexp": "mlp.shared_mlp.down_proj",
               "nextn.shared_head_norm": "final_layernorm"}


def moe_checkpoint(arch, names, bias):
    """(keys, tensors of GGUF, those of a checkpoint)."""
    metadata, tensors = gguf.read(GOLDEN / f"{arch}-f32.gguf")
    checkpoint = {"model.embed_tokens.weight": tensors["token_embd.weight"],
                  "model.norm.weight": tensors["output_norm.weight"],
                  "lm_head.weight": tensors["output.weight"]}
    for name, x in tensors.items():
        if not name.startswith("blk."):
            continue
        _, layer, rest = name.split(".", 2)
        part, _, kind = rest.rpartition(".")
        at = f"model.layers.{layer}."
        if "exp_probs_b" in rest:
            checkpoint[at + bias] = x
        elif part.endswith("_exps"):
            for e, matrix in enumerate(x):
                which = part.removeprefix("ffn_").removesuffix("_exps")
                checkpoint[f"{at}mlp.experts.{e}.{which}_proj.weight"] = matrix
        else:
            checkpoint[f"{at}{names[part]}.{kind}"] = x
    return metadata, tensors, checkpoint


def same_with_heads(tmp_path, arch, metadata, tensors, checkpoint, config):
    directory = tmp_path / "m"
    directory.mkdir()
    write(directory / "model.safetensors", checkpoint)
    (directory / "config.json").write_text(json.dumps(config | {
        "num_hidden_layers": 3, "hidden_size": 30, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 38, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "num_experts_per_tok": 2, "moe_intermediate_size": 14,
        "first_k_dense_replace": 1, "tie_word_embeddings": False}))
    path = converted(directory)
    found, made = gguf.read(path)
    for key in ("nextn_predict_layers", "block_count", "attention.key_length", "rope.freq_base",
                "rope.dimension_count", "expert_count", "expert_used_count", "expert_weights_norm",
                "expert_feed_forward_length", "expert_weights_scale", "expert_gating_func"):
        assert found[f"{arch}.{key}"] == pytest.approx(metadata.get(f"{arch}.{key}", 1e4)), key
    assert made.keys() == tensors.keys()
    for name, x in tensors.items():
        assert np.array_equal(np.asarray(made[name]).reshape(-1), np.asarray(x).reshape(-1)), name
    drafts(directory)
    drafts(path)


def test_glm_as_gguf_has_it(tmp_path):
    metadata, tensors, checkpoint = moe_checkpoint(
        "glm4moe", GLM, "mlp.gate.e_score_correction_bias")
    same_with_heads(tmp_path, "glm4moe", metadata, tensors, checkpoint, {
        "architectures": ["Glm4MoeForCausalLM"], "num_nextn_predict_layers": 2, "head_dim": 12,
        "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "n_routed_experts": 6,
        "n_shared_experts": 1, "routed_scaling_factor": metadata["glm4moe.expert_weights_scale"],
        "norm_topk_prob": True})


def test_hunyuan_v3_as_gguf_has_it(tmp_path):
    """In the names of its own repository."""
    metadata, tensors, checkpoint = moe_checkpoint("hy_v3", HY_V3, "mlp.expert_bias")
    same_with_heads(tmp_path, "hy_v3", metadata, tensors, checkpoint, {
        "architectures": ["HYV3ForCausalLM"], "num_nextn_predict_layers": 1, "head_dim": 10,
        "rope_theta": 2e5, "num_experts": 6, "num_shared_experts": 1, "route_norm": True,
        "router_scaling_factor": metadata["hy_v3.expert_weights_scale"]})


MIMO = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate"}
MIMO_7B_HEAD = {"nextn.eh_proj": "input_proj", "nextn.enorm": "token_layernorm",
                "nextn.hnorm": "hidden_layernorm", "nextn.shared_head_norm": "final_layernorm"}
MIMO_V2_HEAD = {"nextn.eh_proj": "eh_proj", "nextn.enorm": "enorm", "nextn.hnorm": "hnorm",
                "ffn_norm": "pre_mlp_layernorm", "layer_output_norm": "final_layernorm"}


def mimo_directory(tmp_path, name, head, at_head, config):
    """The golden model as a directory. `at_head`: what stands before the names of head i."""
    metadata, tensors = gguf.read(GOLDEN / f"{name}.gguf")
    arch = metadata["general.architecture"]
    key = lambda k: metadata[f"{arch}.{k}"]
    layers = key("block_count") - key("nextn_predict_layers")
    checkpoint = {"model.embed_tokens.weight": tensors["token_embd.weight"],
                  "model.norm.weight": tensors["output_norm.weight"],
                  "lm_head.weight": tensors["output.weight"]}
    for tensor, x in tensors.items():
        if not tensor.startswith("blk."):
            continue
        _, layer, rest = tensor.split(".", 2)
        part, kind = rest.rsplit(".", 1)
        i = int(layer) - layers
        at = f"model.layers.{layer}." if i < 0 else at_head.format(i)
        names = MIMO | (head if i >= 0 else {})
        if part == "exp_probs_b":
            checkpoint[at + "mlp.gate.e_score_correction_bias"] = x
        elif part == "attn_sinks":
            checkpoint[at + "self_attn.attention_sink_bias"] = x
        elif part == "attn_qkv":
            rows = [12 * 6, 12 * 3, 10 * 3]
            for name, some in zip("qkv", np.split(x, np.cumsum(rows)[:2])):
                checkpoint[f"{at}self_attn.{name}_proj.weight"] = some
        elif part.endswith("_exps"):
            which = part.removeprefix("ffn_").removesuffix("_exps")
            for e, matrix in enumerate(x):
                checkpoint[f"{at}mlp.experts.{e}.{which}_proj.weight"] = matrix
        else:
            checkpoint[f"{at}{names[part]}.{kind}"] = x
    directory = tmp_path / "mimo"
    directory.mkdir()
    write(directory / "model.safetensors", checkpoint)
    (directory / "config.json").write_text(json.dumps({
        "num_hidden_layers": layers, "hidden_size": key("embedding_length"),
        "num_attention_heads": key("attention.head_count"),
        "head_dim": key("attention.key_length"), "max_position_embeddings": 256,
        "intermediate_size": key("feed_forward_length"), "rope_theta": key("rope.freq_base"),
        "tie_word_embeddings": False} | config))
    return directory, metadata, tensors


def same_model(directory, metadata, tensors, keys):
    path = converted(directory)
    found, made = gguf.read(path)
    for key in keys:
        assert found[key] == pytest.approx(metadata[key]), key
    joined = {name for name in tensors if "attn_qkv" in name}
    assert made.keys() - {f"{name[:-10]}{part}.weight" for name in joined for part in "qkv"} == (
        tensors.keys() - joined)
    for name, x in tensors.items():
        if name not in joined:
            assert np.array_equal(np.asarray(made[name]).reshape(-1),
                                  np.asarray(x).reshape(-1)), name
    drafts(directory)
    drafts(path)


def test_mimo_as_gguf_has_it(tmp_path):
    directory, metadata, tensors = mimo_directory(
        tmp_path, "mimo-f32", MIMO_7B_HEAD, "model.mtp_layers.{}.",
        {"architectures": ["MiMoForCausalLM"], "num_nextn_predict_layers": 1,
         "num_key_value_heads": 2, "rms_norm_eps": 1e-5})
    same_model(directory, metadata, tensors, [f"mimo.{key}" for key in (
        "block_count", "nextn_predict_layers", "attention.head_count_kv", "rope.freq_base")])


MIMO_V2 = {"architectures": ["MiMoV2FlashForCausalLM"], "num_key_value_heads": 2,
           "swa_num_key_value_heads": 3, "swa_num_attention_heads": 6, "swa_head_dim": 12,
           "v_head_dim": 10, "swa_v_head_dim": 10, "layernorm_epsilon": 1e-5,
           "partial_rotary_factor": 0.5, "swa_rope_theta": 1e4, "sliding_window": 7,
           "sliding_window_size": 6, "hybrid_layer_pattern": [0, 1, 1, 0],
           "attention_value_scale": 0.7, "moe_layer_freq": [0, 1, 1, 1], "n_routed_experts": 6,
           "num_experts_per_tok": 2, "moe_intermediate_size": 14, "n_shared_experts": None,
           "scoring_func": "sigmoid", "topk_method": "noaux_tc", "n_group": 1, "topk_group": 1,
           "norm_topk_prob": True, "routed_scaling_factor": None}


def test_mimo_v2_with_its_chain_as_gguf_has_it(tmp_path):
    directory, metadata, tensors = mimo_directory(
        tmp_path, "mimo2-f32", MIMO_V2_HEAD, "model.mtp.layers.{}.", MIMO_V2)
    same_model(directory, metadata, tensors, [f"mimo2.{key}" for key in (
        "block_count", "nextn_predict_layers", "attention.head_count_kv", "rope.freq_base",
        "rope.freq_base_swa", "rope.dimension_count", "attention.sliding_window",
        "attention.sliding_window_pattern", "attention.value_length", "attention.value_scale",
        "attention.layer_norm_rms_epsilon", "expert_used_count")])


@pytest.mark.parametrize("key, value, named", [
    ("swa_head_dim", 14, "swa_head_dim"), ("hybrid_layer_pattern", [0, 1], "hybrid_layer_pattern"),
    ("n_shared_experts", 1, "n_shared_experts"), ("n_group", 2, "n_group")])
def test_other_models_of_mimo_v2_are_named(tmp_path, key, value, named):
    directory, *_ = mimo_directory(tmp_path, "mimo2-f32", MIMO_V2_HEAD, "model.mtp.layers.{}.",
                                   MIMO_V2 | {key: value})
    done = infer("plan", "-m", directory, "-c", "128")
    assert done.returncode == 3
    assert named in done.stderr


def read_safetensors(path):
    raw = path.read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            bits = np.frombuffer(raw[begin:end], "<u2").astype("<u4") << 16
            x = bits.view("<f4")
        else:
            x = np.frombuffer(raw[begin:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        tensors[name] = x.reshape(entry["shape"])
    return tensors


def test_qwen_with_norms_less_one(tmp_path):
    directory = tmp_path / "qwen"
    shutil.copytree(GOLDEN / "hf-qwen35moe", directory)
    tensors = read_safetensors(directory / "model.safetensors")
    layers = {name.split("layers.")[1].split(".")[0] for name in tensors if "layers." in name}
    attention = next(name.split("layers.")[1].split(".")[0] for name in tensors
                     if "self_attn.q_proj" in name)
    last = len(layers)
    for name, x in list(tensors.items()):
        if f"layers.{attention}." in name:
            tensors["mtp.layers.0." + name.split(f"layers.{attention}.")[1]] = x + 0.5
    width = next(x for name, x in tensors.items() if name.endswith("embed_tokens.weight")).shape[1]
    rng = np.random.default_rng(5)
    tensors["mtp.fc.weight"] = rng.normal(0, 0.1, (width, 2 * width)).astype("<f4")
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        tensors[f"mtp.{name}.weight"] = rng.normal(0, 0.1, width).astype("<f4")
    write(directory / "model.safetensors", tensors)
    metadata, made = gguf.read(converted(directory))
    assert metadata["qwen35moe.nextn_predict_layers"] == 1
    b = f"blk.{last}."
    assert np.array_equal(made[b + "nextn.eh_proj.weight"], tensors["mtp.fc.weight"])
    for name, to in (("pre_fc_norm_embedding", "enorm"), ("pre_fc_norm_hidden", "hnorm"),
                     ("norm", "shared_head_norm")):
        assert np.allclose(made[f"{b}nextn.{to}.weight"], tensors[f"mtp.{name}.weight"] + 1)
    part = lambda name: tensors[f"mtp.layers.0.{name}"]
    assert np.allclose(made[b + "attn_norm.weight"], part("input_layernorm.weight") + 1)
    assert np.array_equal(made[b + "attn_q.weight"], part("self_attn.q_proj.weight"))
    assert made[b + "ffn_down_exps.weight"].shape[0] == metadata["qwen35moe.expert_count"]
    drafts(directory)

