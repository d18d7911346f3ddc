"""Training steps on ranks of this machine, recorded on all: with overlap, without, and with one late rank, in turns."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinytorch.chapters.distributed.step_programs import SEED, check_batch, data_parallel, share
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.recording.stragglers import Straggler
from tinytorch.perf.distributed.recording.timeline import Timeline, recorded
from tinytorch.perf.measuring import Counted, Unmeasured
from tinytorch.perf.measuring.codec import from_json, to_json

#: Steps of each way before the first that counts; rows and columns of the matrices that a burdened rank multiplies;
#: and bytes at which a bucket of gradients is sent off.
_WARM, _BURDEN, _BUCKET = 3, 256, 2**17
#: The ways of a step: gradients go meanwhile, or afterwards, or meanwhile with one rank burdened.
_WAYS = ("overlapped", "afterwards", "burdened")


class Burden(Module):
    """Extra work, so that a rank is late for a reason that a timeline can show: products of square matrices."""

    def forward(self, x: Tensor, products: int) -> None:
        """Multiply ``x`` by itself, so many times."""
        for _ in range(products):
            _ = x @ x


def record_steps(
    ranks: int, *, model: str = "gpt", batch: int, steps: int, burdened: int, products: int = 24
) -> dict[str, Timeline]:
    """Return the timeline of the typical one of ``steps`` data-parallel training steps of each way.

    The model is one of the zoo, trained with AdamW. The rank ``burdened`` makes so many ``products`` of matrices before
    some of its steps, to be found in their timelines.
    """
    check_batch(batch, ranks)
    asked = {"model": model, "batch": batch, "steps": steps, "burdened": burdened, "products": products}
    told = launch(record_on_rank, ranks, asked, threads=1, pinned=True)[0]
    return {way: typical([from_json(json.loads(text), Timeline, "timeline") for text in told[way]]) for way in _WAYS}


def record_on_rank(
    communicator: Communicator, model: str, batch: int, steps: int, burdened: int, products: int
) -> dict[str, Any]:
    """Run `record_steps` on one rank; return the timelines by way on rank 0, as JSON."""
    own = share(model, batch, communicator)
    trainers = {
        way: data_parallel(model, communicator, bucket_bytes=_BUCKET, overlap=way == "overlapped")
        for way in ("overlapped", "afterwards")
    }
    trainers["burdened"] = trainers["overlapped"]
    burden = Burden()
    square = Tensor(np.random.default_rng(SEED).standard_normal((_BURDEN, _BURDEN), np.float32))
    draw = np.random.default_rng(SEED)  # the same on all ranks, as all have to take the same turn
    order = [way for _ in range(steps) for way in draw.permutation(_WAYS).tolist()]
    for trainer in list(trainers.values()) * _WARM:
        trainer.step(own)
    found: dict[str, list[str]] = {name: [] for name in _WAYS}
    for way in order:
        with recorded(communicator) as recording:
            burden(square, products if way == "burdened" and communicator.rank == burdened else 0)
            trainers[way].step(own)
        timeline = recording.gather()
        if timeline is not None:
            # As one string: many small objects would make each later collection of garbage longer.
            found[way].append(json.dumps(to_json(timeline)))
    return found


def typical(timelines: Sequence[Timeline]) -> Timeline:
    """Return the one whose wall time is the median of all, of two in the middle the shorter."""
    return sorted(timelines, key=lambda timeline: timeline.wall_seconds)[(len(timelines) - 1) // 2]


def sent_early(timeline: Timeline) -> Counted:
    """Return the share of its gradients that rank 0 sends off before the backward pass is over."""
    over = max(event.end for event in timeline.tracks[0].profile.events if event.phase == "backward")
    calls = [call for matched in timeline.matched_calls for call in matched.calls if call.rank == 0]
    gradients = [call for call in calls if call.info.group != "world"]
    early = sum(call.bytes for call in gradients if call.arrival < over) / sum(call.bytes for call in gradients)
    return Counted(early, "%", "bytes of gradients that set off before the backward pass is over")


def named(waits: Sequence[Straggler], burdened: int) -> tuple[Counted | Unmeasured, str]:
    """Return the rank for which the others waited longest, and whether it is the one that was given more work."""
    if not waits:
        return Unmeasured("no rank waited longer for another than the clocks can be wrong by"), "none"
    rank = Counted(waits[0].rank, "1", "the rank for which the others waited longest")
    return rank, "the burdened one" if waits[0].rank == burdened else "another one"
