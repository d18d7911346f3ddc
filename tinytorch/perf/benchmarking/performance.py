"""Performance of one model: time, throughput, memory, size and accuracy, each with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tinytorch.perf.benchmarking.variants import Right
from tinytorch.perf.measuring import Measurement, Statistic, quantity
from tinytorch.perf.measuring.statistics import median_interval, share_interval


@dataclass(frozen=True)
class Performance:
    """Measurements of one model.

    Attributes:
        name: of the model or variant; ``task`` what a call does.
        times: by batch size, seconds of one call: one `Measurement` from each process that measured.
        memory: by batch size, bytes: the model's state and the most that one call allocated beside it.
        model_bytes: of its state: parameters and buffers, codes and scales, each once.
        correct: which examples of the whole test set it got right, or None where no answers are known.
        run: what tells the run from others: only times of one run were taken in turns.
        reference: as ``times``, of a fixed piece of work that was taken in turns with them; empty if none was.
    """

    name: str
    task: str
    times: Mapping[int, tuple[Measurement, ...]]
    memory: Mapping[int, Measurement]
    model_bytes: int
    correct: Right | None
    run: str
    reference: Mapping[int, tuple[Measurement, ...]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Measurement | None]:
        """Yield time, memory and accuracy, so that one line can take them apart."""
        return iter((self.time, self.peak_memory, self.accuracy))

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes that were measured, smallest first."""
        return tuple(sorted(self.times))

    @property
    def time(self) -> Measurement:
        """Seconds of one call at the smallest batch size."""
        return self.seconds(self.batches[0])

    @property
    def peak_memory(self) -> Measurement:
        """Bytes at the largest batch size: the model's state and the most that one call allocated."""
        return self.memory[self.batches[-1]]

    @property
    def throughput(self) -> dict[int, Measurement]:
        """Items per second by batch size: batch over the seconds of one call."""
        return {batch: self.seconds(batch).per(batch, "items/s") for batch in self.batches}

    def seconds(self, batch: int) -> Measurement:
        """Return seconds of one call at ``batch``; of several processes the median of their medians.

        Its interval then is that of the processes, which differ by more than the calls in one.

        Raises:
            ValueError: if that batch size was not measured.
        """
        if batch not in self.times:
            raise ValueError(f"batch must be one of those measured, {', '.join(map(str, self.batches))}, not {batch}")
        return pooled(self.times[batch])

    @property
    def accuracy(self) -> Measurement | None:
        """Share (0 to 1) of the test set that it gets right, with the exact 95 % interval, or None without answers."""
        if self.correct is None:
            return None
        return share_right(f"accuracy of {self.name}", self.correct)

    @property
    def size(self) -> Measurement:
        """Bytes of the model's state."""
        return quantity(self.model_bytes, "B", f"state of {self.name}")


def share_right(name: str, right: Right) -> Statistic:
    """Return the share of examples that are right with its exact 95 % interval, `share_interval`."""
    count, examples = int(right.sum()), len(right)
    bounds = share_interval(count, examples)
    how = {"statistic": "share", "right": count, "examples": examples}
    return Statistic(name, (count / examples,), "", how, value=count / examples, bounds=bounds)


def pooled(processes: tuple[Measurement, ...]) -> Measurement:
    """Return one process's measurement as it is; of several a `Statistic` over the medians of each."""
    if len(processes) == 1:
        return processes[0]
    medians = tuple(one.median for one in processes)
    first = processes[0]
    how = {
        **first.how,
        "samples_are": "processes",
        "statistic": "median of the processes' medians",
        "processes": len(processes),
    }
    value, bounds = float(np.median(medians)), median_interval(medians)
    return Statistic(first.name, medians, first.unit, how, value=value, bounds=bounds)
