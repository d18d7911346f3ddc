"""Speed and bytes of compressed layers: zeros in dense products, sparse storage, fewer units, lower rank."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tinytorch import models
from tinytorch.chapters import sources
from tinytorch.chapters.gpt2 import GPT2
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression.low_rank import LowRankLinear, break_even_rank
from tinytorch.perf.compression.pruning import magnitude_prune
from tinytorch.perf.compression.sparsity import SparseLinear, csr_nbytes, measure_sparsity
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Statistic, interleave, ratio
from tinytorch.perf.measuring.conditions import Conditions, of_any
from tinytorch.perf.measuring.judge import Verdict, decided
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.ops.sparse import matrix_of
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.report import Column, Page, color, verdict_between, verdict_between_all, verdict_of_all
from tinytorch.report.figures import draw_line, subplots

Key = TypeVar("Key")
_DENSE = "dense"
_NO_BREAK_EVEN = "the share of zeros where dense and sparse products break even may lie beyond those that were tried"
#: Copies of a layer in different places of memory.
_COPIES = 4
#: Share of zeros at which the page asks what a stored weight costs.
_HALF = 0.5
#: Width of the layer that gets zeros, and of those that become sparse or thin.
_ZEROS_WIDTH, _WIDTH = 512, 1024
ZEROS = (
    Column("share", "Zeros", "%"),
    Column("speed", "Speedup"),
    Column("stored", "Stored", "B"),
    Column("flops", "FLOPs a row", "FLOP"),
)
CSR = (
    Column("zeros", "Zeros", "%"),
    Column("stored", "Bytes, of the dense", "%"),
    Column("one", "Speedup, 1 row"),
    Column("many", "64 rows"),
    Column("scipy", "64 rows, SciPy"),
)
STRUCTURED = (
    Column("model", "Model"),
    Column("ratio", "Units removed", "%"),
    Column("promised", "Fewer FLOPs", ""),
    Column("gain", "Speedup"),
    Column("smaller", "Fewer bytes", ""),
    Column("score", "Score, not fine-tuned", "%"),
)
LOW_RANK = (
    Column("rank", "Rank", "1"),
    Column("promised", "Fewer FLOPs and bytes", ""),
    Column("gain", "Speedup"),
)
LOW_RANK_MLP = (
    Column("ranks", "Ranks kept", "%"),
    Column("predicted", "Error, predicted", "%", modelled=True),
    Column("error", "Error, found", "%"),
    Column("stored", "Stored, of dense", "%"),
    Column("gain", "Speedup"),
    Column("change", "Change of accuracy"),
)


def zeros_in_dense(width: int, rows: int, sparsities: Sequence[float], repeats: int = 30) -> dict[float, Measurement]:
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
        break_even: the sparsity from which `ours` is above 1, `time_break_even`.
        stored: bytes of the weight in CSR over those of the dense one.
    """

    sparsities: tuple[float, ...]
    ours: list[Measurement]
    scipy: list[Measurement]
    break_even: Measurement | None
    stored: list[float]


def sparse_speed(width: int, rows: int, sparsities: Sequence[float], repeats: int = 30) -> SparseSpeed:
    """Return the speed of sparse storage, all sparsities in turns with the dense layer.

    Raises:
        ValueError: if the sparsities are not two or more, rising, from 0 to 1.
    """
    if len(sparsities) < 2 or list(sparsities) != sorted(set(sparsities)):
        raise ValueError(f"sparsities must be two or more, rising, not {list(sparsities)}")
    pruned = [magnitude_prune(Linear(width, width, seed=0), each) for each in sparsities]
    twins = [SparseLinear(layer) for layer in pruned]
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
    break_even = time_break_even(sparsities, ours, f"sparsity from which CSR is faster, {rows} rows, {width} wide")
    stored = [twin.weight_nbytes / (4 * width * width) for twin in twins]
    return SparseSpeed(tuple(sparsities), ours, scipy, break_even, stored)


def time_break_even(places: Sequence[float], speedups: Sequence[Measurement], name: str) -> Statistic | None:
    """Return where speedups in turns, one at each of the rising ``places``, come to stay above 1: a `crossing` a round.

    None where its interval reaches the first place or beyond the last, as the crossing then may lie farther out.
    """
    rounds = zip(*(each.samples for each in speedups), strict=True)
    conditions = of_any(each.conditions for each in speedups)
    found = _share_of_zeros(name, tuple(1 - crossing(places, one) for one in rounds), conditions)
    return found if places[0] < found.interval.low and found.interval.high <= places[-1] else None


