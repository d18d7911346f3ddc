"""Validation: what the model predicts from one rank and a fitted link, beside what ranks of this machine then take.

Nothing is adjusted to make the two meet: the error is a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.models import gpt
from tinytorch.perf.distributed import split_programs
from tinytorch.perf.distributed.launch import launch
from tinytorch.perf.distributed.link_fit import line_through
from tinytorch.perf.distributed.links import Cluster, Line
from tinytorch.perf.distributed.prediction import Prediction, Split, predict
from tinytorch.perf.distributed.workload import Part, Workload
from tinytorch.perf.team import usable_cores
from tinytorch.perf.timing import Measurement

#: Bytes of a float32 parameter and gradient, and of AdamW's state for it.
_WEIGHT, _STATE = 4, 8
_SECONDS, _STATE_KEY = "seconds/", "state/"


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
    """What one rank of this machine took for the parts of a step, and the workload made of it.

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
        predicted: modelled, before anything of this split ran.
        measured: seconds of a step, of each round those of the slowest rank.
        state_bytes: that the optimizer of the rank with most really keeps; None for one rank.
    """

    name: str
    predicted: Prediction
    measured: Measurement
    state_bytes: int | None

    @property
    def error(self) -> Measurement:
        """Predicted over measured seconds, minus 1, of each round: below 0 where the model promises too much."""
        seconds = self.predicted.seconds
        errors = tuple(seconds / sample - 1 for sample in self.measured.samples)
        return Measurement(f"error of the prediction of {self.name}", errors, "%", self.measured.how)


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


def measured_workload(
    shape: GPTShape | None = None, *, examples: int = 64, micro: int = 4, rounds: int = 20
) -> MeasuredWorkload:
    """Return a GPT's workload as one rank of this machine runs it: on one core, with one BLAS thread.

    Forward and backward of a block, of what a tensor split cuts of it, and of the whole model are timed with three
    numbers of examples each, in turns. A line through the medians tells what every call takes and what every example
    adds (relative least squares, neither below 0). What the model takes beyond its blocks are its ends.

    Args:
        shape: of the model; the zoo's GPT if None.
        examples: of the batch, a multiple of twice ``micro``.
        micro: micro-batches of a pipeline; the smallest number of examples timed is that of one.
        rounds: samples of each.

    Raises:
        ValueError: if ``examples`` is no such multiple, or a number below 1.
        MPIMissingError, RankError: as `launch`.
    """
    shape = shape or zoo_shape()
    _check(examples, micro, rounds)
    batches = sorted({examples // micro, examples // 2, examples, examples // (2 * micro)})
    arguments = {"shape": shape.arguments(), "batches": batches, "examples": examples, "rounds": rounds}
    found = launch(split_programs.timed_parts, 1, arguments, threads=1, pinned=True)[0]
    how = {"ranks": 1, "blas_threads": 1, "pinned": True, "warmup": split_programs.WARMUP, "order": "in turns"}
    parts = {
        name.removeprefix(_SECONDS): Measurement(
            f"{name.removeprefix(_SECONDS)} on one rank", tuple(values.tolist()), "s", how
        )
        for name, values in found.items()
        if name.startswith(_SECONDS)
    }
    kept = {name.removeprefix("kept/"): float(value) for name, value in found.items() if name.startswith("kept/")}
    return MeasuredWorkload(_workload(shape, examples, parts, kept, batches), parts, parts["step"])


def _check(examples: int, micro: int, rounds: int) -> None:
    if min(examples, micro, rounds) < 1:
        raise ValueError(f"examples, micro and rounds must be at least 1, not {examples}, {micro} and {rounds}")
    if examples % (2 * micro):
        raise ValueError(f"examples must be a multiple of twice micro, {2 * micro}, not {examples}")


def _workload(
    shape: GPTShape, examples: int, parts: Mapping[str, Measurement], kept: Mapping[str, float], batches: list[int]
) -> Workload:
    """Return the workload whose parts took so long and kept so many bytes."""

    def line(what: str) -> tuple[float, float]:
        medians = np.array([[parts[f"{what} {count}"].median for count in batches]])
        call, each = line_through(np.array(batches, np.float64), medians)
        return float(call[0]), float(each[0])

    (block_call, block_s), (_, cut_s), (model_call, model_s) = (line(what) for what in ("block", "cut", "model"))
    width, blocks, vocabulary, positions = shape.width, shape.blocks, shape.vocabulary, shape.positions
    cut_s, cut_bytes = min(cut_s, block_s), min(kept["cut"], kept["block"])
    block = Part(
        block_call,
        cut_s,
        block_s - cut_s,
        12 * width**2 + 7 * width,
        6 * width,
        cut_bytes,
        kept["block"] - cut_bytes,
    )
    ends = Part(
        max(0.0, model_call - blocks * block_call),
        0.0,
        max(0.0, model_s - blocks * block_s),
        0,
        (vocabulary + positions + 2) * width,
        0.0,
        max(0.0, kept["model"] - blocks * kept["block"]),
    )
    parameters = blocks * block.parameters(1) + ends.parameters(1)
    return Workload(
        name=f"GPT of {blocks} blocks, {width} wide",
        blocks=blocks,
        heads=shape.heads,
        examples=examples,
        block=block,
        ends=ends,
        backward_share=1 - parts[f"forward {examples}"].median / parts[f"model {examples}"].median,
        update_s=parts["update"].median / parameters,
        message_bytes=positions * width * _WEIGHT,
        sums_per_block=4,
        tied_parameters=vocabulary * width,
        weight_bytes=_WEIGHT,
        gradient_bytes=_WEIGHT,
        state_bytes=_STATE,
        source="one rank of this machine",
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
    bucket_bytes: int = 2**20,
) -> Validation:
    """Return predictions of a GPT's step for every split that fits this machine, and the steps that were measured.

    Splits over one kind are tried, and from four ranks on data and tensor together. A step is timed on every rank from
    a barrier on; of each round the slowest rank's time counts. All splits of as many ranks take turns.

    Args:
        line: between two ranks of this machine, as fitted to measured messages.
        shape, examples, micro, rounds: as `measured_workload`.
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
    shape = shape or zoo_shape()
    source = measured_workload(shape, examples=examples, micro=micro, rounds=rounds)
    cluster = Cluster(line, line, cores)
    alone = Validated("one rank", predict(source.workload, cluster, Split()), source.step, None)
    rows = [alone]
    for number in numbers:
        asked: dict[str, Any] = {"shape": shape.arguments(), "examples": examples, "micro": micro}
        asked |= {"bucket_bytes": bucket_bytes, "rounds": rounds}
        found = launch(split_programs.timed_splits, number, asked, threads=1, pinned=True)
        rows += _rows(found, number, source.workload, cluster, micro, overlap, bucket_bytes)
    return Validation(source, cluster, tuple(rows))


