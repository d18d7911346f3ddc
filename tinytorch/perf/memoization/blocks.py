"""Decoder blocks that take one new token in one op: the fusion that generation calls for."""

# ruff: noqa: ARG001 - every forward and backward has the signature of the seam

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.memoization.cache import KVCache
from tinytorch.perf.memoization.enabling import LayerMemory


def checked_operands(operands: Sequence[Array]) -> None:
    """Raise ValueError unless x is (B, 1, C), and keys and values (B, H, S, D) with H D = C."""
    x, keys, values = operands[0], operands[-2], operands[-1]
    fits = x.ndim == 3 and keys.ndim == 4 and keys.shape == values.shape and x.shape[1] == 1
    if not fits or x.shape[0] != keys.shape[0] or x.shape[2] != keys.shape[1] * keys.shape[3]:
        raise ValueError(
            "decoder_block needs x of shape (B, 1, H D) and keys, values of shape (B, H, S, D), "
            f"not {x.shape}, {keys.shape}, {values.shape}"
        )


def _forward(keep: bool, *operands: Array, epsilons: tuple[float, float]) -> tuple[Array, Saved]:
    """A pre-norm block (see `TransformerBlock`) of one new token, op by op.

    The operands are x (B, 1, C), weight and bias of norm1, qkv, projection, norm2, expand and contract, and keys and
    values (B, H, S, D) of earlier positions. Returns (B, 1, 3 C): the block's output, the new keys and values.
    """
    checked_operands(operands)
    x, keys, values = operands[0], operands[-2], operands[-1]
    pairs = [operands[index : index + 2] for index in range(1, 13, 2)]
    norm1, qkv, projection, norm2, expand, contract = pairs
    packed = _run(ops.linear, _run(ops.layer_norm, x, *norm1, epsilon=epsilons[0]), *qkv)
    batch, heads, _, depth = keys.shape
    q, k, v = packed.reshape(batch, 1, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    along = (np.concatenate(each, axis=2) for each in ((keys, k), (values, v)))
    attended = _run(ops.attention, np.ascontiguousarray(q), *along, causal=True)
    middle = x + _run(ops.linear, attended.reshape(x.shape), *projection)
    hidden = _run(ops.gelu, _run(ops.linear, _run(ops.layer_norm, middle, *norm2, epsilon=epsilons[1]), *expand))
    output = middle + _run(ops.linear, hidden, *contract)
    return np.concatenate([output, packed[:, :, x.shape[2] :]], axis=2), ()


def _run(op: Op, *arrays: Array, **params: Any) -> Array:
    return op.reference.forward(False, *arrays, **params)[0]


def _no_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    raise TypeError("decoder_block is for generation and has no gradient: train the model itself")


def _work(call: Call) -> Work:
    """Four products and attention; elementwise that of the ops it is made of."""
    x, keys = call.inputs[0], call.inputs[-2]
    batch, _, width = x.shape
    heads, length = keys.shape[1], keys.shape[2] + 1
    weights = [call.inputs[index] for index in (3, 5, 9, 11)]
    hidden = batch * weights[2].shape[1]
    products = batch * sum(weight.size for weight in weights) + 2 * batch * width * length
    biases = batch * sum(weight.shape[1] for weight in weights)
    attended = 5 * batch * heads * length + 2 * x.size
    return Work(products, 2 * 7 * x.size + biases + attended + 8 * hidden + 2 * x.size)


#: One pre-norm block for one new token of each sequence: see `_forward`.
decoder_block = Op("decoder_block", _forward, _no_backward, _work)


class DecoderBlock(TransformerBlock):
    """A `TransformerBlock` that takes a new token that follows others in one op, and anything else as before.

    It shares the layers of the block that it is made of, so that nothing is stored twice and weights stay current.
    """

    def __init__(self, block: TransformerBlock) -> None:
        self.norm1 = block.norm1
        self.attention = copy.copy(block.attention)
        self.attention.memory = None
        self.norm2, self.mlp = block.norm2, block.mlp
        self.training = block.training

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, embed_dim) of (B, T, embed_dim)."""
        memory = self.attention.memory
        if not isinstance(memory, LayerMemory) or type(memory.cache) is not KVCache:
            return super().forward(x)
        if x.shape[1] != 1 or not memory.cache.seq_pos:
            return super().forward(x)
        parts = (self.norm1, self.attention.qkv, self.attention.projection, self.norm2, self.mlp.expand)
        layers = (*parts, self.mlp.contract)
        operands = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        earlier = memory.cache.earlier(memory.layer)
        made = apply(decoder_block, x, *operands, *earlier, epsilons=(self.norm1.eps, self.norm2.eps)).data
        memory.remember(made)
        return Tensor(made[:, :, : x.shape[2]])


def fuse_decoding(model: GPT) -> GPT:
    """Return a GPT that shares the layers of ``model`` and takes each new token with one op a block.

    Enable a cache on what is returned; ``model`` stays as it was. The op has a compiled kernel, which `accelerated`
    selects. Results are equal to rounding; a quantized cache and prompts run as before.

    Raises:
        TypeError: if ``model`` is not a GPT of float blocks.
        ValueError: if it has a cache.
    """
    if not isinstance(model, GPT):
        raise TypeError(f"model must be a GPT from tinytorch.core.transformers, not {type(model).__name__}")
    for block in model.blocks:
        layers = (block.attention.qkv, block.attention.projection, block.mlp.expand, block.mlp.contract)
        plain = all(type(layer) is Linear and layer.bias is not None for layer in layers)
        if type(block) is not TransformerBlock or not plain:
            raise TypeError(
                "model must have TransformerBlocks of float Linear layers with biases: others run as they are"
            )
    if model.memory is not None:
        raise ValueError("model must not have a cache: call disable_kv_cache(model) first, and enable it afterwards")
    fused = copy.copy(model)
    fused.blocks = [DecoderBlock(block) for block in model.blocks]
    return fused
