"""Techniques by workload: what a model's forward pass takes, holds and errs with each of them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Implementation, Op
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.acceleration.greedy_search import ops_of, under
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.host.blas import ThreadSwitch
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import Counted, Measurement, blas_threads, interleave
from tinytorch.perf.measuring.comparison import Comparison, compare_all
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.quantization import quantize_model
from tinytorch.perf.quantization.convert import stored_bytes

#: What each technique is called.
BASELINE = "NumPy"
KERNELS = "compiled kernels"
FUSED = "a plan"
CODES = "8-bit layers"


@dataclass(frozen=True)
class Tried:
    """A workload's forward pass, run in every way.

    Attributes:
        workload: its name.
        times: seconds of a pass, by technique, `BASELINE` among them; taken in turns.
        gained: how many times faster than NumPy, by technique.
        held: bytes that a technique keeps between passes: the model's weights, and what it made of them.
        errors: largest difference of the output from NumPy's, over NumPy's largest number.
    """

    workload: str
    times: Mapping[str, Measurement]
    gained: Mapping[str, Comparison]
    held: Mapping[str, Counted]
    errors: Mapping[str, Counted]

    @property
    def fastest_named(self) -> str:
        """The names in `fastest`, in words."""
        return " or ".join(self.fastest)

    @property
    def fastest(self) -> tuple[str, ...]:
        """Techniques that are proven faster than NumPy, and than which the fastest median is not; else `BASELINE`.

        Where several are named, none of them is proven slower than the first.
        """
        faster = [name for name, one in self.gained.items() if one.verdict == Verdict.FASTER]
        if not faster:
            return (BASELINE,)
        first, *others = sorted(faster, key=lambda name: self.times[name].median)
        beside = compare_all(self.times[first], *[self.times[name] for name in others], matters=0.05) if others else {}
        return (first, *[name for name in others if beside[name].verdict != Verdict.SLOWER])


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


def try_techniques(workload: str, model: Module, inputs: Any, *, at_most_seconds: float = 4.0) -> Tried:
    """Return the times of a forward pass of ``model`` with each available technique, on one thread.

    Examples:
        >>> from tinytorch.models import example, mlp
        >>> from tinytorch.perf.acceleration.techniques import try_techniques
        >>> found = try_techniques("mlp", mlp().eval(), example("mlp", 4), at_most_seconds=0.1)
        >>> list(found.times)
        ['NumPy', 'compiled kernels', 'a plan', '8-bit layers']
    """
    makes: dict[str, Callable[[], Module]] = {FUSED: lambda: plan(model, inputs), CODES: lambda: quantize_model(model)}
    with undisturbed(model), blas_threads(1):
        plain = forward_pass(model, inputs)
        made = {name: _made(make, inputs) for name, make in makes.items()}
        runs = {BASELINE: with_references(plain), KERNELS: with_kernels(plain)}
        runs |= {name: forward_pass(one, inputs) for name, (one, _) in made.items()}
        outputs = {name: run().data for name, run in runs.items()}
        times = interleave(runs, resolve=0.05, at_most_seconds=at_most_seconds, warmup_seconds=0.1)
    weights, largest = stored_bytes(model), float(np.abs(outputs[BASELINE]).max())
    held = {BASELINE: weights, KERNELS: weights, FUSED: weights + made[FUSED][1], CODES: made[CODES][1]}
    errors = {name: float(np.abs(found - outputs[BASELINE]).max()) / largest for name, found in outputs.items()}
    gained = compare_all(times[BASELINE], *[times[name] for name in runs if name != BASELINE], matters=0.05)
    return Tried(
        workload,
        times,
        gained,
        {name: Counted(size, "B", f"bytes kept between passes, {name}") for name, size in held.items()},
        {name: Counted(error, "%", f"largest error over the largest number, {name}") for name, error in errors.items()},
    )


def _made(make: Callable[[], Module], inputs: Any) -> tuple[Module, int]:
    """Return what ``make`` makes, which has run once, and the bytes that it keeps."""

    def ready() -> Module:
        made = make()
        forward_pass(made, inputs)()
        return made

    ready()  # what is made once in a process is no technique's
    memory = MemoryProfiler().profile(ready, calls=1)
    return memory["result"], round(memory["allocated_mb"] * MIB)
