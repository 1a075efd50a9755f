"""Hugging Face directories of families whose classes transformers lacks, since their code lies beside
the weights: converted, they are what GGUF has, and llama.cpp agrees."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import gguf, safetensors  # noqa: E402
from tests.golden.reference.model import nmse  # noqa: E402
from tests.golden.test_head_checkpoints import write  # noqa: E402

GOLDEN = pathlib.Path(__file__).parents[1] / "data/golden"
TOKENS = [1] + [3 + i * i % 67 for i in range(47)]

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)


def infer(*args):
    return subprocess.run([os.environ["INFER_BIN"], *map(str, args)], capture_output=True, text=True)


def halves(rows, heads):
    """Rows of queries or keys from neighbouring pairs to halves of a head."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


class Directory:
    """A golden model, whose tensors get the names of a checkpoint."""

    def __init__(self, name):
        self.metadata, self.left = gguf.read(GOLDEN / f"{name}.gguf")
        self.arch = self.metadata["general.architecture"]
        self.layers = self.key("block_count")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv")
        self.tensors = {}
        self.config = {
            "num_hidden_layers": self.layers, "hidden_size": self.key("embedding_length"),
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads,
            "intermediate_size": self.key("feed_forward_length"), "rms_norm_eps": 1e-5,
            "max_position_embeddings": self.key("context_length"),
            "rope_theta": self.key("rope.freq_base", 10000.0)}

    def key(self, name, absent=None):
        return self.metadata.get(f"{self.arch}.{name}", absent)

    def rename(self, names, layers=None):
        """names: in GGUF → in the checkpoint, of the whole or of these layers."""
        for layer in [None] if layers is None else layers:
            for here, there in names.items():
                for kind in (".weight", ".bias"):
                    name = ("" if layer is None else f"blk.{layer}.") + here + kind
                    if name in self.left:
                        at = "" if layer is None else f"model.layers.{layer}."
                        self.tensors[at + there + kind] = self.left.pop(name)

    def save(self, folder, checkpoint, **config):
        assert not self.left, self.left.keys()
        folder.mkdir()
        write(folder / "model.safetensors", self.tensors)
        (folder / "config.json").write_text(json.dumps(
            self.config | {"architectures": [checkpoint]} | config))


NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
ATTENTION = {f"attn_{part}": f"self_attn.{of}_proj"
             for part, of in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o"))}
HEAD_NORMS = {f"attn_{part}_norm": f"self_attn.{part}_norm" for part in "qk"}
FEED_FORWARD = {f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")}


def bailingmoe2(folder, **changes):
    d = Directory("bailingmoe2-f32")
    d.rename({"token_embd": "model.word_embeddings", "output_norm": "model.norm",
              "output": "lm_head"})
    d.rename(NORMS | FEED_FORWARD | {
        "attn_qkv": "attention.query_key_value", "attn_output": "attention.dense",
        "attn_q_norm": "attention.query_layernorm", "attn_k_norm": "attention.key_layernorm",
        "ffn_gate_inp": "mlp.gate"} | {
            f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj"
            for part in ("gate", "up", "down")}, range(d.layers))
    for layer in range(1, d.layers):
        at = f"model.layers.{layer}.mlp."
        d.tensors[at + "gate.expert_bias"] = d.left.pop(f"blk.{layer}.exp_probs_b.bias")
        for part in ("gate", "up", "down"):
            for e, x in enumerate(d.left.pop(f"blk.{layer}.ffn_{part}_exps.weight")):
                d.tensors[f"{at}experts.{e}.{part}_proj.weight"] = x
    # A layer that predicts further tokens is left out.
    d.tensors["model.layers.3.final_layernorm.weight"] = d.tensors["model.norm.weight"]
    d.save(folder, "BailingMoeV2ForCausalLM", **{
        "head_dim": 10, "partial_rotary_factor": 0.6, "num_experts": 8, "num_experts_per_tok": 3,
        "moe_intermediate_size": 14, "num_shared_experts": 2, "first_k_dense_replace": 1,
        "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
        "score_function": "sigmoid", "use_qk_norm": True, "num_nextn_predict_layers": 1} | changes)


def internlm2(folder, **changes):
    d = Directory("internlm2-f32")
    d.rename({"token_embd": "model.tok_embeddings", "output_norm": "model.norm",
              "output": "output"})
    for layer in range(d.layers):
        for kind in ("weight", "bias"):
            q, k, v = (d.left.pop(f"blk.{layer}.attn_{part}.{kind}") for part in "qkv")
            q, k = halves(q, d.heads), halves(k, d.kv_heads)
            groups = [np.split(x, d.kv_heads) for x in (q, k, v)]
            d.tensors[f"model.layers.{layer}.attention.wqkv.{kind}"] = np.concatenate(
                [part for group in zip(*groups) for part in group])
    d.rename({"attn_norm": "attention_norm", "ffn_norm": "ffn_norm", "attn_output": "attention.wo",
              "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3",
              "ffn_down": "feed_forward.w2"}, range(d.layers))
    d.save(folder, "InternLM2ForCausalLM", **changes)


def as_llama(d):
    """The names that Llama's checkpoints have."""
    for layer in range(d.layers):
        for part, heads in (("q", d.heads), ("k", d.kv_heads)):
            x = f"blk.{layer}.attn_{part}.weight"
            d.left[x] = halves(d.left[x], heads)
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm",
              "output": "lm_head"})
    d.rename(NORMS | FEED_FORWARD | {f"attn_{part}": f"self_attn.{part}_proj" for part in "qkv"}
             | {"attn_output": "self_attn.o_proj"}, range(d.layers))


