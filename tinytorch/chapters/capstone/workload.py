"""The capstone's workload: questions of the sorting task, right answers, and few bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tinytorch import datasets
from tinytorch.chapters.capstone.configuration import Configuration, Ready, ready
from tinytorch.perf.benchmarking.variants import SCORED_AT_ONCE, Right, Task, scoring, sorting_generation
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.memory import MemoryTracker
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL
from tinytorch.perf.memoization.generation import Tokens
from tinytorch.perf.quantization import PairedAccuracy, paired_accuracy

#: Of the questions that no step is judged on; those of training and test are drawn from 1 and 2.
_NEW_SEED = 3


@cache
def task() -> Task:
    """Return the task: read ten digits and the separator, and generate the digits in order."""
    return sorting_generation()


@cache
def new_questions() -> datasets.Split:
    """Return the sorting task with 2,000 other test questions: in neither part of `datasets.sorting`.

    Steps are kept by their answers to the test part, so among many steps one that was lucky there may stay. These
    questions judge nothing, and can tell of what came out.
    """
    data, length = datasets.sorting(), datasets.SORT_LENGTH
    known = {row.tobytes() for part in (data.train_inputs, data.test_inputs) for row in part[:, :length]}
    inputs, targets = datasets.sorting_examples(2 * len(data.test_inputs), seed=_NEW_SEED)
    new = [at for at, row in enumerate(inputs[:, :length]) if row.tobytes() not in known][: len(data.test_inputs)]
    return replace(data, test_inputs=inputs[new], test_targets=targets[new])


@dataclass(frozen=True, slots=True)
class Workload:
    """Questions that a call answers together: one is a user who waits, many are a server that is busy."""

    questions: int

    def __post_init__(self) -> None:
        if self.questions < 1:
            raise ValueError(f"questions must be at least 1, not {self.questions}")

    @property
    def words(self) -> str:
        """The number of questions in words, as in "64 questions"."""
        return f"{self.questions} question{'s' if self.questions > 1 else ''}"

    def prompts(self) -> Tokens:
        """Return the questions, int64 (questions, 11)."""
        return task().batch(self.questions)

    def ready(self, configuration: Configuration) -> Ready:
        """Return the configuration, with a cache for this many questions if it has one."""
        return ready(configuration, self.questions)

    def call(self, made: Ready) -> Callable[[], Tokens]:
        """Return a call that answers the questions; the caller is in `Ready.running`."""
        return made.answering(self.prompts(), datasets.SORT_LENGTH)


@cache
def correct(configuration: Configuration, *, new: bool = False) -> Right:
    """Return which of the 2,000 test questions it answers right in every token, shape (2000,).

    With a cache the answers are generated. Without one a single pass over the right answers tells the same: see
    `models.correct`. Kept in this process for each configuration; threads change no answer, and one is used.

    Args:
        configuration: what answers.
        new: whether to ask `new_questions` instead.
    """
    data, length = new_questions() if new else datasets.sorting(), datasets.SORT_LENGTH
    made = ready(replace(configuration, threads=1), SCORED_AT_ONCE)
    with made.running():
        if made.cache is None:
            found = scoring(data.test_inputs, data.test_targets).correct(made.model)
        else:
            prompts, targets = data.test_inputs[:, : length + 1], data.test_targets[:, length:]
            asked = replace(task(), inputs=prompts, targets=targets, perform=lambda _, part: answers(made, part))
            found = asked.correct(made.model)
    assert found is not None
    return found


def answers(made: Ready, prompts: Tokens) -> Tokens:
    """Return the ten tokens that it generates after each of the prompts (B, 11): (B, 10); the caller is in `running`.

    Raises:
        ValueError: if it has a cache for another number of prompts.
    """
    return made.answering(prompts, datasets.SORT_LENGTH)()[:, prompts.shape[1] :]


def accuracy_change(before: Configuration, after: Configuration, *, new: bool = False) -> PairedAccuracy:
    """Return the answers of two configurations on the same 2,000 test questions, or `new_questions`, paired."""
    return paired_accuracy(correct(before, new=new), correct(after, new=new))


def peak_bytes(workload: Workload, made: Ready) -> Measurement:
    """Return the bytes of weights and cache and the most that a call allocates beside them, six calls.

    What tracemalloc sees: arrays and Python's objects to the byte, not the work space of BLAS.
    """
    held, call = made.weight_bytes + made.cache_bytes, workload.call(made)
    peaks = []
    with made.running():
        call()  # what is compiled or kept at the first call is no part of a call
        for _ in range(FEWEST_FOR_INTERVAL):
            with MemoryTracker() as tracked:
                call()
            peaks.append(float(held + tracked.peak_bytes))
    traced = Conditions(note=f"Traced by tracemalloc; {held:,} bytes of it are weights and cache.")
    return Measurement("weights, cache and the most that a call allocates", tuple(peaks), "B", traced)


def predicted_bytes(configuration: Configuration, questions: int) -> int:
    """Return what weights and cache should take, by shapes alone: a model, not a measurement.

    Each weight takes 4 bytes, or 1 in codes; scales and whatever else a format stores are left out. Biases and
    normalization stay float32. A sparse weight takes 6 bytes, its value and its column, for each that is left.
    """
    layers, positions, vocabulary = 2, 2 * datasets.SORT_LENGTH, datasets.SEPARATOR + 1
    width = 48 if configuration.model == "distilled" else 96
    inner = width // 2 if configuration.model == "half of the units" else width
    number = 4 if configuration.weights == "float32" else 1
    kept = {"low rank": 1 / 3, "sparse": 0.1 * 1.5, "half of the units": 0.5}.get(configuration.model, 1.0)
    matrices = number * ((vocabulary + positions) * width + layers * 12 * width**2 * kept)
    vectors = 4 * (layers * (7 * inner + 6 * width) + 2 * width)
    # A code has a scale of 4 bytes for each head and position; the GPT has 4 heads.
    a_number = {"none": 0.0, "float32": 4.0, "8-bit": 1 + 4 / (inner / 4)}[configuration.cache]
    remembered = 2 * layers * questions * positions * inner * a_number
    return int(np.rint(matrices + vectors + remembered))
