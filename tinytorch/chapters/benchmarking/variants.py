"""Records of the suite of all variants: three numbers of each from one run, Pareto fronts, products of gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from tinytorch.chapters.benchmarking.runs import share
from tinytorch.perf.benchmarking import ParetoFront, Performance, compare_with_first
from tinytorch.perf.measuring import Derived, Measurement
from tinytorch.perf.measuring.judge import word_between
from tinytorch.report import Column, Page
from tinytorch.report.figures import INK, draw_line, subplots

#: By model of the zoo: what was measured of each variant, by name.
Results = Mapping[str, Mapping[str, Performance]]

_BATCH = 64
#: Relative difference of time or bytes for which somebody would take one variant and not the other.
MATTERS = 0.2
SUITE_COLUMNS = (
    Column("variant", "Variant"),
    Column("many", "Rate"),
    Column("speed", "Speedup"),
    Column("verdict", "Verdict", judged=True),
    Column("memory", "Peak memory"),
    Column("right", "Right"),
)
#: Points between a name and the next below it, as a share of the axis.
_STEP = 0.115


def record_suite(page: Page, measured: Mapping[str, Performance]) -> None:
    """Record all variants of the CNN, and what each changed from the first, the baseline."""
    changed = compare_with_first(measured, matters=MATTERS)
    rows = [
        {
            "variant": name,
            "many": one.throughput[_BATCH],
            "speed": changed[name].speedups[_BATCH].estimate if name in changed else None,
            "verdict": page.judged(changed[name].speedups[_BATCH]) if name in changed else None,
            "memory": one.memory,
            "right": accuracy(one),
        }
        for name, one in measured.items()
    ]
    page.table(
        "suite",
        rows,
        SUITE_COLUMNS,
        caption="All variants of the CNN in batches of 64, from one run in turns; the intervals of the speedups hold "
        "together.",
    )
    what = "comparisons of the suite whose intervals hold together"
    page.number("suite-compared", next(iter(changed.values())).speedup.compared, unit="1", what=what)


def accuracy(one: Performance) -> Measurement:
    """Return the share of the test set that it gets right.

    Raises:
        ValueError: if it was measured without answers.
    """
    if one.correct is None:
        raise ValueError(f"performances must have an accuracy, but {one.name!r} has none")
    return share(one.correct, f"accuracy of {one.name}")


def record_fronts(page: Page, results: Results, fronts: Mapping[str, ParetoFront]) -> None:
    """Record the Pareto front of each model as a figure, and how many variants are on one."""
    figure, axes = subplots(len(fronts), 1, height=2.8 * len(fronts))
    for ax, (model, measured) in zip(axes, results.items(), strict=True):
        draw_front(ax, list(measured.values()), fronts[model], _BATCH)
        ax.set_ylabel(f"right, {model.upper()} (%)")
    page.figure(
        "fronts",
        figure,
        caption="Time of a batch of 64 against accuracy, for the MLP and the CNN, with intervals of both. Names in "
        "brackets are off the front: another is no worse in time, memory and accuracy, and better in one.",
        alt="Two scatter plots, one for each model, of accuracy over time on a logarithmic axis, with error bars and "
        "the names of all variants at the right edge.",
    )
    size = sum(len(front.front) for front in fronts.values())
    page.number(
        "front-size",
        Derived(
            size,
            "1",
            "variants on the fronts of the two models",
            tuple(one.seconds(_BATCH) for measured in results.values() for one in measured.values()),
            "it counts verdicts",
        ),
    )
    every = sum(len(measured) for measured in results.values())
    page.number("all-variants", every, unit="1", what="variants of the two models")


def draw_front(ax: Axes, performances: Sequence[Performance], front: ParetoFront, batch: int) -> None:
    """Draw each variant at its time and accuracy, those on the front filled, and name them at the right edge.

    Args:
        ax: where to draw.
        performances: of one suite, each with an accuracy.
        front: of the same suite.
        batch: whose times are shown.

    Raises:
        ValueError: if one has no accuracy, or that batch size was not measured.
    """
    places = []
    for one in performances:
        seconds, right = one.seconds(batch), accuracy(one)
        x, within = seconds.median * 1e3, seconds.interval
        beaten = one.name not in front.front
        draw_line(ax, [x], [right], quantity="accuracy", variant="baseline" if beaten else "measured", label=one.name)
        ends = [[max(0.0, x - within.low * 1e3)], [max(0.0, within.high * 1e3 - x)]]
        y = right.median * 100
        ax.errorbar([x], [y], xerr=ends, fmt="none", ecolor=INK, elinewidth=1.0, capsize=2)
        places.append((y, x, one.name, beaten))
    ax.set_xscale("log")
    ax.set_xlabel("time of a call (ms)")
    _name(ax, places)


def _name(ax: Axes, places: list[tuple[float, float, str, bool]]) -> None:
    """Write the names in a column right of the axes, in the order of the points' heights, with a thin line to each."""
    top = 0.5 + _STEP * (len(places) - 1) / 2
    for index, (y, x, name, beaten) in enumerate(sorted(places, reverse=True)):
        ax.annotate(
            f"({name})" if beaten else name,
            xy=(x, y),
            xycoords="data",
            xytext=(1.03, top - index * _STEP),
            textcoords="axes fraction",
            fontsize=9.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.4, "alpha": 0.5},
        )


def record_products(page: Page, kept: Mapping[str, Measurement]) -> None:
    """Record how much of the product of its parts' speedups each model's combination ``kept``."""
    words = {"less than the product": (None, 1.0), "more than the product": (1.0, None)}
    for model, measured in kept.items():
        page.number(f"{model}-kept", measured)
        word = word_between(measured, words, together=len(kept))
        because = f"the {model.upper()}'s combination brought {{{model}-kept}} the product of its parts' speedups"
        page.word(f"{model}-product", word, because=because)
