"""Three bottlenecks of the zoo's models: found in a recording, predicted by Amdahl's law, fixed, and proven fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dispatch import implementations, no_grad
from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.variants import Variant, sorting_generation
from tinytorch.perf.events.stream import Profile
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import interleave
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.judge import corrected
from tinytorch.perf.measuring.measurement import CONFIDENCE
from tinytorch.perf.profiling.breakdown import amdahl_of_parts
from tinytorch.perf.profiling.shares import recordings

_WARMUP_SECONDS = 0.2
_BATCH = 64
_PAIRS = 30
#: Recordings that a prediction is made of, with and without the fix.
_RECORDINGS = 9
#: Comparisons that a reader takes together, one of each bottleneck.
_TOGETHER = 3


@dataclass(frozen=True)
class Bottleneck:
    """One bottleneck: what was found, and what fixing it did.

    Attributes:
        model: of the zoo; ``found`` says what took the time, ``fix`` what was done.
        predicted: speedup of the whole by Amdahl's law, see `forecast`; computed, not observed.
        comparison: of the times of a call before and after, taken in turns.
        error: largest difference of a result, relative to the largest result.
    """

    model: str
    found: str
    fix: str
    predicted: float
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

    after()  # compiles
    return _fixed("cnn", "convolutions", "a compiled kernel", before, after)


def one_by_one() -> Bottleneck:
    """The MLP asked for one image after the other: most of each call is between operations; a batch pays it once."""
    model, images = models.trained("mlp"), models.entry("mlp").example_input(_BATCH)

    def before() -> Array:
        with no_grad():
            return np.concatenate([model(models.as_input(images[i : i + 1])).data for i in range(_BATCH)])

    def after() -> Array:
        with no_grad():
            return np.asarray(model(models.as_input(images)).data)

    return _fixed("mlp", "time between operations", "a batch instead of a loop", before, after)


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

    return _fixed("gpt", "arithmetic done again", "a key-value cache", before, after)


def forecast(before: Sequence[Profile], after: Sequence[Profile]) -> float:
    """Return the speedup of a whole of two parts by Amdahl's law, from recordings with and without a fix.

    The time in operations becomes what those of the fixed run take by themselves. The time between them is not asked:
    it is taken to fall as their number does.
    """
    old, new = (float(np.median([one.op_seconds for one in each])) for each in (before, after))
    whole = float(np.median([one.wall_seconds for one in before]))
    calls = len(after[0].events) / len(before[0].events)
    return amdahl_of_parts((whole - old, old), (calls, new / old))


def bottlenecks() -> list[Bottleneck]:
    """Return all three."""
    return [slow_convolution(), one_by_one(), read_again()]


def _fixed(
    model: str,
    found: str,
    fix: str,
    before: Callable[[], Array],
    after: Callable[[], Array],
) -> Bottleneck:
    predicted = forecast(recordings(before, _RECORDINGS), recordings(after, _RECORDINGS))
    right, now = before().astype(np.float64), after().astype(np.float64)
    error = float(np.abs(now - right).max() / np.abs(right).max())
    both = interleave({"before": before, "after": after}, repeats=_PAIRS, warmup_seconds=_WARMUP_SECONDS)
    confidence = corrected(CONFIDENCE, _TOGETHER)
    comparison = replace(compare_paired(both["before"], both["after"], confidence=confidence), compared=_TOGETHER)
    return Bottleneck(model, found, fix, predicted, comparison, error)
