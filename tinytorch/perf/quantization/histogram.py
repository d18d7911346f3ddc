"""What a stream of numbers looks like, in bounded memory: counts and moments in equal bins around 0."""

from __future__ import annotations

import math

import numpy as np

from tinytorch.core.op import Array

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
            self._moments = _merged(self._moments)
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


def _merged(moments: Array) -> Array:
    """Return the bins of twice the width, the same place in the middle."""
    pairs = moments[:, ::2] + moments[:, 1::2]
    wide = np.zeros_like(moments)
    wide[:, BINS // 4 : BINS // 4 + BINS // 2] = pairs
    return wide
