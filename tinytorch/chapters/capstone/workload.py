"""The capstone's workload: questions of the sorting task, right answers, times in turns, and few bytes."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from tinytorch import datasets
from tinytorch.chapters.capstone.configuration import Configuration, held_bytes, ready
from tinytorch.core.transformers import GPT
from tinytorch.perf.benchmarking import Performance
from tinytorch.perf.benchmarking.measuring import peak_of_calls
from tinytorch.perf.benchmarking.variants import Right, Variant, scoring, sorting_generation
from tinytorch.perf.measuring import Counted, Measurement, blas_threads, interleave
from tinytorch.perf.memoization import generate
from tinytorch.perf.memoization.generation import Tokens
from tinytorch.perf.quantization import paired_accuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change as paired_change

#: Of test questions that no step is kept by, where one may have been lucky; what came out is asked them at last.
NEW_SEED = 3


@dataclass(frozen=True, slots=True)
class Workload:
    """Questions that a call answers together: one is a user who waits, many are a server that is busy."""

    questions: int

    @property
    def words(self) -> str:
        """The number of questions in words, as in "64 questions"."""
        return f"{self.questions} question{'s' if self.questions > 1 else ''}"

    def ready(self, configuration: Configuration) -> Variant:
        """Return the configuration, with a cache for this many questions if it has one."""
        return ready(configuration, self.questions)

    def call(self, made: Variant) -> Callable[[], Tokens]:
        """Return a call that answers the questions; the caller is in `Variant.running`."""
        prompts = sorting_generation().batch(self.questions)
        return lambda: generate(cast(GPT, made.model), prompts, datasets.SORT_LENGTH)

    def held(self, configuration: Configuration) -> Counted:
        """Return the bytes of weights and cache."""
        return Counted(held_bytes(self.ready(configuration)), "B", f"weights and cache, {self.words}")


def weights_of(configuration: Configuration, what: str) -> Counted:
    """Return the bytes of the weights, which are in words ``what``."""
    return Counted(ready(configuration, 1).stored_bytes, "B", what)


@cache
def correct(configuration: Configuration, *, new: bool = False) -> Right:
    """Return which of the 2,000 test questions, or of 2,000 ``new`` ones, it answers right in every token."""
    data, cached = datasets.sorting(test_seed=NEW_SEED) if new else datasets.sorting(), configuration.cache != "none"
    # Without a cache a pass over the right answers tells the same as generating: see `models.correct`.
    task = sorting_generation(data) if cached else scoring(data.test_inputs, data.test_targets)
    found = replace(ready(configuration, 1), cached=cached).correct(task)
    assert found is not None
    return found


def right_of(configuration: Configuration, *, new: bool = False) -> Counted:
    """Return how many of the 2,000 test questions, or of as many ``new`` ones, it answers right."""
    return Counted(int(correct(configuration, new=new).sum()), "answers", "right answers of 2,000")


def accuracy_change(before: Configuration, after: Configuration, name: str, *, new: bool = False) -> Measurement:
    """Return the change of the share right on the same 2,000 test questions, or ``new`` ones, paired."""
    return paired_change(paired_accuracy(correct(before, new=new), correct(after, new=new)), name)


def in_turns(
    workload: Workload, every: Mapping[str, Variant], *, repeats: int, at_most_seconds: float
) -> dict[str, Measurement]:
    """Return seconds of a call of each, by name, sampled in turns."""
    return interleave(
        {name: workload.call(made) for name, made in every.items()},
        repeats=repeats,
        at_most_seconds=at_most_seconds,
        warmup_seconds=0.05,
        within={name: made.running for name, made in every.items()},
    )


def performances(workload: Workload, configurations: Mapping[str, Configuration]) -> dict[str, Performance]:
    """Return what was measured of each configuration: times in turns, bytes of weights, cache and call, and answers."""
    every, peaks = {name: workload.ready(each) for name, each in configurations.items()}, {}
    with blas_threads(1):
        times = in_turns(workload, every, repeats=30, at_most_seconds=2.0)
        for name, made in every.items():
            with made.running():
                what = "weights, cache and the most that a call allocates"
                peaks[name] = peak_of_calls(workload.call(made), held_bytes(made), "weights and cache", what)
    run, asked, task = uuid.uuid4().hex, workload.questions, sorting_generation().name
    return {
        name: Performance(name, task, {asked: (times[name],)}, {asked: peaks[name]}, made.stored_bytes, right, run)
        for (name, made), right in zip(every.items(), map(correct, configurations.values()), strict=True)
    }
