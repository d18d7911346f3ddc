"""Records of the suite of all variants: tables, the course's own table as claims, Pareto fronts, products of gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from tinytorch.chapters.benchmarking.runs import share
from tinytorch.chapters.sources import COURSE_BENCHMARKING, COURSE_BENCHMARKING_TABLE_URL
from tinytorch.perf.benchmarking import Change, ParetoFront, Performance, plot_performance_comparison
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Column, Page, color, line, subplots, verdict_between, verdict_of_all
from tinytorch.report.figures import INK

#: By model of the zoo: what was measured of each variant, by name, and what each changed against the baseline.
Results = Mapping[str, Mapping[str, Performance]]
Changes = Mapping[str, Mapping[str, Change]]

_BATCH = 64
SUITE_COLUMNS = (
    Column("many", "Rate"),
    Column("speed", "Speedup"),
    Column("verdict", "which is"),
    Column("memory", "Peak memory", "B"),
    Column("bytes", "Model", "B"),
    Column("right", "Right"),
)
FRONT_COLUMNS = (
    Column("model", "Model"),
    Column("front", "On the front"),
    Column("out", "Beaten"),
    Column("open", "On it only because noise cannot tell"),
)
#: Of a variant's bars; others have NumPy's.
_COLORS = {
    "baseline": "baseline",
    "quantized": "quantized",
    "pruned": "pruned",
    "structured": "pruned",
    "distilled": "distilled",
    "cached": "cached",
    "accelerated": "compiled",
}
#: How far below a factor of the course's table a measured one may lie and still count as it.
TOLERANCE = 0.1
#: Points between a name and the next below it, as a share of the axis.
_STEP = 0.115


def record_suite(page: Page, results: Results, changes: Changes) -> None:
    """Record all variants of each model, and what each changed, the baselines excepted."""
    for model, measured in results.items():
        changed = changes[model]
        rows = [
            {
                "variant": name,
                "many": one.throughput[_BATCH],
                "memory": one.peak_memory.median,
                "bytes": one.model_bytes,
                "right": accuracy(one),
                "speed": changed[name].speedups[_BATCH].ratio if name in changed else None,
                "verdict": page.noise.verdict(changed[name].speedups[_BATCH])[0] if name in changed else None,
            }
            for name, one in measured.items()
        ]
        page.table(
            f"suite-{model}",
            rows,
            [Column("variant", model.upper()), *SUITE_COLUMNS],
            caption=f"All variants of the {model.upper()} in batches of 64, from one run in turns; speedups with "
            "intervals that hold together.",
        )
        for name, change in changed.items():
            _record_change(page, model, name, change)


def _record_change(page: Page, model: str, name: str, change: Change) -> None:
    assert change.accuracy is not None
    page.number(f"{model}-{name}-speed", change.speedups[_BATCH].ratio)
    what = f"bytes of the {model.upper()} over those of its {name} variant"
    page.number(f"{model}-{name}-size", change.size.ratio.median, unit="", what=what)
    examples = change.accuracy.examples
    what = f"share right of the {name} {model.upper()} less that of the baseline, {examples} examples"
    page.number(f"{model}-{name}-accuracy", change.accuracy.difference, unit="points", what=what)


def accuracy(one: Performance) -> Measurement:
    """Return the share of the test set that it gets right.

    Raises:
        ValueError: if it was measured without answers.
    """
    if one.correct is None:
        raise ValueError(f"performances must have an accuracy, but {one.name!r} has none")
    return share(one.correct, f"accuracy of {one.name}")


def record_dashboard(page: Page, variants: Mapping[str, Performance]) -> None:
    """Record time, memory and accuracy of the GPT's variants as bars."""
    figure, axes = subplots(3, 1, height=8.2)
    colors = {name: color(_COLORS.get(name, "numpy")) for name in variants}
    plot_performance_comparison(variants, axes, colors, ink=INK)
    page.figure(
        "dashboard",
        figure,
        caption="The GPT's variants: time of one sequence of ten tokens, peak memory of 64, and sequences that are "
        "right, with their intervals.",
        alt="Three bar charts of time, peak memory and accuracy, with a bar and an error bar for each variant of the "
        "GPT.",
    )


def record_course_table(page: Page, changes: Changes) -> None:
    """Record each row of the course's table as a claim on all models that have the variant."""

    def verdict(variant: str, *, faster: float, smaller: float, accuracy: float) -> str:
        return verdict_of_all(
            part
            for changed in changes.values()
            if variant in changed
            for part in table_row_verdicts(
                changed[variant], faster=faster, smaller=smaller, accuracy=accuracy, batch=_BATCH
            )
        )

    page.claim(
        "course-quantized",
        statement="A quantized model is 4 times as fast, 4 times smaller, and loses half a point of accuracy.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_TABLE_URL,
        verdict=verdict("quantized", faster=4, smaller=4, accuracy=-0.005),
        evidence="In batches of 64 the MLP became {mlp-quantized-speed} as fast and {mlp-quantized-size} smaller, and "
        "its accuracy changed by {mlp-quantized-accuracy}; for the CNN it was {cnn-quantized-speed}, "
        "{cnn-quantized-size} and {cnn-quantized-accuracy}, for the GPT {gpt-quantized-speed}, {gpt-quantized-size} "
        "and {gpt-quantized-accuracy}. A tenth less than each factor is allowed.",
    )
    page.claim(
        "course-pruned",
        statement="A pruned model is 3.3 times as fast, 10 times smaller, and loses 1.2 points of accuracy.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_TABLE_URL,
        verdict=verdict("pruned", faster=100 / 30, smaller=10, accuracy=-0.012),
        evidence="With nine of ten weights removed, the MLP became {mlp-pruned-speed} as fast and {mlp-pruned-size} "
        "smaller, and its accuracy changed by {mlp-pruned-accuracy}; for the CNN it was {cnn-pruned-speed}, "
        "{cnn-pruned-size} and {cnn-pruned-accuracy}, for the GPT {gpt-pruned-speed}, {gpt-pruned-size} and "
        "{gpt-pruned-accuracy}.",
    )
    page.claim(
        "course-cached",
        statement="A cached transformer is 5 times as fast at the same accuracy.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_TABLE_URL,
        verdict=verdict("cached", faster=5, smaller=0, accuracy=-0.005),
        evidence="Writing ten tokens for 64 sequences, the GPT with a cache was {gpt-cached-speed} as fast, and its "
        "accuracy changed by {gpt-cached-accuracy}; half a point less counts as the same. The chapter on memoization "
        "measures the factor by the length of the text.",
    )


