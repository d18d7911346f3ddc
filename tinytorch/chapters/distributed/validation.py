"""Validation: what the model predicts from one rank and a fitted link, beside what ranks of this machine then take.

Nothing is adjusted to make the two meet: the error is a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinytorch.chapters.distributed import split_programs
from tinytorch.models import gpt
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, Line
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, predict
from tinytorch.perf.distributed.cluster_model.workload import Part, Workload
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.pinned_threads import may_pin, usable_cores
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, Ranks
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL, Interval

#: Bytes of a float32 parameter and gradient, and of AdamW's state for it.
_WEIGHT, _STATE = 4, 8


@dataclass(frozen=True)
class GPTShape:
    """A GPT to be split, as its constructor takes it."""

    vocabulary: int
    width: int
    blocks: int
    heads: int
    positions: int

    def arguments(self) -> list[int]:
        """Return the numbers in the order of the constructor."""
        return [self.vocabulary, self.width, self.blocks, self.heads, self.positions]


def zoo_shape() -> GPTShape:
    """Return the shape of the zoo's GPT, trained on all of its positions."""
    model = gpt()
    return GPTShape(
        model.vocab_size,
        model.embed_dim,
        len(model.blocks),
        model.blocks[0].attention.num_heads,
        model.max_seq_len,
    )


@dataclass(frozen=True)
class MeasuredWorkload:
    """A workload measured on one rank of this machine: the parts of a step, and what is made of them.

    Attributes:
        workload: for `predict`.
        parts: the measurements that it is made of, by what was timed.
        step: a whole step on one rank, which no part of ``workload`` was taken from.
    """

    workload: Workload
    parts: Mapping[str, Measurement]
    step: Measurement


@dataclass(frozen=True)
class Validated:
    """One split: its modelled step, and the step that ranks of this machine took.

    Attributes:
        name: what was split how.
        predicted: modelled, from nothing that was measured of this split.
        measured: seconds of a step, of each round those of the slowest rank.
        state_bytes: that the optimizer of the rank with most of them really keeps.
    """

    name: str
    predicted: Prediction
    measured: Measurement
    state_bytes: int

    @property
    def error(self) -> Statistic:
        """Predicted over measured seconds, minus 1, of each round: below 0 where the model promises too much.

        Its interval is that of the measured step: how well the times behind the prediction are known is not in it.
        """
        seconds, took = self.predicted.seconds, self.measured.interval
        return Statistic(
            f"error of the prediction of {self.name}",
            tuple(seconds / sample - 1 for sample in self.measured.samples),
            "%",
            self.measured.conditions.within_bounds("prediction over the median, less 1"),
            value=seconds / self.measured.median - 1,
            bounds=Interval(seconds / took.high - 1, seconds / took.low - 1, took.confidence),
        )


@dataclass(frozen=True)
class Validation:
    """Every split that fits this machine, predicted and measured, and what the predictions are made of."""

    source: MeasuredWorkload
    cluster: Cluster
    rows: tuple[Validated, ...]

    @property
    def worst(self) -> Validated:
        """The split with the largest error by magnitude."""
        return max(self.rows, key=lambda row: abs(row.error.median))


