"""The architecture "llama" in PyTorch, with the names and layouts of its GGUF tensors."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int = 4096
    head_dim: int = 64
    context: int = 1024
    rope_base: float = 10000.0
    eps: float = 1e-5


SHAPES = {
    "main": Shape(width=256, layers=7, heads=4, kv_heads=1, feed_forward=704),
    "draft": Shape(width=96, layers=2, heads=2, kv_heads=1, feed_forward=256, head_dim=32),
}


def rope_table(shape, length):
    """cos and sin, each [length, head_dim / 2]."""
    pairs = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = torch.outer(torch.arange(length, dtype=torch.float64), shape.rope_base**-pairs)
    return angles.cos().float(), angles.sin().float()


def rotate(x, cos, sin):
    """Halves of the head are the pairs' two parts: fast here. GGUF's "llama" has neighbours as
    pairs; export.py permutes the rows of Q and K accordingly."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def attention(q, k, v):
    """Causal attention, written out: its gradient is several times as fast here as that of
    scaled_dot_product_attention."""
    length, group = q.shape[2], q.shape[1] // k.shape[1]
    batch, heads, _, dim = k.shape
    q = q.reshape(batch, heads, group * length, dim)  # heads of a group share keys and values
    with torch.autocast("cpu", enabled=False):
        scores = (q * dim**-0.5) @ k.transpose(-1, -2)
        mask = torch.full((length, length), float("-inf"), dtype=q.dtype).triu(1)
        scores = scores.view(batch, heads, group, length, length) + mask
        weights = scores.softmax(-1).view(batch, heads, group * length, length)
        return (weights @ v).view(batch, heads * group, length, dim)


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.shape = s
        self.attn_norm = nn.Parameter(torch.ones(s.width))
        self.ffn_norm = nn.Parameter(torch.ones(s.width))
        rows = (s.heads + 2 * s.kv_heads) * s.head_dim
        self.qkv = nn.Parameter(torch.empty(rows, s.width))  # Q, K and V below one another
        self.output = nn.Parameter(torch.empty(s.width, s.heads * s.head_dim))
        self.gate_up = nn.Parameter(torch.empty(2 * s.feed_forward, s.width))
        self.down = nn.Parameter(torch.empty(s.width, s.feed_forward))

    def forward(self, x, cos, sin):
        s = self.shape
        batch, length, _ = x.shape
        h = F.rms_norm(x, (s.width,), self.attn_norm, s.eps)
        h = F.linear(h, self.qkv).view(batch, length, -1, s.head_dim).transpose(1, 2)
        q, k, v = h.split([s.heads, s.kv_heads, s.kv_heads], dim=1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        h = attention(q, k, v)
        x = x + F.linear(h.transpose(1, 2).reshape(batch, length, -1), self.output)
        h = F.linear(F.rms_norm(x, (s.width,), self.ffn_norm, s.eps), self.gate_up)
        gate, up = h.chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocabulary, shape.width))
        self.blocks = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))
        cos, sin = rope_table(shape, shape.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self, seed):
        generator = torch.Generator().manual_seed(seed)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = 0.02 if name == "embedding" else 0.5 * p.shape[1] ** -0.5
                if name.endswith(("output", "down")):  # what adds to the residual stream
                    std *= (2 * self.shape.layers) ** -0.5
                with torch.no_grad():
                    p.normal_(0, std, generator=generator)
        return self

    def forward(self, tokens):
        """[batch, length] → hidden values [batch, length, width], normalised."""
        x = F.embedding(tokens, self.embedding)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.rms_norm(x, (self.shape.width,), self.norm, self.shape.eps)

    def logits(self, tokens):
        return F.linear(self(tokens), self.embedding)
