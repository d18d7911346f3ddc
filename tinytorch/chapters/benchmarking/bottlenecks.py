"""Two bottlenecks of the zoo's models: found in a recording, predicted by Amdahl's law, fixed, and proven fixed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.variants import Variant, sorting_generation
from tinytorch.perf.measuring import Counted, Measurement, Modelled, from_turns, interleave, own_loop, quotient
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import of_interleaved, of_sides
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all, word_between
from tinytorch.perf.measuring.values import as_measurement
from tinytorch.perf.profiling.breakdown import amdahl_of_parts
from tinytorch.perf.profiling.shares import WARM_RUNS, recordings_in_turns

_WARMUP_SECONDS, _BATCH, _PAIRS = 0.2, 64, 40
#: Recordings that a prediction is made of, with and without the fix: as many as the judge needs to rule out noise that
#: wanders in most series that do not.
_RECORDINGS = 40
#: Comparisons that a reader takes together, one of each bottleneck.
_TOGETHER = 2
_LAW = "the law of two parts"


@dataclass(frozen=True)
class Part:
    """Seconds of a part of a run: recorded, and with the fix, by the law or if all time between operations stays."""

    recorded: Measurement
    predicted: Modelled
    stays: Modelled


@dataclass(frozen=True)
class Forecast:
    """Amdahl's law for a fix: a run of two parts, the time in operations and that between them, without and with it.

    The time in operations becomes what those of the fixed run take by themselves. The time between them is not asked:
    it is taken to fall as their number does.

    ``operations`` are how many the run makes, and ``inside`` the seconds in them, without and with the fix; ``between``
    are those that pass between them without it.
    """

    operations: tuple[int, int]
    between: Measurement
    inside: tuple[Measurement, Measurement]

    @property
    def fewer(self) -> Counted:
        """Operations without the fix over those with it."""
        return Counted(self.operations[0] / self.operations[1], "", "operations before over after")

    @property
    def parts(self) -> dict[str, Part]:
        """Both parts of the run, and their sum."""
        between, (inside, fixed) = self.between, self.inside
        less = between.scaled(1 / self.fewer.value, name="time between operations, by their number")
        seconds = {"between operations": (between, less, between), "in operations": (inside, fixed, fixed)}
        whole, after = _sum("recorded run", between, inside), _sum("run as predicted", less, fixed)
        seconds["both"] = (whole, after, _sum("run if the time between operations stayed", between, fixed))
        return {
            name: Part(recorded, Modelled.by(_LAW, predicted), Modelled.by("time between operations that stays", stays))
            for name, (recorded, predicted, stays) in seconds.items()
        }

    @property
    def predicted(self) -> Modelled:
        """Speedup of the whole by the law."""
        return self._speedup("Amdahl's law for the fix", 1 / self.fewer.value)

    @property
    def if_between_stays(self) -> Modelled:
        """Speedup of the whole if the fix changed nothing of the time between operations."""
        return self._speedup("the same if the time between operations stayed", 1.0)

    def _speedup(self, name: str, between_after: float) -> Modelled:
        between, (inside, fixed) = self.between, self.inside
        samples = tuple(
            amdahl_of_parts((one, two), (between_after, after / two))
            for one, two, after in zip(between.samples, inside.samples, fixed.samples, strict=True)
        )
        sides = {"without the fix": between.conditions, "with it": fixed.conditions}
        conditions = of_interleaved(sides, (between.name, fixed.name), samples)
        return Modelled.by(_LAW, Measurement(name, samples, "", conditions))


def _sum(name: str, one: Measurement, other: Measurement) -> Measurement:
    samples = tuple(map(sum, zip(one.samples, other.samples, strict=True)))
    conditions = of_sides({part.name: part.conditions for part in (one, other)})
    return with_between_run_spread(Measurement(name, samples, "s", conditions))


@dataclass(frozen=True)
class Bottleneck:
    """A fix of a model's bottleneck: what the law predicts of it, and what came of it.

    ``comparison`` is of a call before and after, in turns, ``error`` the largest change of a result over the largest;
    ``plain`` are the seconds of a call before, without a recording.
    """

    fix: str
    forecast: Forecast
    comparison: Comparison
    error: float
    plain: Measurement

    @cached_property
    def recorded_over_plain(self) -> Measurement:
        """How many times as long a call takes with a recording."""
        return quotient(self.forecast.parts["both"].recorded, self.plain, "recorded run over one without a recording")

    @cached_property
    def corrected(self) -> Modelled:
        """The speedup by the law, if what a recording adds is no time of the program between operations."""
        whole, (inside, fixed), fewer = self.plain.median, self.forecast.inside, self.forecast.fewer.value
        samples = tuple(
            whole / (max(whole - one, 0.0) / fewer + after)
            for one, after in zip(inside.samples, fixed.samples, strict=True)
        )
        sides = {"without a recording": self.plain.conditions, "in operations": fixed.conditions}
        conditions = of_interleaved(sides, (inside.name, fixed.name), samples)
        return Modelled.by(_LAW, Measurement("the law without what the recording added", samples, "", conditions))

    @cached_property
    def over(self) -> Measurement:
        """The speedup as measured over that as predicted."""
        predicted = as_measurement(self.forecast.predicted)
        return quotient(self.comparison.estimate, predicted, "speedup as measured over as predicted")

    @cached_property
    def side(self) -> Judgement:
        """Whether the prediction is too high or too low, by however little."""
        return word_between(self.over, {"too high": (None, 1.0), "too low": (1.0, None)})


def bottlenecks() -> dict[str, Bottleneck]:
    """Return both, by model."""
    return {"mlp": image_by_image(), "gpt": read_again()}


def misses_side(fixed: Mapping[str, Bottleneck]) -> Judgement:
    """Return whether all predictions that miss err towards the ratio of the numbers of operations; open if none does.

    A recording's own work is between operations, so that by the law it moves a prediction there.
    """
    sides = []
    for one in fixed.values():
        fewer = one.forecast.fewer.value
        ends = {"too high": (None, fewer), "too low": (fewer, None)}.get(one.side.word)
        if ends:
            sides.append(verdict_between(one.comparison.estimate, *ends, strict=True))
    return verdict_of_all(sides)


def largest_error(fixed: Mapping[str, Bottleneck]) -> Counted:
    """Return the largest change of a result by a fix."""
    what = "largest change of a result over the largest result, two fixes"
    return Counted(max(one.error for one in fixed.values()), "%", what)


def image_by_image() -> Bottleneck:
    """The MLP asked for one image after the other: most of each call is between operations; a batch pays it once."""
    model, images = models.trained("mlp"), models.entry("mlp").example_input(_BATCH)

    def before() -> Array:
        with no_grad():
            return np.concatenate([model(models.as_input(images[i : i + 1])).data for i in range(_BATCH)])

    def after() -> Array:
        with no_grad():
            return np.asarray(model(models.as_input(images)).data)

    return _fixed("MLP: time between operations, by a batch instead of a loop", before, after)


def read_again() -> Bottleneck:
    """The GPT that writes ten tokens, and reads the whole text again for each; a key-value cache remembers it."""
    task, model = sorting_generation(), models.trained("gpt")
    prompts = task.batch(8)
    plain, cached = Variant("uncached", model), Variant("cached", model, cached=True)
    fix = "GPT: arithmetic done again, by a key-value cache"
    return _fixed(fix, lambda: plain.call(task, prompts), lambda: cached.call(task, prompts))


def _fixed(fix: str, before: Callable[[], Array], after: Callable[[], Array]) -> Bottleneck:
    predicted = _forecast(before, after)
    right, now = before().astype(np.float64), after().astype(np.float64)
    error = float(np.abs(now - right).max() / np.abs(right).max())
    both = interleave({"before": before, "after": after}, repeats=_PAIRS, warmup_seconds=_WARMUP_SECONDS)
    comparison = compare_paired(both["before"], both["after"], matters=0.2, together=_TOGETHER)
    return Bottleneck(fix, predicted, comparison, error, both["before"])


def _forecast(before: Callable[[], Array], after: Callable[[], Array]) -> Forecast:
    """Return what Amdahl's law predicts, from rounds of a recording without and one with a fix."""
    with own_loop(WARM_RUNS) as loop:
        old, new = zip(*recordings_in_turns((before, after), _RECORDINGS), strict=True)
    times = from_turns(
        {
            "time between operations": [one.wall_seconds - one.op_seconds for one in old],
            "time in operations": [one.op_seconds for one in old],
            "time in operations, fixed": [one.op_seconds for one in new],
        },
        sample="calls",
        conditions=loop.conditions,
    )
    between, inside, fixed = times.values()
    return Forecast((len(old[0].events), len(new[0].events)), between, (inside, fixed))