def _share_of_zeros(name: str, densities: tuple[float, ...], conditions: Conditions) -> Statistic:
    """Return the share of zeros at the median density at which a product of these speedups breaks even.

    The density, not the share of zeros, is in proportion to the speedup: by what repeats of this differ, that does.
    """
    density = Measurement(name, densities, "%", conditions)
    ends = density.interval
    return Statistic(
        name,
        tuple(1 - each for each in densities),
        "%",
        conditions.within_bounds("median"),
        value=1 - density.median,
        bounds=Interval(max(1 - ends.high, 0.0), 1 - ends.low, ends.confidence),
    )


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


def low_rank_speedups(width: int, rows: int, ranks: Sequence[int], repeats: int = 30) -> list[Measurement]:
    """Return the time of a square linear layer over that of its `LowRankLinear` of each rank."""
    layer = Linear(width, width, seed=0)
    widest = LowRankLinear(layer, max(ranks))
    seconds = _in_turns(
        {_DENSE: layer, **{str(rank): widest.cut(rank) for rank in ranks}}, _input(rows, width), repeats
    )
    return [ratio(seconds[_DENSE], seconds[str(rank)], f"full rank over rank {rank}") for rank in ranks]


def model_speedups(
    model: Module, versions: Mapping[Key, Module], inputs: Any, repeats: int = 30
) -> dict[Key, Measurement]:
    """Return the time of a forward pass of ``model`` over that of each version, all in turns."""
    seconds = _in_turns({_DENSE: model, **{str(key): version for key, version in versions.items()}}, inputs, repeats)
    return {key: ratio(seconds[_DENSE], seconds[str(key)], f"full model over {key}, forward pass") for key in versions}


def record_zeros(page: Page, dense: Mapping[float, Measurement], mlp: Module, pruned: Module) -> None:
    """Show that zeros save nothing by themselves, and the course's claim on them.

    Args:
        page: where to.
        dense: what `zeros_in_dense` found by share of zeros, nine tenths among them.
        mlp: before pruning; ``pruned``, after.
    """
    layers = {share: magnitude_prune(Linear(_ZEROS_WIDTH, _ZEROS_WIDTH, seed=0), share) for share in (0, *dense)}
    page.table(
        "zeros",
        [
            {
                "share": Counted(share, "%", "share of zeros"),
                "speed": speed,
                "stored": stored_bytes(layers[share]),
                "flops": Profiler().count_flops(layers[share], (1, _ZEROS_WIDTH)),
            }
            for share, speed in dense.items()
        ],
        ZEROS,
        caption="A linear layer of 512 by 512 with zeros among its weights, 64 rows: speedup over the same layer "
        "without zeros, bytes of its state, and work.",
    )
    zeros = measure_sparsity(pruned) / 100
    page.number("sparsity-after", Counted(zeros, "%", "zeros among the weights of the pruned MLP"))
    page.number("bytes-before", stored_bytes(mlp), unit="B", what="state of the MLP")
    page.number("bytes-after", stored_bytes(pruned), unit="B", what="state of the pruned MLP")
    page.number("zeros-speedup", dense[0.9])
    page.number(
        "zeros-stored",
        Counted(
            stored_bytes(layers[0.9]) / stored_bytes(layers[0]),
            "%",
            "bytes of the layer with nine tenths of zeros, of those without",
        ),
    )
    page.claim(
        "pruning-is-faster",
        statement="Setting small weights to zero makes models smaller and faster.",
        source=sources.COURSE_COMPRESSION,
        source_url=sources.COURSE_COMPRESSION_URL,
        quote="Magnitude pruning: Set small weights to zero … Benefit: Smaller models, faster inference, less memory",
        verdict=decided(stored_bytes(layers[0.9]) < stored_bytes(layers[0])),
        evidence="With nine tenths of its weights zero, the layer took {zeros-stored} of the bytes. The bytes decide, "
        "whatever the speed.",
        counted=True,
    )


