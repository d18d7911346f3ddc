"""Techniques by workload: a model's forward pass with each of them, against NumPy, in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Implementation, Op
from tinytorch.perf.acceleration.climbing import ops_of, under
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.host.blas import ThreadSwitch
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import Measurement, blas_threads, interleave
from tinytorch.perf.measuring.comparison import FASTER, SLOWER, Comparison, compare_all
from tinytorch.perf.quantization import quantize_model

#: What each technique is called.
BASELINE = "NumPy"
KERNELS = "compiled kernels"
FUSED = "a plan"
CODES = "8-bit layers"
CORES = "a plan on two cores"


@dataclass(frozen=True)
class Tried:
    """A workload's forward pass, run in every way.

    Attributes:
        workload: its name.
        times: seconds of a pass, by technique, `BASELINE` among them; taken in turns.
        gained: how many times faster than NumPy, by technique.
    """

    workload: str
    times: Mapping[str, Measurement]
    gained: Mapping[str, Comparison]

    @property
    def fastest(self) -> tuple[str, ...]:
        """Techniques that are proven faster than NumPy, and than which the fastest median is not; else `BASELINE`.

        Where several are named, this run cannot tell which of them is the fastest.
        """
        faster = [name for name, one in self.gained.items() if one.verdict == FASTER]
        if not faster:
            return (BASELINE,)
        first, *others = sorted(faster, key=lambda name: self.times[name].median)
        beside = compare_all(self.times[first], *[self.times[name] for name in others]) if others else {}
        return (first, *[name for name in others if beside[name].verdict != SLOWER])


def forward_pass(model: Module, inputs: Any) -> Callable[[], Any]:
    """Return a call that runs ``model`` in eval mode without recording gradients."""
    model.eval()

    def run() -> Any:
        with no_grad():
            return model(inputs)

    return run


def with_kernels(run: Callable[[], Any]) -> Callable[[], Any]:
    """Return ``run`` with the compiled kernel of each op that it makes.

    Unlike `accelerated`, which selects all there are, this costs a short call no more than `with_references` does.
    """
    compiled = kernel_implementations()
    return under(run, {op: compiled[op] for op in ops_of(run) if op in compiled})


def with_references(run: Callable[[], Any]) -> Callable[[], Any]:
    """Return ``run`` with NumPy's implementation of each op that it makes."""
    chosen: dict[Op, Implementation] = {op: op.reference for op in ops_of(run)}
    return under(run, chosen)


def with_threads(run: Callable[[], Any], count: int) -> Callable[[], Any]:
    """Return ``run`` on ``count`` threads of BLAS and kernels, cheap to switch: the BLAS is looked up only now."""
    switch = ThreadSwitch()

    def on_threads() -> Any:
        give_back = switch.set(count)
        try:
            return run()
        finally:
            give_back()

    return on_threads


def try_techniques(
    workload: str, model: Module, inputs: Any, *, repeats: int = 15, at_most_seconds: float = 3.0
) -> Tried:
    """Return a forward pass of ``model`` in every way that there is here, on one thread unless it says otherwise.

    A second core is tried where the process may use one.
    """
    fused = forward_pass(plan(model, inputs), inputs)
    plain = forward_pass(model, inputs)
    runs = {
        BASELINE: with_references(plain),
        KERNELS: with_kernels(plain),
        FUSED: fused,
        CODES: forward_pass(quantize_model(model), inputs),
    }
    if len(usable_cores()) > 1:
        runs[CORES] = with_threads(fused, 2)
    with blas_threads(1):
        times = interleave(runs, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=0.2)
    return Tried(workload, times, compare_all(times[BASELINE], *[times[name] for name in runs if name != BASELINE]))
