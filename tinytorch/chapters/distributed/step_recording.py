"""Training steps on ranks of this machine, recorded on all: with overlap, without, and with one late rank, in turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.datasets import IGNORED
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.recording.timeline import Timeline, recorded
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets, examples
from tinytorch.perf.measuring.codec import from_json, to_json

#: Steps of each way before the first that counts.
_WARM = 3
#: Rows and columns of the matrices that a burdened rank multiplies.
_BURDEN = 256
#: The ways of a step, as `StepRecordings` has them.
_WAYS = ("overlapped", "afterwards", "burdened")


class Burden(Module):
    """Extra work, so that a rank is late for a reason that a timeline can show: products of square matrices."""

    def __init__(self, products: int) -> None:
        self.products = products

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` multiplied by itself; the product is made as often as asked."""
        y = x
        for _ in range(self.products):
            y = x @ x
        return y


class Update(Module):
    """Puts an optimizer's step, which runs no op, among the module calls of a recording."""

    def forward(self, step: Callable[[], None]) -> None:
        """Run the step."""
        step()


class RecordedAdamW(AdamW):
    """`AdamW` whose steps are calls of `Update`."""

    def step(self) -> None:
        """Change every parameter that has a gradient."""
        Update()(super().step)


@dataclass(frozen=True)
class StepRecordings:
    """Timelines of single steps, taken in turns, equally many of each way.

    Attributes:
        overlapped, afterwards: gradients are sent while the backward runs, or after it.
        burdened: overlapped, and one rank multiplies matrices before its step.
    """

    overlapped: tuple[Timeline, ...]
    afterwards: tuple[Timeline, ...]
    burdened: tuple[Timeline, ...]


def record_steps(
    ranks: int,
    *,
    model: str = "gpt",
    batch: int = 64,
    steps: int = 12,
    bucket_bytes: int = 2**17,
    burdened: int,
    products: int = 24,
    seed: int = 0,
) -> StepRecordings:
    """Return timelines of ``steps`` data-parallel training steps of each way.

    The ranks are processes of this machine, with one BLAS thread each, kept on a core where they may be; the
    optimizer is AdamW.

    Args:
        ranks: how many, at least two.
        model: of the zoo.
        batch: examples in a step, shared out evenly.
        bucket_bytes: at which a bucket of gradients is sent off.
        burdened: the rank that multiplies matrices before some of its steps, to be found in their timelines.
        products: how many it makes, of 256 rows and columns.
        seed: of the order of the turns.

    Raises:
        ValueError: if a number is out of range, or ``batch`` is no multiple of ``ranks``.
        MPIMissingError, RankError: as `launch`.
    """
    if ranks < 2 or steps < 1 or products < 1:
        raise ValueError(f"ranks must be at least 2, steps and products 1, not {ranks}, {steps} and {products}")
    if batch < ranks or batch % ranks:
        raise ValueError(f"batch must be a multiple of {ranks} ranks, not {batch}")
    if not 0 <= burdened < ranks:
        raise ValueError(f"burdened must be one of the ranks 0 to {ranks - 1}, not {burdened}")
    models.entry(model)
    asked = {
        "model": model,
        "batch": batch,
        "steps": steps,
        "bucket_bytes": bucket_bytes,
        "products": products,
        "burdened": burdened,
        "seed": seed,
    }
    found = launch(record_on_rank, ranks, asked, threads=1, pinned=True)[0]
    return StepRecordings(
        *(tuple(from_json(json.loads(text), Timeline, "timeline") for text in found[way]) for way in _WAYS)
    )


def record_on_rank(
    communicator: Communicator,
    model: str,
    batch: int,
    steps: int,
    bucket_bytes: int,
    products: int,
    burdened: int,
    seed: int,
) -> dict[str, Any]:
    """Run `record_steps` on one rank; return the timelines by way on rank 0, as JSON."""
    entry = models.entry(model)
    part = batch // communicator.size
    own = slice(communicator.rank * part, (communicator.rank + 1) * part)
    inputs, targets = models.as_input(entry.example_input(batch)[own]), entry.example_target(batch)[own]
    trainers = {
        name: DataParallel(
            entry.make(0).train(),
            RecordedAdamW,
            models.loss_function(),
            communicator,
            bucket_bytes=bucket_bytes,
            overlap=overlap,
            terms=counted_targets(IGNORED) if model == "gpt" else examples,
        )
        for name, overlap in (("overlapped", True), ("afterwards", False))
    }
    trainers["burdened"] = trainers["overlapped"]
    burden, nothing = Burden(products if communicator.rank == burdened else 0), Burden(0)
    square = Tensor(np.random.default_rng(seed).standard_normal((_BURDEN, _BURDEN), np.float32))
    draw = np.random.default_rng(seed)  # the same on all ranks, as all have to take the same turn
    order = [way for _ in range(steps) for way in draw.permutation(_WAYS).tolist()]
    for trainer in list(trainers.values()) * _WARM:
        trainer.step((inputs, targets))
    found: dict[str, list[str]] = {name: [] for name in _WAYS}
    for way in order:
        with recorded(communicator) as recording:
            (burden if way == "burdened" else nothing)(square)
            trainers[way].step((inputs, targets))
        timeline = recording.gather()
        if timeline is not None:
            # As one string: many small objects would make each later collection of garbage longer.
            found[way].append(json.dumps(to_json(timeline)))
    return found


def typical(timelines: Sequence[Timeline]) -> Timeline:
    """Return the one whose wall time is the median of all, of two in the middle the shorter.

    Raises:
        ValueError: if there are none.
    """
    if not timelines:
        raise ValueError("timelines must hold at least one")
    return sorted(timelines, key=lambda timeline: timeline.wall_seconds)[(len(timelines) - 1) // 2]
