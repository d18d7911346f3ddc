"""Studies of one model: its parameters, FLOPs, memory, latency, and its forward and backward pass as measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tinytorch.core.dispatch import is_observed, no_grad
from tinytorch.core.module import Parameter
from tinytorch.core.op import Array, Shape
from tinytorch.core.optimizers import SGD, Adam, Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.events.array_life import MemoryProfile, recording_memory
from tinytorch.perf.events.flops import (
    NOT_COUNTED,
    FLOPCounter,
    NotCounted,
    flops_of,
    loss_of,
    record_forward,
    record_training,
)
from tinytorch.perf.events.stream import Profile, median_profile
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.machine import Ceilings, store
from tinytorch.perf.measuring import Measurement, collector_off, current_blas_threads, measure, sample
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.model_io import MIB, callable_of, input_for, parameters_of
from tinytorch.perf.roofline.bounds import BOUNDS
from tinytorch.perf.roofline.placement import checked_threads, place

#: Samples of a pass, at most; fewer when its seconds are over, never below six.
_SAMPLES = 30
_SECONDS = 5.0
_WARMUP = 3
#: Runs that are recorded, of which the median is kept.
_FEWEST, _RECORDED = 3, 5
_RECORDED_SECONDS = 2.0

LossFunction = Callable[[Any], Tensor] | None


def count_parameters(model: Any) -> int:
    """Return how many numbers training can change: not those of frozen parameters; a shared one counts once.

    Whatever has ``parameters()`` is counted, runnable or not: Tensors and arrays in it that are no Parameters
    count in full, as nobody has frozen them. Of a model without ``parameters()`` the floating Tensors among its
    attributes are counted; a function has 0.

    Raises:
        TypeError: if ``model`` has no ``parameters()`` and cannot be run either, or one of them has no shape.
    """
    if not callable(getattr(model, "parameters", None)):
        callable_of(model)
    count = 0
    for parameter in parameters_of(model):
        plain = isinstance(parameter, Tensor) and not isinstance(parameter, Parameter)
        if plain or getattr(parameter, "requires_grad", True):
            count += math.prod(parameter.shape)
    return count


def count_flops(model: Any, given: Shape | Tensor | Array) -> int | float:
    """Return FLOPs of the forward of one sample: those of an input, or of zeros of a shape, over its batch."""
    value = input_for(model, given)
    flops = FLOPCounter().count_model_forward(model, value)
    return flops if isinstance(flops, NotCounted) else of_one_sample(int(flops), value)


def of_one_sample(flops: int, value: Tensor) -> int:
    """Return the FLOPs of one sample of ``value``, whose forward took ``flops``, to a whole number.

    The batch is not run as another one: a model may take only this one.
    """
    batch = len(value.data) if value.ndim > 1 else 1
    return (flops + batch // 2) // batch


def _unobserved(what: str) -> None:
    if is_observed():
        raise RuntimeError(f"{what} needs a run without observers: leave the `with Profiler()` block first")


def forward_latency(model: Any, value: Tensor, warmup: int, iterations: int) -> Measurement:
    """Return the wall time of a forward without gradients, in seconds, ``iterations`` samples."""
    _unobserved("latency")
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    run = callable_of(model)
    with undisturbed(model), no_grad():
        return sample(lambda: run(value), f"forward of {type(model).__name__}", warmup=warmup, runs=iterations)


def forward_memory(model: Any, value: Tensor) -> MemoryProfile:
    """Return the memory of one forward with gradients on, as in training; its output is alive at the end."""
    run = callable_of(model)
    parameters = parameters_of(model)
    with _own_gradient(value), undisturbed(model), recording_memory(value, parameters=parameters) as recorded:
        output = run(value)
    del output
    return recorded.profile


@contextmanager
def _own_gradient(value: Tensor) -> Iterator[None]:
    """Take the gradient of an input away in the body, and give it back."""
    kept, value.grad = value.grad, None
    try:
        yield
    finally:
        value.grad = kept


def memory_keys(memory: MemoryProfile) -> dict[str, float]:
    """Return a forward's memory as the ``*_mb`` keys of `Profiler.measure_memory`, in MiB."""
    at_end = memory.final
    parts = sum(at_end[part] for part in ("parameters", "buffers", "inputs", "activations", "outputs"))
    return {
        "parameter_memory_mb": at_end["parameters"] / MIB,
        "buffer_memory_mb": at_end["buffers"] / MIB,
        "input_memory_mb": at_end["inputs"] / MIB,
        "activation_memory_mb": at_end["activations"] / MIB,
        "output_memory_mb": at_end["outputs"] / MIB,
        "temporary_memory_mb": (memory.peak - parts) / MIB,
        "peak_memory_mb": memory.peak / MIB,
        "memory_efficiency": (at_end["parameters"] + at_end["activations"]) / memory.peak if memory.peak else 0.0,
    }