def internlm3(folder, **changes):
    """Of Llama's form, which transformers computes it with."""
    d = Directory("llama-f32")
    as_llama(d)
    d.save(folder, "InternLM3ForCausalLM", **{"head_dim": 12, "qkv_bias": False, "bias": False}
           | changes)


def xverse(folder, **changes):
    d = Directory("xverse-f32")
    as_llama(d)
    d.save(folder, "XverseForCausalLM", **changes)


def orion(folder, **changes):
    """RMSNorm's key is that of its LayerNorms."""
    d = Directory("orion-f32")
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm",
              "output": "lm_head"})
    d.rename(NORMS | FEED_FORWARD | ATTENTION, range(d.layers))
    d.save(folder, "OrionForCausalLM", **{
        "rms_norm_eps": d.key("attention.layer_norm_epsilon")} | changes)


def minicpm(name, folder, **changes):
    d = Directory(name)
    long = {part: d.left.pop(f"rope_factors_{part}.weight").tolist()
            for part in ("long", "short") if f"rope_factors_{part}.weight" in d.left}
    as_llama(d)
    factors = {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256} if long else {
        "scale_emb": 7.0, "scale_depth": 0.3 * 2 ** 0.5, "dim_model_base": 12}
    if long:
        factors["rope_scaling"] = {
            "rope_type": "longrope", "original_max_position_embeddings": 32,
            "attention_factor": 1.19, "long_factor": long["long"], "short_factor": long["short"]}
    d.save(folder, "MiniCPMForCausalLM", head_dim=10, **factors | changes)


def exaone(folder, **changes):
    """With GPT-2's names."""
    d = Directory("exaone-f32")
    d.rename({"token_embd": "transformer.wte", "output_norm": "transformer.ln_f",
              "output": "lm_head"})
    d.rename({"attn_norm": "ln_1", "ffn_norm": "ln_2", "attn_output": "attn.attention.out_proj",
              "ffn_gate": "mlp.c_fc_0", "ffn_up": "mlp.c_fc_1", "ffn_down": "mlp.c_proj"}
             | {f"attn_{part}": f"attn.attention.{part}_proj" for part in "qkv"}, range(d.layers))
    d.tensors = {key.replace("model.layers.", "transformer.h."): x for key, x in d.tensors.items()}
    d.config["num_layers"] = d.config.pop("num_hidden_layers")
    d.config["layer_norm_epsilon"] = d.config.pop("rms_norm_eps")
    d.save(folder, "ExaoneForCausalLM", **{"activation_function": "silu"} | changes)