def stored_cost(found: SparseSpeed, name: str) -> Measurement:
    """Return the time that a stored weight takes over that of a weight of the dense product, at half of the weights.

    Raises:
        ValueError: if half of the weights is not among the sparsities.
    """
    return _at_half(found).per(1 / (1 - _HALF), "", name)


def predicted_break_even(found: SparseSpeed, name: str) -> Statistic:
    """Return the sparsity from which a sparse product is faster, if a stored weight costs the same at each sparsity.

    It then pays from the density on that is one over its `stored_cost`; raises as that does.
    """
    half = _at_half(found)
    return _share_of_zeros(name, tuple((1 - _HALF) * each for each in half.samples), half.conditions)


def _at_half(found: SparseSpeed) -> Measurement:
    """Return the speedup of `SparseLinear` at half of the weights."""
    return found.ours[found.sparsities.index(_HALF)]


def record_sparse(
    page: Page, one: SparseSpeed, many: SparseSpeed, zeros: Measurement, pruned: Module, smaller: Module
) -> None:
    """Show from which share of zeros on sparse storage is smaller, and from which it is faster.

    Args:
        page: where to; it knows by then what zeros bring a dense product.
        one: of one row, 1,024 wide; ``many``, of 64 rows; both with half and nine tenths of zeros, among others.
        zeros: what they bring a dense product, speedup with nine tenths of them.
        pruned: a model with zeros, dense; ``smaller``, the same in compressed sparse rows.
    """
    figure, ax = subplots(height=3.2)
    percent = [100 * level for level in many.sparsities]
    draw_line(ax, percent, one.ours, quantity="speedup", variant="cached", label="CSR, 1 row")
    draw_line(ax, percent, many.ours, quantity="speedup", variant="compiled", label="CSR, 64 rows")
    draw_line(ax, percent, many.scipy, quantity="speedup", variant="reference", label="SciPy, 64 rows")
    ax.axhline(1, color=color("baseline"), linewidth=0.8)
    ax.set_yscale("log")
    ax.set_xlabel("zeros (%)")
    ax.legend(loc="upper left")
    page.figure(
        "csr-speed",
        figure,
        caption="Speedup of sparse over dense products, 1,024 inputs and outputs, one thread. Above the line at one, "
        "storing only what is left saves time, too.",
        alt="Three lines of the speedup of CSR over the dense product by sparsity: this book's kernel for 1 row and "
        "for 64, and SciPy's for 64. A level line marks one.",
    )
    shares = [Counted(share, "%", "share of zeros") for share in many.sparsities]
    stored = [Counted(share, "%", "bytes of CSR over those of the dense") for share in many.stored]
    rows = zip(shares, stored, one.ours, many.ours, many.scipy, strict=True)
    page.table(
        "csr",
        [dict(zip(("zeros", "stored", "one", "many", "scipy"), row, strict=True)) for row in rows],
        CSR,
        caption="Sparse storage of a layer of 1,024 by 1,024: bytes and speedup over the dense layer.",
    )
    size = _WIDTH * _WIDTH
    left = next(n for n in range(size, 0, -1) if csr_nbytes(_WIDTH, _WIDTH, n) < 4 * size)
    page.number(
        "bytes-break-even",
        Counted(1 - left / size, "%", "sparsity from which CSR takes fewer bytes, 1,024 by 1,024, exact"),
    )
    for key, rows_at_once, found in (("one", "1 row", one), ("many", "64 rows", many)):
        cost = stored_cost(found, f"time of a stored weight over that of a dense one, {rows_at_once}")
        page.number(f"stored-cost-{key}", cost)
        predicted = predicted_break_even(found, f"sparsity from which CSR is faster, predicted, {rows_at_once}")
        page.number(
            f"break-even-predicted-{key}", Modelled.by("the cost of a stored weight, whatever their number", predicted)
        )
        if found.break_even is None:
            page.absent(f"time-break-even-{key}", reason=_NO_BREAK_EVEN)
        else:
            page.number(f"time-break-even-{key}", found.break_even)
    tenth = many.sparsities.index(0.9)
    what = "bytes of CSR with nine tenths of zeros, of the dense"
    page.number("csr-90", Counted(many.stored[tenth], "%", what))
    page.number("csr-90-speed", many.ours[tenth])
    fewer = stored_bytes(pruned) / stored_bytes(smaller)
    page.number("mlp-csr", Counted(fewer, "", "bytes of the pruned MLP, dense over CSR"))
    active = sum(each.size for each in pruned.parameters()) / sum(
        int(np.count_nonzero(each.data)) for each in pruned.parameters()
    )
    page.number("mlp-active", Counted(active, "", "parameters of the pruned MLP over those that are not zero"))
    page.claim(
        "sparse-is-smaller",
        statement="Stored sparsely, a model takes as many times less memory as it has fewer weights.",
        source=sources.COURSE_COMPRESSION,
        source_url=sources.COURSE_COMPRESSION_URL,
        quote="Compression ratio: …x fewer active parameters … With sparse storage formats, this means …x less memory!",
        verdict=decided(fewer >= 0.9 * active),
        evidence="The pruned MLP has {mlp-active} fewer active parameters, and in compressed sparse rows it is "
        "{mlp-csr} smaller: positions take bytes, too, as the same module says elsewhere. The test allows a tenth.",
        counted=True,
    )
    page.claim(
        "speed-needs-sparse-kernels",
        statement="To be faster, zeros need a kernel that skips them.",
        source=sources.COURSE_COMPRESSION,
        source_url=sources.COURSE_COMPRESSION_URL,
        quote="achieving speedup requires special sparse computation libraries",
        verdict=verdict_of_all(
            [
                verdict_between(zeros, high=1.25, together=2),
                verdict_between(many.ours[tenth], low=1.0, strict=True, together=2),
            ]
        ),
        evidence="With nine tenths of zeros a dense product ran {zeros-speedup} as fast as without, the sparse product "
        "{csr-90-speed} as fast as the dense one. The test asks for less than a quarter gained by the first, and for a "
        "gain by the second.",
    )


