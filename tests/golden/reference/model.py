"""Exact logits of a model file in float64, from its metadata and tensors.

Written from the papers and model cards and, where these are silent, from what Hugging Face's
`transformers` computes; it shares nothing with the engine. Tensor and key names are those of
llama.cpp's converter.
"""

import numpy as np

from . import deepseek4, gemma3n, gemma4, gguf, glm5_next, hy_v4, kimi_k3, qwen4exp, recurrent
from .layers import (alibi_slopes, attention, choose, choose_blocks, geglu, gelu, gelu_tanh, inverse_frequencies, layer_norm, rms_norm, rotate, route,
                     sigmoid, silu, softplus, sparse_mix, swiglu, swiglu_oai, xielu, yarn_frequencies, yarn_magnitude)

# Architectures whose converter permutes q and k (or whose RoPE pairs neighbours anyway).
DEEPSEEK = {"deepseek2", "deepseek32", "glm-dsa", "mistral4"}
LATENT = DEEPSEEK | {"minicpm3", "hy_v4", "dots3note", "plm"}
INNER_EPS = 1e-6  # of their norms q_a and kv_a
INTERLEAVED = DEEPSEEK | {"bailingmoe3", "hy_v4", "dots3note", "llama", "olmo", "smollm3", "granite", "granitemoe",
               "granite_swa", "glm4", "command-r",
               "cohere2", "ernie4_5", "ernie4_5-moe", "mistral3",
               "llama4", "arcee", "muse-glimmer", "internlm2", "minicpm", "deepseek", "chatglm", "cohere2moe",
               "maincoder", "bailingmoe", "plm", "deci", "xverse", "baichuan", "arctic", "nanbeige"}
# Architectures with an RMSNorm on every head of queries and keys.
HEAD_NORMS = {"plamo3", "qwen3", "qwen3moe", "qwen3vl", "gemma3", "apertus", "glm4moe", "exaone4", "dots1",
              "afmoe", "exaone-moe", "muse-glimmer", "bailingmoe2", "step35", "hy_v3", "laguna", "mellum", "minimax-m3", "openelm", "maple"}
# Architectures with a LayerNorm that attention and feed-forward share: they lie side by side.
PARALLEL = {"command-r", "cohere2", "cohere2moe", "phi2"}
LAYER_NORMS = PARALLEL | {"starcoder2", "stablelm", "phimoe", "nemotron", "gptneox", "falcon", "olmo", "gpt2",
                          "jais2", "orion", "starcoder", "dbrx", "bloom", "mpt", "jais", "codeshell"}
# Architectures with limits on what SwiGLU multiplies, in some layers.
LIMITED = {"step35", "bailingmoe3", "hy_v4", "maple"}
# Feed-forwards without a gate.
ACTIVATIONS = {"codeshell": gelu_tanh, "bloom": gelu_tanh, "mpt": gelu, "starcoder2": gelu_tanh, "phi2": gelu_tanh, "gpt2": gelu_tanh, "starcoder": gelu_tanh, "gptneox": gelu, "falcon": gelu,
               **{arch: lambda x: np.maximum(x, 0) ** 2 for arch in ("arcee", "nemotron", "jais2", "plm")}}


