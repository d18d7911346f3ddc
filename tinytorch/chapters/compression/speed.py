"""Speed and bytes of compressed layers: zeros in dense products, sparse storage, fewer units, lower rank."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tinytorch import models
from tinytorch.chapters.calls import in_turns
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression.low_rank import LowRankLinear
from tinytorch.perf.compression.pruning import magnitude_prune
from tinytorch.perf.compression.sparsity import SparseLinear, csr_nbytes
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, derived, interleave, ratio
from tinytorch.perf.measuring.conditions import of_any
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all
from tinytorch.perf.ops.sparse import matrix_of
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization.convert import stored_bytes

Key = TypeVar("Key")
_DENSE, _WARMUP = "dense", 0.2
_BY_LINE = "a part of each call, and one for each weight that is left"
#: Copies of a layer in different places of memory.
_COPIES = 4


def share(part: float, whole: float, what: str) -> Counted:
    """Return which share of the whole a part is, both counted."""
    return Counted(part / whole, "%", what)


def by_arithmetic(part: float, whole: float, unit: str, what: str) -> Modelled:
    """Return a part over the whole, of what nobody has built."""
    return Modelled(part / whole, unit, what, "arithmetic")


def fewer_bytes(model: Module, version: Module, what: str = "bytes before over after") -> Counted:
    """Return the stored bytes of a model over those of a version of it."""
    return Counted(stored_bytes(model) / stored_bytes(version), "", what)


def fewer_weights(model: Module, what: str) -> Counted:
    """Return the parameters of a model over those that are not zero."""
    arrays = [each.data for each in model.parameters()]
    return Counted(sum(each.size for each in arrays) / sum(int(np.count_nonzero(each)) for each in arrays), "", what)


def model_speedups(model: Any, versions: Mapping[Key, Any], inputs: Any, repeats: int = 30) -> dict[Key, Measurement]:
    """Return the time of a forward pass of ``model`` over that of each version, all in turns."""
    every = {_DENSE: model, **{str(key): version for key, version in versions.items()}}
    seconds = in_turns(every, inputs, repeats, warmup_seconds=_WARMUP)
    return {key: ratio(seconds[_DENSE], seconds[str(key)], f"full model over {key}, forward pass") for key in versions}


def _input(rows: int, width: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((rows, width), dtype=np.float32))


@dataclass(frozen=True)
class WithZeros:
    """A layer with a share of zeros: speed, bytes and work of a row, and ``kept``, its bytes of those without zeros."""

    share: Counted
    speed: Measurement
    stored: Counted
    kept: Counted
    flops: Counted


def zeros_in_dense(width: int, rows: int, sparsities: Sequence[float], repeats: int = 30) -> dict[float, WithZeros]:
    """Return what zeros alone bring a square linear layer: the speed is its time without any over that with a share.

    Where an array happens to lie can matter more than what is in it, so each share has `_COPIES` of its layer, which
    run one after the other in one timed call.
    """
    x = _input(rows, width)
    pruned = {each: magnitude_prune(Linear(width, width, seed=0), each) for each in (0.0, *sparsities)}

    def run(layer: Any) -> Callable[[], Any]:
        copies = [copy.deepcopy(layer) for _ in range(_COPIES)]
        return lambda: [each(x) for each in copies]

    with no_grad():
        runs = {str(each): run(layer) for each, layer in pruned.items()}
        seconds = interleave(runs, repeats=repeats, warmup_seconds=0.2)
    stored = {each: stored_bytes(layer) for each, layer in pruned.items()}
    return {
        each: WithZeros(
            Counted(each, "%", "share of zeros"),
            ratio(seconds["0.0"], seconds[str(each)], f"no zeros over {each:.0%}"),
            Counted(stored[each], "B", "state of the layer"),
            share(stored[each], stored[0.0], f"bytes of the layer with {each:.0%} zeros, of those without"),
            Counted(Profiler().count_flops(pruned[each], (1, width)), "FLOP", "work of a row"),
        )
        for each in sparsities
    }


@dataclass(frozen=True)
class SparseLayer:
    """A layer in compressed sparse rows: its bytes, and the dense time over ours and SciPy's, which adds no bias."""

    zeros: Counted
    stored: Counted
    ours: Measurement
    scipy: Measurement


