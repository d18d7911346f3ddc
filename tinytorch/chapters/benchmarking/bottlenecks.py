"""Three bottlenecks of the zoo's models: found in a recording, predicted by Amdahl's law, fixed, and proven fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dispatch import implementations, no_grad
from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.variants import Variant, sorting_generation
from tinytorch.perf.events.flops import flops_of
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import Measurement, interleave, quantity
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.judge import corrected
from tinytorch.perf.measuring.measurement import CONFIDENCE
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.profiling.shares import shares, time_between_ops

_WARMUP_SECONDS = 0.2
_BATCH = 64
_PAIRS = 30
#: Comparisons that a reader takes together, one of each bottleneck.
_TOGETHER = 3


@dataclass(frozen=True)
class Bottleneck:
    """One bottleneck: what was found, and what fixing it did.

    Attributes:
        model: of the zoo; ``found`` says what took the time, ``fix`` what was done.
        share: of the time, or of the arithmetic, that was found to be in it, 0 to 1.
        predicted: speedup of the whole by Amdahl's law; computed, not observed.
        before, after: seconds of a call, taken in turns.
        comparison: of the two.
        error: largest difference of a result, relative to the largest result.
    """

    model: str
    found: str
    fix: str
    share: Measurement
    predicted: float
    before: Measurement
    after: Measurement
    comparison: Comparison
    error: float


def slow_convolution() -> Bottleneck:
    """The CNN's convolutions: windows copied for a product in NumPy; a compiled kernel reads them in place.

    Raises:
        ModuleNotFoundError: if Numba, which compiles the kernel, is not installed.
    """
    model, inputs = models.trained("cnn"), models.example("cnn", _BATCH)
    compiled = {ops.conv2d: kernel_implementations()[ops.conv2d]}

    def before() -> Array:
        with no_grad():
            return np.asarray(model(inputs).data)

    def after() -> Array:
        with implementations(compiled):
            return before()

    def convolutions() -> Measurement:
        return shares(before, {"convolutions": lambda event: event.op == "conv2d"})["convolutions"]

    after()  # compiles
    share, between = convolutions(), time_between_ops(before).median
    predicted = amdahl(share.median * (1 - between), _conv_speedup(before, after))
    return _fixed("cnn", "convolution", "a compiled kernel for that operation", share, predicted, before, after)


def _conv_speedup(before: Callable[[], Any], after: Callable[[], Any], repeats: int = 15) -> float:
    """Return how many times as fast convolutions become, the median of several pairs of recordings in turns."""
    return float(np.median([_conv_ns(before) / _conv_ns(after) for _ in range(repeats)]))


def _conv_ns(run: Callable[[], Any]) -> int:
    """Return the nanoseconds of convolutions in a run."""
    with recording() as recorded:
        run()
    return sum(event.self_ns for event in recorded.profile.events if event.op == "conv2d")


def one_by_one() -> Bottleneck:
    """The MLP asked for one image after the other: most of each call is between operations; a batch pays it once."""
    model, images = models.trained("mlp"), models.entry("mlp").example_input(_BATCH)

    def before() -> Array:
        with no_grad():
            return np.concatenate([model(models.as_input(images[i : i + 1])).data for i in range(_BATCH)])

    def after() -> Array:
        with no_grad():
            return np.asarray(model(models.as_input(images)).data)

    share = time_between_ops(before)
    predicted = amdahl(share.median, _BATCH)
    return _fixed("mlp", "time between operations", "one batch instead of a loop", share, predicted, before, after)


def read_again() -> Bottleneck:
    """The GPT that writes ten tokens, and reads the whole text again for each; a key-value cache remembers it."""
    task = sorting_generation()
    prompts = task.batch(8)
    model = models.trained("gpt")
    plain, cached = Variant("uncached", model), Variant("cached", model, cached=True)

    def before() -> Array:
        return plain.call(task, prompts)

    def after() -> Array:
        return cached.call(task, prompts)

    again = 1 - _flops(after) / _flops(before)
    share = quantity(again, "%", "arithmetic that repeats")
    predicted = amdahl(again, np.inf)
    return _fixed("gpt", "arithmetic done again", "a key-value cache", share, predicted, before, after)


def _flops(run: Callable[[], Any]) -> int:
    with recording() as recorded:
        run()
    return flops_of(recorded.profile)


def bottlenecks() -> list[Bottleneck]:
    """Return all three."""
    return [slow_convolution(), one_by_one(), read_again()]


def _fixed(
    model: str,
    found: str,
    fix: str,
    share: Measurement,
    predicted: float,
    before: Callable[[], Array],
    after: Callable[[], Array],
) -> Bottleneck:
    right, now = before().astype(np.float64), after().astype(np.float64)
    error = float(np.abs(now - right).max() / np.abs(right).max())
    both = interleave({"before": before, "after": after}, repeats=_PAIRS, warmup_seconds=_WARMUP_SECONDS)
    confidence = corrected(CONFIDENCE, _TOGETHER)
    comparison = replace(compare_paired(both["before"], both["after"], confidence=confidence), compared=_TOGETHER)
    return Bottleneck(model, found, fix, share, predicted, both["before"], both["after"], comparison, error)