@dataclass(frozen=True)
class _Plan:
    """Plan of a validation: see `validate`."""

    shape: GPTShape
    examples: int
    micro: int
    rounds: int
    at_most_seconds: float
    overlap: float = 1.0
    bucket_bytes: int = 2**20

    def __post_init__(self) -> None:
        if min(self.examples, self.micro, self.rounds) < 1:
            raise ValueError(
                f"examples, micro and rounds must be at least 1, not {self.examples}, {self.micro} and {self.rounds}"
            )
        if self.examples % (2 * self.micro):
            raise ValueError(f"examples must be a multiple of twice micro, {2 * self.micro}, not {self.examples}")
        if not self.at_most_seconds > 0:
            raise ValueError(f"at_most_seconds must be above 0, not {self.at_most_seconds}")

    @property
    def batches(self) -> list[int]:
        """Numbers of examples that parts are timed with."""
        return sorted({self.examples // self.micro, self.examples // 2, self.examples})


def _run(plan: _Plan, counts: Sequence[int]) -> dict[str, Any]:
    """Return what the ranks timed."""
    arguments = {
        "counts": list(counts),
        "shape": plan.shape.arguments(),
        "batches": plan.batches,
        "examples": plan.examples,
        "micro": plan.micro,
        "bucket_bytes": plan.bucket_bytes,
        "rounds": plan.rounds,
        "fewest": min(plan.rounds, FEWEST_FOR_INTERVAL),
        "at_most_seconds": plan.at_most_seconds,
    }
    ranks = max(counts, default=1)
    return launch(split_programs.validation_times, ranks, arguments, threads=1, pinned=True)[0]


def _measurement(name: str, ranks: int, told: Mapping[str, Any]) -> Measurement:
    conditions = Conditions(
        warmup_runs=split_programs.WARMUP,
        blas_threads=limited_blas_threads(1) or "unknown",
        cpu_per_wall=told["cpu_per_wall"],
        instrument=Ranks(ranks=ranks, oversubscribed=told["oversubscribed"], pinned=may_pin()),
    )
    return with_between_run_spread(Measurement(name, tuple(told["seconds"]), "s", conditions))


def _measured(plan: _Plan, found: Mapping[str, Any]) -> MeasuredWorkload:
    parts = {name: _measurement(f"{name} on one rank", 1, told) for name, told in found["parts"].items()}
    return MeasuredWorkload(_workload(plan, parts, found["kept"]), parts, parts["step"])


def _workload(plan: _Plan, parts: Mapping[str, Measurement], kept: Mapping[str, float]) -> Workload:
    """Return the workload whose parts took so long and kept so many bytes."""
    shape, examples, batches = plan.shape, plan.examples, plan.batches

    def times(what: str) -> list[float]:
        return [parts[f"{what} {count}"].median for count in batches]

    width, blocks, vocabulary, positions = shape.width, shape.blocks, shape.vocabulary, shape.positions
    cut = [min(pair) for pair in zip(times("cut"), times("block"), strict=True)]
    rest = [whole - divided for whole, divided in zip(times("block"), cut, strict=True)]
    around = [max(0.0, whole - blocks * block) for whole, block in zip(times("model"), times("block"), strict=True)]
    cut_bytes = min(kept["cut"], kept["block"])
    block = Part(
        0.0,
        12 * width**2 + 7 * width,
        6 * width,
        cut_bytes,
        kept["block"] - cut_bytes,
        tuple(zip(map(float, batches), cut, rest, strict=True)),
    )
    ends = Part(
        0.0,
        0,
        (vocabulary + positions + 2) * width,
        0.0,
        max(0.0, kept["model"] - blocks * kept["block"]),
        tuple((float(count), 0.0, seconds) for count, seconds in zip(batches, around, strict=True)),
    )
    parameters = blocks * block.parameters(1) + ends.parameters(1)
    backward = parts["backward"].median
    return Workload(
        name=f"GPT of {blocks} blocks, {width} wide",
        blocks=blocks,
        heads=shape.heads,
        examples=examples,
        block=block,
        ends=ends,
        backward_share=backward / (parts["forward"].median + backward),
        update_s=parts["update"].median / parameters,
        message_bytes=positions * width * _WEIGHT,
        sums_per_block=4,
        tied_parameters=vocabulary * width,
        weight_bytes=_WEIGHT,
        gradient_bytes=_WEIGHT,
        state_bytes=_STATE,
    )


def validate(
    line: Line,
    shape: GPTShape | None = None,
    *,
    examples: int = 64,
    micro: int = 4,
    overlap: float = 1.0,
    ranks: Sequence[int] | None = None,
    rounds: int = 20,
    at_most_seconds: float = 12.0,
    bucket_bytes: int = 2**20,
) -> Validation:
    """Return predictions of a GPT's step for every split that fits this machine, and the steps that were measured.

    Splits over one kind are tried, and from four ranks on data and tensor together. A step is timed on every rank from
    a barrier on; of each round the slowest rank's time counts. One rank alone and all splits take turns, and ranks that
    have no turn sleep, so that what slows the machine down meanwhile slows all.

    Args:
        line: between two ranks of this machine; all-reduces on two cost by the model what one message does, so that a
            line fitted to them can be given.
        shape, examples, micro, rounds, at_most_seconds: as `measured_workload`.
        overlap: the share that the predictions of overlapped splits grant: 1, the best that overlap can do.
        ranks: numbers of them, each from 2 to the usable cores; all powers of two that are if None.
        bucket_bytes: of gradients that are sent together.

    Returns:
        Rows in the order of ranks, one rank first. On a machine with one core that is the only row.

    Raises:
        ValueError: if ranks do not fit on the cores: times of more ranks say nothing; or as `measured_workload`.
    """
    cores = len(usable_cores())
    numbers = [2**power for power in range(1, cores.bit_length())] if ranks is None else list(ranks)
    for number in numbers:
        if not 2 <= number <= cores:
            raise ValueError(f"ranks must be 2 to {cores}, the cores that this process may use, not {number}")
    plan = _Plan(shape or zoo_shape(), examples, micro, rounds, at_most_seconds, overlap, bucket_bytes)
    found = _run(plan, numbers)
    source = _measured(plan, found)
    cluster = Cluster(line, line, cores)
    alone = predict(source.workload, cluster, Split())
    rows = [Validated("one rank", alone, source.step, found["parts"]["step"]["state"])]
    for number in numbers:
        for way, told in found["splits"][str(number)].items():
            name = f"{way}, {number} ranks"
            predicted = predict(source.workload, cluster, split_named(way, number, micro, overlap, bucket_bytes))
            rows.append(Validated(name, predicted, _measurement(name, number, told), told["state"]))
    return Validation(source, cluster, tuple(rows))


def split_named(way: str, ranks: int, micro: int, overlap: float, bucket_bytes: float) -> Split:
    """Return the split that `split_programs.validation_times` times as ``way``.

    Raises:
        ValueError: if there is none of that name.
    """
    if way == "tensor":
        return Split(tensor=ranks)
    if way == "pipeline":
        return Split(pipeline=ranks, micro=micro)
    if way == "data and tensor":
        return Split(data=2, tensor=ranks // 2, bucket_bytes=bucket_bytes)
    words = way.split()
    if words[:1] != ["data"] or not set(words[1:]) <= {"sharded", split_programs.OVERLAPPED}:
        raise ValueError(f"way must be one of validation_times, not {way!r}")
    hides = overlap if split_programs.OVERLAPPED in words else 0.0
    return Split(data=ranks, sharding=int("sharded" in words), overlap=hides, bucket_bytes=bucket_bytes)
