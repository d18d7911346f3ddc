"""The records of the page on rooflines: numbers, words, tables and figures, from what was placed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from tinytorch.chapters import calls
from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.chapters.roofline.figure import asked_table, reached_table, roofline_figure
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.perf.events.stream import OpKey
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.call_costs import call_key
from tinytorch.perf.machine.time_bound import added, at_cost, at_rate
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Statistic, quotient, ratio
from tinytorch.perf.measuring.conditions import of_sides
from tinytorch.perf.measuring.judge import Judgement, Verdict, word_between
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.measuring.values import Value
from tinytorch.perf.roofline.bounds import Slope, bandwidth_at, best_bandwidth, share_of, slope_at
from tinytorch.perf.roofline.placement import Placed, ridge
from tinytorch.report import Column, Page, verdict_between
from tinytorch.report.figures import draw_line, subplots

#: What other pages time, too.
_ON_A_MILLION = ("add", "GELU", "matrix × vector", "matrix × matrix")
#: What the page calculates with, and all bytes that each moves: the level of these is the one in its sentences.
_SETS = {
    "two vectors of four numbers, their sum": 3 * 4 * 4,
    "weights 1,024 wide, a row, its product": 4 * (1024**2 + 2 * 1024),
    "three matrices 1,024 wide": 3 * 4 * 1024**2,
    "weights 4,096 wide, a row, its product": 4 * (4096**2 + 2 * 4096),
}
_LADDER = (
    Column("level", "Level"),
    Column("bandwidth", "Bandwidth"),
    Column("ridge", "Ridge point"),
    Column("holds", "Holds, as reported", "B"),
)
_OF_SETS = (
    Column("what", "What moves"),
    Column("bytes", "Bytes", "B"),
    Column("slope", "Bytes from"),
    Column("bandwidth", "At most"),
    Column("ridge", "Ridge point"),
)
_SIZES = (
    Column("width", "Width"),
    Column("intensity", "Intensity (FLOP/B)", "1"),
    Column("seconds", "Time"),
    Column("rate", "Rate"),
    Column("bytes", "Bytes a second"),
    Column("of_peak", "Of the peak"),
)
_OF_GPT = (
    Column("name", "What"),
    Column("operations", "Arithmetic", "FLOP"),
    Column("bytes", "Compulsory traffic", "B"),
    Column("least", "Least time", modelled=True),
    Column("seconds", "Time"),
    Column("of_roof", "Of its roof"),
)
_OF_MODELS = (
    Column("name", "What"),
    Column("least", "Least time", modelled=True),
    Column("calls", "Its calls, at least", modelled=True),
    Column("seconds", "Time"),
    Column("reached", "Longest of three, of the time"),
    Column("bound", "Verdict", judged=True),
)
#: Width and rows of the product whose calculation is recorded line by line.
_BY_HAND = (1024, 16)
#: Bytes of a number, and of the three that an addition moves.
_NUMBER, _ADDITION = 4, 12
#: NumPy's steps of a GELU, and the arrays that they read and write; `tests.chapters.roofline` counts them.
GELU_STEPS, GELU_ARRAYS = 8, 19


def record_ceilings(page: Page, machine: Ceilings) -> None:
    """Record the peak, the bandwidth of the memory, and the ridge point of each level."""
    page.number("peak", machine.fp32_peak)
    page.number("memory-bandwidth", best_bandwidth(machine.levels[-1]))
    for level in machine.levels:
        page.number(f"ridge-{level.name.lower()}", ridge(machine, level))


def show_ladder(page: Page, machine: Ceilings) -> None:
    """Show each level's bandwidth, its ridge point and its reported size, and where the page's data lies."""
    record_ceilings(page, machine)
    page.table(
        "ladder",
        [
            {
                "level": level.name,
                "bandwidth": best_bandwidth(level),
                "ridge": ridge(machine, level),
                "holds": level.capacity_reported,
            }
            for level in machine.levels
        ],
        _LADDER,
        caption="The memory of one core here: how many bytes a second a level moves at most (the best of reading, "
        "copying and combining), the intensity from which on the peak is the limit, and its size as reported.",
    )
    page.table(
        "sets",
        [
            {
                "what": what,
                "bytes": size,
                "slope": slope_at(size, machine).of,
                "bandwidth": bandwidth_at(size, machine),
                "ridge": quotient(machine.fp32_peak, bandwidth_at(size, machine), f"ridge point of {what}", "FLOP/B"),
            }
            for what, size in _SETS.items()
        ],
        _OF_SETS,
        caption="The data of this page, float32, and the level that its bytes come from.",
    )


def _said(slope: Slope) -> str:
    """Return whose bandwidth it is, as a sentence says it: "L3", or "L3 and memory"."""
    return slope.outer if slope.inner == slope.outer else f"{slope.inner} and {slope.outer}"


def _why(slope: Slope, what: str) -> str:
    """Return why ``what`` travels on this slope: where it fits and, between two levels, what was measured there."""
    if slope.inner == slope.outer:
        return f"{what} fit there, and in no faster level"
    where = f"fit into {slope.outer} but not into {slope.inner}"
    return f"{what} {where}, and a set of that size moves faster than larger ones"


def key_of(name: str) -> str:
    """Return the part of a record's key that names an operation."""
    return name.lower().replace(" × ", "-").replace(" ", "-").replace(",", "")


