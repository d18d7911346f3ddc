"""Select the compiled kernels for every op that has one: any model, forward and backward, unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from tinytorch.core import dispatch
from tinytorch.core.op import Implementation, Op
from tinytorch.core.optimizers import step_rules

#: Modules of `tinytorch.perf.kernels`, each with a mapping ``IMPLEMENTATIONS`` from an op to the kernel for it.
_FAMILIES = (
    "decoding",
    "linear",
    "pointwise",
    "softmax",
    "layer_norm",
    "cross_entropy",
    "dropout",
    "fused_rows",
    "attention_ops",
    "convolution_ops",
    "batch_norm",
    "pooling",
)


@cache
def kernel_implementations() -> dict[Op, Implementation]:
    """Return the compiled implementation of each op that has one.

    Raises:
        ModuleNotFoundError: if Numba, which compiles them, is not installed.
    """
    try:
        import_module("numba")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the compiled kernels need Numba, which is not installed: pip install numba, or run without accelerated()"
        ) from error
    chosen: dict[Op, Implementation] = {}
    for family in _FAMILIES:
        chosen.update(import_module(f"tinytorch.perf.kernels.{family}").IMPLEMENTATIONS)
    return chosen


@contextmanager
def accelerated() -> Iterator[None]:
    """Run the body with the compiled kernels, also for the optimizers' steps; works as a decorator too.

    A kernel is compiled at its first call, or read from disk where an earlier process compiled it. A backward runs
    the implementation whose forward ran, also after the body.

    Raises:
        ModuleNotFoundError: if Numba, which compiles them, is not installed.
    """
    chosen = kernel_implementations()
    rules = import_module("tinytorch.perf.kernels.optimizers").RULES
    with dispatch.implementations(chosen), step_rules(rules):
        yield
