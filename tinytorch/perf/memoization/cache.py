"""KVCache: keys and values of every position so far, in floats or int8 codes, and how a model is given one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tinytorch.core import ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import checked_positive
from tinytorch.core.op import Array, Shape, whole_numbers
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.ops.affine import check_finite
from tinytorch.perf.ops.decode import quantized_attention, quantized_rows


@whole_numbers
class KVCache:
    """Keys and values of up to ``max_seq_len`` positions, for each layer, sequence of the batch and head.

    All memory is taken at the start: 2 · layers · batch · heads · positions · head_dim · itemsize bytes. At the limit
    it raises; nothing is overwritten or dropped.

    ``update`` writes new positions of one layer behind those counted so far; ``advance`` counts them in once every
    layer has written its own; ``get`` reads what is counted.

    Args:
        batch_size: sequences that are generated together.
        max_seq_len: positions that fit.
        num_layers: attention layers of the model.
        num_heads: heads of each.
        head_dim: length of one head's key.
        dtype: floating dtype that keys and values are kept in.

    Raises:
        ValueError: if a size is not a whole number above 0, or the dtype not floating.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.memoization import KVCache
        >>> cache = KVCache(batch_size=1, max_seq_len=16, num_layers=1, num_heads=2, head_dim=4)
        >>> new = np.ones((1, 2, 3, 4), np.float32)  # keys of three positions
        >>> keys, values = cache.update(0, new, new)
        >>> cache.advance(3)
        >>> cache.seq_pos, cache.get(0)[0].shape
        (3, (1, 2, 3, 4))
        >>> cache.get_memory_usage()["total_bytes"] == 2 * 16 * 2 * 4 * 4
        True
    """

    def __init__(
        self,
        batch_size: int,
        max_seq_len: int,
        num_layers: int,
        num_heads: int,
        head_dim: int,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        checked_positive(
            batch_size=batch_size,
            max_seq_len=max_seq_len,
            num_layers=num_layers,
            num_heads=num_heads,
            head_dim=head_dim,
        )
        if np.dtype(dtype).kind != "f":
            raise ValueError(f"dtype must be floating, not {np.dtype(dtype)}: for int8 use QuantizedKVCache")
        self.batch_size, self.max_seq_len, self.num_layers = batch_size, max_seq_len, num_layers
        self.num_heads, self.head_dim = num_heads, head_dim
        self.dtype = np.dtype(dtype)
        #: The model that it serves, if any.
        self.user: object | None = None
        self._generating = False
        self._position = 0
        self._written = [0] * num_layers
        self._make()

    def _make(self) -> None:
        """Take the memory: written here, so that its pages are in place before the first token."""
        shape = (self.num_layers, self.batch_size, self.num_heads, self.max_seq_len, self.head_dim)
        self._keys, self._values = (np.full(shape, 0, self.dtype) for _ in range(2))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays that it holds, the same ones always: keys and values, (layers, batch, heads, positions, size)."""
        return self._keys, self._values

    @property
    def seq_pos(self) -> int:
        """Number of positions so far, which is the position of the next token."""
        return self._position

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, heads and head_dim: what a model must have for this cache to fit."""
        return self.num_layers, self.num_heads, self.head_dim

    def begin(self, batch: int, count: int) -> int:
        """Return the position of the first of ``count`` new tokens for each of ``batch`` sequences.

        Raises:
            ValueError: if the batch is another one, or the tokens do not fit any more.
        """
        if batch != self.batch_size:
            raise ValueError(f"tokens must have {self.batch_size} sequences, as the cache has, not {batch}")
        self._check_room(count)
        return self._position

    def update(self, layer_idx: int, key: Any, value: Any) -> tuple[Tensor, Tensor]:
        """Write new positions of a layer; return views of all its keys and values so far, the new ones included.

        Args:
            layer_idx: 0 for the first layer.
            key: (batch_size, num_heads, T, head_dim), Tensor or array of any numeric dtype, of T new positions.
            value: the same.

        Returns:
            Two Tensors (batch_size, num_heads, seq_pos + T, head_dim).

        Raises:
            ValueError: if a shape does not fit, or T positions do not; nothing is written then.
            TypeError: if they are not numeric.
            IndexError: if there is no such layer.
        """
        keys, values = self.append(layer_idx, *self._checked(layer_idx, key, value))
        return Tensor(keys), Tensor(values)

    def append(self, layer: int, k: Array, v: Array) -> tuple[Array, Array]:
        """Write new positions (B, H, T, D) of a layer; return views of all."""
        start, end = self._position, self._position + k.shape[2]
        self._keys[layer, :, :, start:end] = k
        self._values[layer, :, :, start:end] = v
        self._written[layer] = end
        return self._read(layer, end)

    def take(self, made: Array) -> None:
        """Write one new position of all layers and count it in.

        Keys and values are flat in ``made``, (2, layers, batch_size, num_heads, head_dim) of this cache's own dtype, as
        `decode_token` made them to fit.
        """
        shape = (2, self.num_layers, self.batch_size, self.num_heads, self.head_dim)
        keys, values = made.reshape(shape)
        self._keys[:, :, :, self._position] = keys
        self._values[:, :, :, self._position] = values
        self.stand_at(self._position + 1)

    def get(self, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the positions counted so far, (batch_size, num_heads, seq_pos, head_dim) each.

        They are views of the cache's own memory: the next sequence overwrites them, so copy what must stay. Those of a
        `QuantizedKVCache` are arrays of their own.

        Raises:
            IndexError: if there is no such layer.
        """
        self._check_layer(layer_idx)
        keys, values = self._read(layer_idx, self._position)
        return Tensor(keys), Tensor(values)

    def advance(self, count: int = 1) -> None:
        """Count ``count`` positions in that every layer has written.

        Raises:
            ValueError: if a layer has not written them, or ``count`` is below 1.
        """
        checked_positive(count=count)
        end = self._position + count
        if min(self._written) < end:
            behind = self._written.index(min(self._written))
            raise ValueError(
                f"count must be of positions that all layers have written, but layer {behind} has written "
                f"{max(self._written[behind] - self._position, 0)} of {count}: call update for every layer first"
            )
        self._position = end

    def stand_at(self, position: int) -> None:
        """Set the number of valid positions: backward to remove tokens, or forward to time a step.

        Raises:
            ValueError: if there is no such position.
        """
        if not 0 <= position <= self.max_seq_len:
            raise ValueError(f"position must lie in 0..{self.max_seq_len}, not {position}")
        self._position = position
        self._written = [position] * self.num_layers

    def reset(self) -> None:
        """Remove all positions; the memory remains allocated."""
        self.stand_at(0)

    @contextmanager
    def generation(self) -> Iterator[Self]:
        """Generate one sequence in the body: the cache is empty before it and after it, also after an error.

        Raises:
            RuntimeError: if no model uses this cache, or within another such body.
        """
        if self.user is None:
            raise RuntimeError("generation needs a model that uses this cache: call enable_kv_cache(model) first")
        if self._generating:
            raise RuntimeError("another generation is using this cache: call reset() to begin a new sequence")
        self.reset()
        self._generating = True
        try:
            yield self
        finally:
            self._generating = False
            self.reset()

    @classmethod
    def of(cls, model: Any, batch_size: int = 1, max_seq_len: int | None = None) -> Self:
        """Return an empty cache for sequences of a GPT, of as many positions as that has if none are given.

        Raises:
            TypeError: as `enable_kv_cache` does.
        """
        layers = _attention_layers(model)
        first, positions = layers[0], model.max_seq_len if max_seq_len is None else max_seq_len
        return cls(batch_size, positions, len(layers), first.num_heads, first.embed_dim // first.num_heads)

    def emptied(self, batch_size: int) -> Self:
        """Return an empty cache of this kind, length and shape for ``batch_size`` sequences, which serves nobody."""
        return type(self)(batch_size, self.max_seq_len, self.num_layers, self.num_heads, self.head_dim, self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that it holds."""
        return sum(array.nbytes for array in self.arrays)

    def get_memory_usage(self) -> dict[str, float]:
        """Return ``total_mb`` and ``per_layer_mb`` (MiB), ``total_bytes``, ``used_bytes`` (of the positions counted so
        far), ``cache_tensors`` and ``total_elements`` of the arrays that it holds."""
        arrays = self.arrays
        return {
            "total_mb": self.nbytes / MIB,
            "per_layer_mb": self.nbytes / self.num_layers / MIB,
            "total_bytes": self.nbytes,
            "used_bytes": self.nbytes // self.max_seq_len * self._position,
            "cache_tensors": self.num_layers * len(arrays),
            "total_elements": sum(array.size for array in arrays),
        }

    def attend(self, layer_idx: int, q: Array, k: Array, v: Array) -> Tensor:
        """Write new positions and return their causal attention (B, H, T, D) over all positions so far.

        q, k and v are (B, H, T, D) arrays; errors are those of `update`.
        """
        keys, values = self.append(layer_idx, *self._checked(layer_idx, k, v))
        return apply(ops.attention, q, keys, values, causal=True)

    def _read(self, layer: int, end: int) -> tuple[Array, Array]:
        return self._keys[layer, :, :, :end], self._values[layer, :, :, :end]

    def _check_layer(self, layer_idx: int) -> None:
        if not 0 <= layer_idx < self.num_layers:
            raise IndexError(f"layer_idx must lie in 0..{self.num_layers - 1}, not {layer_idx}")

    def _check_room(self, count: int) -> None:
        if self._position + count > self.max_seq_len:
            raise ValueError(
                f"the cache holds {self._position} of at most {self.max_seq_len} positions and cannot take {count} "
                "more: reset() it or make it longer"
            )

    def _checked(self, layer_idx: int, key: Any, value: Any) -> tuple[Array, Array]:
        """Return keys and values as arrays; raise unless they fit this cache as it stands."""
        self._check_layer(layer_idx)
        keys, values = (Tensor(x).data for x in (key, value))
        wanted: Shape = (self.batch_size, self.num_heads, self.head_dim)
        for name, array in (("key", keys), ("value", values)):
            shape = array.shape
            if array.ndim != 4 or (shape[0], shape[1], shape[3]) != wanted or not shape[2]:
                raise ValueError(
                    f"{name} must have shape ({wanted[0]}, {wanted[1]}, T, {wanted[2]}) with T at least 1, not {shape}"
                )
        if keys.shape != values.shape:
            raise ValueError(f"value must have the key's shape {keys.shape}, not {values.shape}")
        self._check_room(keys.shape[2])
        return keys.astype(self.dtype, copy=False), values.astype(self.dtype, copy=False)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(batch_size={self.batch_size}, max_seq_len={self.max_seq_len}, "
            f"num_layers={self.num_layers}, num_heads={self.num_heads}, head_dim={self.head_dim}, "
            f"seq_pos={self._position})"
        )


@dataclass(slots=True)
class LayerMemory:
    """One attention layer's part of a cache: what `MultiHeadAttention.memory` is set to."""

    cache: KVCache
    layer: int

    def attend(self, packed: Tensor) -> Tensor:
        """Return (B, T, H D) of the new positions' queries, keys and values side by side, (B, T, 3 H D)."""
        batch, count, width = packed.shape
        split = packed.data.reshape(batch, count, 3, self.cache.num_heads, self.cache.head_dim)
        q, k, v = split.transpose(2, 0, 3, 1, 4)
        heads: Array = self.cache.attend(self.layer, q, k, v).data
        return Tensor(heads.transpose(0, 2, 1, 3).reshape(batch, count, width // 3))


@whole_numbers
def enable_kv_cache(
    model: Any, batch_size: int = 1, max_seq_len: int | None = None, cache: KVCache | None = None
) -> KVCache:
    """Give ``model`` a key-value cache, so that it takes only the new tokens from now on, and return the cache.

    Logits equal those without a cache to rounding. Nothing is recorded for a backward pass. What is remembered belongs
    to the weights that made it: `KVCache.reset` it after changing them.

    Args:
        model: a GPT, with float or quantized layers.
        batch_size: sequences that will be generated together.
        max_seq_len: positions that fit, at most the model's own, which is the default.
        cache: one to use instead of a new float32 one; it is reset.

    Raises:
        TypeError: if ``model`` is not a GPT, or attends with other layers than `MultiHeadAttention`.
        ValueError: if it has a cache already, a size is out of range, or ``cache`` is of another model's shape or in
            another model's use.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.core.transformers import GPT
        >>> from tinytorch.perf.memoization import enable_kv_cache
        >>> model = GPT(11, 16, 1, 2, 8, seed=0).eval()
        >>> whole = model(np.array([[3, 1, 4]]))
        >>> cache = enable_kv_cache(model)
        >>> steps = [model(np.array([[token]])) for token in (3, 1, 4)]  # one token at a time
        >>> np.allclose(steps[-1].numpy()[:, -1], whole.numpy()[:, -1], atol=1e-5)
        True
    """
    layers = _attention_layers(model)
    if model.memory is not None:
        raise ValueError("model must not have a cache already: call disable_kv_cache(model) first")
    first = layers[0]
    shape = (len(layers), first.num_heads, first.embed_dim // first.num_heads)
    if cache is None:
        cache = KVCache.of(model, batch_size, max_seq_len)
    if cache.max_seq_len > model.max_seq_len:
        raise ValueError(f"max_seq_len must be at most the model's {model.max_seq_len}, not {cache.max_seq_len}")
    if cache.shape != shape:
        raise ValueError(f"cache must have the model's layers, heads and head_dim {shape}, but has {cache.shape}")
    if cache.user not in (None, model):
        raise ValueError("cache must not belong to another model: call disable_kv_cache on that model first")
    cache.user, model.memory = model, cache
    cache.reset()
    for index, layer in enumerate(layers):
        layer.memory = LayerMemory(cache, index)
    return cache


def disable_kv_cache(model: Any) -> None:
    """Remove the cache of ``model``, so that it takes whole sequences again; without a cache, nothing happens.

    Raises:
        TypeError: if ``model`` is not a GPT, or attends with other layers than `MultiHeadAttention`.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.core.transformers import GPT
        >>> from tinytorch.perf.memoization import disable_kv_cache, enable_kv_cache
        >>> model = GPT(11, 16, 1, 2, 8).eval()
        >>> cache = enable_kv_cache(model)
        >>> disable_kv_cache(model)
        >>> model(np.array([[3, 1, 4]])).shape
        (1, 3, 11)
    """
    layers = _attention_layers(model)
    cache = cache_of(model)
    if cache is not None:
        cache.user = None
    for module in (model, *layers):
        module.memory = None


def cache_of(model: GPT) -> KVCache | None:
    """Return the cache that `enable_kv_cache` gave the model, if any.

    Examples:
        >>> from tinytorch.core.transformers import GPT
        >>> from tinytorch.perf.memoization import cache_of, enable_kv_cache
        >>> model = GPT(11, 16, 1, 2, 8)
        >>> cache_of(model) is None
        True
        >>> cache_of(model) is enable_kv_cache(model)
        False
    """
    return model.memory if isinstance(model.memory, KVCache) else None


@contextmanager
def empty_cache(model: Any, batch_size: int) -> Iterator[KVCache]:
    """Give ``model`` an empty cache for ``batch_size`` sequences in the body, and restore its own cache afterwards.

    It is of the kind and length of the one that the model has, if it has one, which remembers what it did.

    Raises:
        TypeError: as `enable_kv_cache` does.

    Examples:
        >>> from tinytorch.core.transformers import GPT
        >>> from tinytorch.perf.memoization import cache_of, empty_cache
        >>> model = GPT(11, 16, 1, 2, 8).eval()
        >>> with empty_cache(model, batch_size=1) as cache:
        ...     logits = model([[1, 2, 3]])
        ...     cache.seq_pos
        3
        >>> cache_of(model) is None
        True
    """
    modules = (model, *_attention_layers(model))
    own, before = cache_of(model), [module.memory for module in modules]
    for module in modules:
        module.memory = None
    try:
        yield enable_kv_cache(model, batch_size, cache=None if own is None else own.emptied(batch_size))
    finally:
        disable_kv_cache(model)
        for module, memory in zip(modules, before, strict=True):
            module.memory = memory


def _attention_layers(model: Any) -> list[MultiHeadAttention]:
    """Return the attention layers in order; raise TypeError unless ``model`` is a GPT."""
    if not isinstance(model, GPT):
        raise TypeError(
            f"model must be a GPT from tinytorch.core.transformers, not {type(model).__name__}: if the model was "
            "frozen for inference, pass the original, and use fuse_decoding for fast steps"
        )
    layers = [module for _, module in model.named_modules() if isinstance(module, MultiHeadAttention)]
    if len(layers) != len(model.blocks):
        raise TypeError(f"model must attend with a MultiHeadAttention in each block, but has {len(layers)} of them")
    return layers


class QuantizedKVCache(KVCache):
    """A `KVCache` that keeps int8 codes: x ≈ scale · code, one float32 scale for each head and position.

    The scale is the largest magnitude of the head_dim numbers over 127, so each is off by at most half a scale. It
    takes 2 · layers · batch · heads · positions · (head_dim + 4) bytes. ``get`` returns what the codes stand for.

    Examples:
        >>> from tinytorch.perf.memoization import QuantizedKVCache
        >>> cache = QuantizedKVCache(batch_size=1, max_seq_len=16, num_layers=1, num_heads=2, head_dim=32)
        >>> cache.nbytes == 2 * 16 * 2 * (32 + 4)  # a byte for each number, and a scale for each 32
        True
    """

    def _make(self) -> None:
        shape = (self.num_layers, self.batch_size, self.num_heads, self.max_seq_len, self.head_dim)
        self._codes = np.full(shape, 0, np.int8), np.full(shape, 0, np.int8)
        self._scales = np.full((*shape[:-1], 1), 1, np.float32), np.full((*shape[:-1], 1), 1, np.float32)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Codes of keys and values as in `KVCache.arrays`, and their scales, of size 1."""
        return *self._codes, *self._scales

    def attend(self, layer_idx: int, q: Array, k: Array, v: Array) -> Tensor:
        """Write new positions and return their causal attention (B, H, T, D) over all codes so far."""
        end = self._remember(layer_idx, *self._checked(layer_idx, k, v))
        held = [each[layer_idx, :, :, :end] for pair in zip(self._codes, self._scales, strict=True) for each in pair]
        return apply(quantized_attention, q, *held, causal=True)

    def take(self, made: Array) -> None:
        """Do what `KVCache.take` does; codes of keys and values, and then their scales, are flat in ``made``.

        Raises:
            ValueError: if a scale is NaN or infinite; nothing is written then.
        """
        shape = (2, self.num_layers, self.batch_size, self.num_heads, self.head_dim)
        size = math.prod(shape)
        scales = made[size:].reshape((*shape[:-1], 1))
        # One number that is not finite makes the sum so; the scales themselves are too small to overflow it.
        if not math.isfinite(scales.sum()):
            check_finite(scales.min(), scales.max(), "key or value")
        for index, codes in enumerate(made[:size].reshape(shape)):
            self._codes[index][:, :, :, self._position] = codes
            self._scales[index][:, :, :, self._position] = scales[index]
        self.stand_at(self._position + 1)

    def append(self, layer: int, k: Array, v: Array) -> tuple[Array, Array]:
        """Write the codes of new positions of a layer; return what the codes of all so far stand for."""
        return self._read(layer, self._remember(layer, k, v))

    def _remember(self, layer: int, keys: Array, values: Array) -> int:
        """Write the codes of new positions of a layer; return where they end."""
        start, end = self._position, self._position + keys.shape[2]
        new = [quantized_rows(numbers, name) for name, numbers in (("key", keys), ("value", values))]
        for index, (codes, scales) in enumerate(new):
            self._codes[index][layer, :, :, start:end] = codes
            self._scales[index][layer, :, :, start:end] = scales
        self._written[layer] = end
        return end

    def _read(self, layer: int, end: int) -> tuple[Array, Array]:
        keys, values = (
            codes[layer, :, :, :end] * scales[layer, :, :, :end]
            for codes, scales in zip(self._codes, self._scales, strict=True)
        )
        return keys, values
