"""Validation: what the model predicts from one rank and a fitted link, beside what ranks of this machine then take.

Nothing is adjusted to make the two meet: the error is a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinytorch import models
from tinytorch.chapters.distributed import split_programs
from tinytorch.chapters.distributed.explorer import modelled
from tinytorch.chapters.distributed.split_programs import OVERLAPPED, SHARDED
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, Line
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, predict
from tinytorch.perf.distributed.cluster_model.workload import Part, Workload
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.measuring import checked_rounds
from tinytorch.perf.distributed.ranks.turns import measured_turns
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling import Profiler

#: Bytes of a float32 parameter and gradient, of AdamW's state for it, and of gradients that are sent together; and the
#: share that overlap may hide: the best that it can do.
_WEIGHT, _STATE, _BUCKET, _OVERLAP = 4, 8, 2**20, 1.0


@dataclass(frozen=True)
class Validated:
    """One split: its step, modelled from nothing that was measured of it, and what the slowest rank of a round took."""

    name: str
    predicted: Prediction
    measured: Measurement

    @property
    def seconds(self) -> Modelled:
        """The modelled step."""
        return modelled(self.predicted.seconds, "s", "a step")

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
class Pipelined:
    """A pipeline of two stages: the parts of its modelled step, their shares, and what ranks took for it."""

    parts: Mapping[str, Modelled]
    bubble: Modelled
    handing: Modelled
    measured: Measurement


@dataclass(frozen=True)
class Validation:
    """Every split that fits this machine, one rank first, predicted by a workload that the times of parts make."""

    workload: Workload
    parts: Mapping[str, Measurement]
    cluster: Cluster
    rows: Sequence[Validated]

    @property
    def worst(self) -> Statistic:
        """The largest error by magnitude."""
        return max((row.error for row in self.rows), key=lambda error: abs(error.median))

    @property
    def worst_size(self) -> Statistic:
        """The magnitude of the largest error."""
        return self.worst.scaled(-1 if self.worst.median < 0 else 1)

    @property
    def rate(self) -> Measurement:
        """Arithmetic of a whole step on one rank, which no prediction is made of, over its time."""
        model, examples = models.gpt(), self.workload.examples
        arithmetic = 3 * examples * Profiler().count_flops(model, (1, model.max_seq_len))
        return self.parts["step"].per(arithmetic, "FLOP/s", "contractions of a step on one rank")

    @property
    def pipeline(self) -> Pipelined:
        """The pipeline of two stages."""
        row = next(row for row in self.rows if row.predicted.split.pipeline == 2)
        found = row.predicted
        parts = {
            f"work of the last stage, {found.split.micro} turns": found.computing,
            "bubble, a turn of the first stage": found.bubble,
            "handing on, and the gradient that both ends sum": found.handing,
            "update of a stage's weights": found.updating,
            "together": found.seconds,
        }
        bubble, handing = found.bubble / (found.bubble + found.computing), found.handing / found.seconds
        return Pipelined(
            {part: modelled(seconds, "s", "a step") for part, seconds in parts.items()},
            modelled(bubble, "%", "bubble over bubble and work of the last stage"),
            modelled(handing, "%", "messages and the sum of the shared gradient over the whole step"),
            row.measured,
        )


def validate(
    line: Line | Unmeasured,
    *,
    ranks: Sequence[int],
    examples: int,
    micro: int = 4,
    rounds: int,
    at_most_seconds: float = 12.0,
) -> Validation | Unmeasured:
    """Return predictions of the GPT's step for every split that fits this machine, and the steps that were measured.

    Splits over one kind are tried, and from four ranks on data and tensor together. A step is timed on every rank from
    a barrier on. One rank alone and all splits take turns, and ranks that have no turn sleep, so that what slows the
    machine down meanwhile slows all. A batch has ``examples``, a multiple of twice the ``micro``-batches of a pipeline.
    There are so many ``rounds``; fewer, but six at least, when ``at_most_seconds`` are over.
    """
    if isinstance(line, Unmeasured):
        return line
    cores = len(usable_cores())
    if min(ranks) < 2 or max(ranks) > cores:
        raise ValueError(f"ranks must be 2 to {cores}, the cores that this process may use, not {list(ranks)}")
    if examples < 1 or examples % (2 * micro):
        raise ValueError(f"examples must be a multiple of twice micro, {2 * micro}, not {examples}")
    checked_rounds(rounds, at_most_seconds)
    batches = sorted({examples // micro, examples // 2, examples})
    plan = {"counts": list(ranks), "batches": batches, "examples": examples, "micro": micro, "bucket_bytes": _BUCKET}
    plan |= {"rounds": rounds, "at_most_seconds": at_most_seconds}
    found = launch(split_programs.validation_times, max(ranks), plan, threads=1, pinned=True)[0]
    warm = {"warmup_runs": split_programs.WARMUP}
    parts = {name: measured_turns(f"{name} on one rank", 1, told, **warm) for name, told in found["parts"].items()}
    workload, cluster = _workload(examples, batches, parts), Cluster(line, line, cores)
    rows = [Validated("one rank", predict(workload, cluster, Split()), parts["step"])]
    for number in ranks:
        for way, told in found["splits"][str(number)].items():
            name, split = f"{way}, {number} ranks", split_named(way, number, micro)
            rows.append(Validated(name, predict(workload, cluster, split), measured_turns(name, number, told, **warm)))
    return Validation(workload, parts, cluster, rows)


def split_named(way: str, ranks: int, micro: int) -> Split:
    """Return the split that `split_programs.validation_times` times as ``way``."""
    if way == "tensor":
        return Split(tensor=ranks)
    if way == "pipeline":
        return Split(pipeline=ranks, micro=micro)
    if way == "data and tensor":
        return Split(data=2, tensor=ranks // 2, bucket_bytes=_BUCKET)
    overlap = _OVERLAP if OVERLAPPED in way else 0.0
    return Split(data=ranks, sharding=int(SHARDED in way), overlap=overlap, bucket_bytes=_BUCKET)


def _workload(examples: int, batches: Sequence[int], parts: Mapping[str, Measurement]) -> Workload:
    """Return the workload of the GPT whose parts took so long; what activations keep is left out."""
    model = models.gpt()
    width, blocks, vocabulary, positions = model.embed_dim, len(model.blocks), model.vocab_size, model.max_seq_len
    divided, ends = [], []
    for count in batches:
        block, cut, whole = (parts[f"{what} {count}"].median for what in ("block", "cut", "model"))
        divided.append((float(count), min(cut, block), block - min(cut, block)))
        ends.append((float(count), 0.0, max(0.0, whole - blocks * block)))
    one = Part(0.0, 12 * width**2 + 7 * width, 6 * width, 0.0, 0.0, tuple(divided))
    rest = Part(0.0, 0, (vocabulary + positions + 2) * width, 0.0, 0.0, tuple(ends))
    backward = parts["backward"].median
    return Workload(
        f"GPT of {blocks} blocks, {width} wide", blocks, model.blocks[0].attention.num_heads, examples, one, rest,
        backward_share=backward / (parts["forward"].median + backward),
        update_s=parts["update"].median / (blocks * one.parameters(1) + rest.parameters(1)),
        message_bytes=positions * width * _WEIGHT, sums_per_block=4, tied_parameters=vocabulary * width,
        weight_bytes=_WEIGHT, gradient_bytes=_WEIGHT, state_bytes=_STATE,
    )  # fmt: skip