def table_row_verdicts(change: Change, *, faster: float, smaller: float, accuracy: float, batch: int) -> list[str]:
    """Return for each number of a row of the course's table whether ``change`` is at least as good.

    "supported" if it is proven to be, "refuted" if it is proven not to be, "cannot tell here" if the interval holds
    the limit: nine tenths of ``faster`` and ``smaller``, and for ``accuracy`` the difference of shares, such as -0.005.

    Raises:
        ValueError: if the change was measured without answers.
    """
    if change.accuracy is None:
        raise ValueError("change must have an accuracy")
    speed, size = change.speedups[batch].ratio.interval, change.size.ratio.interval
    loss = change.accuracy.interval
    limits = (
        (speed.low, speed.high, (1 - TOLERANCE) * faster),
        (size.low, size.high, (1 - TOLERANCE) * smaller),
        (loss.low, loss.high, accuracy),
    )
    return [
        "supported" if low >= limit else "refuted" if high < limit else "cannot tell here"
        for low, high, limit in limits
    ]


def record_fronts(page: Page, results: Results, fronts: Mapping[str, ParetoFront]) -> None:
    """Record the Pareto front of each model as a figure, and who is beaten by whom."""
    figure, axes = subplots(3, 1, height=8.4)
    for ax, (model, measured) in zip(axes, results.items(), strict=True):
        draw_front(ax, list(measured.values()), fronts[model], _BATCH)
        ax.set_ylabel(f"right, {model.upper()} (%)")
    page.figure(
        "fronts",
        figure,
        caption="Time of a batch of 64 against accuracy, for the MLP, the CNN and the GPT, with intervals of both. "
        "Names in brackets are beaten in time, memory and accuracy by another.",
        alt="Three scatter plots, one for each model, of accuracy over time on a logarithmic axis, with error bars and "
        "the names of all variants at the right edge.",
    )
    rows = [
        {
            "model": model.upper(),
            "front": ", ".join(front.front),
            "out": "; ".join(f"{name} by {', '.join(by)}" for name, by in front.dominated.items()) or "none",
            "open": ", ".join(front.undecided) or "none",
        }
        for model, front in fronts.items()
    ]
    caption = "The Pareto front of time at a batch of 64, peak memory and accuracy."
    page.table("dominated", rows, FRONT_COLUMNS, caption=caption)
    size = sum(len(front.front) for front in fronts.values())
    page.number("front-size", size, unit="1", what="variants on the fronts of the three models", derived=True)
    every = sum(len(measured) for measured in results.values())
    page.number("all-variants", every, unit="1", what="variants of the three models")


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
        line(ax, [x], [right], quantity="accuracy", variant="baseline" if beaten else "measured", label=one.name)
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


def record_products(
    page: Page, changes: Changes, parts: Mapping[str, tuple[str, ...]], kept: Mapping[str, Measurement]
) -> None:
    """Record how much of the product of its parts' speedups each combination reached, and the claim on all three.

    Args:
        page: what records them.
        changes: of the suite.
        parts: variants whose speedups are multiplied, by model.
        kept: speedup of the combination over that product, by model.
    """
    for model, measured in kept.items():
        page.number(f"{model}-kept", measured)
        product = float(np.prod([changes[model][part].speedups[_BATCH].ratio.median for part in parts[model]]))
        what = f"product of the speedups of {' and '.join(parts[model])}, {model.upper()}"
        page.number(f"{model}-product", product, unit="", what=what, modelled=True)
    page.claim(
        "gains-multiply",
        statement="Optimizations do not interfere: when they are combined, their gains multiply.",
        source="After S. Han et al., Deep Compression, 2016, whose stages work together, in bytes",
        source_url="https://arxiv.org/abs/1510.00149",
        verdict=verdict_of_all(verdict_between(measured, 0.9, 1.1) for measured in kept.values()),
        evidence="In time, the MLP's combination reached {mlp-kept} of the product of its parts' speedups "
        "({mlp-combined-speed} where the product is {mlp-product}), the CNN's {cnn-kept} ({cnn-combined-speed}, "
        "{cnn-product}), the GPT's {gpt-kept} ({gpt-combined-speed}, {gpt-product}). Within a tenth of the product "
        "would support it for all three.",
    )
