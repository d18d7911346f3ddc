"""What one outlier does to all the other numbers, by observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch.core.op import Array
from tinytorch.perf.ops.affine import Scheme, decode, encode
from tinytorch.perf.quantization.convert import decibels
from tinytorch.perf.quantization.observers import RangeObserver


@dataclass(frozen=True)
class Outlier:
    """What an observer made of normal numbers with one outlier among them.

    Attributes:
        low, high: the range that it found.
        step: the scale.
        rest_db: signal-to-noise ratio of the numbers that count, by default all but the outlier, in dB.
        became: the number that stands for the outlier.
    """

    low: float
    high: float
    step: float
    rest_db: float
    became: float


def normals_with_outlier(count: int, outlier: float, seed: int = 0) -> Array:
    """Return ``count`` float32 numbers of N(0, 1), the middle one replaced by ``outlier``.

    Raises:
        ValueError: if ``count`` is below 2.
    """
    if count < 2:
        raise ValueError(f"count must be at least 2, so that there is a rest, not {count}")
    numbers = np.random.default_rng(seed).standard_normal(count, dtype=np.float32)
    numbers[count // 2] = outlier
    return numbers


def by_observer(
    numbers: Array,
    observers: Mapping[str, Callable[[Scheme], RangeObserver]],
    bits: int = 8,
    batches: int = 10,
    counted: npt.NDArray[np.bool_] | None = None,
) -> dict[str, Outlier]:
    """Return what each observer, shown flat ``numbers`` in so many batches, does to the largest and to the rest.

    Codes are affine, one scale for all. ``counted`` says which numbers are the rest: all but the largest if None.

    Raises:
        ValueError: if the numbers are none that an observer takes.
    """
    scheme = Scheme(bits, symmetric=False)
    largest = int(np.argmax(np.abs(numbers)))
    rest = np.arange(len(numbers)) != largest if counted is None else counted
    found = {}
    for name, make in observers.items():
        observer = make(scheme)
        for batch in np.array_split(numbers, batches):
            observer.observe(batch)
        low, high = observer.range()
        scale, zero_point = observer.parameters()
        back = decode(encode(numbers, scale, zero_point, scheme), scale, zero_point)
        found[name] = Outlier(
            float(low), float(high), float(scale), decibels(numbers[rest], back[rest]), float(back[largest])
        )
    return found
