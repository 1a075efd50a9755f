"""Every shape that can be synthesised, cut down, is read and computed by the engine."""

import json
import math
import struct

import pytest

from program import fails, infer

# What each shape is cut down to; heads keep their count relative to their keys and values.
SMALL = {"layers": 2, "embedding": 128, "feed-forward": 96, "heads": 4, "head-dim": 32,
         "tokens": 300, "context": 256}
EXPERTS = {"experts": 8, "experts-used": 2, "expert-feed-forward": 64}
LAYERS = {"deepseek-v3.2": 4,  # its first three have no experts
          "lfm2-8b-a1b": 3,  # its first two have none
          "trinity-mini": 3,  # the same
          "minimax-m3": 4, "glm-5": 4, "glm-5.3-flash": 4,  # its first three
          "kimi-linear-48b-a3b": 4, "ling-3.0-flash": 6, "minimax-text-01": 8,  # the last has attention
          "deepseek-v4-flash": 4,  # the last has long blocks
          "jamba-reasoning-3b": 8,  # the last has attention
          "gemma-4-e4b": 14}  # six of them share keys
KV_HEADS = {"glm-5": 1, "glm-5.3-flash": 1, "qwen-7b": 4, "gemma-3-1b": 1, "deepseek-v2-lite": 1, "deepseek-v3.2": 1,
            "mistral-small-4": 1, "minicpm3-4b": 1, "plm-1.8b": 1, "starcoderbase-1b": 1, "refact-1.6b": 1, "jais-13b": 4, "bloom-7b1": 4,
            "mpt-7b": 4, "baichuan2-13b": 4, "deepseek-v4-flash": 1,
            "kimi-linear-48b-a3b": 1, "ling-3.0-flash": 1, "jamba-reasoning-3b": 1, "phi-3-mini": 4, "olmo2-1b": 4, "olmo2-7b": 4}


def described(path):
    done = infer("info", path, "--json")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def shapes():
    """Named by the program itself, so that a new shape is tested as soon as it is there."""
    text = infer("synth", "--help").stdout.decode()
    names = text[text.index("Shape of the model:") + 19:]
    names = "".join(names[:names.index("\n  OUTPUT")].split()).split(",")
    return [name for name in names if name != "custom"]


def small(shape, path, **sizes):
    """Synthesises the shape cut down to SMALL and to what is given; what is in the file."""
    sizes = {**SMALL, "kv-heads": KV_HEADS.get(shape, 2), "layers": LAYERS.get(shape, 2),
             **{name.replace("_", "-"): value for name, value in sizes.items()}}
    flags = [word for name, value in sizes.items() for word in (f"--{name}", value)]
    done = infer("synth", shape, path, *flags)
    assert done.returncode == 0, done.stderr.decode()
    return described(path)


def has_experts(shape):
    return shape in ("mixtral-8x7b", "qwen3-30b-a3b", "granite-3.0-1b-a400m", "gpt-oss-20b",
                     "deepseek-v2-lite", "deepseek-v3.2", "mistral-small-4", "ernie-4.5-21b-a3b", "hunyuan-a13b",
                     "minimax-m2", "glm-4.5-air", "qwen3.6-35b-a3b", "nemotron-3-nano", "lfm2-8b-a1b",
                     "granite-4.0-h-tiny", "qwen1.5-moe-a2.7b", "qwen3-vl-30b-a3b",
                     "olmoe-1b-7b", "trinity-mini", "k-exaone-236b", "hy3", "mellum2-12b", "ling-lite", "ling-mini-2.0",
                     "deepseek-moe-16b", "phi-3.5-moe", "kimi-linear-48b-a3b", "ling-3.0-flash",
                     "minimax-text-01", "dbrx", "minimax-m3", "smallthinker-21b-a3b",
                     "arctic-480b", "grok-2", "dots.llm1", "glm-5", "glm-5.3-flash", "deepseek-v4-flash")


@pytest.mark.parametrize("shape", shapes())
def test_a_shape_is_computed(shape, tmp_path):
    path = tmp_path / "m.gguf"
    info = small(shape, path, **(EXPERTS if has_experts(shape) else {}))
    assert any(t["name"].endswith("_exps.weight") for t in info["tensors"]) == has_experts(shape)
    done = infer("run", "-m", path, "-p", "abc", "-n", 4, "--temp", 0, "--ignore-eos", "--json",
                 "-c", 128)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["timings"]["generated_tokens"] == 4
    out = tmp_path / "logits"
    done = infer("eval", "-m", path, "--tokens", "1,5,9,299,7", "--logits",
                 out)
    assert done.returncode == 0, done.stderr.decode()
    data = out.read_bytes()
    logits = struct.unpack(f"<{len(data) // 4}f", data)
    assert len(logits) == 5 * 300
    assert all(math.isfinite(x) for x in logits)
    for row in range(5):
        assert len(set(logits[row * 300:(row + 1) * 300])) > 100


