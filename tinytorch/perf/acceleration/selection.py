"""Selection of the compiled kernels for every op that has one: any model, forward and backward, unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinytorch.core.dispatch import implementations
from tinytorch.core.optimizers import step_rules
from tinytorch.perf.kernels.registry import kernel_implementations, kernel_step_rules


@contextmanager
def accelerated() -> Iterator[None]:
    """Run the body with the compiled kernels, also for the optimizers' steps; works as a decorator too.

    A kernel is compiled at its first call, or read from disk where an earlier process compiled it. A backward runs
    the implementation whose forward ran, also after the body.
    """
    with implementations(kernel_implementations()), step_rules(kernel_step_rules()):
        yield
