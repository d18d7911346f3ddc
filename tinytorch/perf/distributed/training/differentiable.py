"""Communication that autograd can pass: each op's backward is the communication that its forward asks for.

What all ranks hold alike has one gradient, the sum of what each rank contributes. Source: M. Shoeybi et al.,
Megatron-LM, 2019 (arXiv:1909.08053), section 3, where the first two are called f and g.
"""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work, no_traffic
from tinytorch.perf.distributed.ranks.communicator import Communicator


def _copy_forward(keep: bool, x: Array, *, communicator: Communicator) -> tuple[Array, Saved]:
    """Hand on what all ranks hold alike; the gradient is the sum of the ranks'."""
    return x, (communicator,) if keep else ()


def _copy_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del needs, owned
    communicator: Communicator = saved[0]
    return (communicator.all_reduce(gradient),)


def _sum_forward(keep: bool, x: Array, *, communicator: Communicator) -> tuple[Array, Saved]:
    """Add up the ranks' arrays; every rank goes on alike with the sum, so its gradient is each one's."""
    del keep
    return communicator.all_reduce(x), ()


def _sum_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del saved, needs, owned
    return (gradient,)


def _joined(x: Array, communicator: Communicator) -> Array:
    """Return the ranks' arrays joined along the last axis."""
    stacked = communicator.all_gather(x[None])
    return np.concatenate(list(stacked), axis=-1)


def own_part(whole: Array, communicator: Communicator) -> Array:
    """Return this rank's part of the last axis, a view.

    Raises:
        ValueError: if the axis is no multiple of the ranks.
    """
    if whole.shape[-1] % communicator.size:
        raise ValueError(f"the last axis must be a multiple of {communicator.size} ranks, but is {whole.shape[-1]}")
    part = whole.shape[-1] // communicator.size
    return whole[..., part * communicator.rank : part * (communicator.rank + 1)]


def _gather_forward(keep: bool, x: Array, *, communicator: Communicator) -> tuple[Array, Saved]:
    """Join the ranks' columns; every rank goes on alike, so each one's gradient is its part."""
    return _joined(x, communicator), (communicator,) if keep else ()


def _gather_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del needs, owned
    return (np.ascontiguousarray(own_part(gradient, saved[0])),)


def _own_forward(keep: bool, x: Array, *, communicator: Communicator) -> tuple[Array, Saved]:
    """Take this rank's columns of what all hold alike; the gradient joins the ranks'."""
    return np.ascontiguousarray(own_part(x, communicator)), (communicator,) if keep else ()


def _own_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del needs, owned
    return (_joined(gradient, saved[0]),)


def _no_work(call: Call) -> Work:
    """Return nothing: what a reduction adds is counted by the collective that runs inside."""
    del call
    return Work()


copy_to_ranks = Op("copy_to_ranks", _copy_forward, _copy_backward, _no_work, no_traffic)
sum_over_ranks = Op("sum_over_ranks", _sum_forward, _sum_backward, _no_work, no_traffic)
gather_columns = Op("gather_columns", _gather_forward, _gather_backward, _no_work)
own_columns = Op("own_columns", _own_forward, _own_backward, _no_work)