def record_units(page: Page, masked: Module, thinner: Module, images: Tensor) -> None:
    """Record that a CNN with units removed computes what one with zeros for them does, in fewer bytes."""
    logits, thin = masked(images).data, thinner(images).data
    page.number(
        "apart",
        Counted(
            float(np.abs(logits - thin).max()),
            "1",
            "largest difference of the logits of the masked and the smaller CNN",
        ),
    )
    page.number("thin-logit", Counted(float(np.abs(thin).max()), "1", "largest logit of the smaller CNN by magnitude"))
    page.number("masked-bytes", stored_bytes(masked), unit="B", what="state of the masked CNN")
    page.number("thinner-bytes", stored_bytes(thinner), unit="B", what="state of the smaller CNN")


@dataclass(frozen=True)
class Thinner:
    """A model with fewer units against the whole one.

    Attributes:
        flops: of the whole model over those that are left, which promises a speedup; ``smaller``, the same of bytes.
        gain: measured speedup.
        score: before any fine-tuning.
    """

    flops: float
    smaller: float
    gain: Measurement
    score: float


def thinner_versions(
    trained: Mapping[str, Module],
    thin: Mapping[str, Mapping[float, Module]],
    gains: Mapping[str, Mapping[float, Measurement]],
) -> dict[str, dict[float, Thinner]]:
    """Return what each model of the zoo promises and gives without some of its units, by the ratio that was removed."""
    return {
        name: {
            ratio: Thinner(
                _flops(name, trained[name]) / _flops(name, version),
                stored_bytes(trained[name]) / stored_bytes(version),
                gains[name][ratio],
                models.accuracy(version, name),
            )
            for ratio, version in versions.items()
        }
        for name, versions in thin.items()
    }


def _flops(name: str, model: Module) -> int:
    """Return the FLOPs of one example."""
    return Profiler().count_flops(model, models.entry(name).example_input(1).shape)


