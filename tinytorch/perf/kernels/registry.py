"""The registry of kernels: the compiled implementation of each op that has one, and who runs it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from tinytorch.core import ops
from tinytorch.core.contexts import contextmanager
from tinytorch.core.dispatch import implementations
from tinytorch.core.op import Array, Implementation, Op, Saved
from tinytorch.core.optimizers import StepRules, step_rules
from tinytorch.perf.measuring.memory import uncounted

_ONE_LOOP = "one vectorized loop, forward and backward"
_A_VIEW = "copies no element"
#: Core ops without a kernel, and why NumPy is as good.
AS_GOOD_IN_NUMPY: dict[Op, str] = {
    **dict.fromkeys((ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative), _ONE_LOOP),
    **dict.fromkeys((ops.exp, ops.log, ops.sqrt), _ONE_LOOP),
    **dict.fromkeys((ops.reshape, ops.transpose), _A_VIEW),
    ops.powers: "one loop over a function of the C library",
    ops.absolute: "one vectorized loop, and two backward",
    ops.maximum: "one vectorized loop; models have none whose gradient takes long",
    ops.where: "one loop at the speed of memory",
    ops.cast: "one loop at the speed of memory",
    ops.concatenate: "copies at the speed of memory",
    ops.getitem: "a view, or a copy at the speed of memory",
    ops.matmul: "calls BLAS, which is as fast as our own product",
    ops.sum_: "adds in vectors at the speed of memory",
    ops.mean: "adds in vectors at the speed of memory",
}


@cache
def kernel_implementations() -> dict[Op, Implementation]:
    """Return the compiled implementation of each op that has one. The first call imports Numba: half a second."""
    with uncounted():
        from tinytorch.perf.kernels import (
            convolution,
            decoding,
            linear,
            normalization,
            pointwise,
            pooling,
            row_ops,
            sparse,
            weight_only,
        )
        from tinytorch.perf.kernels.attention import implementations as attention
        from tinytorch.perf.kernels.int8 import convolution as int8_convolution
        from tinytorch.perf.kernels.int8 import matmul as int8_matmul

    families = (linear, convolution, pooling, normalization, row_ops, pointwise, attention, decoding, sparse)
    found: dict[Op, Implementation] = {}
    for family in (*families, int8_matmul, int8_convolution, weight_only):
        found.update(family.IMPLEMENTATIONS)
    return found


def kernel_step_rules() -> StepRules:
    """Return the compiled steps of the optimizers."""
    with uncounted():
        from tinytorch.perf.kernels.optimizers import RULES

    return RULES


def run_by_kernel(*ops: Op) -> None:
    """Let ops run their kernel unless another implementation is selected: those that exist for its sake.

    The kernel is looked up when the op first runs, so that a program that never runs it does not import Numba. The
    reference in NumPy stays selectable: ``dispatch.implementations({op: op.reference})``.
    """
    for op in ops:
        op.default = _found_when_run(op)


def _found_when_run(op: Op) -> Implementation:
    def forward(keep: bool, *arrays: Any, **params: Any) -> tuple[Array, Saved]:
        return kernel_implementations()[op].forward(keep, *arrays, **params)

    return Implementation("numba", forward, op.reference.backward)


@contextmanager
def accelerated() -> Iterator[None]:
    """Run the body with the compiled kernels, also for the optimizers' steps; works as a decorator too.

    A kernel is compiled at its first call, or read from disk where an earlier process compiled it. A backward runs
    the implementation whose forward ran, also after the body. Other threads and tasks run what they have chosen.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.acceleration import accelerated
        >>> model, x = Linear(8, 4, seed=0), Tensor([[1.0] * 8])
        >>> with accelerated():
        ...     y = model(x)
        >>> np.allclose(y.numpy(), model(x).numpy(), atol=1e-6)
        True
    """
    with implementations(kernel_implementations()), step_rules(kernel_step_rules()):
        yield