def test_the_shapes_cover_the_architectures_of_the_engine(tmp_path):
    path = tmp_path / "m.gguf"
    names = {small(shape, path)["architecture"] for shape in shapes()}
    odd = tmp_path / "odd.gguf"
    small("deepseek-v2-lite", path)
    odd.write_bytes(path.read_bytes().replace(b"deepseek2", b"deepseekX"))
    done = infer("plan", "-m", odd)
    assert done.returncode == 3
    supported = done.stderr.decode().split("supported: ")[1].strip().split(", ")
    assert names <= set(supported)
    # An architecture may come before its shape, but not many may. Encoders generate no text, so that
    # nothing here could be computed with them.
    encoders = {"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modern-bert",
                "eurobert", "neo-bert", "llama-embed", "gemma-embedding"}
    assert encoders <= set(supported)
    heads = {"eagle3", "dflash", "gemma4-assistant"}  # which draft for a model of another architecture
    assert heads <= set(supported)
    assert len(names) >= 0.8 * len(set(supported) - encoders - heads)


def types(info):
    return {t["name"]: t["type"] for t in info["tensors"]}


MIX = {"type": "q4_k_m", "layers": 3, "embedding": 256, "head_dim": 64, "feed_forward": 256,
       "expert_feed_forward": 256}


def test_q4_k_m_gives_bits_where_llama_cpp_does(tmp_path):
    path = tmp_path / "m.gguf"
    info = small("llama-3.1-8b", path, **MIX)
    assert info["metadata"]["general.file_type"] == "15"
    found = types(info)
    assert [found[f"blk.{i}.attn_v.weight"] for i in range(3)] == ["Q4_K", "Q4_K", "Q6_K"]
    assert [found[f"blk.{i}.ffn_down.weight"] for i in range(3)] == ["Q4_K", "Q4_K", "Q6_K"]
    assert found["blk.0.attn_k.weight"] == found["token_embd.weight"] == "Q4_K"
    assert found["output.weight"] == "Q6_K"
    tied = types(small("llama-3.2-1b", path, **MIX))
    assert tied["token_embd.weight"] == "Q6_K" and "output.weight" not in tied
    fused = types(small("phi-3-mini", path, **MIX))
    assert fused["blk.0.attn_qkv.weight"] == "Q5_K"


def test_q4_k_m_of_eight_experts(tmp_path):
    path = tmp_path / "m.gguf"
    found = types(small("mixtral-8x7b", path, **MIX))
    for part, kind in {"attn_q": "Q4_K", "attn_k": "Q8_0", "attn_v": "Q8_0", "attn_output": "Q5_K",
                       "ffn_up_exps": "Q4_K", "ffn_gate_inp": "F32"}.items():
        assert found[f"blk.0.{part}.weight"] == kind, part
    four = types(small("mixtral-8x7b", path, **MIX, experts=4))
    assert four["blk.0.attn_k.weight"] == four["blk.0.attn_output.weight"] == "Q4_K"


def test_q4_k_m_of_seventy_billion(tmp_path):
    found = types(small("llama-3.1-70b", tmp_path / "m.gguf", **{**MIX, "layers": 80}))
    values = [found[f"blk.{i}.attn_v.weight"] for i in range(80)]
    assert set(values) == {"Q5_K", "Q6_K"}
    assert values[:13] == ["Q6_K"] * 10 + ["Q5_K", "Q5_K", "Q6_K"]


@pytest.mark.parametrize("kind, number", [("f16", 1), ("q4_0", 2), ("q8_0", 7), ("q6_k", 18)])
def test_the_file_type_is_said(kind, number, tmp_path):
    info = small("llama-24m", tmp_path / "m.gguf", type=kind)
    assert info["metadata"]["general.file_type"] == str(number)


# Shapes of one's own

def test_synth_does_not_depend_on_anything_but_its_arguments(tmp_path):
    def made(name, *arguments):
        path = tmp_path / name
        done = infer("synth", "custom", path, "--layers", 1, "--embedding", 256,
                     "--feed-forward", 256, "--heads", 4, "--tokens", 300, *arguments)
        assert done.returncode == 0, done.stderr.decode()
        return path.read_bytes()
    assert made("a") == made("b")
    assert made("a") != made("c", "--seed", 2)
    types = {t["name"]: t["type"] for t in json.loads(
        infer("info", tmp_path / "a", "--json").stdout)["tensors"]}
    assert types["token_embd.weight"] == "Q4_0" and types["output.weight"] == "Q6_K"
    fails(3, "synth", "llama-24m", tmp_path / "d", "--type", "iq1_s")
    assert not (tmp_path / "d").exists()


def test_synth_of_a_mix_with_experts_runs(tmp_path):
    path = tmp_path / "moe.gguf"
    done = infer("synth", "custom", path, "--layers", 4, "--embedding", 256, "--feed-forward", 256,
                 "--heads", 4, "--kv-heads", 2, "--tokens", 300, "--experts", 4,
                 "--experts-used", 2, "--type", "q4_k_m")
    assert done.returncode == 0, done.stderr.decode()
    types = {t["type"] for t in json.loads(infer("info", path, "--json").stdout)["tensors"]}
    assert types == {"F32", "Q4_K", "Q6_K"}
    done = infer("run", "-m", path, "-p", "abc", "-n", 3, "--ignore-eos", "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["timings"]["generated_tokens"] == 3