def record_structured(page: Page, found: Mapping[str, Mapping[float, Thinner]]) -> None:
    """Show what fewer units promise and what they give, half of the units among the ratios of each model."""
    page.table(
        "structured",
        [
            {
                "model": name.upper(),
                "ratio": Counted(ratio, "%", "share of units"),
                "promised": Counted(each.flops, "", "FLOPs before over after"),
                "gain": each.gain,
                "smaller": Counted(each.smaller, "", "bytes before over after"),
                "score": Counted(each.score, "%", "share of the test set that is right"),
            }
            for name, by_ratio in found.items()
            for ratio, each in by_ratio.items()
        ],
        STRUCTURED,
        caption="Neurons, channels and heads removed: FLOPs and bytes of the whole model over those that are left, "
        "measured speedup of a forward pass of 64, and the score before any fine-tuning.",
    )
    halves = {name: by_ratio[0.5] for name, by_ratio in found.items()}
    for name, half in halves.items():
        what = f"FLOPs of the {name.upper()} over those with half of its units"
        page.number(f"{name}-half-flops", Counted(half.flops, "", what))
        page.number(f"{name}-half-speed", half.gain)
    short = [
        f"the {name.upper()}"
        for name, half in halves.items()
        if verdict_between(half.gain, low=half.flops, together=len(halves)).verdict == Verdict.REFUTED
    ]
    page.word(
        "flops-kept",
        " and ".join(filter(None, (", ".join(short[:-1]), *short[-1:]))) or "none of them",
        because="the interval of each speedup was held against what the FLOPs promise",
        numbers=[f"{name}-half-speed" for name in halves],
    )
    fewer = all(half.smaller > 1 for half in halves.values())
    gains = verdict_between_all((half.gain for half in halves.values()), low=1.0, strict=True)
    page.claim(
        "structured-is-faster",
        statement="Removing whole neurons and channels makes models smaller and faster.",
        source=sources.COURSE_COMPRESSION,
        source_url=sources.COURSE_COMPRESSION_URL,
        quote="Structured pruning: Remove entire neurons/channels … Benefit: Smaller models, faster inference, less "
        "memory",
        verdict=verdict_of_all([decided(fewer), gains]),
        evidence="Without half of its units the MLP ran {mlp-half-speed} as fast and the CNN {cnn-half-speed}. The GPT "
        "ran {gpt-half-speed} as fast. All three took fewer bytes.",
    )


@dataclass(frozen=True)
class LowRank:
    """The MLP with a share of its ranks, against the whole one.

    Attributes:
        predicted: relative error of a weight by its singular values; ``error``, as found.
        stored: bytes over those of the whole model.
        gain: measured speedup.
        change: of the accuracy, fine-tuned, against the whole model trained as long.
    """

    predicted: float
    error: float
    stored: float
    gain: Measurement
    change: Statistic


def low_rank_mlp(
    mlp: Module, low: Mapping[float, Module], predicted: Mapping[float, float], changes: Mapping[float, Statistic]
) -> dict[float, LowRank]:
    """Return what each version of the MLP with a share of its ranks takes and gives.

    Args:
        mlp: the whole model, whose middle layer is called "3"; ``low``, the versions.
        predicted: error of the middle weight; ``changes``, of the accuracy, each by share.
    """
    weight = dict(mlp.named_parameters())["3.weight"].data
    gains = model_speedups(mlp, low, models.example("mlp", 64))
    found = {}
    for share, version in low.items():
        layer = dict(version.named_modules())["3"]
        assert isinstance(layer, LowRankLinear)
        error = relative_error(weight, layer.left.data @ layer.right.data)
        stored = stored_bytes(version) / stored_bytes(mlp)
        found[share] = LowRank(predicted[share], error, stored, gains[share], changes[share])
    return found


