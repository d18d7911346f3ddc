"""Summing gradients over ranks bucket by bucket, begun while the backward still makes those of earlier layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.ranks.communicator import Pending
from tinytorch.perf.distributed.training.buckets import Bucket


class Exchange(Protocol):
    """How a bucket's gradients are summed over ranks."""

    def room(self, number: int) -> Array:
        """Return the flat array that bucket ``number``'s gradients go to; its padding is zero."""

    def begin(self, number: int, flat: Array) -> Pending:
        """Begin to sum it."""


class GradientSum:
    """One step's gradients on their way: `ready` hears of each one, `finish` returns when all sums are there.

    A bucket begins once all of its gradients are there and all buckets before it have begun: MPI takes the first call
    on one rank for the first on every other.
    """

    def __init__(self, buckets: Sequence[Bucket], exchange: Exchange, overlap: bool) -> None:
        self._buckets, self._exchange, self._overlap = buckets, exchange, overlap
        self._place = {
            id(parameter): number for number, bucket in enumerate(buckets) for parameter in bucket.parameters
        }
        self._missing = [{id(parameter) for parameter in bucket.parameters} for bucket in buckets]
        self._begun: list[Pending] = []
        #: Ids of the parameters that had a gradient on this rank; complete after `finish`.
        self.used: set[int] = set()

    def ready(self, leaf: Tensor) -> None:
        """Hear that a leaf's gradient is whole; begin what can begin, and move on what has begun."""
        number = self._place.get(id(leaf))
        if number is None or not self._overlap:
            return
        self._missing[number].discard(id(leaf))
        while len(self._begun) < len(self._buckets) and not self._missing[len(self._begun)]:
            self._begin_next()
        for pending in self._begun:
            if not pending.arrived:
                pending.done()
                break  # they end in their order

    def finish(self) -> list[Array]:
        """Return each bucket's sum; begin those whose gradients did not all come, which count as zero."""
        while len(self._begun) < len(self._buckets):
            self._begin_next()
        return [pending.wait() for pending in self._begun]

    def _begin_next(self) -> None:
        number = len(self._begun)
        bucket = self._buckets[number]
        flat = self._exchange.room(number)
        for parameter, part in bucket.views(flat):
            if parameter.grad is None:
                part[...] = 0
            else:
                part[...] = parameter.grad
                self.used.add(id(parameter))
                parameter.grad = None  # its memory may serve the next layer's
        self._begun.append(self._exchange.begin(number, flat))