def plain_pass(model: Any, value: Tensor) -> dict[str, Any]:
    """Return the keys of `Profiler.profile_forward_pass` of what runs no op: time, memory, and `NotCounted`."""
    _unobserved("profile_forward_pass")
    run = callable_of(model)
    with undisturbed(model):
        latency = measure(lambda: run(value), f"call of {_name_of(model)}", repeats=_SAMPLES, at_most_seconds=_SECONDS)
    return _uncounted_keys(model, value, latency)


def _uncounted_keys(model: Any, value: Tensor, latency: Measurement) -> dict[str, Any]:
    """Return the keys of a pass whose work is not known."""
    unknown = ("flops", "batch_flops", "gflops_per_second", "memory_bandwidth_mbs", "computational_efficiency")
    return {
        "parameters": count_parameters(model),
        **dict.fromkeys((*unknown, "share_of_roof"), NotCounted()),
        "verdict": None,
        "latency_ms": latency.median * 1e3,
        "latency": latency,
        "bottleneck": NOT_COUNTED,
        **{f"is_{bound}_bound": False for bound in BOUNDS},
        **memory_keys(forward_memory(model, value)),
    }


def _name_of(model: Any) -> str:
    return getattr(model, "__name__", type(model).__name__)


def typical(record: Callable[[], Profile]) -> Profile:
    """Return the median of recorded runs, three of them, and up to five as long as two seconds are not over."""
    runs: list[Profile] = []
    began = time.perf_counter()
    while len(runs) < _FEWEST or (len(runs) < _RECORDED and time.perf_counter() - began < _RECORDED_SECONDS):
        runs.append(record())
    return median_profile(runs)


def forward_pass(model: Any, value: Tensor, ceilings: Ceilings | None) -> tuple[dict[str, Any], Profile]:
    """Return the keys of `Profiler.profile_forward_pass`, and the recorded run that was counted.

    If an op has no formula, the keys that need the work of the whole pass are `NotCounted`.
    """
    _unobserved("profile_forward_pass")
    run, threads = callable_of(model), thread_limit()
    known = store.ceilings(threads) if ceilings is None else ceilings
    checked_threads(threads, known, "this process")
    name = f"forward of {type(model).__name__}"
    with undisturbed(model), no_grad():
        latency = measure(lambda: run(value), name, repeats=_SAMPLES, at_most_seconds=_SECONDS)
    profile = typical(lambda: record_forward(model, value, timed=True))
    if profile.uncounted:
        return _uncounted_keys(model, value, latency), profile
    batch_flops = flops_of(profile)
    placed = place(name, profile.events, latency, known)
    found = placed.verdict
    keys = {
        "parameters": count_parameters(model),
        "flops": of_one_sample(batch_flops, value),
        "batch_flops": batch_flops,
        "latency_ms": latency.median * 1e3,
        "latency": latency,
        "gflops_per_second": batch_flops / latency.median * 1e-9,
        "memory_bandwidth_mbs": placed.demand.bytes / latency.median * 1e-6,
        "computational_efficiency": found.efficiency,
        "share_of_roof": placed.of_roof,
        "bottleneck": found.bottleneck,
        **{f"is_{bound}_bound": found.bottleneck is bound for bound in BOUNDS},
        "verdict": found,
        **memory_keys(forward_memory(model, value)),
    }
    return keys, profile


@dataclass(frozen=True, slots=True)
class TrainingLatency:
    """Wall times in seconds; the i-th samples of the three belong to one step."""

    forward: Measurement
    backward: Measurement
    total: Measurement


