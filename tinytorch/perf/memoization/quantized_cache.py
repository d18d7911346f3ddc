"""A cache of int8 codes: a quarter of the bytes of float32, with a scale for each head and position."""

from __future__ import annotations

import math

import numpy as np

from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.memoization.cache import KVCache
from tinytorch.perf.ops.affine import check_finite
from tinytorch.perf.ops.decode import quantized_attention, quantized_rows


class QuantizedKVCache(KVCache):
    """A `KVCache` that keeps int8 codes: x ≈ scale · code, one float32 scale for each head and position.

    The scale is the largest magnitude of the head_dim numbers over 127, so each is off by at most half a scale. It
    takes 2 · layers · batch · heads · positions · (head_dim + 4) bytes. ``get`` returns what the codes stand for.
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
        end = self.remember(layer_idx, k, v)
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

    def _write(self, layer: int, where: slice, keys: Array, values: Array) -> None:
        new = [quantized_rows(numbers, name) for name, numbers in (("key", keys), ("value", values))]
        for index, (codes, scales) in enumerate(new):
            self._codes[index][layer, :, :, where] = codes
            self._scales[index][layer, :, :, where] = scales

    def _read(self, layer: int, end: int) -> tuple[Array, Array]:
        keys, values = (
            codes[layer, :, :, :end] * scales[layer, :, :, :end]
            for codes, scales in zip(self._codes, self._scales, strict=True)
        )
        return keys, values
