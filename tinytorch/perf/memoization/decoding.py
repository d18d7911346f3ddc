"""A GPT that takes each new token in one op: the fusion that generation calls for."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Embedding, LayerNorm, Linear, as_indices
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.memoization.cache import KVCache
from tinytorch.perf.ops.affine import Scheme
from tinytorch.perf.ops.decode import decode_token
from tinytorch.perf.quantization.layers import QuantizedEmbedding, QuantizedLinear


class DecodingGPT(GPT):
    """A GPT that takes one new token of each sequence in one op where it has a cache, and anything else as before.

    It shares the layers of the model that it is made of, so that nothing is stored twice and weights stay current:
    what an optimizer or `load_state_dict` writes, and arrays put in the place of others, count from the next token on.
    """

    worked_out = ("_prepared",)

    def __init__(self, model: GPT, scheme: Scheme | None) -> None:
        vars(self).update(vars(model))
        self.blocks = [_with_own_memory(block) for block in model.blocks]
        self._bits = None if scheme is None else scheme.bits
        self._group = scheme.group if scheme is not None and scheme.per == "group" else None
        self._prepared: dict[str, Any] = {}

    def forward(self, tokens: Any, last: bool = False) -> Tensor:
        """Return what `GPT.forward` does."""
        indices = as_indices(tokens)
        cache = self.memory
        if not isinstance(cache, KVCache) or indices.ndim != 2 or indices.shape[1] != 1:
            return super().forward(indices, last)
        position = cache.begin(len(indices), 1)
        made = self._decoded(indices, cache, position)
        size = len(indices) * self.vocab_size
        cache.take(made[size:])
        return Tensor(made[:size].reshape(len(indices), 1, self.vocab_size))

    def _decoded(self, indices: Any, cache: KVCache, position: int) -> Any:
        operands: list[Any] = []
        read = _floats if self._bits is None else _codes
        for table in (self.token_embedding, self.position_embedding):
            operands += read(table)
        epsilons: list[float] = []
        for block in self.blocks:
            attention, mlp, norm1, norm2 = block.attention, block.mlp, block.norm1, block.norm2
            operands += (norm1.weight, norm1.bias, *read(attention.qkv), attention.qkv.bias)
            operands += (*read(attention.projection), attention.projection.bias, norm2.weight, norm2.bias)
            operands += (*read(mlp.expand), mlp.expand.bias, *read(mlp.contract), mlp.contract.bias)
            epsilons += (norm1.eps, norm2.eps)
        operands += (self.norm.weight, self.norm.bias, *cache.arrays)
        with no_grad():
            return apply(
                decode_token,
                np.array(indices[:, 0], np.int64),
                *operands,
                position=position,
                epsilons=(*epsilons, self.norm.eps),
                bits=self._bits,
                group=self._group,
                prepared=self._prepared,
            ).data


def _floats(layer: Any) -> tuple[Tensor]:
    return (layer.weight,)


def _codes(layer: Any) -> tuple[Any, ...]:
    return layer.codes.array, layer.scale, layer.zero_point


def _with_own_memory(block: TransformerBlock) -> TransformerBlock:
    """Return a block of the same layers whose attention can be given a memory of its own."""
    made = copy.copy(block)
    made.attention = copy.copy(block.attention)
    made.attention.memory = None
    return made


def fuse_decoding(model: GPT) -> GPT:
    """Return a GPT that shares the layers of ``model`` and processes each new token with one op.

    Enable a cache on what is returned; ``model`` is not changed. The op has a compiled kernel, which `accelerated`
    selects; it runs on the calling thread. Results are equal to rounding; prompts run as before.

    Args:
        model: of float layers, or all in weight-only codes of one `Scheme`. Cached keys and values may be codes, too.

    Raises:
        TypeError: if ``model`` is not a GPT of these layers; what `fuse` made is not.
        ValueError: if it has a cache.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.core.transformers import GPT
        >>> from tinytorch.perf.memoization import enable_kv_cache, fuse_decoding, generate
        >>> model = GPT(11, 16, 1, 2, 8, seed=0).eval()
        >>> fused = fuse_decoding(model)
        >>> cache = enable_kv_cache(fused)
        >>> prompt = np.array([[3, 1]])
        >>> np.array_equal(generate(fused, prompt, 4), generate(model, prompt, 4))
        True
    """
    if not isinstance(model, GPT):
        raise TypeError(f"model must be a GPT from tinytorch.core.transformers, not {type(model).__name__}")
    scheme = _common_scheme(model)
    if model.memory is not None:
        raise ValueError("model must not have a cache: call disable_kv_cache(model) first, and enable it afterwards")
    return DecodingGPT(model, scheme)


def _common_scheme(model: GPT) -> Scheme | None:
    """Return the scheme of all weights, None for floats; raise TypeError if there is none."""
    tables: list[Any] = [model.token_embedding, model.position_embedding]
    layers: list[Any] = []
    for block in model.blocks:
        if type(block) is not TransformerBlock or type(block.norm1) is not LayerNorm:
            raise TypeError(
                f"model must have blocks of class TransformerBlock, not {type(block).__name__}: "
                "give fuse_decoding the model itself, not what fuse made of it"
            )
        layers += (block.attention.qkv, block.attention.projection, block.mlp.expand, block.mlp.contract)
    has_bias = all(getattr(layer, "bias", None) is not None for layer in layers)
    kinds = {type(each) for each in (*tables, *layers)}
    if has_bias and kinds == {Embedding, Linear}:
        return None
    if has_bias and kinds == {QuantizedEmbedding, QuantizedLinear}:
        modes = {layer.plan.mode for layer in layers if isinstance(layer, QuantizedLinear)}
        # As of products: an embedding's channels are its rows.
        schemes = {replace(each.scheme, axis=-1) for each in (*tables, *layers)}
        if modes == {"weight-only"} and len(schemes) == 1:
            return schemes.pop()
    raise TypeError(
        "model must have layers of floats, or all of them in weight-only codes of one scheme, each with a bias: "
        "others run as they are"
    )
