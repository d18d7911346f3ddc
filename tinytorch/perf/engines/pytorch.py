"""PyTorch as an engine: our models as its modules with the same weights, eager or compiled, and greedy decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.layers import Embedding, Flatten, LayerNorm, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.engines.protocol import AdamWSettings, Training
from tinytorch.perf.engines.workloads import Loss
from tinytorch.perf.host.pinned_threads import usable_cores

# Where PyTorch is not installed, its classes are Any to the type checker.
_Module: Any = nn.Module


class TorchBlock(_Module):  # type: ignore[misc]
    """GPT-2's block on PyTorch's fused attention, as its users write it."""

    def __init__(self, width: int, heads: int, hidden: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Any) -> Any:
        """Return (B, T, width) of (B, T, width)."""
        batch, length, width = x.shape
        packed = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.projection(heads.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class TorchGPT(_Module):  # type: ignore[misc]
    """Token and position embeddings, blocks, and logits through the token embedding."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.token = nn.Embedding(model.vocab_size, model.embed_dim)
        self.position = nn.Embedding(model.max_seq_len, model.embed_dim)
        self.blocks = nn.ModuleList([_new_block(block) for block in model.blocks])
        self.norm = nn.LayerNorm(model.embed_dim)
        self.register_buffer("index", torch.arange(model.max_seq_len))

    def forward(self, tokens: Any) -> Any:
        """Return logits (B, T, vocabulary) of tokens (B, T)."""
        x = self.token(tokens) + self.position(self.index[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.token.weight)


def _new_block(block: TransformerBlock) -> TorchBlock:
    attention = block.attention
    return TorchBlock(attention.embed_dim, attention.num_heads, block.mlp.expand.out_features, attention.causal)


@dataclass
class Twin:
    """A model of PyTorch's with our weights; ``pairs`` holds its tensors by our names, and whether transposed."""

    module: Any
    pairs: dict[str, tuple[Any, bool]] = field(default_factory=dict)

    def take(self, state: Mapping[str, Array]) -> None:
        """Copy our ``state`` into PyTorch's tensors."""
        with torch.no_grad():
            for name, (tensor, transposed) in self.pairs.items():
                tensor.copy_(torch.from_numpy(state[name].T.copy() if transposed else state[name]))

    def state(self) -> dict[str, Array]:
        """Return a copy of PyTorch's tensors by our names, in our layouts."""
        return {
            name: np.array((tensor.T if transposed else tensor).detach().numpy(), order="C")
            for name, (tensor, transposed) in self.pairs.items()
        }


def twin_of(model: Module) -> Twin:
    """Return PyTorch's twin of ``model``, with a copy of its weights.

    Raises:
        TypeError: if it holds a layer that has no twin here.
    """
    module = _translated(model)
    twin = Twin(module)
    for name, ours, theirs in _layer_pairs("", model, module):
        dot = f"{name}." if name else ""
        for part in ("weight", "bias", "running_mean", "running_var"):
            if getattr(ours, part, None) is not None:
                transposed = isinstance(ours, Linear) and part == "weight"
                twin.pairs[f"{dot}{part}"] = (getattr(theirs, part), transposed)
    twin.take(model.state_dict())
    return twin


def _translated(model: Module) -> Any:
    """Return PyTorch's module of the same kind and sizes, with weights of its own."""
    match model:
        case Sequential():
            return nn.Sequential(*(_translated(layer) for layer in model))
        case Linear():
            return nn.Linear(model.in_features, model.out_features, bias=model.bias is not None)
        case Conv2d():
            return nn.Conv2d(
                model.in_channels,
                model.out_channels,
                model.kernel_size,
                model.stride,
                model.padding,
                model.dilation,
                model.groups,
                bias=model.bias is not None,
            )
        case BatchNorm2d():
            return nn.BatchNorm2d(model.weight.shape[0], eps=model.eps, momentum=model.momentum)
        case LayerNorm():
            return nn.LayerNorm(model.weight.shape[0], eps=model.eps)
        case MaxPool2d():
            return nn.MaxPool2d(model.kernel_size, model.stride, model.padding)
        case ReLU():
            return nn.ReLU()
        case GELU():
            return nn.GELU(approximate="tanh")
        case Flatten():
            return nn.Flatten()
        case Embedding():
            return nn.Embedding(model.num_embeddings, model.embedding_dim)
        case TransformerBlock():
            return _new_block(model)
        case GPT():
            return TorchGPT(model)
    raise TypeError(f"model must be made of layers that PyTorch's translation knows, not {type(model).__name__}")


def _layer_pairs(name: str, ours: Module, theirs: Any) -> Iterator[tuple[str, Module, Any]]:
    """Yield our name, our layer and PyTorch's for each layer that holds tensors."""
    dot = f"{name}." if name else ""
    match ours:
        case Sequential():
            for index, layer in enumerate(ours):
                yield from _layer_pairs(f"{dot}{index}", layer, theirs[index])
        case TransformerBlock():
            yield f"{dot}norm1", ours.norm1, theirs.norm1
            yield f"{dot}attention.qkv", ours.attention.qkv, theirs.qkv
            yield f"{dot}attention.projection", ours.attention.projection, theirs.projection
            yield f"{dot}norm2", ours.norm2, theirs.norm2
            yield f"{dot}mlp.expand", ours.mlp.expand, theirs.expand
            yield f"{dot}mlp.contract", ours.mlp.contract, theirs.contract
        case GPT():
            yield f"{dot}token_embedding", ours.token_embedding, theirs.token
            yield f"{dot}position_embedding", ours.position_embedding, theirs.position
            for index, block in enumerate(ours.blocks):
                yield from _layer_pairs(f"{dot}blocks.{index}", block, theirs.blocks[index])
            yield f"{dot}norm", ours.norm, theirs.norm
        case _:
            yield name, ours, theirs


@contextmanager
def scope(setting: str) -> Iterator[None]:
    """Run the body with a thread of PyTorch's for each core of the process."""
    del setting
    before = torch.get_num_threads()
    torch.set_num_threads(len(usable_cores()))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compiled(setting: str, module: Any) -> Any:
    return torch.compile(module) if setting == "compiled" else module


def forward(setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
    """Return a call that runs the twin of ``model`` in eval and inference mode."""
    module, x = _compiled(setting, twin_of(model).module.eval()), torch.from_numpy(inputs)

    def call() -> Array:
        with torch.inference_mode():
            output: Array = module(x).numpy()
        return output

    return call


def training(setting: str, model: Module, batch: tuple[Array, Array], loss: Loss, optimizer: AdamWSettings) -> Training:
    """Return the twin of ``model`` in training, with PyTorch's fused AdamW."""
    twin = twin_of(model)
    module = _compiled(setting, twin.module.train())
    x, y = (torch.from_numpy(part) for part in batch)
    adam = torch.optim.AdamW(
        twin.module.parameters(),
        lr=optimizer.lr,
        betas=optimizer.betas,
        eps=optimizer.eps,
        weight_decay=optimizer.weight_decay,
        fused=True,
    )

    def step() -> float:
        output = module(x)
        if loss == "squared error":
            value = functional.mse_loss(output, y)
        else:
            value = functional.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1))
        adam.zero_grad()
        value.backward()
        adam.step()
        return float(value.item())

    return Training(step, twin.state)