def deepseek(folder, **changes):
    d = Directory("deepseek-f32")
    for layer in range(1, d.layers):
        for part in ("gate", "up", "down"):
            for e, x in enumerate(d.left.pop(f"blk.{layer}.ffn_{part}_exps.weight")):
                d.tensors[f"model.layers.{layer}.mlp.experts.{e}.{part}_proj.weight"] = x
    d.rename({"ffn_gate_inp": "mlp.gate"} | {f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj"
                                             for part in ("gate", "up", "down")}, range(d.layers))
    as_llama(d)
    d.save(folder, "DeepseekForCausalLM", **{
        "n_routed_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 14,
        "n_shared_experts": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "norm_topk_prob": False, "scoring_func": "softmax"} | changes)


def pangu(folder, **changes):
    d = Directory("pangu-embedded-f32")
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm",
              "output": "lm_head"})
    d.rename(NORMS | FEED_FORWARD | ATTENTION, range(d.layers))
    d.save(folder, "PanguEmbeddedForCausalLM", **changes)


def maincoder(folder, **changes):
    """The rows that RoPE turns together are neighbours already."""
    d = Directory("maincoder-f32")
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm",
              "output": "lm_head"})
    d.rename(NORMS | FEED_FORWARD | ATTENTION | HEAD_NORMS, range(d.layers))
    d.save(folder, "MaincoderForCausalLM", **{"head_dim": 10, "use_qk_norm": True} | changes)


def bailingmoe(folder, **changes):
    d = Directory("bailingmoe-f32")
    d.rename({"token_embd": "model.word_embeddings", "output_norm": "model.norm",
              "output": "lm_head"})
    d.rename(NORMS | {"attn_output": "attention.dense", "ffn_gate_inp": "mlp.gate"} | {
        f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")},
        range(d.layers))
    for layer in range(d.layers):
        q, k, v = (d.left.pop(f"blk.{layer}.attn_{part}.weight") for part in "qkv")
        d.tensors[f"model.layers.{layer}.attention.query_key_value.weight"] = np.concatenate(
            [halves(q, d.heads), halves(k, d.kv_heads), v])
        for part in ("gate", "up", "down"):
            for e, x in enumerate(d.left.pop(f"blk.{layer}.ffn_{part}_exps.weight")):
                d.tensors[f"model.layers.{layer}.mlp.experts.{e}.{part}_proj.weight"] = x
    d.save(folder, "BailingMoeForCausalLM", **{
        "head_dim": 10, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 14,
        "num_shared_experts": 2, "first_k_dense_replace": 0, "norm_topk_prob": True,
        "norm_head": False, "use_bias": False, "use_qkv_bias": False} | changes)


def spark(folder, **changes):
    d = Directory("spark2_5-f32")
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm"})
    d.rename(NORMS | FEED_FORWARD | {"attn_qkv": "self_attn.q_k_v_proj", "attn_gate":
                                     "self_attn.g_proj", "attn_output": "self_attn.o_proj"},
             range(d.layers))
    d.save(folder, "Spark2_5ForCausalLM", **{
        "head_dim": 12, "hidden_act": "gelu", "gate_attn_act_mode": "sigmoid",
        "headwise_attn_output_gate": True, "sliding_window": 7, "tie_word_embeddings": True,
        "layer_types": 3 * ["sliding_attention"] + ["full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 5e5,
                               "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4,
                                  "partial_rotary_factor": 1.0}}} | changes)


def plm(folder, **changes):
    d = Directory("plm-f32")
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm"})
    d.rename(NORMS | FEED_FORWARD | {
        "attn_q": "self_attn.q_proj", "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm", "attn_kv_b": "self_attn.kv_b_proj",
        "attn_output": "self_attn.o_proj"}, range(d.layers))
    d.save(folder, "PLMForCausalLM", **{
        "hidden_act": "relu2", "q_lora_rank": None, "kv_lora_rank": 18, "qk_nope_head_dim": 10,
        "qk_rope_head_dim": 8, "v_head_dim": 12, "tie_word_embeddings": True} | changes)


def deci(folder, **changes):
    d = Directory("deci-f32")
    for layer in range(d.layers):
        at = f"blk.{layer}."
        if at + "attn_q.weight" not in d.left and at + "attn_output.weight" in d.left:
            d.rename({"attn_output": "self_attn.linear_attn"}, [layer])
        for part, heads in (("q", d.heads[layer]), ("k", d.kv_heads[layer])):
            if (x := f"{at}attn_{part}.weight") in d.left:
                d.left[x] = halves(d.left[x], heads)
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm",
              "output": "lm_head"})
    d.rename(NORMS | FEED_FORWARD | ATTENTION, range(d.layers))
    d.save(folder, "DeciLMForCausalLM", **{
        "num_attention_heads": 6, "num_key_value_heads": None, "intermediate_size": None,
        "block_configs": [{"attention": {"n_heads_in_group": 3}, "ffn": {"ffn_mult": 1.5}}]}
           | changes)


