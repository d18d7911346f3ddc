"""Observers: they watch batches of numbers, by histograms in bounded memory, and say which range is worth codes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.ops.affine import Scheme, extremes, floats, range_parameters

#: Bins over the whole range; an even number, so that 0 is between two.
BINS = 16_384


class MomentHistogram:
    """Count, sum and sum of squares of the numbers in each of 16,384 equal bins over ±reach.

    ``reach`` is a power of two and doubles when a number lies beyond it; bins then merge in pairs, so nothing is
    estimated. 0 is always a border between two bins.
    """

    def __init__(self) -> None:
        self.reach = 0.0
        self.count = 0
        self._moments = np.zeros((3, BINS))

    @property
    def width(self) -> float:
        """Width of a bin."""
        return 2 * self.reach / BINS

    def add(self, x: Array) -> None:
        """Count finite numbers of any shape."""
        flat = x.reshape(-1).astype(np.float64)
        largest = float(np.abs(flat).max(initial=0))
        if self.reach == 0 and largest > 0:
            self.reach = math.ldexp(1.0, math.frexp(largest)[1])
        while largest > self.reach:
            pairs = self._moments[:, ::2] + self._moments[:, 1::2]  # bins of twice the width, in the middle
            self._moments = np.pad(pairs, ((0, 0), (BINS // 4, BINS // 4)))
            self.reach *= 2
        width = self.width or 1.0
        index = np.minimum(np.floor(flat / width).astype(np.int64) + BINS // 2, BINS - 1)
        for power, row in enumerate(self._moments):
            row += np.bincount(index, flat**power, BINS)
        self.count += flat.size

    def error(self, levels: Array) -> Array:
        """Return the mean squared distance of the numbers to the nearest level.

        ``levels`` is (candidates, levels), rising along the last axis; the result is (candidates,). A bin belongs
        whole to the level that is nearest to most of it.
        """
        borders = (levels[:, 1:] + levels[:, :-1]) / 2
        index = np.clip(np.rint(borders / (self.width or 1.0)) + BINS // 2, 0, BINS).astype(np.int64)
        ends = np.zeros((len(levels), 1), np.int64)
        edges = np.concatenate([ends, index, ends + BINS], axis=1)
        sums = np.concatenate([np.zeros((3, 1)), np.cumsum(self._moments, axis=1)], axis=1)
        zeroth, first, second = (np.diff(row[edges], axis=1) for row in sums)
        return np.asarray((second - 2 * levels * first + levels**2 * zeroth).sum(axis=1) / self.count)

    def quantile(self, share: float) -> float:
        """Return the number below which ``share`` (0 to 1) of all lie, by interpolation within its bin."""
        below = np.concatenate([[0.0], np.cumsum(self._moments[0])])
        wanted = share * self.count
        index = min(max(int(np.searchsorted(below, wanted, "left")) - 1, 0), BINS - 1)
        inside = below[index + 1] - below[index]
        part = (wanted - below[index]) / inside if inside else 0.0
        return (index - BINS // 2 + part) * self.width


class RangeObserver:
    """Base of observers: ``observe`` batches, then read ``range`` or ``parameters``.

    Args:
        scheme: what the range is for; 8 bits, affine, per tensor by default.

    Raises:
        ValueError: if the observer cannot serve the scheme's granularity.
    """

    granularities: tuple[str, ...] = ("tensor",)

    def __init__(self, scheme: Scheme | None = None) -> None:
        self.scheme = scheme or Scheme(symmetric=False)
        if self.scheme.per not in self.granularities:
            allowed = " or ".join(repr(each) for each in self.granularities)
            raise ValueError(f"scheme.per must be {allowed} for {type(self).__name__}, not {self.scheme.per!r}")
        self.batches = 0

    def observe(self, x: Any) -> None:
        """Observe a Tensor or array.

        Raises:
            ValueError: if it is empty, not floating, or holds NaN or infinity; it does not count then.
        """
        array = floats(x)
        low, high = extremes(array, self.scheme)
        self._take(array, low, high)
        self.batches += 1

    def range(self) -> tuple[Array, Array]:
        """Return the lowest and the highest value of the range, float32.

        Raises:
            ValueError: if nothing was observed.
        """
        if not self.batches:
            raise ValueError(f"{type(self).__name__} must observe at least one batch before it knows a range")
        low, high = self._range()
        return np.asarray(low, np.float32), np.asarray(high, np.float32)

    def parameters(self) -> tuple[Array, Array]:
        """Return scale and zero point of the range, float32 and int32 of its shape, for the codes of ``scheme``."""
        return range_parameters(*self.range(), self.scheme)

    def _take(self, x: Array, low: Array, high: Array) -> None:
        del x, low, high
        raise TypeError(f"{type(self).__name__} must define _take")

    def _range(self) -> tuple[Any, Any]:
        raise TypeError(f"{type(self).__name__} must define _range")


class MinMaxObserver(RangeObserver):
    """Observer of the smallest and the largest value of all batches; nothing is clipped.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import MinMaxObserver
        >>> watcher = MinMaxObserver()
        >>> for batch in (np.array([0.0, 1.0]), np.array([-3.0, 2.0])):
        ...     watcher.observe(batch)
        >>> [float(end) for end in watcher.range()]
        [-3.0, 2.0]
    """

    granularities = ("tensor", "channel")
    low: Array
    high: Array

    def _take(self, x: Array, low: Array, high: Array) -> None:
        del x
        self.low = np.minimum(self.low, low) if self.batches else low
        self.high = np.maximum(self.high, high) if self.batches else high

    def _range(self) -> tuple[Any, Any]:
        return self.low, self.high


class _MomentObserver(RangeObserver):
    """What observers that look at all numbers of all batches have in common: extremes and a `MomentHistogram`."""

    def __init__(self, scheme: Scheme | None = None) -> None:
        super().__init__(scheme)
        self._extremes = MinMaxObserver(self.scheme)
        self._histogram = MomentHistogram()

    def _take(self, x: Array, low: Array, high: Array) -> None:
        del low, high
        self._extremes.observe(x)
        self._histogram.add(x)


class PercentileObserver(_MomentObserver):
    """Observer of the range that leaves out ``100 - percentile`` per cent of the values, half on each side.

    The percentiles are those of all batches together, to within one bin: 1/8,192 of the smallest power of two that
    is above every magnitude.

    Raises:
        ValueError: also if ``percentile`` is not above 0 and at most 100.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import PercentileObserver
        >>> watcher = PercentileObserver(percentile=90)
        >>> watcher.observe(np.append(np.linspace(-1, 1, 999), 100.0))  # one outlier
        >>> low, high = watcher.range()
        >>> bool(-1 < low < high < 1)
        True
    """

    def __init__(self, scheme: Scheme | None = None, percentile: float = 99.99) -> None:
        super().__init__(scheme)
        if not 0 < percentile <= 100:
            raise ValueError(f"percentile must be above 0 and at most 100, not {percentile}")
        self.percentile = percentile

    def _range(self) -> tuple[Any, Any]:
        outside = (1 - self.percentile / 100) / 2
        low, high = self._extremes.range()
        return (
            np.clip(self._histogram.quantile(outside), low, high),
            np.clip(self._histogram.quantile(1 - outside), low, high),
        )


class MeanSquaredErrorObserver(_MomentObserver):
    """Observer of the range with the smallest mean squared error over all observed values.

    The search goes over ranges within the extremes, first on a coarse geometric grid, then ever finer around the best,
    and measures the error of each with its real levels. Since 0 is a level of every `Scheme`, the result on N(0, 1) is
    within 0.12 dB of the best uniform quantizer with 4 bits, and 0.001 dB with 8 (J. Max, Quantizing for minimum
    distortion, IRE Transactions on Information Theory 6, 1960).

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import MeanSquaredErrorObserver, Scheme
        >>> watcher = MeanSquaredErrorObserver(Scheme(bits=4))
        >>> watcher.observe(np.random.default_rng(0).normal(size=1000).astype(np.float32))
        >>> low, high = watcher.range()
        >>> bool(high < 3)  # fewer levels for rare numbers, finer ones for all others
        True
    """

    def _levels(self, low: Array, high: Array) -> Array:
        """Return the levels (candidates, codes) of each range."""
        codes = np.arange(self.scheme.low, self.scheme.high + 1)
        scale, zero_point = range_parameters(low, high, self.scheme)
        return np.asarray((codes - zero_point[:, None]) * scale[:, None].astype(np.float64))

    def _range(self) -> tuple[Any, Any]:
        low, high = (float(value) for value in self._extremes.range())
        if low == high:
            return low, high
        if self.scheme.symmetric:
            low, high = -max(-low, high), max(-low, high)
        factors = np.geomspace(1, 1e-4, 41)
        spread = factors[0] / factors[1]
        best_low = best_high = 1.0
        for _ in range(6):
            lows, highs = best_low * factors, best_high * factors
            if self.scheme.symmetric:
                pairs = np.stack([highs, highs], axis=1)
            else:
                pairs = np.stack(np.meshgrid(lows, highs, indexing="ij"), axis=-1).reshape(-1, 2)
            pairs = np.unique(np.minimum(pairs, 1), axis=0)
            errors = self._histogram.error(self._levels(low * pairs[:, 0], high * pairs[:, 1]))
            best_low, best_high = pairs[np.argmin(errors)]
            factors = np.geomspace(spread, 1 / spread, 15)
            spread = factors[0] / factors[1]
        return low * best_low, high * best_high


class HistogramObserver(RangeObserver):
    """Observer of the range that PyTorch's HistogramObserver finds: a histogram of 2,048 bins, narrowed from both ends.

    It leaves out a hundred-thousandth of the numbers after another, each time at the end where that frees more bins,
    for as long as the expected squared error falls. The error takes the codes for equal cells over the range, with
    levels in their middles and as many of them whatever the scheme's symmetry; it does not know that 0 must be a level.
    Numbers of later batches that lie outside widen the histogram: old bins are cut in 16 and counted where these lie.

    Source: PyTorch 2.13, torch/ao/quantization/observer.py, HistogramObserver (L2 norm).

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import HistogramObserver
        >>> watcher = HistogramObserver()
        >>> watcher.observe(np.append(np.linspace(-1, 1, 9999, dtype=np.float32), np.float32(8)))
        >>> low, high = watcher.range()
        >>> bool(high < 8)
        True
    """

    low: Array
    high: Array
    bins = 2048
    _pieces = 16
    _share = 1e-5

    def _take(self, x: Array, low: Array, high: Array) -> None:
        first = not self.batches
        new_low = low if first else np.minimum(self.low, low)
        new_high = high if first else np.maximum(self.high, high)
        counts = self._counted(x.reshape(-1), np.ones(x.size), new_low, new_high)
        if not first:
            counts += self._widened(new_low, new_high)
        self.counts, self.low, self.high = counts, new_low, new_high

    def _counted(self, x: Array, weights: Array, low: Array, high: Array) -> Array:
        low_, high_ = float(low), float(high)
        if low_ == high_:
            low_, high_ = low_ - 1, high_ + 1
        position = (x.astype(np.float64) - low_) * (self.bins / (high_ - low_))
        index = np.clip(np.floor(position).astype(np.int64), 0, self.bins - 1)
        return np.bincount(index, weights, self.bins)

    def _widened(self, low: Array, high: Array) -> Array:
        if (low, high) == (self.low, self.high):
            return self.counts
        if self.low == self.high:
            return self._counted(np.atleast_1d(self.low), np.array([self.counts.sum()]), low, high)
        pieces = self.bins * self._pieces
        width = (float(self.high) - float(self.low)) / pieces
        middles = float(self.low) + (np.arange(pieces) + 0.5) * width
        return self._counted(middles, np.repeat(self.counts / self._pieces, self._pieces), low, high)

    def _error(self, start: int, end: int) -> float:
        """Return the expected squared error, in bins, of cells over the bins from ``start`` to ``end``."""
        cells = 2**self.scheme.bits
        cell = (end - start + 1) / cells
        begins = np.arange(self.bins) - start
        first = np.clip(np.floor(begins / cell), 0, cells - 1)
        last = np.clip(np.floor((begins + 1) / cell), 0, cells - 1)

        def integral(low: Any, high: Any) -> Any:
            return (high**3 - low**3) / 3

        errors = integral(begins - (first + 0.5) * cell, cell / 2)
        errors = errors + (last - first - 1) * integral(-cell / 2, cell / 2)
        errors = errors + integral(-cell / 2, begins + 1 - (last + 0.5) * cell)
        return float((errors * self.counts).sum())

    def _range(self) -> tuple[Any, Any]:
        low, high = float(self.low), float(self.high)
        if low == high:
            return low, high
        below, total = np.cumsum(self.counts), self.counts.sum()
        start, end, least = 0, self.bins - 1, np.inf
        left, right = 0.0, 1.0
        while left < right:
            next_left, next_right = left + self._share, right - self._share
            new_start = min(max(int(np.searchsorted(below, next_left * total, "left")), start), end)
            new_end = max(min(int(np.searchsorted(below, next_right * total, "right")) - 1, end), start)
            if new_start - start > end - new_end:
                left, new_end = next_left, end
            else:
                right, new_start = next_right, start
            if (new_start, new_end) == (start, end):
                continue
            error = self._error(new_start, new_end)
            if error > least:
                break
            start, end, least = new_start, new_end, error
        width = (high - low) / self.bins
        return low + width * start, low + width * (end + 1)
