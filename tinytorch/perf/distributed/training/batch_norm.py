"""Batch normalization over ranks: statistics of the whole batch, of which each rank has a part."""

from __future__ import annotations

import copy

import numpy as np

from tinytorch.core.dispatch import apply
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.ops.layout import channels_first, channels_last
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.ranks.communicator import Communicator


def _forward(
    keep: bool,
    x: Array,
    weight: Array,
    bias: Array,
    *,
    epsilon: float,
    communicator: Communicator,
    statistics: list[Array],
) -> tuple[Array, Saved]:
    """Normalize (N, C, H, W) by the statistics of all parts; append mean and unbiased variance, (C,) each."""
    maps = channels_last(x)
    rows = maps.reshape(-1, maps.shape[-1])
    # In float64, because the count may be large; the variance is summed around the mean that all ranks share.
    told = communicator.all_reduce(np.append(rows.sum(axis=0, dtype=np.float64), len(rows)))
    mean, count = told[:-1] / told[-1], int(told[-1])
    centred = rows - mean.astype(rows.dtype)
    variance = communicator.all_reduce(np.einsum("ij,ij->j", centred, centred, dtype=np.float64)) / count
    statistics += [mean.astype(x.dtype), (variance * (count / max(count - 1, 1))).astype(x.dtype)]
    inverse = (1 / np.sqrt(variance + epsilon)).astype(rows.dtype)
    centred *= inverse
    output = centred * weight
    output += bias
    return channels_first(output.reshape(maps.shape)), (centred, inverse, weight, count, communicator) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Return the gradients; those of weight and bias are of this rank's part, as all parameters' are."""
    del owned
    normal, inverse, weight, count, communicator = saved
    maps = channels_last(gradient)
    rows = maps.reshape(-1, maps.shape[-1])
    along, sums = np.einsum("ij,ij->j", rows, normal), rows.sum(axis=0)
    down = None
    if needs[0]:
        of_all = communicator.all_reduce(np.stack([along, sums]))
        down = rows - normal * (of_all[0] / count)
        down -= of_all[1] / count
        down *= weight * inverse
        down = channels_first(down.reshape(maps.shape))
    return down, along if needs[1] else None, sums if needs[2] else None


def _work(call: Call) -> Work:
    """As batch normalization of one process: forward 7 an element, backward 8 and the sums."""
    size = call.output.size
    if call.phase == "forward":
        return Work(elementwise=7 * size)
    return Work(elementwise=8 * size * call.needs[0] + 2 * size * call.needs[1] + size * call.needs[2])


batch_norm_over_ranks = Op("batch_norm_over_ranks", _forward, _backward, _work)


class SynchronizedBatchNorm2d(BatchNorm2d):
    """`BatchNorm2d` whose batch is that of all ranks; it takes over the parameters and buffers of ``single``."""

    def __init__(self, single: BatchNorm2d, communicator: Communicator) -> None:
        vars(self).update(vars(single))
        self._communicator = communicator

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized input, of the same shape; all ranks call it together in train mode."""
        if not self.training:
            return super().forward(x)
        statistics: list[Array] = []
        output = apply(
            batch_norm_over_ranks,
            x,
            self.weight,
            self.bias,
            epsilon=self.eps,
            communicator=self._communicator,
            statistics=statistics,
        )
        for running, batch in zip((self.running_mean, self.running_var), statistics, strict=True):
            running.data *= 1 - self.momentum
            running.data += self.momentum * batch
        return output


def synchronized(model: Module, communicator: Communicator) -> Module:
    """Return a copy of ``model`` in which each `BatchNorm2d` is one over all ranks."""
    made = {
        id(module): SynchronizedBatchNorm2d(copy.deepcopy(module), communicator)
        for _, module in model.named_modules()
        if isinstance(module, BatchNorm2d)
    }
    # What deepcopy finds in its memo it takes for copied already.
    return copy.deepcopy(model, dict(made))
