"""Three bottlenecks of the zoo's models: found in a recording, predicted by Amdahl's law, fixed, and proven fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dispatch import implementations, no_grad
from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.variants import Variant, sorting_generation
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import Measurement, interleave, own_loop
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import of_interleaved, of_sides
from tinytorch.perf.measuring.judge import bonferroni
from tinytorch.perf.measuring.measurement import CONFIDENCE
from tinytorch.perf.profiling.breakdown import amdahl_of_parts
from tinytorch.perf.profiling.shares import WARM_RUNS, recordings_in_turns

_WARMUP_SECONDS = 0.2
_BATCH = 64
_PAIRS = 40
#: Recordings that a prediction is made of, with and without the fix: as many as the judge needs to rule out noise that
#: wanders in most series that do not.
_RECORDINGS = 40
#: Comparisons that a reader takes together, one of each bottleneck.
TOGETHER = 3


@dataclass(frozen=True)
class Forecast:
    """Amdahl's law for a fix: a run of two parts, the time in operations and that between them, without and with it.

    The time in operations becomes what those of the fixed run take by themselves. The time between them is not asked:
    it is taken to fall as their number does.

    Attributes:
        operations: how many the run makes, without and with the fix.
        between: seconds of the run without the fix that pass between operations.
        inside: seconds in operations, without and with the fix.
    """

    operations: tuple[int, int]
    between: Measurement
    inside: tuple[Measurement, Measurement]

    @property
    def fewer(self) -> float:
        """Operations without the fix over those with it."""
        return self.operations[0] / self.operations[1]

    @property
    def before(self) -> Measurement:
        """Seconds of the run without the fix."""
        return self._seconds("recorded run", lambda between, inside, _: between + inside)

    @property
    def after(self) -> Measurement:
        """Seconds that the run with the fix should take."""
        return self._seconds("run as predicted", lambda between, _, fixed: between / self.fewer + fixed)

    @property
    def after_if_between_stays(self) -> Measurement:
        """Seconds that it should take if a fix changed nothing of the time between operations."""
        return self._seconds("run if the time between operations stayed", lambda between, _, fixed: between + fixed)

    @property
    def speedup(self) -> Measurement:
        """Speedup of the whole by the law: ``before`` over ``after``."""
        return self._speedup("Amdahl's law for the fix", 1 / self.fewer)

    @property
    def speedup_if_between_stays(self) -> Measurement:
        """Speedup of the whole if the fix changed nothing of the time between operations."""
        return self._speedup("the same if the time between operations stayed", 1.0)

    def _speedup(self, name: str, between_after: float) -> Measurement:
        def law(between: float, inside: float, fixed: float) -> float:
            return amdahl_of_parts((between, inside), (between_after, fixed / inside))

        samples, (between, _, fixed) = self._each(law), self._parts
        sides = {"without the fix": between.conditions, "with it": fixed.conditions}
        return Measurement(name, samples, "", of_interleaved(sides, (between.name, fixed.name), samples))

    def _seconds(self, name: str, rule: Callable[[float, float, float], float]) -> Measurement:
        conditions = of_sides({part.name: part.conditions for part in self._parts})
        return with_between_run_spread(Measurement(name, self._each(rule), "s", conditions))

    @property
    def _parts(self) -> tuple[Measurement, Measurement, Measurement]:
        return (self.between, *self.inside)

    def _each(self, rule: Callable[[float, float, float], float]) -> tuple[float, ...]:
        """Return what ``rule`` makes of the parts of each round."""
        return tuple(rule(*each) for each in zip(*(part.samples for part in self._parts), strict=True))


@dataclass(frozen=True)
class Bottleneck:
    """One bottleneck: what was found, and what fixing it did.

    Attributes:
        model: of the zoo; ``found`` says what took the time, ``fix`` what was done.
        forecast: what Amdahl's law predicts of the fix; computed, not observed.
        comparison: of the times of a call before and after, taken in turns.
        error: largest difference of a result, relative to the largest result.
    """

    model: str
    found: str
    fix: str
    forecast: Forecast
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


def image_by_image() -> Bottleneck:
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


def forecast(before: Callable[[], Array], after: Callable[[], Array], repeats: int) -> Forecast:
    """Return what Amdahl's law predicts, from ``repeats`` rounds of a recording without and one with a fix."""
    with own_loop(WARM_RUNS) as loop:
        old, new = zip(*recordings_in_turns((before, after), repeats), strict=True)
    times = {
        "time between operations": [one.wall_seconds - one.op_seconds for one in old],
        "time in operations": [one.op_seconds for one in old],
        "time in operations, fixed": [one.op_seconds for one in new],
    }
    between, inside, fixed = (
        with_between_run_spread(
            Measurement(
                name,
                tuple(each),
                "s",
                replace(loop.conditions, interleaved_with=tuple(other for other in times if other != name)),
            )
        )
        for name, each in times.items()
    )
    return Forecast((len(old[0].events), len(new[0].events)), between, (inside, fixed))


def bottlenecks() -> list[Bottleneck]:
    """Return all three."""
    return [slow_convolution(), image_by_image(), read_again()]


def _fixed(
    model: str,
    found: str,
    fix: str,
    before: Callable[[], Array],
    after: Callable[[], Array],
) -> Bottleneck:
    predicted = forecast(before, after, _RECORDINGS)
    right, now = before().astype(np.float64), after().astype(np.float64)
    error = float(np.abs(now - right).max() / np.abs(right).max())
    both = interleave({"before": before, "after": after}, repeats=_PAIRS, warmup_seconds=_WARMUP_SECONDS)
    confidence = bonferroni(CONFIDENCE, TOGETHER)
    comparison = compare_paired(both["before"], both["after"], matters=0.2, confidence=confidence, compared=TOGETHER)
    return Bottleneck(model, found, fix, predicted, comparison, error)
