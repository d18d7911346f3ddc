"""Buckets: parameters side by side in flat arrays, so that a few large messages carry what many small ones would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinytorch.core.module import Parameter
from tinytorch.core.op import Array


@dataclass(frozen=True)
class Bucket:
    """Parameters of one dtype, side by side.

    Attributes:
        parameters: in the order in which they lie. starts: where each begins, in elements.
        length: elements, with the padding at the end that makes it a multiple of the ranks.
    """

    parameters: tuple[Parameter, ...]
    starts: tuple[int, ...]
    length: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of its parameters."""
        return self.parameters[0].dtype

    def views(self, flat: Array) -> Iterator[tuple[Parameter, Array]]:
        """Yield each parameter and its part of ``flat`` (length,), in the parameter's shape."""
        for parameter, start in zip(self.parameters, self.starts, strict=True):
            yield parameter, flat[start : start + parameter.size].reshape(parameter.shape)

    def shard(self, flat: Array, rank: int, size: int) -> Array:
        """Return the part of ``flat`` (length,) that belongs to a rank."""
        part = self.length // size
        return flat[rank * part : (rank + 1) * part]


def bucketed(parameters: Sequence[Parameter], nbytes: int, ranks: int) -> list[Bucket]:
    """Return the parameters in buckets, the last ones first, as a backward makes their gradients about in that order.

    A bucket is closed when it holds ``nbytes`` or more, or the dtype changes. Each is padded to a multiple of ``ranks``
    elements.

    Raises:
        ValueError: if ``nbytes`` is below 1.
    """
    if nbytes < 1:
        raise ValueError(f"bucket_bytes must be at least 1, not {nbytes}")
    groups: list[list[Parameter]] = []
    held = 0
    for parameter in reversed(parameters):
        if not groups or held >= nbytes or groups[-1][0].dtype != parameter.dtype:
            groups.append([])
            held = 0
        groups[-1].append(parameter)
        held += parameter.nbytes
    return [_bucket(group, ranks) for group in groups]


def _bucket(group: list[Parameter], ranks: int) -> Bucket:
    ends = np.cumsum([parameter.size for parameter in group]).tolist()
    return Bucket(tuple(group), (0, *ends[:-1]), -(-ends[-1] // ranks) * ranks)