def training_latency(model: Any, value: Tensor, loss_fn: LossFunction) -> TrainingLatency:
    """Return the wall time of forward (with the loss) and of backward, measured in one step after another."""
    _unobserved("profile_backward_pass")
    run = callable_of(model)
    leaves = [*_tensors(parameters_of(model)), value]
    steps: list[tuple[int, int]] = []
    with undisturbed(model), collector_off():
        began = time.perf_counter()
        for count in range(_WARMUP + _SAMPLES):
            for leaf in leaves:
                leaf.grad = None
            start = time.perf_counter_ns()
            loss = loss_of(run(value), loss_fn)
            middle = time.perf_counter_ns()
            loss.backward()
            end = time.perf_counter_ns()
            if count >= _WARMUP:
                steps.append((middle - start, end - middle))
            if len(steps) >= 6 and time.perf_counter() - began > _SECONDS:
                break
    conditions = Conditions(
        warmup_runs=_WARMUP, inner_loops=1, collector_off=True, blas_threads=current_blas_threads() or "unknown"
    )

    def measurement(name: str, nanoseconds: Sequence[int]) -> Measurement:
        seconds = tuple(ns * 1e-9 for ns in nanoseconds)
        return with_between_run_spread(Measurement(f"{name} of {type(model).__name__}", seconds, "s", conditions))

    return TrainingLatency(
        measurement("recorded forward", [forward for forward, _ in steps]),
        measurement("backward", [backward for _, backward in steps]),
        measurement("forward and backward", [forward + backward for forward, backward in steps]),
    )


def training_memory(model: Any, value: Tensor, loss_fn: LossFunction) -> tuple[MemoryProfile, dict[str, int]]:
    """Return the memory of one forward and backward, and bytes of state of each optimizer.

    The state is that of SGD, SGD with momentum and Adam after a real step on copies of the parameters.
    """
    run, parameters = callable_of(model), parameters_of(model)
    with _own_gradient(value), undisturbed(model):
        with recording_memory(value, parameters=parameters) as recorded:
            loss_of(run(value), loss_fn).backward()
        trained = [each for each in _tensors(parameters) if each.requires_grad]
        states = dict.fromkeys(_OPTIMIZERS, 0)
        for name, make in _OPTIMIZERS.items() if trained else ():
            copies = [Parameter(each.data) for each in trained]
            for copied, each in zip(copies, trained, strict=True):
                copied.grad = each.grad
            optimizer = make(copies)
            optimizer.step()
            states[name] = optimizer.state_nbytes()
        return recorded.profile, states


def _tensors(parameters: Sequence[Any]) -> list[Tensor]:
    return [each for each in parameters if isinstance(each, Tensor)]


_OPTIMIZERS: dict[str, Callable[[list[Parameter]], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters),
    "sgd_momentum": lambda parameters: SGD(parameters, momentum=0.9),
    "adam": lambda parameters: Adam(parameters),
}


def backward_pass(model: Any, value: Tensor, loss_fn: LossFunction) -> tuple[dict[str, Any], Profile]:
    """Return what `Profiler.profile_backward_pass` returns, and the recorded run that it counted."""
    with _own_gradient(value):
        latency = training_latency(model, value, loss_fn)
        value.grad = None
        profile = typical(lambda: record_training(model, value, loss_fn, timed=True))
    memory, states = training_memory(model, value, loss_fn)
    forward, backward = flops_of(profile, "forward"), flops_of(profile, "backward")
    phases = [event.phase for event in memory.run.events]

    def grown(phase: str) -> float:
        peaks = [step.peak for step, ran in zip(memory.steps, phases, strict=True) if ran == phase]
        return (max(peaks) - memory.standing) / MIB

    keys = {
        "forward_flops": forward,
        "backward_flops": backward,
        "total_flops": forward + backward,
        "forward_latency_ms": latency.forward.median * 1e3,
        "backward_latency_ms": latency.backward.median * 1e3,
        "total_latency_ms": latency.total.median * 1e3,
        "latency": latency,
        "forward_memory_mb": grown("forward"),
        "backward_memory_mb": grown("backward"),
        "total_memory_mb": memory.peak / MIB,
        "parameter_memory_mb": memory.highest["parameters"] / MIB,
        "activation_memory_mb": memory.highest["activations"] / MIB,
        "gradient_memory_mb": memory.final["gradients"] / MIB,
        "temporary_memory_mb": memory.temporary / MIB,
        "peak_memory_mb": memory.peak / MIB,
        "optimizer_memory_mb": {name: nbytes / MIB for name, nbytes in states.items()},
        "optimizer_state_mb": states["adam"] / MIB,
        "optimizer": "adam",
    }
    return keys, profile