@dataclass(frozen=True)
class SparseSpeed:
    """A square layer in compressed sparse rows by share of zeros, and from which share on it is faster.

    ``line`` goes through the first share that was tried and the last but one; ``predicted`` is where it breaks even,
    ``far`` the speedup that it gives at the last share.
    """

    levels: Mapping[float, SparseLayer]
    break_even: Measurement | Unmeasured
    line: Line
    predicted: Modelled
    far: Modelled

    @property
    def as_predicted(self) -> Judgement | Unmeasured:
        """Whether it breaks even within ten points of the share of zeros that the line predicts."""
        if isinstance(self.break_even, Unmeasured):
            return self.break_even
        return verdict_between(self.break_even, self.predicted.value - 0.1, self.predicted.value + 0.1)


@dataclass(frozen=True)
class Line:
    """The time of a sparse product over that of the dense one: a part of each call, and one for each weight left.

    ``call`` is what no zero shortens, of the dense product; ``weight`` what a stored weight takes, over a dense one.
    """

    call: Measurement
    weight: Measurement

    def break_even(self, name: str) -> Modelled:
        """Return the share of zeros at which the product takes as long as the dense one."""
        density = Measurement(name, tuple(1 / weight for weight in self.weight.samples), "%", self.weight.conditions)
        return Modelled.by(_BY_LINE, _zeros_at(name, density))

    def speedup(self, zeros: float, name: str) -> Modelled:
        """Return the speedup at a share of zeros."""
        pairs = zip(self.call.samples, self.weight.samples, strict=True)
        samples = tuple(1 / (call + (1 - call) * (1 - zeros) * weight) for call, weight in pairs)
        return Modelled.by(_BY_LINE, Measurement(name, samples, "", self.weight.conditions))


def line_through(fuller: float, full: Measurement, sparser: float, sparse: Measurement) -> Line:
    """Return the line through the speedups at two shares of zeros, taken in turns."""
    more, less = (1 / np.array(one.samples) for one in (full, sparse))
    slope = (more - less) / (sparser - fuller)
    call = less - (1 - sparser) * slope
    conditions = of_any([full.conditions, sparse.conditions])
    return Line(
        Measurement("part of a call, over a dense product", tuple(call), "%", conditions),
        Measurement("time of a stored weight over that of a dense one", tuple(slope / (1 - call)), "", conditions),
    )


def sparse_speed(width: int, rows: int, sparsities: Sequence[float], repeats: int = 30) -> SparseSpeed:
    """Return the speed of sparse storage at three or more rising sparsities, in turns with the dense layer."""
    pruned = [magnitude_prune(Linear(width, width, seed=0), each) for each in sparsities]
    twins = dict(zip(sparsities, map(SparseLinear, pruned), strict=True))
    x = _input(rows, width)
    turned = np.ascontiguousarray(x.data.T)  # as SciPy wants it

    def product(twin: SparseLinear) -> Callable[[], Any]:
        matrix = matrix_of(twin.values.data, twin.indices.data, twin.starts.data, width)
        return lambda: matrix @ turned

    theirs = {f"SciPy {each}": product(twin) for each, twin in twins.items()}
    layers = {_DENSE: pruned[0], **{f"CSR {each}": twin for each, twin in twins.items()}}
    seconds = in_turns(layers, x, repeats, theirs, warmup_seconds=_WARMUP)
    levels = {
        each: SparseLayer(
            Counted(each, "%", "share of zeros"),
            share(twin.weight_nbytes, 4 * width * width, f"bytes of CSR with {each:.0%} zeros, of the dense"),
            ratio(seconds[_DENSE], seconds[f"CSR {each}"], f"dense over CSR, {each:.0%} zeros"),
            ratio(seconds[_DENSE], seconds[f"SciPy {each}"], f"dense over SciPy, {each:.0%}"),
        )
        for each, twin in twins.items()
    }
    gains = {each: layer.ours for each, layer in levels.items()}
    first, *_, near, last = gains
    line = line_through(first, gains[first], near, gains[near])
    what = f"{rows} row" if rows == 1 else f"{rows} rows"
    return SparseSpeed(
        levels,
        time_break_even(sparsities, list(gains.values()), f"sparsity from which CSR is faster, {what}"),
        line,
        line.break_even(f"sparsity from which CSR is faster, predicted, {what}"),
        line.speedup(last, f"speedup of CSR with {last:.0%} zeros, predicted, {what}"),
    )


def beside(one: SparseSpeed, many: SparseSpeed) -> list[dict[str, SparseLayer]]:
    """Return the same layers, run on few rows and on many, side by side."""
    return [{"one": one.levels[each], "many": layer} for each, layer in many.levels.items()]