def record_by_hand(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record every line of a calculation: operations, bytes, the level of these, the two times and the least time."""
    for name, one in placed.items():
        key = key_of(name)
        _record_demand(page, name, one)
        page.word(f"level-{key}", _said(one.slope), because=_why(one.slope, f"{{bytes-{key}}}"))
        page.number(f"least-{key}", Modelled.by("the roofline", one.roof, f"least time of {name}"))


def _record_demand(page: Page, name: str, one: Placed) -> None:
    """Record operations and bytes, their intensity, and the times of both."""
    key = key_of(name)
    page.number(f"flops-{key}", one.demand.operations, unit="FLOP", what=f"operations of {name}")
    page.number(f"bytes-{key}", one.demand.bytes, unit="B", what=f"compulsory bytes of {name}")
    page.number(f"intensity-{key}", Counted(one.demand.intensity, "FLOP/B", f"intensity of {name}"))
    page.number(f"arithmetic-{key}", Modelled.by("the roofline", one.verdict.compute.seconds))
    page.number(f"moving-{key}", Modelled.by("the roofline", one.verdict.memory.seconds))


def record_placed(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record how long operations took, their share of roof and peak, and what bounds each."""
    for name, one in placed.items():
        key = key_of(name)
        page.number(f"of-roof-{key}", one.of_roof)
        page.number(f"of-peak-{key}", one.verdict.compute.share, what=f"share of the peak, {name}")
        page.number(f"time-{key}", _named(name, one).seconds)
        page.word(f"bound-{key}", one.verdict.said, because=one.verdict.because, numbers=[f"time-{key}"])


def _named(name: str, one: Placed) -> Placed:
    """Return it with the name of its call, where other pages time that call, too."""
    return calls.on_a_million(one) if name in _ON_A_MILLION else one


def show_asked(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record the calculations by hand, and show what they come to: the least time of each operation."""
    record_by_hand(page, placed)
    asked_table(
        page,
        "ops-roofs",
        list(placed.values()),
        caption="Three operations before they are timed: arithmetic, bytes, the level that the bytes come from, its "
        "bandwidth, and the longer of the two times.",
    )


def show_reached(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record and show how long the operations by hand took."""
    record_placed(page, placed)
    reached_table(
        page,
        "ops",
        [_named(name, one) for name, one in placed.items()],
        caption="The same three operations, timed.",
    )


def draw_roofline(page: Page, placed: Mapping[str, Placed], machine: Ceilings) -> None:
    """Draw the roofline with the operations of the page."""
    page.figure(
        "roofline",
        roofline_figure([replace(one, name=name) for name, one in placed.items()], machine),
        caption="The roofline of one core of this machine: a slope for each level of the memory, a flat roof of floats "
        "and, where the processor multiplies 8-bit integers, one of theirs, and operations below them.",
        alt="Log-log plot of rate over arithmetic intensity: sloped lines for caches and memory meet flat lines; "
        "numbered points are the operations.",
    )


def rows_of(one: Placed) -> int:
    """Return the rows of a product that is named after them."""
    return int(one.name.split()[0])


def record_crossing(page: Page, crossings: Mapping[int, Sequence[Placed]], machine: Ceilings) -> None:
    """Record products of more and more rows with the same weights: predicted and measured crossing of each width.

    The measured one is where the time of one row and the time of a row among many meet.
    """
    for width, crossing in crossings.items():
        first, last = crossing[0], crossing[-1]
        weights = slope_at(first.demand.bytes, machine)
        page.word(
            f"level-{width}",
            _said(weights),
            because=_why(weights, f"{width:,} × {width:,} weights, a row and its product"),
        )
        corner = quotient(machine.fp32_peak, weights.bandwidth, f"ridge point of {weights.of}", "FLOP/B")
        page.number(f"ridge-{width}", corner)
        predicted = corner.scaled(2, "rows", f"predicted crossing, {width:,} wide")
        measured = ratio(first.seconds, last.seconds).scaled(rows_of(last), "rows", f"crossing, {width:,} wide")
        page.number(f"crossing-{width}-predicted", Modelled.by("the roofline", predicted))
        page.number(f"crossing-{width}-measured", measured)
        page.word(
            f"crossing-{width}-verdict",
            _beside(quotient(measured, predicted, "measured over predicted crossing")),
            because=f"predicted were {{crossing-{width}-predicted}}, measured {{crossing-{width}-measured}}; a factor "
            "of two is what overlap can hide",
        )
        second = crossing[1]
        page.number(f"two-rows-{width}", ratio(second.seconds, first.seconds, f"two rows over one, {width:,} wide"))
        copied = ratio(second.seconds, last.seconds).scaled(
            rows_of(last), "rows", f"crossing from two rows on, {width:,} wide"
        )
        page.number(f"crossing-{width}-copied", copied)
        for key, one in (("first", first), ("last", last)):
            what = f"share of the peak, r = {rows_of(one)}, weights {width:,} wide"
            page.number(f"of-peak-{key}-{width}", one.verdict.compute.share, what=what)
        page.number(f"intensity-first-{width}", Counted(first.demand.intensity, "FLOP/B", f"intensity, {first.name}"))
        page.number(f"intensity-last-{width}", Counted(last.demand.intensity, "FLOP/B", f"intensity, {last.name}"))
        if width == _BY_HAND[0]:
            by_hand = {one.name: one for one in crossing if rows_of(one) == _BY_HAND[1]}
            record_by_hand(page, by_hand)
            record_placed(page, by_hand)
    page.figure(
        "crossing",
        _crossing_figure(crossings),
        caption="Time of a product over its rows, above with weights 1,024 wide, below 4,096 wide. The dashed lines "
        "are level while the weights' bytes decide, and then rise with the rows: the lower has full overlap, the upper "
        "none.",
        alt="Two log-log plots of time over rows. In each a dashed line is level and then rises, and a second one lies "
        "up to a factor of two above it at the bend; points show what was measured.",
    )


def _crossing_figure(crossings: Mapping[int, Sequence[Placed]]) -> Figure:
    figure, axes = subplots(len(crossings), height=2.6 * len(crossings), sharex=True, squeeze=False)
    for ax, (width, crossing) in zip(axes[:, 0], crossings.items(), strict=True):
        rows = [rows_of(one) for one in crossing]
        lines: dict[str, tuple[str, Sequence[Value]]] = {
            "overlap": ("modelled", [Modelled.by("the roofline", one.roof) for one in crossing]),
            "no overlap": (
                "reference",
                [
                    Modelled.by(
                        "arithmetic, then bytes", _in_a_row(one.verdict.compute.seconds, one.verdict.memory.seconds)
                    )
                    for one in crossing
                ],
            ),
            "measured": ("measured", [one.seconds for one in crossing]),
        }
        for label, (variant, seconds) in lines.items():
            draw_line(
                ax,
                rows,
                seconds,
                quantity="time",
                variant=variant,
                label=f"{width:,} wide, {label}",
            )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.legend()
    axes[-1, 0].set_xlabel("rows (unitless)")
    return figure


def _in_a_row(*parts: Measurement) -> Statistic:
    """Return the seconds of one part after the other."""
    return added(at_cost(1, part) for part in parts).statistic(" and ".join(part.name for part in parts))


def _beside(over: Measurement) -> Judgement:
    """Return how a measured count lies beside its prediction, of which it is ``over`` as much."""
    return word_between(
        over, {"within a factor of two": (0.5, 2.0), "at more rows": (2.0, None), "at fewer rows": (None, 0.5)}
    )


def record_additions(page: Page, additions: Mapping[int, Placed], machine: Ceilings) -> None:
    """Record additions of more and more numbers: the call's cost, until where it counts, and prediction beside time."""
    least = min(additions)
    cost = additions[least].verdict.overhead.seconds
    until = until_bytes_take_as_long(cost, machine)
    page.number("call-cost", cost, what="least cost of a call of add")
    page.number("call-until", Modelled.by("the bytes, at the bandwidth, and the cost of a call", until))
    size = math.ceil(until.median) * _ADDITION
    page.word("level-call-until", machine.level_of(size).name, because="the three vectors of {call-until} fit there")
    middle = additions[1024]
    page.number(
        "addition-predicted",
        Modelled.by("the cost of a call, and the roofline", predicted_time(middle), "predicted time, 1,024 numbers"),
    )
    record_by_hand(page, {"add of 1024 numbers": middle})
    record_placed(page, {"add of 4 numbers": additions[least], "add of 1024 numbers": middle})
    page.number("doubled", ratio(additions[2 * least].seconds, additions[least].seconds, "8 numbers over 4"))
    figure, ax = subplots(height=3.0)
    draw_line(
        ax,
        list(additions),
        [Modelled.by("call and bytes", predicted_time(one)) for one in additions.values()],
        quantity="time",
        variant="modelled",
        label="call and bytes",
    )
    draw_line(
        ax,
        list(additions),
        [one.seconds for one in additions.values()],
        quantity="time",
        variant="measured",
        label="measured",
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("numbers added (unitless)")
    ax.legend()
    page.figure(
        "additions",
        figure,
        caption="Time of an addition over how many numbers it adds: the cost of a call, then that of the bytes.",
        alt="Log-log plot of time over size: predicted and measured times are level for small sizes and then rise.",
    )


def predicted_time(one: Placed) -> Statistic:
    """Return the time of the calls and, after them, the time at the roof."""
    return _in_a_row(one.verdict.overhead.seconds, one.roof)


def until_bytes_take_as_long(cost: Measurement, machine: Ceilings) -> Statistic:
    """Return how many numbers an addition has whose bytes alone take as long as its call, in the level they fit into.

    Args:
        cost: of the call, in seconds.
        machine: its ceilings.
    """
    for level in machine.levels:
        found = quotient(
            cost, best_bandwidth(level).per(_ADDITION, "s"), "numbers whose bytes take a call's time", "numbers"
        )
        if level.capacity is None or found.median * _ADDITION <= level.capacity:
            break
    return found


def record_slow(page: Page, slow: Mapping[str, Placed], machine: Ceilings) -> None:
    """Record what bounds GELU, tanh and softmax, and what the passes, the calls and tanh of a GELU predict.

    NumPy takes `GELU_STEPS` steps over blocks of the array, which read and write `GELU_ARRAYS` arrays of its size.
    """
    record_placed(page, slow)
    gelu, tanh = slow["GELU"], slow["tanh"]
    block, array = 3 * _NUMBER * BLOCK, gelu.demand.bytes // 2
    moved = (GELU_ARRAYS - 2) * array  # those of tanh are in its own time
    passes = at_rate(moved, bandwidth_at(block, machine)).statistic(f"{GELU_STEPS - 1} passes over blocks in a cache")
    blocks = math.ceil(array / (_NUMBER * BLOCK))
    costs = machine.calls.kernel
    cost = costs.get(call_key("multiply", "numpy", "forward", 2)) or min(costs.values(), key=lambda one: one.median)
    every = added([at_cost(GELU_STEPS * blocks, cost)]).statistic("calls of GELU's steps, each at its least cost")
    predicted = _in_a_row(passes, tanh.seconds, every)
    page.number("gelu-compulsory", gelu.demand.bytes, unit="B", what="compulsory bytes of GELU")
    page.number("gelu-moved", GELU_ARRAYS * array, unit="B", what="bytes that GELU's steps read and write")
    page.number("gelu-least", Modelled.by("the roofline", gelu.roof, "least time of GELU"))
    page.word("level-gelu", _said(gelu.slope), because=_why(gelu.slope, "{gelu-compulsory}"))
    page.number("gelu-block", block, unit="B", what="bytes of three blocks")
    of_block = slope_at(block, machine)
    page.word("level-block", _said(of_block), because=_why(of_block, "{gelu-block}"))
    page.number("gelu-passes", Modelled.by("the bytes, at the bandwidth", passes))
    page.number("gelu-calls", GELU_STEPS * blocks, unit="calls", what="calls of NumPy in a GELU")
    page.number("gelu-calls-time", Modelled.by("the least cost of each call", every))
    page.number(
        "gelu-predicted", Modelled.by("passes and calls, one after the other", predicted, "predicted time of GELU")
    )
    page.number("gelu-explained", share_of(predicted, gelu.seconds, "share of GELU's time that is predicted"))


def record_sizes(page: Page, products: Mapping[int, Placed]) -> None:
    """Show products of square matrices by their width, as the course's exercise asks."""
    page.table(
        "sizes",
        [
            {
                "width": f"{width:,}",
                "intensity": Counted(one.demand.intensity, "1", "operations for each byte"),
                "seconds": one.seconds,
                "rate": one.attained,
                "bytes": one.seconds.per(one.demand.bytes, "B/s", f"compulsory bytes a second, {width:,} wide"),
                "of_peak": one.verdict.compute.share,
            }
            for width, one in products.items()
        ],
        _SIZES,
        caption="Products of two square matrices by NumPy on one thread; bytes are compulsory ones.",
    )
    for width, one in (min(products.items()), max(products.items())):
        page.number(f"of-peak-{width}", one.verdict.compute.share, what=f"share of the peak, {width:,} wide")
        page.word(f"bound-{width}", one.verdict.said, because=one.verdict.because, numbers=[f"of-peak-{width}"])


def show_gpt(page: Page, by_op: Mapping[OpKey, Placed], parts: Mapping[str, Placed]) -> None:
    """Show the operations of the GPT as a table, prediction beside measurement, and record its linear layers and rest.

    Args:
        page: that records.
        by_op: every operation of the forward pass on 64 sequences.
        parts: its linear layers together as "linear", all other operations together as "rest".
    """
    page.table(
        "gpt-ops",
        [
            {
                "name": one.name,
                "operations": one.demand.operations,
                "bytes": one.demand.bytes,
                "least": Modelled.by("the roofline", one.roof),
                "seconds": one.seconds,
                "of_roof": one.of_roof,
            }
            for one in by_op.values()
        ],
        _OF_GPT,
        caption="A forward pass of the GPT on 64 sequences, operation by operation: what all calls in a pass ask for, "
        "their least time, and what they took.",
    )
    _record_demand(page, "linear", parts["linear"])
    page.number(
        "least-rest", Modelled.by("the roofline", parts["rest"].roof, "least time of all but the linear layers")
    )
    for name, one in parts.items():
        page.number(f"time-{name}", one.seconds, what=f"operations of the GPT, 64 sequences: {name}")
        page.number(f"of-roof-{name}", one.of_roof)


def record_models(page: Page, wholes: Mapping[tuple[str, int], Placed]) -> None:
    """Show whole forward passes by the model's name and the batch, and record the calculation of the MLP's for one."""
    page.table(
        "models",
        [
            {
                "name": one.name,
                "least": Modelled.by("the roofline", one.roof),
                "calls": Modelled.by("the least cost of each call", one.verdict.overhead.seconds),
                "seconds": calls.zoo_pass(one.seconds, name, batch),
                "reached": one.verdict.reached,
                "bound": one.verdict.said,
            }
            for (name, batch), one in wholes.items()
        ],
        _OF_MODELS,
        caption="Whole forward passes, of one example and of 64: the sum of the roofs of their operations, the least "
        "cost of their calls, what they took, and how much of it the longest of arithmetic, bytes and calls explains.",
    )
    for (name, batch), one in wholes.items():
        key = f"{name}-{batch}"
        page.number(
            f"least-{key}", Modelled.by("the roofline", one.roof, f"sum of the roofs of the operations of {one.name}")
        )
        page.number(f"time-{key}", calls.zoo_pass(one.seconds, name, batch))
        page.number(f"{key}-of-roof", one.of_roof)
        page.number(f"{key}-reached", one.verdict.reached)
        page.word(f"{key}-bound", one.verdict.said, because=one.verdict.because, numbers=[f"{key}-reached"])
    single, predicted = wholes["mlp", 1], predicted_time(wholes["mlp", 1])
    _record_demand(page, single.name, single)
    page.number("calls-mlp-1", single.demand.calls, unit="calls", what="operations of the MLP for one digit")
    page.number("calls-time-mlp-1", Modelled.by("the least cost of each call", single.verdict.overhead.seconds))
    page.number(
        "predicted-mlp-1",
        Modelled.by("the cost of each call, and the roofline", predicted, "predicted time of the MLP for one digit"),
    )
    page.number("explained-mlp-1", share_of(predicted, single.seconds, "share of the MLP's time that is predicted"))


def record_answers(page: Page, machine: Ceilings, placed: Mapping[str, Placed], by_op: Mapping[OpKey, Placed]) -> None:
    """Record the answers to the page's questions.

    Args:
        page: that records.
        machine: its ceilings for one thread.
        placed: the operations of the page by name.
        by_op: the operations of the GPT's forward pass on 64 sequences.
    """
    gelu = placed["GELU"]
    page.number("q-gelu-intensity", Counted(gelu.demand.intensity, "FLOP/B", "intensity of GELU"))
    page.number("q-gelu-ridge", quotient(machine.fp32_peak, gelu.slope.bandwidth, "ridge point of GELU", "FLOP/B"))
    narrow = ridge(machine, machine.levels[-1]).scaled(0.5, "rows", "crossing with 8-bit weights from memory")
    page.number("q-rows", Modelled.by("the roofline", narrow))
    wide = ridge(machine, machine.levels[-1]).scaled(4, "numbers", "least width of weights from memory")
    page.number("q-width", Modelled.by("the roofline", wide))
    for key, name in (("q-gain-matrix", "matrix × matrix"), ("q-gain-vector", "matrix × vector")):
        gain = _gain_of_twice_the_bandwidth(placed[name], machine)
        page.number(key, Modelled(gain, "", "predicted speedup with twice the bandwidth", "the roofline"))
    _record_gpt2(page, machine)
    farthest = sorted(by_op.values(), key=lambda one: one.of_roof.median)
    most = sorted(by_op.values(), key=lambda one: -_above_roof(one).median)
    page.number("q-farthest-share", farthest[0].of_roof)
    page.number("q-most-seconds", _above_roof(most[0]))
    page.word(
        "q-farthest",
        _first_and_alike(farthest, lambda one, other: quotient(other.of_roof, one.of_roof, "shares of roofs"), 1),
        because=f"by the medians it is {farthest[0].name}, with {{q-farthest-share}} of its roof; others are named "
        "where their intervals reach it",
    )
    page.word(
        "q-most-to-gain",
        _first_and_alike(most, lambda one, other: _difference(_above_roof(one), _above_roof(other), "time"), 0),
        because=f"by the medians it is {most[0].name}, which spends {{q-most-seconds}} above its roof; others are "
        "named where their intervals reach it",
    )


def _record_gpt2(page: Page, machine: Ceilings) -> None:
    """Record the least times of a step of GPT-2 by its bytes and by its arithmetic, and where they are equal."""
    read = read_seconds(GPT2.step_bytes, machine).statistic("GPT-2's weights, read once")
    arithmetic = at_rate(GPT2.step_flops(), machine.fp32_peak).statistic("a step of GPT-2 at the peak")
    page.number("gpt2-step", Modelled.by("the roofline", read))
    page.number("gpt2-arithmetic", Modelled.by("the roofline", arithmetic))
    page.number("gpt2-step-bytes", GPT2.step_bytes, unit="B", what="parameters that a step of GPT-2 reads, float32")
    page.number("gpt2-step-flops", GPT2.step_flops(), unit="FLOP", what="contractions of a step of GPT-2, no cache")
    page.number("gpt2-bandwidth", bandwidth_at(GPT2.step_bytes, machine))
    together = quotient(read, arithmetic, "tokens whose arithmetic takes as long as GPT-2's weights", "tokens")
    page.number("gpt2-rows", Modelled.by("the roofline", together))


def _first_and_alike(ranked: Sequence[Placed], beyond: Callable[[Placed, Placed], Measurement], low: float) -> str:
    """Return the name of the first of ``ranked``, and of all that it is not surely ahead of.

    Args:
        ranked: by medians.
        beyond: how far the first is ahead of another.
        low: what that is where they are alike.
    """
    first, *others = ranked
    names = [first.name]
    names += [
        other.name
        for other in others
        if verdict_between(beyond(first, other), low=low, strict=True, together=len(others)).verdict
        != Verdict.SUPPORTED
    ]
    return " or ".join(names)


def _above_roof(one: Placed) -> Statistic:
    """Return the seconds that it takes longer than at its roof."""
    return _difference(one.seconds, one.roof, f"time of {one.name} above its roof")


def _difference(more: Measurement, less: Measurement, name: str) -> Statistic:
    """Return ``more - less`` of two that were not measured in turns, with the intervals of both in quadrature."""
    value = more.median - less.median
    down = math.hypot(more.median - more.interval.low, less.interval.high - less.median)
    up = math.hypot(more.interval.high - more.median, less.median - less.interval.low)
    return Statistic(
        name,
        tuple(sample - less.median for sample in more.samples),
        more.unit,
        of_sides({"more": more.conditions, "less": less.conditions}).within_bounds("difference of two medians"),
        value=value,
        bounds=Interval(value - down, value + up, 0.95),
    )


def _gain_of_twice_the_bandwidth(one: Placed, machine: Ceilings) -> float:
    """Return the speedup that the model predicts for what lives in memory, if memory were twice as fast."""
    arithmetic = one.demand.operations / machine.fp32_peak.median
    traffic = one.demand.bytes / best_bandwidth(machine.levels[-1]).median
    return max(arithmetic, traffic) / max(arithmetic, traffic / 2)