FAMILIES = {"xverse-f32": xverse, "orion-f32": orion, "pangu-embedded-f32": pangu, "maincoder-f32": maincoder, "bailingmoe-f32": bailingmoe,
            "spark2_5-f32": spark,
            "plm-f32": plm, "deci-f32": deci, "exaone-f32": exaone, "deepseek-f32": deepseek, "bailingmoe2-f32": bailingmoe2,
            "internlm2-f32": internlm2, "llama-f32": internlm3,
            "minicpm-f32": lambda *a, **k: minicpm("minicpm-f32", *a, **k),
            "minicpm-long-f32": lambda *a, **k: minicpm("minicpm-long-f32", *a, **k)}


def convert(folder, tmp_path):
    """(metadata, tensors) of the file that is made of it."""
    done = infer("convert", folder, tmp_path / "out.gguf")
    assert done.returncode == 0, done.stderr
    return gguf.read(tmp_path / "out.gguf")


def converted(name, tmp_path, **changes):
    FAMILIES[name](tmp_path / "m", **changes)
    convert(tmp_path / "m", tmp_path)
    return tmp_path / "out.gguf"


@pytest.mark.parametrize("name", FAMILIES)
def test_converted_as_gguf_has_it(name, tmp_path):
    metadata, tensors = gguf.read(converted(name, tmp_path))
    wanted_metadata, wanted = gguf.read(GOLDEN / f"{name}.gguf")
    assert tensors.keys() == wanted.keys()
    for key, x in wanted.items():
        assert np.array_equal(tensors[key], x), key
    arch = wanted_metadata["general.architecture"]
    for key, value in wanted_metadata.items():
        if key.startswith(arch + ".") and key in metadata:
            assert metadata[key] == pytest.approx(value), key
    logits = np.fromfile(GOLDEN / f"{name}.f32", "<f4")
    tokens = json.loads((GOLDEN / f"{name}.json").read_text())["tokens"]
    done = infer("eval", "-m", tmp_path / "m", "--exact", "--logits", tmp_path / "logits",
                 "--tokens", ",".join(map(str, tokens)))
    assert done.returncode == 0, done.stderr
    error = nmse(np.fromfile(tmp_path / "logits", "<f4"), logits)
    print(f"{name:20} {error:.3g}")
    assert error <= 1e-10


@pytest.mark.parametrize("name", FAMILIES)
def test_llama_cpp_agrees(name, tmp_path):
    llama_cpp = pytest.importorskip("llama_cpp")
    path = converted(name, tmp_path)
    done = infer("eval", "-m", path, "--exact", "--logits", tmp_path / "logits", "--tokens",
                 ",".join(map(str, TOKENS)))
    assert done.returncode == 0, done.stderr
    model = llama_cpp.Llama(str(path), n_ctx=64, logits_all=True, verbose=False)
    model.eval(TOKENS)
    found = np.array(model.scores[:len(TOKENS)])
    error = nmse(found, np.fromfile(tmp_path / "logits", "<f4").reshape(found.shape))
    print(f"{name:20} {error:.3g}")
    assert error <= 1e-4