class _Cache:
    """Keys and values of every block, (B, heads, positions, head_dim) each.

    They are written into buffers for all positions, or ``concatenated`` to longer arrays with every token.
    """

    def __init__(self, concatenated: bool, shape: tuple[int, int, int, int], layers: int) -> None:
        self.concatenated, self.end = concatenated, 0
        shape = (*shape[:2], 0, shape[3]) if concatenated else shape
        self.keys, self.values = ([torch.empty(shape) for _ in range(layers)] for _ in range(2))

    def extended(self, layer: int, k: Any, v: Any) -> tuple[Any, Any]:
        """Return all keys and values of a layer, the new ones remembered."""
        end = self.end + k.shape[2]
        if self.concatenated:
            self.keys[layer] = torch.cat([self.keys[layer], k], 2)
            self.values[layer] = torch.cat([self.values[layer], v], 2)
            return self.keys[layer], self.values[layer]
        self.keys[layer][:, :, self.end : end] = k
        self.values[layer][:, :, self.end : end] = v
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]


def _block(block: TorchBlock, layer: int, x: Any, cache: _Cache) -> Any:
    batch, count, width = x.shape
    packed = block.qkv(block.norm1(x)).view(batch, count, 3, block.heads, width // block.heads)
    q, k, v = packed.permute(2, 0, 3, 1, 4)
    keys, values = cache.extended(layer, k, v)
    # The prompt comes into an empty cache, a token after it sees all.
    heads = functional.scaled_dot_product_attention(q, keys, values, is_causal=count > 1)
    x = x + block.projection(heads.transpose(1, 2).reshape(batch, count, width))
    return x + block.contract(functional.gelu(block.expand(block.norm2(x)), approximate="tanh"))


def _next(model: TorchGPT, tokens: Any, cache: _Cache) -> Any:
    """Return the likeliest token after ``tokens``, (B, 1)."""
    x = model.token(tokens) + model.position(model.index[cache.end : cache.end + tokens.shape[1]])
    for layer, block in enumerate(model.blocks):
        x = _block(block, layer, x, cache)
    cache.end += tokens.shape[1]
    logits = functional.linear(model.norm(x[:, -1]), model.token.weight)
    return logits.argmax(-1, keepdim=True)


def decoding(setting: str, model: GPT, prompt: Array, new_tokens: int) -> Callable[[], Array]:
    """Return a call that generates ``new_tokens`` after each prompt (B, P) and returns all tokens, int64.

    Its cache is one of PyTorch's own, in buffers, or "concatenated" if that is the ``setting``.
    """
    twin = twin_of(model).module.eval()
    attention = model.blocks[0].attention
    head = attention.embed_dim // attention.num_heads
    shape = (len(prompt), attention.num_heads, model.max_seq_len, head)
    start = torch.from_numpy(np.ascontiguousarray(prompt))

    def call() -> Array:
        with torch.inference_mode():
            cache, found = _Cache(setting == "concatenated", shape, len(model.blocks)), [start]
            for _ in range(new_tokens):
                found.append(_next(twin, found[-1], cache))
            tokens: Array = torch.cat(found, 1).numpy()
        return tokens

    return call