def record_low_rank(page: Page, gains: Mapping[int, Measurement], mlp: Mapping[float, LowRank]) -> None:
    """Show what lower ranks promise and give, and the course's claim on their size.

    Args:
        page: where to.
        gains: `low_rank_speedups` of a layer 1,024 wide by rank, 128 and the largest that saves among them.
        mlp: versions of the MLP by the share of ranks, a half and a quarter.
    """
    page.table(
        "low-rank",
        [
            {
                "rank": rank,
                "promised": Counted(_WIDTH * _WIDTH / (rank * 2 * _WIDTH), "", "FLOPs before over after"),
                "gain": gain,
            }
            for rank, gain in gains.items()
        ],
        LOW_RANK,
        caption="A layer of 1,024 by 1,024 as two of lower rank, 64 rows: what is promised, and what is measured. The "
        "last rank is the largest that saves.",
    )
    page.table(
        "low-rank-mlp",
        [
            {
                "ranks": Counted(share, "%", "share of ranks"),
                "predicted": Modelled(
                    each.predicted, "%", "relative error of the weight", "the singular values that are left out"
                ),
                "error": Counted(each.error, "%", "relative error of the weight"),
                "stored": Counted(each.stored, "%", "bytes of the dense model's"),
                "gain": each.gain,
                "change": each.change,
            }
            for share, each in mlp.items()
        ],
        LOW_RANK_MLP,
        caption="The MLP with a share of its ranks: error of its middle weight by singular values and as built, bytes, "
        "speedup for 64 images, and accuracy after fine-tuning, against the whole model trained as long.",
    )
    for key, share in (("half", 0.5), ("quarter", 0.25)):
        page.number(f"rank-{key}-change", mlp[share].change)
        page.number(f"rank-{key}-error", Counted(mlp[share].error, "%", f"error of the MLP's middle weight, {key}"))
    page.number("rank-128", gains[128])
    largest = max(gains)
    page.number("break-even", largest, unit="1", what="largest rank that saves, 1,024 by 1,024")
    page.number("break-even-speed", gains[largest])
    kept = 100 * (1000 + 1000) / 1000**2
    page.number("hundred-ranks", Counted(kept, "%", "numbers of rank 100 of those of a weight of 1,000 by 1,000"))
    page.claim(
        "low-rank-saves",
        statement="A hundred ranks of a large square weight hold a fifth of its numbers.",
        source=sources.COURSE_COMPRESSION,
        source_url=sources.COURSE_COMPRESSION_URL,
        quote="W (1000×1000): 1M parameters → U (1000×100) + V (100×1000): 200K parameters - Compression ratio: 0.2 "
        "(80% savings)",
        verdict=decided(kept == 0.2),
        evidence="The two factors hold {hundred-ranks} of the numbers of the weight.",
        counted=True,
    )


def record_answers(page: Page) -> None:
    """Record the answers to the questions at the end: all of them are computed."""
    wide = 4096 * 4096

    def answer(key: str, value: float, unit: str, what: str) -> None:
        page.number(key, Modelled(value, unit, what, "arithmetic"))

    answer("q-dense", 4 * wide, "B", "a weight of 4,096 by 4,096 in float32")
    left = csr_nbytes(4096, 4096, round(0.05 * wide))
    answer("q-csr", left, "B", "the same in CSR, a twentieth of the weights left")
    answer("q-rank", break_even_rank(512, 256), "1", "largest rank that saves, 512 by 256")
    answer("q-rank-gain", 512 * 256 / (64 * (512 + 256)), "", "numbers of the weight over those of rank 64")
    answer("q-quarter", 0.5 * 0.5, "%", "numbers left of a weight with half of its rows and columns")
    answer("q-amdahl", amdahl(0.6, 3), "", "Amdahl's law, share 0.6, three times as fast")
    answer("q-amdahl-limit", amdahl(0.6, 1e9), "", "Amdahl's limit, share 0.6")
    answer("q-mask", 1 / 4, "%", "a mask of one byte a weight, of four bytes")
    answer("q-places", 2 * 2 / (4 * 32), "%", "two positions of two bits for four weights of 32 bits")
    answer("gpt2-rank", GPT2.halving_rank, "1", "largest rank that saves half of a matrix of GPT-2's MLPs")
    answer("gpt2-left", 1 - GPT2.halving_saves / GPT2.parameters, "%", "parameters of GPT-2 left at that rank")
    answer("gpt2-mlps", GPT2.mlp_matrices / GPT2.parameters, "%", "share of GPT-2's parameters in its MLPs' matrices")


def _input(rows: int, width: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((rows, width), dtype=np.float32))


def _times(matrix: Any, turned: Array) -> Callable[[], Any]:
    return lambda: matrix @ turned


def _in_turns(
    layers: Mapping[str, Any], x: Any, repeats: int, others: Mapping[str, Callable[[], Any]] | None = None
) -> dict[str, Measurement]:
    def forward_of(layer: Any) -> Callable[[], Any]:
        return lambda: layer(x)

    def moved() -> dict[str, Callable[[], Any]]:
        return {name: forward_of(copy.deepcopy(layer)) for name, layer in layers.items()} | dict(others or {})

    with no_grad():
        return interleave(moved, repeats=repeats, warmup_seconds=0.2)