@pytest.mark.parametrize("name, changes, named", [
    ("bailingmoe2-f32", {"partial_rotary_factor": None}, "partial_rotary_factor"),
    ("bailingmoe2-f32", {"score_function": "softmax"}, "score_function"),
    ("bailingmoe2-f32", {"use_qk_norm": False}, "use_qk_norm"),
    ("bailingmoe2-f32", {"norm_topk_prob": False}, "norm_topk_prob"),
    ("bailingmoe2-f32", {"num_shared_experts": 1}, "ffn_gate_shexp"),
    ("bailingmoe-f32", {"norm_head": True}, "norm_head"),
    ("bailingmoe-f32", {"multi_gate": True}, "multi_gate"),
    ("maincoder-f32", {"use_qk_norm": False}, "use_qk_norm"),
    ("spark2_5-f32", {"hidden_act": "silu"}, "silu"),
    ("spark2_5-f32", {"headwise_attn_output_gate": False}, "headwise_attn_output_gate"),
    ("spark2_5-f32", {"gate_attn_act_mode": "tanh"}, "gate_attn_act_mode"),
    ("orion-f32", {"hidden_act": "gelu"}, "gelu"),
    ("xverse-f32", {"hidden_act": "gelu"}, "gelu"),
    ("plm-f32", {"hidden_act": "silu"}, "silu"),
    ("plm-f32", {"q_lora_rank": 12}, "q_lora_rank"),
    ("deci-f32", {"num_hidden_layers": 5}, "layers.5"),
    ("minicpm-f32", {"num_experts": 8}, "num_experts"),
    ("exaone-f32", {"activation_function": "gelu"}, "gelu"),
    ("exaone-f32", {"num_layers": 3}, "blk.2.attn"),
    ("deepseek-f32", {"n_shared_experts": 1}, "shexp"),
    ("deepseek-f32", {"moe_layer_freq": 2}, "moe_layer_freq"),
    ("minicpm-f32", {"rope_scaling": {"rope_type": "other"}}, "other"),
    ("internlm2-f32", {"num_key_value_heads": 3}, "wqkv"),
    ("internlm2-f32", {"num_key_value_heads": 4}, "num_key_value_heads"),
])
def test_what_cannot_be_had_is_named(name, changes, named, tmp_path):
    FAMILIES[name](tmp_path / "m", **changes)
    done = infer("plan", "-m", tmp_path / "m", "-c", "64")
    assert done.returncode == 3, done.stderr
    assert named in done.stderr


def test_ling_with_a_width_in_place_of_a_share(tmp_path):
    metadata, _ = gguf.read(converted("bailingmoe2-f32", tmp_path, partial_rotary_factor=None,
                                      rotary_dim=6))
    assert metadata["bailingmoe2.rope.dimension_count"] == 6


def test_internvl_in_its_own_form_is_its_text(tmp_path):
    internlm2(tmp_path / "m")
    d = Directory("internlm2-f32")
    before = convert(tmp_path / "m", tmp_path)[1]
    text = json.loads((tmp_path / "m" / "config.json").read_text())
    tensors = safetensors.read(tmp_path / "m" / "model.safetensors")
    seeing = {"language_model." + key: x for key, x in tensors.items()}
    seeing |= {"vision_model.encoder.layers.0.ls1": d.left["output_norm.weight"],
               "mlp1.0.weight": d.left["output_norm.weight"]}
    write(tmp_path / "m" / "model.safetensors", seeing)
    (tmp_path / "m" / "config.json").write_text(json.dumps(
        {"architectures": ["InternVLChatModel"], "llm_config": text,
         "vision_config": {"hidden_size": 8, "num_hidden_layers": 1}}))
    metadata, after = convert(tmp_path / "m", tmp_path)
    assert metadata["general.architecture"] == "internlm2"
    assert after.keys() == before.keys()
    assert all(np.array_equal(after[key], x) for key, x in before.items())


def test_sparse_attention_of_minicpm_is_not_applied(tmp_path):
    minicpm("minicpm-f32", tmp_path / "m", sparse_config={"dense_len": 8192})
    done = infer("plan", "-m", tmp_path / "m", "-c", "64")
    assert done.returncode == 0, done.stderr
    assert "sparse_config is not applied" in done.stderr and "8192" in done.stderr


def test_dots_ocr_is_its_text(tmp_path):
    d = Directory("qwen2-f32")
    expected = dict(d.left)
    d.rename({"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"})
    d.rename(NORMS | ATTENTION | FEED_FORWARD, range(d.layers))
    d.tensors["vision_tower.blocks.0.norm1.weight"] = np.ones(8, np.float32)
    d.save(tmp_path / "m", "DotsOCRForCausalLM", rms_norm_eps=1e-6,
           head_dim=d.key("attention.key_length"),
           vision_config={"embed_dim": 8, "num_hidden_layers": 1})
    metadata, after = convert(tmp_path / "m", tmp_path)
    assert metadata["general.architecture"] == "qwen2"
    assert after.keys() == expected.keys()
    assert all(np.array_equal(after[key], x) for key, x in expected.items())