class Model:
    ahead = None  # (tokens, tokens): what is seen although it lies behind, as in images

    def __init__(self, path):
        self.metadata, self.tensors = gguf.read(path)
        self.arch = self.metadata["general.architecture"]
        # Blocks that predict further tokens are no part of the decoder.
        self.layers = self.key("block_count") - self.key("nextn_predict_layers", 0)
        self.width = self.key("embedding_length")
        self.heads = self.per_layer("attention.head_count", 0)
        other = self.arch in LAYER_NORMS - {"phimoe"} or self.arch.startswith("nemotron_h")
        self.eps = self.key("attention.layer_norm_epsilon" if other
                            else "attention.layer_norm_rms_epsilon")
        self.head_dim = self.key("attention.key_length", self.width // max(1, self.heads))
        self.context = self.key("context_length")
        self.rope_dims = self.key("rope.dimension_count", self.head_dim)
        self.entered = []  # by layer: what entered it in the last run; then what left the last one

    def key(self, name, default=None):
        value = self.metadata.get(f"{self.arch}.{name}", default)
        assert value is not None, name
        return value

    def per_layer(self, name, layer):
        value = self.key(name)
        return value[layer] if isinstance(value, list) else value

    # Tensors.

    def has(self, name):
        return name + ".weight" in self.tensors

    def linear(self, x, name):
        y = x @ self.tensors[name + ".weight"].T
        return y + self.tensors[name + ".bias"] if name + ".bias" in self.tensors else y

    def norm(self, x, name, eps=None):
        normalised = layer_norm if self.arch in LAYER_NORMS else rms_norm
        if self.arch == "olmo":  # without weights
            return normalised(x, 1.0, self.eps)
        weight = self.tensors[name if name in self.tensors else name + ".weight"]
        y = normalised(x, weight, self.eps if eps is None else eps)
        return y + self.tensors.get(name + ".bias", 0.0)

    # Rotary position embedding.

    def rotation(self, layer):
        """(frequencies, magnitude) of a layer."""
        dims, base = self.rope_dims, self.key("rope.freq_base", 10000.0)
        factors = self.tensors.get("rope_freqs.weight")
        kind = self.key("rope.scaling.type", "none")
        factor = self.key("rope.scaling.factor", 1.0)
        if self.arch == "gemma3" and layer % 6 < 5 or self.arch in ("mimo2", "dots3note") and self.window(layer):
            return inverse_frequencies(dims, self.key("rope.freq_base_swa", 10000.0)), 1.0
        if self.arch in ("step35", "laguna", "mellum", "spark2_5", "plamo3") and self.window(layer):
            return inverse_frequencies(self.key("rope.dimension_count_swa", dims),
                                       self.key("rope.freq_base_swa")), 1.0
        if self.arch == "step35":  # half of the head, and factors for all of it
            return inverse_frequencies(dims // 2, base, factors[:dims // 4]), 1.0
        if self.arch == "olmo2" and self.window(layer):
            return inverse_frequencies(dims, base), 1.0
        if self.arch in ("phi3", "minicpm", "minicpm3", "phimoe") and self.has("rope_factors_long"):
            original = self.key("rope.scaling.original_context_length")
            which = "long" if self.context > original else "short"
            factors = self.tensors[f"rope_factors_{which}.weight"]
            magnitude = self.key("rope.scaling.attn_factor", 1.0)
            return inverse_frequencies(dims, base, factors), magnitude
        if kind == "linear":
            return inverse_frequencies(dims, base, factors) / factor, 1.0
        if kind == "yarn":
            extrapolation = self.key("rope.scaling.yarn_ext_factor", 1.0)
            frequencies = yarn_frequencies(
                dims, base, factor, self.key("rope.scaling.original_context_length"),
                self.key("rope.scaling.yarn_beta_fast", 32.0),
                self.key("rope.scaling.yarn_beta_slow", 1.0), self.arch != "gpt-oss", factors,
                extrapolation if extrapolation >= 0 else 1.0)
            magnitude = self.key("rope.scaling.yarn_attn_factor", yarn_magnitude(factor))
            if self.yarn_multiplier():
                # mscale over mscale_all_dim: DeepSeek's released models have both alike, elsewhere
                # the first is 1.
                mscale = self.yarn_multiplier() if self.arch in DEEPSEEK else 1.0
                magnitude = (yarn_magnitude(factor, mscale) /
                             yarn_magnitude(factor, self.yarn_multiplier()))
            return frequencies, magnitude * self.key("rope.scaling.attn_factor", 1.0)
        return inverse_frequencies(dims, base, factors), 1.0

    def yarn_multiplier(self):
        """mscale_all_dim: for DeepSeek's build the file holds a tenth of it."""
        multiplier = self.key("rope.scaling.yarn_log_multiplier", 0.0)
        return multiplier * 10 if self.arch in DEEPSEEK else multiplier

    def slopes(self):
        """Of biases by distance, or None."""
        usual = {"bloom": 8.0, "refact": 8.0, "baichuan": 8.0 if self.layers == 40 else 0.0}
        most = self.key("attention.max_alibi_bias", usual.get(self.arch, 0.0))
        if not most:
            return None
        factor = self.head_dim ** -0.5 if self.arch == "falcon" else 1.0  # added before scores are scaled
        return factor * alibi_slopes(self.heads, most)

    def rope(self, heads, layer):
        unturned = self.arch == "maple" or self.arch == "smallthinker" and self.key("attention.sliding_window", 0)
        if self.slopes() is not None or unturned and not self.window(layer):
            return heads
        if self.arch == "llama4" and (layer + 1) % 4 == 0 or self.arch in ("kimi-linear", "kimi-k3", "gpt2", "starcoder"):
            return heads
        if not self.key("attention.rope_pattern", [True] * (layer + 1))[layer]:
            return heads
        if self.arch == "cohere2moe" and not self.key("leading_dense_block_count") <= layer < self.layers:
            frequencies, magnitude = self.rotation(layer)
            return rotate(heads, frequencies, True, magnitude)
        windows = self.arch in ("cohere2", "cohere2moe", "exaone4", "afmoe", "exaone-moe", "muse-glimmer") and self.key("attention.sliding_window", 0)
        if windows and not self.window(layer):
            return heads
        frequencies, magnitude = self.rotation(layer)
        return rotate(heads, frequencies, self.arch in INTERLEAVED, magnitude)

    # Attention.

    def window(self, layer):
        if self.arch == "llama4":  # has chunks
            return 0
        window = self.key("attention.sliding_window", 0)
        if self.arch in ("gemma2", "gpt-oss"):
            return window if layer % 2 == 0 else 0
        if self.arch == "smallthinker":
            return window if layer % 4 else 0
        if self.arch == "gemma3":
            return window if layer % 6 < 5 else 0
        if self.arch in ("olmo2", "cohere2", "exaone4", "afmoe", "muse-glimmer"):
            return window if layer % 4 < 3 else 0
        if self.arch == "plamo3" and "plamo3.attention.sliding_window_pattern" not in self.metadata:
            return window if layer % 8 < 7 else 0
        if window and self.arch in ("plamo3", "mimo2", "exaone-moe", "step35", "cohere2moe", "laguna", "mellum",
                                    "granite_swa", "spark2_5", "dots3note", "maple"):
            return window if self.key("attention.sliding_window_pattern")[layer] else 0
        return window

    def attend(self, x, layer):
        b = f"blk.{layer}."
        heads = self.per_layer("attention.head_count", layer)
        kv_heads = self.per_layer("attention.head_count_kv", layer)
        if self.has(b + "attn_qkv"):
            q, k, v = np.split(self.linear(x, b + "attn_qkv"),
                               np.cumsum([heads * self.head_dim, kv_heads * self.head_dim]), 1)
        else:
            q, k, v = (self.linear(x, b + "attn_" + part) for part in "qkv")
        if limit := self.key("attention.clamp_kqv", 0.0):
            q, k, v = (np.clip(part, -limit, limit) for part in (q, k, v))
        if self.arch in ("olmo2", "minimax-m2", "olmoe") or self.arch == "mpt" and self.has(b + "attn_q_norm"):
            # over the whole projection
            q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
        q = q.reshape(len(x), heads, -1)
        k, v = k.reshape(len(x), kv_heads, -1), v.reshape(len(x), kv_heads, -1)
        own = self.arch in ("command-r", "stablelm") and self.has(b + "attn_q_norm")
        if self.arch in HEAD_NORMS or own:
            q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
        if self.arch != "smollm3" or (layer + 1) % 4 != 0:
            q, k = self.rope(q, layer), self.rope(k, layer)
        if self.arch.startswith("hunyuan") or self.arch == "maincoder":  # after RoPE
            q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
        chunk = 0
        if self.arch == "llama4" and (layer + 1) % 4 == 0:
            q = q * self.temperature(len(x), self.key("attention.temperature_scale", 0.1),
                                     self.key("attention.temperature_length", 8192), 1)
        elif self.arch == "llama4":
            chunk = self.key("attention.sliding_window", 8192)
            q, k = (rms_norm(heads, 1.0, self.eps) for heads in (q, k))
        if self.arch == "mistral3":
            q = q * self.temperature(len(x), self.key("attention.temperature_scale", 0.0),
                                     self.key("rope.scaling.original_context_length"), 0)
        scale = self.key("attention.scale", self.head_dim ** (-1 if self.arch == "jais" else -0.5))
        softcap = self.key("attn_logit_softcapping", 50.0) if self.arch == "gemma2" else 0.0
        if self.arch == "grok":
            scale, softcap = self.key("attention.output_scale", 0.08838834764831845), self.key("attn_logit_softcapping", 30.0)
        chosen = self.chosen_blocks(x, layer) if self.has(b + "indexer.q_proj") else None
        mixed = attention(q, k, v, scale, self.window(layer), softcap,
                          self.tensors.get(b + "attn_sinks.weight"), chunk, self.ahead, chosen, self.slopes())
        mixed = self.gate_heads(mixed, x, b)
        if self.has(b + "attn_sub_norm"):
            mixed = self.norm(mixed, b + "attn_sub_norm")
        return self.linear(mixed * self.key("attention.value_scale", 1.0), b + "attn_output")

    def temperature(self, tokens, scale, length, first):
        """What queries are multiplied with, by position (Llama 4, `attn_temperature_tuning`)."""
        periods = np.floor((np.arange(tokens) + first) / length)
        return (1 + scale * np.log(1 + periods))[:, None, None]

    def attend_latent(self, x, layer):
        """Multi-head latent attention (DeepSeek-V2, section 2.1), keys and values written out."""
        b = f"blk.{layer}."
        tokens, rope_dims, heads = len(x), self.rope_dims, self.per_layer("attention.head_count", layer)
        eps = self.eps if self.arch == "dots3note" else INNER_EPS
        chosen = None
        if self.has(b + "attn_q_a"):
            q = self.norm(self.linear(x, b + "attn_q_a"), b + "attn_q_a_norm", eps)
            chosen = self.chosen(x, q, layer)
            q = self.linear(q, b + "attn_q_b")
        else:
            q = self.linear(x, b + "attn_q")
        q = q.reshape(tokens, heads, -1)
        nope = q.shape[2] - rope_dims
        latent = self.linear(x, b + "attn_kv_a_mqa")
        k_rope = latent[:, None, -rope_dims:]
        if self.has(b + "attn_k_norm"):
            k_rope = self.norm(k_rope, b + "attn_k_norm")
        latent = self.norm(latent[:, :-rope_dims], b + "attn_kv_a_norm", eps)
        if self.has(b + "attn_kv_b"):
            kv = self.linear(latent, b + "attn_kv_b").reshape(tokens, heads, -1)
            k_nope, v = kv[..., :nope], kv[..., nope:]
        else:
            k_nope = np.einsum("tl,hln->thn", latent, self.tensors[b + "attn_k_b.weight"])
            v = np.einsum("tl,hvl->thv", latent, self.tensors[b + "attn_v_b.weight"])
        q = np.concatenate([q[..., :nope], self.rope(q[..., nope:], layer)], axis=-1)
        q = q * self.temperature(tokens, self.key("attention.temperature_scale", 0.0),
                                 self.key("rope.scaling.original_context_length", 1), 0)
        k_rope = np.repeat(self.rope(k_rope, layer), heads, axis=1)
        k = np.concatenate([k_nope, k_rope], axis=-1)
        stretched = self.key("rope.scaling.type", "none") == "yarn"
        magnitude = yarn_magnitude(self.key("rope.scaling.factor", 1.0) if stretched else 1.0,
                                   self.yarn_multiplier())
        mixed = attention(q, k, v, magnitude ** 2 / np.sqrt(q.shape[2]), self.window(layer), chosen=chosen,
                          sinks=self.tensors.get(b + "attn_sinks.weight"))
        return self.linear(self.gate_heads(mixed, x, b), b + "attn_output")

    def gate_heads(self, mixed, x, b):
        if not self.has(b + "attn_gate"):
            return mixed
        opened = softplus if self.arch == "laguna" else sigmoid
        gate = opened(self.linear(x, b + "attn_gate"))  # a number for each element, or head
        return mixed * np.repeat(gate, mixed.shape[1] // gate.shape[1], axis=1)

    def chosen(self, x, latent, layer):
        """What queries see (DeepSeek-V3.2's index), or None. GLM-5.2 shares it between layers."""
        count = self.key("attention.indexer.top_k", 0)
        if not count or self.window(layer):
            return None
        if not self.key("attention.indexer.types", [True] * self.layers)[layer]:
            return self.last_chosen
        b = f"blk.{layer}.indexer."
        q = self.linear(latent, b + "attn_q_b").reshape(
            len(x), self.key("attention.indexer.head_count"), -1)
        k = layer_norm(self.linear(x, b + "attn_k"), self.tensors[b + "k_norm.weight"],
                       self.eps if self.arch == "hy_v4" else INNER_EPS) + self.tensors[b + "k_norm.bias"]
        frequencies, magnitude = self.rotation(layer)
        neighbours = self.arch in ("glm-dsa", "hy_v4", "dots3note")
        still = q.shape[2] - self.rope_dims if self.arch == "hy_v4" else 0  # the rest is turned
        q, k = (np.concatenate([heads[..., :still], rotate(heads[..., still:], frequencies, neighbours,
                                                           magnitude)], axis=-1)
                for heads in (q, k[:, None]))
        self.last_chosen = choose(q, k[:, 0], self.linear(x, b + "proj"), count)
        return self.last_chosen

    def chosen_blocks(self, x, layer):
        """What the queries of each key head see (MiniMax-M3's index)."""
        b = f"blk.{layer}.indexer."
        frequencies, magnitude = self.rotation(layer)
        q, k = (rotate(rms_norm(self.linear(x, f"{b}{part}_proj").reshape(len(x), heads, -1),
                                self.tensors[f"{b}{part}_norm.weight"], self.eps),
                       frequencies, False, magnitude)
                for part, heads in (("q", self.key("attention.indexer.head_count")), ("k", 1)))
        return choose_blocks(q, k[:, 0], self.key("attention.indexer.top_k"),
                             self.key("attention.indexer.block_size"))

    # Feed-forward.

    def activation(self):
        return {"gemma": geglu, "gemma2": geglu, "gemma3": geglu, "grok": geglu, "smallthinker": lambda gate, up: np.maximum(gate, 0) * up, "gpt-oss": swiglu_oai, "minimax-m3": swiglu_oai,
                "spark2_5": lambda gate, up: gelu(gate) * up,
                "bitnet-b1.58": lambda gate, up: np.maximum(gate, 0) ** 2 * up}.get(self.arch, swiglu)

    def linear_attention(self, x, layer):
        """A matrix in place of attention (DeciLM)."""
        return self.linear(x, f"blk.{layer}.attn_output")

    def hidden_of_deci(self, x):
        """Layers that may lack attention, the feed-forward, or both (DeciLM)."""
        for layer in range(self.layers):
            b = f"blk.{layer}."
            if self.has(b + "attn_norm"):
                attend = self.attend if self.has(b + "attn_q") else self.linear_attention
                x = x + attend(self.norm(x, b + "attn_norm"), layer)
            if self.has(b + "ffn_norm"):
                x = x + self.feed_forward(self.norm(x, b + "ffn_norm"), layer)
        return self.norm(x, "output_norm")

    def hidden_of_stacks(self, high):
        """Two stacks in turns (HRM-Text)."""
        size, plain = self.key("hrm.layers_per_stack"), lambda x: rms_norm(x, 1.0, self.eps)

        def stack(x, first):
            for layer in range(first, first + size):
                x = x + self.attend(plain(x), layer)
                x = x + self.feed_forward(plain(x), layer)
            return plain(x)

        low = self.tensors["hrm.z_l_init"]
        for _ in range(self.key("hrm.h_cycles")):
            for _ in range(self.key("hrm.l_cycles")):
                low = stack(high + low, 0)
            high = stack(high + low, size)
        return high

    def hidden_of_rounds(self, x):
        """All layers several times (Nanbeige)."""
        for rounds in range(self.key("num_loops")):
            if rounds and not self.key("skip_loop_final_norm"):
                x = self.norm(x, "output_norm")
            for layer in range(self.layers):
                b = f"blk.{layer}."
                x = x + self.attend(self.norm(x, b + "attn_norm"), layer)
                x = x + self.feed_forward(self.norm(x, b + "ffn_norm"), layer)
        return self.norm(x, "output_norm")

    def feed_forward(self, x, layer, suffix=""):
        part = lambda name: f"blk.{layer}.ffn_{name}{suffix}"
        if self.arch == "apertus":
            settings = {name: self.metadata[f"xielu.{name}"][layer]
                        for name in ("alpha_p", "alpha_n", "beta", "eps")}
            return self.linear(xielu(self.linear(x, part("up")), **settings), part("down"))
        if self.arch in ACTIVATIONS:
            return self.linear(ACTIVATIONS[self.arch](self.linear(x, part("up"))), part("down"))
        if self.has(part("gate")):
            gate, up = self.linear(x, part("gate")), self.linear(x, part("up"))
        else:
            gate, up = np.split(self.linear(x, part("up")), 2, axis=1)
        h = self.gated(gate, up, layer, "shexp")
        if self.has(part("sub_norm")):
            h = self.norm(h, part("sub_norm"))
        return self.linear(h, part("down"))

    def gated(self, gate, up, layer, kind):
        """kind: exp of routed experts, shexp of all else."""
        limits = self.key(f"swiglu_clamp_{kind}", []) if self.arch in LIMITED else []
        limit = limits[layer] if limits else 0
        if limit and self.arch in ("hy_v4", "maple"):  # what goes into SiLU
            return silu(np.minimum(gate, limit)) * np.clip(up, -limit, limit)
        if limit:
            return np.minimum(silu(gate), limit) * np.clip(up, -limit, limit)
        return self.activation()(gate, up)

    def gating(self, layer):
        """1 softmax (DeepSeek-V2), 2 sigmoid (V3, which also brought the bias)."""
        return self.key("expert_gating_func", 1 if self.choice_bias(layer) is None else 2)

    def choice_bias(self, layer):
        name = f"blk.{layer}.exp_probs_b"  # files of Hunyuan V3 leave the ending out
        return self.tensors.get(name + ".bias", self.tensors.get(name))

    def routing(self, layer):
        settings = {"used": self.key("expert_used_count")}
        if self.arch == "llama4":
            return settings | {"gating": "sigmoid"}
        if self.arch in ("gpt-oss", "granitemoe", "granite_swa"):
            return settings | {"gating": "softmax_of_chosen"}
        if self.arch not in DEEPSEEK | {"glm4moe", "minimax-m2", "mimo2", "dots1", "afmoe",
                                         "exaone-moe", "bailingmoe2", "step35", "cohere2moe",
                                         "bailingmoe3", "hy_v3", "hy_v4", "dots3note", "laguna", "minimax-m3", "smallthinker"}:
            return settings | {"gating": "softmax",
                               "normalise": self.arch not in ("qwen2moe", "olmoe", "deepseek"),
                               "bias": self.choice_bias(layer)}
        return settings | {
            "gating": {1: "softmax", 2: "sigmoid"}[self.gating(layer)],
            "bias": self.choice_bias(layer),
            "normalise": self.key("expert_weights_norm",
                                  self.arch in ("minimax-m2", "mistral4", "mimo2", "smallthinker")),
            "scale": self.key("expert_weights_scale", 1.0),
            "groups": self.key("expert_group_count", 1),
            "groups_used": self.key("expert_group_used_count", 1),
            "group_best": self.gating(layer),  # one in V2, two in V3
        }

    def experts(self, x, layer):
        b = f"blk.{layer}.ffn_"
        # SmallThinker: of what entered the layer.
        logits = self.linear(self.entered[-1] if self.arch == "smallthinker" else x, b + "gate_inp")
        ids, weights = (sparse_mix(logits, 2, 0.02) if self.arch == "phimoe" else
                        route(logits, **self.routing(layer)))

        def product(row, name, e):
            y = self.tensors[f"{b}{name}_exps.weight"][e] @ row
            bias = self.tensors.get(f"{b}{name}_exps.bias")
            return y if bias is None else y + bias[e]

        out = np.zeros_like(x)
        for t, row in enumerate(x):
            for e, weight in zip(ids[t], weights[t]):
                if self.arch == "llama4":  # multiplies what the expert takes
                    row, weight = weight * row, 1.0
                if self.has(b + "gate_up_exps"):
                    gate, up = np.split(product(row, "gate_up", e), 2)
                else:
                    gate, up = product(row, "gate", e), product(row, "up", e)
                hidden = self.gated(gate, up, layer, "exp")
                out[t] += weight * product(hidden, "down", e)
        if self.has(b + "down_shexp"):
            shared = self.feed_forward(x, layer, "_shexp")
            if self.has(b + "gate_inp_shexp"):
                shared = shared * sigmoid(self.linear(x, b + "gate_inp_shexp"))
            out = (out + shared) / 2 if self.arch == "cohere2moe" else out + shared
        return out

    # The whole.

    def embed(self, tokens):
        x = self.tensors["token_embd.weight"][tokens]
        if self.arch in ("gemma", "gemma2", "gemma3", "gemma4", "afmoe"):
            # The file holds no factor: the width's root, in the float32 that the engine multiplies.
            x = x * np.float64(np.float32(np.sqrt(self.width)))
        if self.has("token_embd_norm") and self.arch == "bloom":
            x = self.norm(x, "token_embd_norm")
        if self.has("position_embd"):
            x = x + self.tensors["position_embd.weight"][:len(x)]
        if self.arch == "muse-glimmer":
            x = rms_norm(x, 1.0, self.eps)
        return x * self.factor("embedding_scale")

    def factor(self, name):
        """1 where a file has none; the first files of MiniCPM do not say those of its 2.4B model."""
        absent = {"embedding_scale": 12.0, "residual_scale": 1.4 / np.sqrt(self.layers),
                  "logit_scale": self.width / 256} if self.arch in ("minicpm", "minicpm3") else {}
        if self.arch == "grok":
            absent = {"embedding_scale": 78.38367176906169, "logit_scale": 0.5773502691896257}
        return self.key(name, absent.get(name, 1.0))

    def side_by_side(self, b):
        """Whether attention and feed-forward of a layer both take x."""
        return (self.arch in PARALLEL | {"plamo"} or self.arch == "falcon" and not self.has(b + "ffn_norm") or self.key("use_parallel_residual", False) or
                self.arch == "stablelm" and not self.has(b + "ffn_norm"))

    def hidden(self, tokens):
        """(len(tokens), width): what the last norm makes."""
        if self.arch in recurrent.FAMILIES:
            return recurrent.hidden(self, tokens)
        x = self.embed(tokens)
        if self.arch == "deci":
            return self.hidden_of_deci(x)
        if self.arch == "hrm_text":
            return self.hidden_of_stacks(x)
        if self.arch == "nanbeige":
            return self.hidden_of_rounds(x)
        scale = self.factor("residual_scale")
        pre = self.arch not in ("olmo2", "exaone4")
        post = self.arch in ("plamo3", "grok", "gemma2", "gemma3", "glm4", "olmo2", "exaone4", "afmoe",
                             "muse-glimmer")
        post_eps = 1e-8 if self.arch == "muse-glimmer" else None
        ffn_norm = ("post_attention_norm" if self.arch in ("gpt-oss", "seed_oss", "glm4moe")
                    else "ffn_norm")
        if self.arch == "dbrx":
            ffn_norm = "attn_output_norm"
        attend = self.attend_latent if self.arch in LATENT else self.attend
        self.entered = []
        for layer in range(self.layers):
            self.entered.append(x)
            b = f"blk.{layer}."
            first = b + ("attn_norm_2" if self.has(b + "attn_norm_2") else "attn_norm")
            h = attend(self.norm(x, first) if pre else x, layer)
            if self.side_by_side(b):
                own = self.norm(x, b + ("ffn_norm" if self.arch == "gptneox" else "attn_norm"))
                routed = self.has(b + "ffn_gate_inp")
                x = x + h + (self.experts if routed else self.feed_forward)(own, layer)
                continue
            after = "attn_output_norm" if self.arch == "grok" else "post_attention_norm"
            x = x + scale * (self.norm(h, b + after, post_eps) if post else h)
            h = self.norm(x, b + ffn_norm) if pre else x
            routed = self.has(b + "ffn_gate_inp")
            h = self.experts(h, layer) if routed and self.arch != "arctic" else self.feed_forward(h, layer)
            if self.arch == "arctic":
                h = h + self.experts(self.norm(self.entered[-1], b + "ffn_norm_exps"), layer)
            if self.arch == "grok" and self.has(b + "ffn_up"):
                beside = self.feed_forward(self.norm(x, b + ffn_norm), layer)
                h = (h + beside) * np.sqrt(0.5)
            after = "layer_output_norm" if self.has(b + "layer_output_norm") else "post_ffw_norm"
            x = x + scale * (self.norm(h, b + after, post_eps) if post else h)
        self.entered.append(x)
        return self.norm(x, "output_norm")

    def logits(self, tokens):
        """(len(tokens), vocabulary)."""
        own = {"gemma3n": gemma3n, "gemma4": gemma4, "qwen4exp": qwen4exp, "hy_v4": hy_v4, "kimi-k3": kimi_k3,
               "deepseek4": deepseek4, "glm5-next": glm5_next}
        if self.arch in own:
            return own[self.arch].logits(self, tokens)
        if self.arch in recurrent.FAMILIES:
            return recurrent.logits(self, tokens)
        x = self.linear(self.hidden(tokens), "output" if self.has("output") else "token_embd")
        factor = self.factor("logit_scale")
        x = x * factor if self.arch in PARALLEL | {"muse-glimmer", "grok"} else x / factor
        cap = self.key("final_logit_softcapping", 30.0 if self.arch == "gemma2" else 0.0)
        return cap * np.tanh(x / cap) if cap else x


def nmse(x, exact):
    x, exact = np.asarray(x, np.float64), np.asarray(exact, np.float64)
    return float(np.sum((x - exact) ** 2) / np.sum(exact ** 2))