def time_break_even(places: Sequence[float], speedups: Sequence[Measurement], name: str) -> Measurement | Unmeasured:
    """Return where speedups in turns, one at each of the rising ``places``, come to stay above 1: a `crossing` a round.

    Unmeasured where its interval reaches the first place or beyond the last: the crossing may then lie farther out.
    """
    rounds = zip(*(each.samples for each in speedups), strict=True)
    densities = tuple(1 - crossing(places, one) for one in rounds)
    found = _zeros_at(name, Measurement(name, densities, "%", of_any(each.conditions for each in speedups)))
    if places[0] < found.interval.low and found.interval.high <= places[-1]:
        return found
    return Unmeasured(
        "the share of zeros where dense and sparse products break even may lie beyond those that were tried"
    )


def _zeros_at(name: str, density: Measurement) -> Measurement:
    """Return the share of zeros at the median density at which a product of these speedups breaks even.

    The density, not the share of zeros, is in proportion to the speedup: by what repeats of this differ, that does.
    """
    return derived(name, lambda share: np.maximum(1 - share, 0.0), density, unit="%")


def crossing(places: Sequence[float], speedups: Sequence[float]) -> float:
    """Return where speedups over rising ``places`` come to stay at 1 or above, between neighbours linearly.

    It is the first place if all are, and 1 if the last is not.
    """
    last = max((index for index, speedup in enumerate(speedups) if speedup < 1), default=-1)
    if last in (-1, len(places) - 1):
        return places[0] if last == -1 else 1.0
    part = (1 - speedups[last]) / (speedups[last + 1] - speedups[last])
    return places[last] + part * (places[last + 1] - places[last])


def bytes_break_even(width: int) -> Counted:
    """Return the sparsity from which a square weight takes fewer bytes in compressed sparse rows."""
    size = width * width
    left = next(n for n in range(size, 0, -1) if csr_nbytes(width, width, n) < 4 * size)
    return Counted(1 - left / size, "%", f"sparsity from which CSR takes fewer bytes, {width:,} by {width:,}, exact")


@dataclass(frozen=True)
class Thinner:
    """A model without some of its units: fewer FLOPs, which promise a speedup, what it gains, and its score."""

    model: str
    ratio: Counted
    promised: Counted
    gain: Measurement
    smaller: Counted
    score: Counted


def thinner_versions(
    trained: Mapping[str, Module],
    thin: Mapping[str, Mapping[float, Module]],
    gains: Mapping[str, Mapping[float, Measurement]],
) -> dict[tuple[str, float], Thinner]:
    """Return what each model of the zoo promises and gives without some units, by its name and the ratio removed."""

    def thinner(name: str, removed: float, version: Module) -> Thinner:
        shape, what = models.entry(name).example_input(1).shape, f"FLOPs of the {name.upper()} over those without"
        before, after = (Profiler().count_flops(each, shape) for each in (trained[name], version))
        return Thinner(
            name.upper(),
            Counted(removed, "%", "share of units"),
            Counted(before / after, "", f"{what} {removed:.0%} of its units"),
            gains[name][removed],
            fewer_bytes(trained[name], version),
            Counted(models.accuracy(version, name), "%", "share of the test set that is right"),
        )

    return {(name, removed): thinner(name, removed, each) for name in thin for removed, each in thin[name].items()}


def short_of_promise(found: Sequence[Thinner]) -> Judgement:
    """Return whether each model gains less than its FLOPs promise."""
    return verdict_of_all(verdict_between(each.gain, high=each.promised.value, strict=True) for each in found)


@dataclass(frozen=True)
class LowRankLayer:
    """A square layer as two of a lower rank: how many times fewer FLOPs and bytes it has, and its speedup."""

    promised: Counted
    gain: Measurement


def low_rank_speedups(width: int, rows: int, ranks: Sequence[int], repeats: int = 30) -> dict[int, LowRankLayer]:
    """Return what a square linear layer promises and gains as a `LowRankLinear` of each rank."""
    layer = Linear(width, width, seed=0)
    widest = LowRankLinear(layer, max(ranks))
    gains = model_speedups(layer, {rank: widest.cut(rank) for rank in ranks}, _input(rows, width), repeats)
    return {
        rank: LowRankLayer(Counted(width / (2 * rank), "", "FLOPs before over after"), gain)
        for rank, gain in gains.items()
    }
