"""Speed and bytes of compressed layers: sparse storage, and fewer units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tinytorch import models
from tinytorch.chapters.calls import in_turns
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression.pruning import magnitude_prune
from tinytorch.perf.compression.sparsity import SparseLinear, csr_nbytes
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, derived, ratio
from tinytorch.perf.measuring.conditions import of_any
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all
from tinytorch.perf.ops.sparse import matrix_of
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization.convert import stored_bytes

Key = TypeVar("Key")
_DENSE, _WARMUP = "dense", 0.2
_BY_LINE = "a part of each call, and one for each weight that is left"


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


def inputs_of(rows: int, width: int) -> Tensor:
    """Return so many rows of normal numbers."""
    return Tensor(np.random.default_rng(1).standard_normal((rows, width), dtype=np.float32))


@dataclass(frozen=True)
class SparseSpeed:
    """A square layer in compressed sparse rows by share of zeros, and from which share on it is faster.

    ``levels`` have the share of ``zeros``, the bytes ``stored``, and the dense time over ours and over that of SciPy,
    which adds no bias. ``line`` goes through the first share and the last; ``predicted`` is where it breaks even.
    """

    levels: Mapping[float, dict[str, Any]]
    break_even: Measurement | Unmeasured
    line: Line
    predicted: Modelled

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


def sparse_speed(
    width: int, rows: int, sparsities: Sequence[float], repeats: int = 30, *, scipy_from: float = 1.0
) -> SparseSpeed:
    """Return the speed of sparse storage at rising sparsities, in turns with the dense layer; SciPy's from one on."""
    pruned = [magnitude_prune(Linear(width, width, seed=0), each) for each in sparsities]
    twins = dict(zip(sparsities, map(SparseLinear, pruned), strict=True))
    x = inputs_of(rows, width)
    turned = np.ascontiguousarray(x.data.T)  # as SciPy wants it

    def product(twin: SparseLinear) -> Callable[[], Any]:
        matrix = matrix_of(twin.values.data, twin.indices.data, twin.starts.data, width)
        return lambda: matrix @ turned

    theirs = {f"SciPy {each}": product(twin) for each, twin in twins.items() if each >= scipy_from}
    layers = {_DENSE: pruned[0], **{f"CSR {each}": twin for each, twin in twins.items()}}
    seconds = in_turns(layers, x, repeats, theirs, warmup_seconds=_WARMUP)

    def faster(kind: str, each: float) -> Measurement | Unmeasured:
        if f"{kind} {each}" not in seconds:
            return Unmeasured("SciPy's product was not timed at this share of zeros")
        return ratio(seconds[_DENSE], seconds[f"{kind} {each}"], f"dense over {kind}, {each:.0%} zeros")

    levels = {
        each: {
            "zeros": Counted(each, "%", "share of zeros"),
            "stored": share(twin.weight_nbytes, 4 * width * width, f"bytes of CSR with {each:.0%} zeros, of the dense"),
            "ours": faster("CSR", each),
            "scipy": faster("SciPy", each),
        }
        for each, twin in twins.items()
    }
    gains: list[Any] = [row["ours"] for row in levels.values()]
    line = line_through(sparsities[0], gains[0], sparsities[-1], gains[-1])
    what = f"{rows} row" if rows == 1 else f"{rows} rows"
    return SparseSpeed(
        levels,
        time_break_even(sparsities, gains, f"sparsity from which CSR is faster, {what}"),
        line,
        line.break_even(f"sparsity from which CSR is faster, predicted, {what}"),
    )


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


def thinner_versions(trained: Mapping[str, Module], thin: Mapping[str, Module]) -> dict[str, dict[str, Any]]:
    """Return what each model of the zoo promises and gives without some of its units, on a batch of 64.

    Fewer FLOPs are ``promised`` as a speedup; ``gain`` is that of a forward pass. It is so many times ``smaller``, and
    ``score`` is the share of the test set that is right.
    """

    def thinner(name: str, version: Module) -> dict[str, Any]:
        shape, what = models.entry(name).example_input(1).shape, f"FLOPs of the {name.upper()} before over after"
        before, after = (Profiler().count_flops(each, shape) for each in (trained[name], version))
        return {
            "promised": Counted(before / after, "", what),
            "gain": model_speedups(trained[name], {"thinner": version}, models.example(name, 64))["thinner"],
            "smaller": fewer_bytes(trained[name], version),
            "score": Counted(models.accuracy(version, name), "%", "share of the test set that is right"),
        }

    return {name.upper(): thinner(name, each) for name, each in thin.items()}


def short_of_promise(found: Mapping[str, Mapping[str, Any]]) -> Judgement:
    """Return whether each model gains less than its FLOPs promise."""
    return verdict_of_all(
        verdict_between(each["gain"], high=each["promised"].value, strict=True) for each in found.values()
    )