def _rows(
    found: Sequence[Mapping[str, Any]],
    ranks: int,
    workload: Workload,
    cluster: Cluster,
    micro: int,
    overlap: float,
    bucket_bytes: float,
) -> list[Validated]:
    """Return what was measured on ``ranks``, each with its prediction."""
    how = {
        "ranks": ranks,
        "blas_threads": 1,
        "pinned": True,
        "warmup": split_programs.WARMUP,
        "order": "in turns",
        "time": "slowest rank of each round, from a barrier",
    }
    rows = []
    for key in found[0]:
        if not key.startswith(_SECONDS):
            continue
        way = key.removeprefix(_SECONDS)
        name = f"{way}, {ranks} ranks"
        slowest = np.max([one[key] for one in found], axis=0)
        predicted = predict(workload, cluster, split_named(way, ranks, micro, overlap, bucket_bytes))
        state = max(int(one[_STATE_KEY + way]) for one in found)
        rows.append(Validated(name, predicted, Measurement(name, tuple(slowest.tolist()), "s", how), state))
    return rows


def split_named(way: str, ranks: int, micro: int, overlap: float, bucket_bytes: float) -> Split:
    """Return the split that `split_programs.timed_splits` calls ``way``.

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
        raise ValueError(f"way must be one of timed_splits, not {way!r}")
    hides = overlap if split_programs.OVERLAPPED in words else 0.0
    return Split(data=ranks, sharding=int("sharded" in words), overlap=hides, bucket_bytes=bucket_bytes)
