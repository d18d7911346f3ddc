"""Experiments on the speed of compressed layers and models: zeros, sparse storage, fewer units, lower rank."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression.csr import SparseLinear
from tinytorch.perf.compression.low_rank import LowRankLinear
from tinytorch.perf.compression.pruning import magnitude_prune
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.perf.ops.sparse import matrix_of

_DENSE = "dense"
#: Copies of a layer in different places of memory.
_COPIES = 4


def zeros_in_dense(width: int, rows: int, sparsities: Sequence[float], repeats: int = 15) -> dict[float, Measurement]:
    """Return the speedup that zeros alone bring a square linear layer: its time without any over that with a share.

    Where an array happens to lie can matter more than what is in it, so each share has `_COPIES` of its layer, which
    run one after the other in one timed call.
    """
    x = _input(rows, width)

    def run(sparsity: float) -> Callable[[], Any]:
        pruned = magnitude_prune(Linear(width, width, seed=0), sparsity)
        copies = [copy.deepcopy(pruned) for _ in range(_COPIES)]
        return lambda: [layer(x) for layer in copies]

    with no_grad():
        seconds = interleave({str(each): run(each) for each in (0.0, *sparsities)}, repeats=repeats, warmup_seconds=0.2)
    return {each: ratio(seconds["0.0"], seconds[str(each)], f"no zeros over {each:.0%}") for each in sparsities}


@dataclass(frozen=True)
class SparseSpeed:
    """A square layer in compressed sparse rows against the same layer dense: speedups by sparsity.

    Attributes:
        sparsities: shares of zeros, rising.
        ours: dense time over that of `SparseLinear`.
        scipy: dense time over that of SciPy's CSR matrix on inputs that lie as it wants them, without bias.
        break_even: the sparsity from which `ours` is above 1, by linear interpolation; one sample for each round.
        stored: bytes of the weight in CSR over those of the dense one.
    """

    sparsities: tuple[float, ...]
    ours: list[Measurement]
    scipy: list[Measurement]
    break_even: Measurement
    stored: list[float]


def sparse_speed(width: int, rows: int, sparsities: Sequence[float], repeats: int = 15) -> SparseSpeed:
    """Return the speed of sparse storage, all sparsities in turns with the dense layer.

    Raises:
        ValueError: if the sparsities are not two or more, rising, from 0 to 1.
    """
    if len(sparsities) < 2 or list(sparsities) != sorted(set(sparsities)):
        raise ValueError(f"sparsities must be two or more, rising, not {list(sparsities)}")
    pruned = [magnitude_prune(Linear(width, width, seed=0), each) for each in sparsities]
    twins = [SparseLinear(layer) for layer in pruned]  # type: ignore[arg-type]
    x = _input(rows, width)
    turned = np.ascontiguousarray(x.data.T)
    theirs = {
        f"SciPy {each}": _times(matrix_of(t.values.data, t.indices.data, t.starts.data, width), turned)
        for each, t in zip(sparsities, twins, strict=True)
    }
    own = dict(zip((f"CSR {each}" for each in sparsities), twins, strict=True))
    seconds = _in_turns({_DENSE: pruned[0], **own}, x, repeats, theirs)
    ours = [ratio(seconds[_DENSE], seconds[f"CSR {each}"], f"dense over CSR, {each:.0%} zeros") for each in sparsities]
    scipy = [ratio(seconds[_DENSE], seconds[f"SciPy {each}"], f"dense over SciPy, {each:.0%}") for each in sparsities]
    rounds = zip(*(each.samples for each in ours), strict=True)
    crossings = tuple(crossing(sparsities, one) for one in rounds)
    name = f"sparsity from which CSR is faster, {rows} rows, {width} wide"
    stored = [twin.weight_nbytes / (4 * width * width) for twin in twins]
    return SparseSpeed(tuple(sparsities), ours, scipy, Measurement(name, crossings, "%", ours[0].how), stored)


def crossing(places: Sequence[float], speedups: Sequence[float]) -> float:
    """Return where speedups over rising ``places`` come to stay at 1 or above, between neighbours linearly.

    It is the first place if all are, and 1 if the last is not.
    """
    below = [index for index, speedup in enumerate(speedups) if speedup < 1]
    if not below:
        return places[0]
    last = below[-1]
    if last == len(places) - 1:
        return 1.0
    share = (1 - speedups[last]) / (speedups[last + 1] - speedups[last])
    return places[last] + share * (places[last + 1] - places[last])


def low_rank_speedups(width: int, rows: int, ranks: Sequence[int], repeats: int = 15) -> list[Measurement]:
    """Return the time of a square linear layer over that of its `LowRankLinear` of each rank."""
    layer = Linear(width, width, seed=0)
    seconds = _in_turns(
        {_DENSE: layer, **{str(rank): LowRankLinear(layer, rank) for rank in ranks}}, _input(rows, width), repeats
    )
    return [ratio(seconds[_DENSE], seconds[str(rank)], f"full rank over rank {rank}") for rank in ranks]


def model_speedups(
    model: Module, versions: Mapping[str, Module], inputs: Any, repeats: int = 15
) -> dict[str, Measurement]:
    """Return the time of a forward pass of ``model`` over that of each version, all in turns."""
    seconds = _in_turns({_DENSE: model, **versions}, inputs, repeats)
    return {name: ratio(seconds[_DENSE], seconds[name], f"full model over {name}, forward pass") for name in versions}


def over_seeds(name: str, values: Sequence[float], unit: str = "%") -> Measurement:
    """Return one number of each seed as a `Measurement`: its median is over trainings, not over runs of the clock."""
    return Measurement(name, tuple(float(value) for value in values), unit, {"samples_are": "seeds of training"})


def differences(name: str, candidate: Sequence[float], baseline: Sequence[float]) -> Measurement:
    """Return candidate less baseline of each seed: shares (0 to 1), shown in points."""
    return over_seeds(name, [after - before for after, before in zip(candidate, baseline, strict=True)], "points")


def _input(rows: int, width: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((rows, width), dtype=np.float32))


def _times(matrix: Any, turned: Array) -> Callable[[], Any]:
    return lambda: matrix @ turned


def _in_turns(
    layers: Mapping[str, Any], x: Any, repeats: int, others: Mapping[str, Callable[[], Any]] | None = None
) -> dict[str, Measurement]:
    def forward_of(layer: Any) -> Callable[[], Any]:
        return lambda: layer(x)

    functions = {name: forward_of(layer) for name, layer in layers.items()} | dict(others or {})
    with no_grad():
        return interleave(functions, repeats=repeats, warmup_seconds=0.2)
